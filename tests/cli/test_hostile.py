"""Every command, on a store in which every text is meant to steer or deceive its reader.

Names are checked on the way in, but a store trusts what it is given, and another program may have
written to it; so the texts here go past the checks.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from datetime import timedelta

import click
import pytest
from tests.cli.support import ROOT, Command

from fencepost.cli.main import cli
from fencepost.core.access.audit import Action
from fencepost.core.access.tokens import Role, TokenRecord
from fencepost.core.events import NewEvent
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Category, ClaimedJob, Encoding, Failure, NewJob, Progress
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide
from fencepost.core.stats.overview import WorkerInfo
from fencepost.store.interface.queue import ClaimRequest, Enqueued, Save
from fencepost.store.interface.records.crons import CronDefinition
from fencepost.store.interface.store import Store
from fencepost.store.sqlite.store import SqliteStore

FORGED = "FORGED error: all is well"
HOSTILE = f"a\n{FORGED}\r\x1b]0;t\x07\x1b[2J\x9b2J\x85\x7f\x00\u202e\u2066\u061c\u200e\u2028z"
STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""The only sequences that our own colours need."""

# The words after each command; JOB stands for the id of each job in turn, H for the text.
LINES = {
    "jobs ls": (),
    "jobs show": ("JOB",),
    "jobs why": ("JOB",),
    "jobs run": ("JOB", "--local", "--app", "app:app"),
    "jobs watch": ("DEAD",),
    "jobs cancel": ("H",),
    "jobs retry": ("H",),
    "jobs edit": ("H", "--priority", "low"),
    "flows ls": (),
    "dlq ls": (),
    "dlq replay": ("H",),
    "dlq discard": ("H",),
    "dlq replays": (),
    "dlq hold": ("H",),
    "dlq resume": ("H",),
    "dlq stop": ("H",),
    "queues ls": (),
    "queues pause": ("H",),
    "queues resume": ("H",),
    "queues limit": ("H", "3"),
    "types ls": (),
    "types pause": ("H",),
    "types resume": ("H",),
    "types limit": ("H", "3/m"),
    "cron ls": (),
    "cron next": ("H",),
    "cron run": ("H",),
    "cron runs": ("H",),
    "cron pause": ("H",),
    "cron resume": ("H",),
    "cron forget": ("H",),
    "events ls": (),
    "events send": ("H", "--app", "app:app"),
    "workers ls": (),
    "tokens ls": (),
    "tokens revoke": ("H",),
    "audit ls": (),
    "top": ("--once",),
    "doctor": (),
    "submit": ("H",),
    "prune": (),
    "recover": (),
}
NOTHING_STORED = {
    "demo": "shows jobs that it makes itself",
    "dev": "runs a worker; it shows its log",
    "worker": "shows its log, whose lines are tested with it",
    "server": "shows its log",
    "webhooks secret": "makes a secret",
    "migrate": "shows our own SQL",
    "keys new": "makes a key",
    "tokens create": "shows what was typed just now",
    "bench": "shows what it measured",
    "version": "shows versions",
    "move": "tested on its own below: it has two stores",
}


def leaves(command: click.Command, path: str = "") -> Iterator[str]:
    if not isinstance(command, click.Group):
        yield path
        return
    context = click.Context(command)
    for name in command.list_commands(context):
        found = command.get_command(context, name)
        assert found is not None
        yield from leaves(found, f"{path} {name}".strip())


def test_every_command_is_in_the_table() -> None:
    assert set(leaves(cli)) == {*LINES, *NOTHING_STORED}


H = HOSTILE
TROUBLE = Failure(Category.TEMPORARY, H, code=H, exception=H, traceback=f"Traceback\n  {H}\n{H}")
BODY = Body(
    json.dumps({H: [H]}, ensure_ascii=False).replace("\x7f", "\\x7f").encode(), Encoding.JSON
)


def job(**fields: object) -> NewJob:
    """Return a job with the text in every field that can have one."""
    told = {
        "payload": Body(json.dumps({H: H}, ensure_ascii=False).encode(), Encoding.JSON),
        "queue": H,
        "tags": {H: H},
        "correlation_id": H,
        "node": H,
        "callback_url": H,
        "concurrency_key": H,
    }
    return NewJob(type=H, **{**told, **fields})  # type: ignore[arg-type]  # by their names


