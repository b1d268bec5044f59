"""Names of queues and types: what is served, what is asked about, what the shell completes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest
from click.shell_completion import BashComplete
from tests.cli.support import PATIENCE, ROOT, Command, wait_until

from fencepost import App
from fencepost.cli.main import cli
from fencepost.core.job.job import NewJob

MISSING = "no live worker serves type 'shout' on queue 'mial'; this type is served on queue 'mail'"
PAUSES = ("queues", "pause"), ("queues", "resume"), ("types", "pause"), ("types", "resume")


@pytest.fixture
def served(command: Command) -> str:
    """Submit a job to a queue whose name is a typo, beside a worker; return its id."""
    job_id = command.submit("shout", '"hi"', "--queue", "mial", "--raw")
    command.start("worker", "app", "--queue", "mail")
    wait_until(command.worker_pids, "the worker")
    return job_id


def test_a_typo_in_the_name_of_a_queue_is_found(command: Command, served: str) -> None:
    """S1-87: by type and queue, in every place where an operator looks."""
    (reason,) = command.json("jobs", "why", served)
    assert reason == {"code": "no_worker", "text": f"{MISSING}; did you mean 'mail'?"}
    findings = {finding["code"]: finding for finding in command.json("doctor")}
    assert findings["no_worker"]["level"] == "warn"
    assert findings["no_worker"]["text"] == f"1 job waits: {reason['text']}"
    (pair,) = command.json("queues", "ls")["unserved"]
    assert (pair["queue"], pair["type"], pair["count"]) == ("mial", "shout", 1)
    assert command("queues", "ls").stderr == f"{pair['text']}\n"


def test_what_a_worker_serves_is_not_reported(command: Command, served: str) -> None:
    """S1-87."""
    command.ok("jobs", "cancel", served)
    command.submit("shout", '"hi"', "--queue", "mail", "--raw")
    assert command.json("queues", "ls")["unserved"] == []
    assert "no_worker" not in [finding["code"] for finding in command.json("doctor")]


@pytest.mark.parametrize(("group", "verb"), PAUSES)
def test_a_setting_for_a_name_that_nothing_uses_is_refused_without_a_terminal(
    command: Command, group: str, verb: str
) -> None:
    command.submit("shout", '"hi"', "--queue", "mail", "--raw")
    name, nearest = ("mial", "mail") if group == "queues" else ("shuot", "shout")
    refused = command(group, verb, name)
    assert refused.exit_code == 1
    fact = f"no job and no live worker names {group[:-1]} {name!r}; did you mean {nearest!r}?"
    assert f"error: {fact} (unknown_{group[:-1]})" in refused.stderr
    assert refused.stderr.endswith(f"{group} {verb} {name} --yes\n")
    assert command.ok(group, verb, nearest)
    assert command.ok(group, verb, name, "--yes")


def test_a_limit_for_a_name_that_nothing_uses_is_refused(command: Command) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    refused = command("queues", "limit", "other", "3")
    assert (refused.exit_code, "did you mean" in refused.stderr) == (1, False)
    assert refused.stderr.endswith("queues limit other 3 --yes\n")
    assert command.ok("queues", "limit", "other", "3", "--yes")
    assert command.ok("queues", "limit", "other", "--none"), "a setting makes a name known"
    assert command.ok("queues", "limit", "fencepost.webhooks", "5"), "so does the product"


def test_a_name_that_only_a_worker_serves_is_known(command: Command, served: str) -> None:
    command.ok("jobs", "cancel", served)
    assert command.ok("queues", "pause", "mail")
    assert command.ok("types", "pause", "overdue")


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_on_a_terminal_it_is_asked_about(command: Command, answer: str, code: int) -> None:
    command.submit("shout", '"hi"', "--queue", "mail", "--raw")
    ours, theirs = os.openpty()
    try:
        os.write(ours, f"{answer}\n".encode())
        done = subprocess.run(
            [sys.executable, "-m", "fencepost", "--url", command.url, "queues", "pause", "mial"],
            cwd=command.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            stdin=theirs,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == code
    question = "no job and no live worker names queue 'mial'; did you mean 'mail'? pause it anyway?"
    assert question in done.stdout + done.stderr
    paused = [
        queue["name"] for queue in command.json("queues", "ls")["queues"] if queue["is_paused"]
    ]
    assert paused == ([] if code else ["mial"])


def test_a_search_by_a_name_that_nothing_uses_says_so(command: Command) -> None:
    """An empty list after a typo looks as if there was nothing to see."""
    command.submit("shout", '"hi"', "--queue", "mail", "--raw")
    listed = command("jobs", "ls", "--queue", "mial", "--type", "shuot")
    assert listed.stderr.splitlines() == [
        "no job and no live worker names queue 'mial'; did you mean 'mail'?",
        "no job and no live worker names type 'shuot'; did you mean 'shout'?",
    ]
    assert command("jobs", "ls", "--queue", "mail", "--type", "shout").stderr == ""
    assert command("jobs", "ls", "--queue", "mail", "--state", "failed").stderr == ""


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("wroker",), "No such command 'wroker'; did you mean 'worker'?"),
        (("nonsense",), "No such command 'nonsense'."),
        (("submit", "stcuk"), "did you mean 'stuck'?"),
        (("submit", "add", "a=1"), "write the keyword arguments as an object, such as '{"),
        (("jobs", "ls", "--state", "complete"), "cancelled; did you mean 'completed'?"),
        (("worker", "--app", "ap:app"), "no module is called 'ap'"),
        (("worker", "app", "--app", "app:app"), "name one app: 'app' or --app 'app:app'"),
    ],
)
def test_a_typo_is_answered_with_the_nearest_name(
    command: Command, words: tuple[str, ...], told: str
) -> None:
    command.submit("add", '{"a": 1, "b": 2}')
    result = command(*words)
    assert result.exit_code in (1, 2)
    assert told in " ".join(result.stderr.split())


@pytest.mark.parametrize("order", [("--app", "app:app"), ("--app=app",)])
def test_an_app_is_named_as_an_argument_or_as_an_option(
    command: Command, order: tuple[str, ...]
) -> None:
    assert command("worker", "--burst", *order).exit_code == 0


def test_a_worker_says_what_it_serves_and_asks_about_a_queue_that_looks_like_a_typo(
    command: Command, caplog: pytest.LogCaptureFixture
) -> None:
    told = command("worker", "--burst", "--queue", "mial", "--queue", "bulk", "--queue", "mail=3")
    assert "queues: mial, bulk, mail; 20 jobs at once; Ctrl-C stops" in told.stderr
    (warning,) = [each for each in caplog.messages if each.startswith("no task of this app")]
    assert warning == "no task of this app has queue 'mial'; did you mean 'mail'?"


@pytest.fixture
def shell(command: Command, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Put ``fencepost`` on the PATH, on a store that has jobs of two types."""
    with App(command.url) as app:
        store = app.store
        jobs = [NewJob(type="add"), NewJob(type="shout", queue="mail"), NewJob(type="a b")]
        store.run(store.queue.enqueue(jobs))
    script = command.folder / "fencepost"
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m fencepost "$@"\n')
    script.chmod(0o700)
    monkeypatch.setenv("PATH", f"{command.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    return command


def printed(*words: str, **environment: str) -> str:
    """Run a command, which must succeed; return what it printed."""
    env = {**os.environ, **environment}
    done = subprocess.run(
        words, env=env, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    return done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
def test_bash_completes_commands_options_and_names(shell: Command) -> None:
    """The line of the documentation, in a real bash; a store that is not there is no error."""
    page = (ROOT / "docs" / "operating.md").read_text()
    first = shell.json("jobs", "ls")["jobs"][0]["id"]
    install = """eval "$(_FENCEPOST_COMPLETE=bash_source fencepost)\""""
    assert f"echo '{install}' >> ~/.bashrc" in page
    script = f"""{install}
    try() {{
      COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
      _fencepost_completion fencepost
      echo "${{COMPREPLY[@]}}"
    }}
    try fencepost que
    try fencepost queues p
    try fencepost queues pause m
    try fencepost types resume ""
    try fencepost jobs ls --wh
    try fencepost jobs ls --queue ""
    try fencepost --url sqlite:///none.db jobs ls --queue ""
    try fencepost jobs why {first[:7]}
    try fencepost jobs show nonsense
    """
    assert printed("bash", "-c", script, FENCEPOST_URL=shell.url).splitlines() == [
        "queues",
        "pause",
        "mail",
        "add shout",
        "--where",
        "default mail",
        "",
        first,
        "",
    ]
    assert not (shell.folder / "none.db").exists()


def test_no_name_that_means_something_to_a_shell_is_completed(command: Command) -> None:
    """Who may submit chooses names, and bash puts what is completed into the line as it is."""
    plain = ["add", "an-org/app:2.import_all+x@eu,é"]
    code = [
        "x;id",
        "x$(id>f)",
        "x`id`",
        "x|id",
        "x&id",
        "x>f",
        "x'",
        'x"',
        "x\\",
        "x*",
        "x!h",
        "x{a}",
    ]
    others = ["x{a}", "--yes", "~root", "=ls", "#x", "a b"]
    with App(command.url) as app:
        jobs = [NewJob(type=name) for name in [*plain, *code, *others]]
        app.store.run(app.store.queue.enqueue(jobs))
    shell = BashComplete(cli, {}, "fencepost", "_FENCEPOST_COMPLETE")
    offered = shell.get_completions(["--url", command.url, "types", "pause"], "")
    assert [each.value for each in offered] == plain


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_completes_commands_and_names(shell: Command) -> None:
    """The line of the documentation, in a real zsh; what offers the words prints them here."""
    page = (ROOT / "docs" / "operating.md").read_text()
    install = """eval "$(_FENCEPOST_COMPLETE=zsh_source fencepost)\""""
    assert f"echo '{install}' >> ~/.zshrc" in page
    script = f"""autoload -Uz compinit; compinit -u -D; {install}
    print -r -- "$_comps[fencepost]"
    compadd() {{ print -rl -- ${{(P)@[-1]}}; }}
    _describe() {{ print -rl -- ${{(P)3}}; }}
    words=(fencepost queues pause m); CURRENT=4; _fencepost_completion
    words=(fencepost wo); CURRENT=2; _fencepost_completion"""
    assert printed("zsh", "-f", "-c", script, FENCEPOST_URL=shell.url).splitlines() == [
        "_fencepost_completion",
        "mail",
        "worker:Run jobs.",
        "workers:Workers: list the live ones.",
    ]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_commands_and_names(shell: Command) -> None:
    """The line of the documentation, in a real fish."""
    page = (ROOT / "docs" / "operating.md").read_text()
    made = "_FENCEPOST_COMPLETE=fish_source fencepost"
    assert f"{made} > ~/.config/fish/completions/fencepost.fish" in page
    home = shell.folder / "home"
    script = home / "fish" / "completions" / "fencepost.fish"
    script.parent.mkdir(parents=True)
    script.write_text(printed("fencepost", _FENCEPOST_COMPLETE="fish_source"))
    asked = "complete -C 'fencepost queues pause m'; complete -C 'fencepost wo'"
    environment = {"XDG_CONFIG_HOME": str(home), "HOME": str(home), "FENCEPOST_URL": shell.url}
    lines = printed("fish", "-c", asked, **environment).splitlines()
    assert [line.split("\t")[0] for line in lines] == ["mail", "worker", "workers"]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_every_shell_has_a_script_and_its_answers(shell: Command, name: str) -> None:
    """As ``click`` asks for them; zsh and fish are not there to be run everywhere."""
    if name != "bash" or shutil.which("bash"):
        source = printed("fencepost", _FENCEPOST_COMPLETE=f"{name}_source")
        assert f"_FENCEPOST_COMPLETE={name}_complete" in source
    words = {"COMP_WORDS": "fencepost queues pause m", "COMP_CWORD": "m" if name == "fish" else "3"}
    asked = {**words, "_FENCEPOST_COMPLETE": f"{name}_complete", "FENCEPOST_URL": shell.url}
    assert "mail" in printed("fencepost", **asked)
    asked |= {"COMP_WORDS": "fencepost wo", "COMP_CWORD": "wo" if name == "fish" else "1"}
    assert "workers" in printed("fencepost", **asked)
