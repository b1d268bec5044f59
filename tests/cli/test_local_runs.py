"""``fencepost jobs run ID --local``: the handler runs here, and the store stays as it was."""

from __future__ import annotations

import json
import sqlite3
from typing import Any

import pytest
from tests.cli.support import Command
from tests.cli.test_hostile import HOSTILE, check

from fencepost import EncryptionKey
from fencepost.observe.log import current_job

APP = r"""
from collections.abc import AsyncIterator
from fencepost import App, BatchJob, Context, PermanentError, Snooze

app = App()

@app.lifespan
async def pool(app: App) -> AsyncIterator[str]:
    yield "the pool"

@app.around
async def hook(ctx, call):
    await call()

@app.task
async def awaits(ctx: Context, n: int) -> list[object]:
    await ctx.aio.progress(0.5, "half")
    await ctx.aio.checkpoint({"page": 7})
    await ctx.aio.spawn(plain.prepare(n=n))
    await plain.aio.submit(n=n + 1)
    return [ctx.state, ctx.attempt, n]

@app.task
def plain(n: int) -> int:
    return 2 * n

@app.task(batch=10)
async def batched(jobs: list[BatchJob[dict[str, int]]]) -> list[object]:
    return [job.payload["n"] if job.payload["n"] else ValueError("no number") for job in jobs]

@app.task
def fails(how: str) -> None:
    if how == "permanent":
        raise PermanentError("never")
    if how == "snooze":
        raise Snooze(60)
    raise ValueError(f"not like this: {how}")
"""


@pytest.fixture(autouse=True)
def app_file(command: Command) -> None:
    (command.folder / "app.py").write_text(APP)


def contents(command: Command) -> list[str]:
    with sqlite3.connect(command.folder / "jobs.db") as database:
        return list(database.iterdump())


def test_the_handler_runs_here_and_nothing_is_written(command: Command) -> None:
    id = command.submit("awaits", '{"n": 3}')
    before = contents(command)
    result = command("jobs", "run", id, "--local")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == ["the pool", 1, 3]
    assert contents(command) == before
    assert current_job.get() is None
    for line in (
        "progress: ",
        'checkpoint: {"page":7}',
        'spawn: plain {"n":3}',
        "submitted 1 job",
    ):
        assert line in result.stderr


def test_a_dead_letter_shows_its_traceback_and_what_a_worker_would_do(command: Command) -> None:
    id = command.submit("fails", '{"how": "now"}')
    before = contents(command)
    result = command("jobs", "run", id, "--local")
    assert result.exit_code == 1
    assert "\n  ValueError: not like this: now\n" in result.stderr
    assert "runner.py" not in result.stderr
    assert "a worker would try it again" in result.stderr
    assert contents(command) == before


@pytest.mark.parametrize(
    ("how", "verdict"), [("permanent", "would not try it again"), ("snooze", "snooze it for 60 s")]
)
def test_it_says_what_a_worker_would_make_of_it(command: Command, how: str, verdict: str) -> None:
    id = command.submit("fails", json.dumps({"how": how}))
    result = command("jobs", "run", id, "--local")
    assert result.exit_code == 1
    assert verdict in result.stderr


def test_a_batch_handler_gets_a_batch_of_one(command: Command) -> None:
    good, bad = command.submit("batched", '{"n": 4}'), command.submit("batched", '{"n": 0}')
    assert json.loads(command.ok("jobs", "run", good, "--local")) == 4
    failed = command("jobs", "run", bad, "--local")
    assert failed.exit_code == 1
    assert "ValueError: no number" in failed.stderr


def test_it_can_be_read_by_a_program(command: Command) -> None:
    good, bad = command.submit("plain", '{"n": 4}'), command.submit("fails", '{"how": "x"}')
    answer = command.json("jobs", "run", good, "--local")
    assert answer == {"id": good, "type": "plain", "outcome": "succeeded", "result": 8}
    failed = command("jobs", "run", bad, "--local", "--json")
    assert failed.exit_code == 1
    assert json.loads(failed.stdout)["failure"]["message"] == "not like this: x"


def test_the_debugger_starts_where_the_handler_raised(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[Any] = []
    monkeypatch.setattr("pdb.post_mortem", stopped.append)
    id = command.submit("fails", '{"how": "here"}')
    assert command("jobs", "run", id, "--local", "--pdb").exit_code == 1
    (trace,) = stopped
    while trace.tb_next is not None:
        trace = trace.tb_next
    assert trace.tb_frame.f_code.co_name == "fails"
    assert trace.tb_frame.f_locals["how"] == "here"


def test_without_local_it_says_what_to_write(command: Command) -> None:
    id = command.submit("plain", '{"n": 4}')
    result = command("jobs", "run", id)
    assert result.exit_code == 2
    assert "--local" in result.stderr
    assert "jobs retry" in result.stderr


def test_a_payload_that_this_code_cannot_read_says_so(command: Command) -> None:
    id = command.submit("plain", '{"m": 4}', "--raw")
    result = command("jobs", "run", id, "--local")
    assert result.exit_code == 1
    assert "cannot read its payload" in result.stderr


def test_a_payload_that_was_altered_is_not_taken_for_one_with_a_missing_key(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FENCEPOST_KEYS", EncryptionKey("mine", b"k" * 32).text)
    id, other = command.submit("plain", '{"n": 4}'), command.submit("plain", '{"n": 5}')
    with sqlite3.connect(command.folder / "jobs.db") as database:
        digits = [each.replace("-", "").upper() for each in (other, id)]
        moved = "update jobs set payload = (select payload from jobs where hex(id) = ?)"
        database.execute(f"{moved} where hex(id) = ?", digits)
    result = command("jobs", "run", id, "--local")
    assert result.exit_code == 1
    assert "which is not here" not in result.stderr
    assert "a worker would not try it again: it is permanent" in result.stderr
    command.ok("worker", "--burst")
    assert command.json("jobs", "show", id)["failure"]["category"] == "permanent"


def test_an_unknown_job_or_type_is_refused(command: Command) -> None:
    command.submit("plain", '{"n": 1}')
    missing = command("jobs", "run", "00000000-0000-4000-8000-000000000000", "--local")
    assert "(job_not_found)" in missing.stderr
    id = command.submit("elsewhere", "{}", "--raw")
    assert "(unknown_type)" in command("jobs", "run", id, "--local").stderr


def test_what_a_handler_says_cannot_steer_the_terminal(command: Command) -> None:
    """Nor begin a line that looks like ours."""
    (command.folder / "app.py").write_text(
        "from fencepost import App, Context\n"
        "app = App()\n"
        f"H = {HOSTILE!r}\n"
        "@app.task\n"
        "def work(ctx: Context) -> None:\n"
        "    ctx.progress(0.5, H)\n"
        "    ctx.checkpoint(H)\n"
        "    ctx.spawn(other.prepare(H))\n"
        "    raise ValueError(H)\n"
        "@app.task\n"
        "def other(text: str) -> str:\n"
        "    return text\n"
    )
    id, other = command.submit("work"), command.submit("other", json.dumps({"text": HOSTILE}))
    for each in (id, other):
        result = command("jobs", "run", each, "--local")
        check(result.stdout)
        check(result.stderr)