class Filled:
    """A store with the text in everything, and its jobs by what became of them."""

    def __init__(self, command: Command) -> None:
        store = SqliteStore(str(command.folder / "jobs.db"))
        self.command = command
        self.jobs = self._jobs(store)
        self._records(store)
        store.close()

    def _jobs(self, store: Store) -> dict[str, str]:
        after = Dependencies((0,))
        new = [
            job(flow=H),
            job(flow=H, after=after, key=Key(H)),
            *(job(concurrency_key=None) for _ in range(3)),
        ]
        replies = store.run(store.queue.enqueue(new))
        ids = [reply.job_id for reply in replies if isinstance(reply, Enqueued)]
        claimed = store.run(store.queue.claim(ClaimRequest(worker=H, limit=4))).jobs
        running, dead, done, retrying = claimed
        for each in claimed:
            save = Save(
                each.id,
                each.lease.token,
                checkpoint=BODY,
                progress=Progress(fraction=0.5, message=H),
            )
            store.run(store.queue.save([save]))
        permanent = Failure(Category.PERMANENT, H, code=H, exception=H, traceback=TROUBLE.traceback)
        self._settle(store, dead, Failed(permanent))
        self._settle(store, done, Succeeded(BODY))
        self._settle(store, retrying, Failed(TROUBLE))
        named = {"running": running, "dead": dead, "done": done, "retrying": retrying}
        return {"waiting": ids[1], **{name: each.id for name, each in named.items()}}

    def _settle(self, store: Store, claimed: ClaimedJob, outcome: Outcome) -> None:
        decision = decide(claimed, outcome, store.clock.rng)
        store.run(store.queue.settle([Settlement(claimed.id, claimed.lease.token, decision)]))

    def _records(self, store: Store) -> None:
        now = store.clock.now()
        worker = WorkerInfo(
            id=H, host=H, pid=1, queues={H: 1}, types=(H,), concurrency=1, started_at=now
        )
        token = TokenRecord(
            id=H, name=H, digest=b"x" * 32, roles=(Role.READ,), queues=(H,), created_at=now
        )
        cron = CronDefinition(
            name=H, expression="0 9 * * *", tz="UTC", template=job(), next_tick=now + timedelta(1)
        )
        action = Action(
            id=H, principal_id=H, principal=H, action=H, target=H, detail={H: H}, request_id=H
        )
        store.run(store.cluster.announce(worker))
        store.run(store.access.add(token))
        store.run(store.crons.declare([cron]))
        store.run(store.audit.record(action))
        store.run(store.events.send(NewEvent(H, BODY, H), [job()]))

    def lines(self, line: str) -> Iterator[list[str]]:
        """Yield the words of a command, for each job if it is about one."""
        words = LINES[line]
        for job_id in self.jobs.values() if "JOB" in words else ["none"]:
            known = {"JOB": job_id, "DEAD": self.jobs["dead"], "H": H.replace("\x00", "")}
            yield [*line.split(), *(known.get(word, word) for word in words)]


@pytest.fixture
def filled(command: Command) -> Filled:
    return Filled(command)


def check(text: str) -> None:
    """See that nothing in *text* steers a terminal, and that no line was begun by somebody else."""
    for line in text.split("\n"):
        assert line.isprintable(), line
        assert not line.startswith("FORGED"), line


@pytest.mark.parametrize("line", LINES)
def test_no_command_lets_a_text_steer_a_pipe(filled: Filled, line: str) -> None:
    for words in filled.lines(line):
        answer = filled.command(*words)
        assert answer.exit_code in (0, 1), answer.output
        assert "internal" not in answer.output
        check(answer.output)


@pytest.mark.parametrize("columns", ["2000", "60"])
@pytest.mark.parametrize("line", LINES)
def test_no_command_lets_a_text_steer_a_terminal(
    filled: Filled, line: str, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.cli.output.is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", columns)
    for words in filled.lines(line):
        answer = filled.command(*words)
        assert "internal" not in answer.output
        check(STYLES.sub("", answer.output))


@pytest.mark.parametrize("line", LINES)
def test_no_json_carries_what_is_not_printable(filled: Filled, line: str) -> None:
    for words in filled.lines(line):
        answer = filled.command(*words, "--json")
        assert "internal" not in answer.output
        check(answer.output)
        for document in answer.stdout.splitlines() if "watch" in words else [answer.stdout]:
            if document:
                json.loads(document)
        if line in ("jobs ls", "dlq ls", "queues ls", "types ls", "cron ls", "events ls"):
            assert json.dumps(H)[1:-1] in json.dumps(json.loads(answer.stdout))


def test_a_move_names_what_it_paused_in_one_line(command: Command) -> None:
    store = SqliteStore(str(command.folder / "jobs.db"))
    store.run(store.queue.enqueue([job()]))
    store.close()
    answer = command("move", command.url, f"sqlite:///{command.folder}/there.db")
    assert "paused in" in answer.stderr
    check(answer.output)


@pytest.mark.parametrize("words", [["--H"], ["H"], ["jobs", "ls", "H"], ["jobs", "ls", "--H"]])
def test_an_argument_that_is_refused_is_repeated_in_one_line(
    command: Command, words: list[str]
) -> None:
    answer = command(*(word.replace("H", H.replace("\x00", "")) for word in words))
    assert answer.exit_code == 2
    check(answer.output)


def test_the_text_is_in_what_is_shown(filled: Filled) -> None:
    """Else the table would prove nothing."""
    for line in (
        "jobs ls",
        "jobs why",
        "jobs watch",
        "dlq ls",
        "queues ls",
        "workers ls",
        "audit ls",
    ):
        words = next(filled.lines(line))
        assert r"a\nFORGED" in filled.command(*words).output, line


def test_every_command_writes_through_one_function() -> None:
    """What writes by itself is named here, with nothing in it that others wrote."""
    commands = ROOT / "src/fencepost/cli"
    allowed = {"output.py", "errors.py", "commands/upkeep.py", "demo/command.py"}
    found = set()
    for path in commands.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in (
                *("click.echo", "click.secho", "print", "sys.stdout.write", "sys.stderr.write"),
            ):
                found.add(str(path.relative_to(commands)))
    assert found <= allowed
