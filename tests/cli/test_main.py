"""The command as a whole: help, environment variables, errors and exit codes."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import click
import pytest
from click.testing import CliRunner
from tests.cli.support import Command

import fencepost
from fencepost.cli.main import COMMANDS, cli


def every_command() -> list[tuple[str, ...]]:
    """Return the words of every command and subcommand."""
    found: list[tuple[str, ...]] = []
    context = click.Context(cli)
    for name in COMMANDS:
        if name == "bench":
            continue  # has tests of its own
        command = cli.get_command(context, name)
        assert command is not None
        found.append((name,))
        if isinstance(command, click.Group):
            found += [(name, sub) for sub in command.list_commands(context)]
    return found


def test_the_help_lists_every_command_without_importing_any() -> None:
    code = (
        "import sys\nfrom fencepost.cli.main import cli\n"
        "try: cli(['--help'], prog_name='fencepost')\n"
        "except SystemExit: pass\n"
        "print([n for n in sys.modules if n.startswith(('rich', 'sqlite3', 'fencepost.cli.'))])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    for name in COMMANDS:
        assert f"\n  {name} " in done.stdout
    loaded = done.stdout.splitlines()[-1]
    assert "rich" not in loaded
    assert "sqlite3" not in loaded
    assert "fencepost.cli.jobs.command" not in loaded


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_option_shows_its_environment_variable(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(cli, [*words, "--help"])
    assert result.exit_code == 0, result.output
    command: Any = cli
    for word in words:
        command = command.get_command(click.Context(command), word)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            assert parameter.show_envvar, parameter.name


def test_the_help_of_a_worker_names_its_variables() -> None:
    text = CliRunner().invoke(cli, ["worker", "--help"]).output
    for name in ("URL", "LOG_LEVEL", "WORKER_CONCURRENCY", "WORKER_GRACE", "WORKER_PROCESSES"):
        assert f"FENCEPOST_{name}" in text


def test_the_store_comes_from_the_environment(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = command.submit("add", '{"a": 1, "b": 2}')
    monkeypatch.setenv("FENCEPOST_URL", command.url)
    assert job_id in CliRunner().invoke(cli, ["jobs", "ls"]).stdout


def test_a_database_url_that_names_a_file_is_another_programs(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is passed over, by the command and by what it says to type next."""
    command.submit("add", '{"a": 1, "b": 2}')
    monkeypatch.chdir(command.folder)
    monkeypatch.setenv("DATABASE_URL", command.url)
    result = CliRunner().invoke(cli, ["jobs", "ls"])
    assert f"there is no database at {command.folder}/fencepost.db" in result.stderr
    assert f"--url {command.url}" in command("jobs", "show", "nonsense").stderr


def test_a_database_url_of_postgresql_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
    result = CliRunner().invoke(cli, ["jobs", "ls"])
    assert result.exit_code == 1
    assert "store_unavailable" in result.stderr


def test_the_store_can_be_named_after_the_verb(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = command.submit("add", '{"a": 1, "b": 2}')
    monkeypatch.setenv("FENCEPOST_URL", "sqlite:///elsewhere.db")
    result = CliRunner().invoke(cli, ["jobs", "ls", "--url", command.url])
    assert job_id in result.stdout


def test_what_is_typed_wins_over_the_environment(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = command.submit("add", '{"a": 1, "b": 2}')
    monkeypatch.setenv("FENCEPOST_URL", "sqlite:///elsewhere.db")
    assert job_id in command.ok("jobs", "ls")


def test_an_error_is_one_line_with_its_code_and_the_next_thing_to_type(command: Command) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    result = command("jobs", "show", "nonsense")
    assert result.exit_code == 1
    first, second = result.stderr.splitlines()
    assert first.startswith("error: no job has the id nonsense")
    assert first.endswith("(job_not_found)")
    assert second == f"  next: fencepost --url {command.url} jobs ls"


def test_an_error_with_debug_is_raised(command: Command) -> None:
    result = command("--debug", "jobs", "ls")
    assert isinstance(result.exception, fencepost.ConfigurationError)


def test_an_unexpected_error_shows_no_traceback(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise ZeroDivisionError("by\nzero")

    monkeypatch.setattr("fencepost.cli.commands.upkeep.examine", explode)
    result = command("doctor")
    assert result.exit_code == 1
    assert "error: unexpected ZeroDivisionError: by zero (internal)" in result.stderr
    assert "Traceback" not in result.output


@pytest.mark.parametrize(
    "words",
    [
        ("nonsense",),
        ("jobs", "ls", "--limit", "0"),
        ("jobs", "ls", "--tag", "no-equals-sign"),
        ("jobs", "cancel"),
        ("jobs", "watch", "an-id", "--type", "add"),
        ("dlq", "replay"),
        ("dlq", "replay", "an-id", "--all"),
        ("queues", "limit", "mail"),
        ("queues", "limit", "mail", "0"),
        ("queues", "limit", "mail", "1", "--none"),
        ("submit", "add", "not json"),
        ("submit", "add", "[1, 2]"),
        ("submit", "add", "{}", "--delay", "soon"),
        ("worker", "--queue", "mail=often"),
        ("worker", "--grace", "-1s"),
        ("worker", "--processes", "0"),
        ("migrate", "--plan", "--sql"),
        ("prune", "--state", "running"),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(command: Command, words: tuple[str, ...]) -> None:
    result = command(*words)
    assert result.exit_code == 2, result.output
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("nonsense", "configuration"),
        ("mysql://host/db", "configuration"),
        ("sqlite://host/db", "configuration"),
        ("sqlite:///missing.db", "configuration"),
    ],
)
def test_a_store_that_makes_no_sense_is_refused(command: Command, url: str, code: str) -> None:
    result = CliRunner().invoke(cli, ["--url", url, "jobs", "ls"])
    assert result.exit_code == 1
    assert result.stderr.splitlines()[0].endswith(f"({code})")


def test_looking_at_a_store_does_not_create_it(command: Command) -> None:
    assert command("jobs", "ls").exit_code == 1
    assert not (command.folder / "jobs.db").exists()


def test_a_file_that_is_no_database_is_refused(command: Command) -> None:
    (command.folder / "jobs.db").write_bytes(b"no database" * 1000)
    result = command("jobs", "ls")
    assert result.exit_code == 1
    assert "(foreign_file)" in result.stderr


def test_version(command: Command) -> None:
    assert command.json("version")["fencepost"] == fencepost.__version__
    assert command.ok("version").startswith(f"fencepost {fencepost.__version__}\n")
    assert command.ok("--version") == f"fencepost {fencepost.__version__}\n"
