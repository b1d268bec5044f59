"""``fencepost move``: nothing is lost, nothing is changed, and nothing can be run twice."""

from __future__ import annotations

import json
import os
import pty
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from tests.cli.support import ROOT, Command, end, wait_until
from tests.servers.fixtures import postgres_sources

from conformance.harness import Colour, Harness, job
from conformance.transfer import dump, fill
from fencepost import App, Priority
from fencepost.cli.commands.mover import EVENTS_MAX, Mover
from fencepost.clock import SystemClock
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, JobRecord, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.core.moves import MOVED, MOVING
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import ClaimRequest, Spawn
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from fencepost.store.sqlite.facets import SqliteSettings
from fencepost.store.sqlite.store import SqliteStore
from fencepost.testing.clock import FakeClock


@contextmanager
def opened(url: str) -> Iterator[Harness]:
    """Open a store with shorthands around it, under the real clock."""

    def make(_: FakeClock) -> Store:
        store = open_store(url)
        store.migrate()
        return store

    harness = Harness(make, colour=Colour.SYNC, is_durable=True)
    yield harness
    harness.close()


def records(url: str) -> list[JobRecord]:
    with opened(url) as h:
        return dump(h)


def counts(url: str) -> dict[str, Any]:
    with opened(url) as h:
        store = h.store
        return {
            "types": [
                (t.name, t.counts, t.is_paused, t.rate) for t in store.run(store.overview.types())
            ],
            "queues": [
                (q.name, q.counts, q.max_running)
                for q in store.run(store.overview.queues())
                if not q.name.startswith("fencepost:")
            ],
            "limit": store.run(store.settings.app_limit()),
        }


def pauses(url: str) -> set[str]:
    with App(url) as app:
        return {queue.name for queue in app.queues.list() if queue.is_paused}


def submit(url: str, count: int = 1, **fields: Any) -> None:
    with opened(url) as h:
        h.submit_many(count, **fields)


@pytest.fixture
def filled(command: Command) -> str:
    """Return the URL of a SQLite store with jobs of every kind, and settings."""

    def make(clock: FakeClock) -> Store:
        return SqliteStore(str(command.folder / "jobs.db"), clock=clock)

    h = Harness(make, colour=Colour.SYNC, is_durable=True)
    h.advance(SystemClock().now() - h.now - timedelta(days=1))
    fill(h)
    h.run(h.store.settings.pause(Scope.QUEUE, "other"))
    h.run(h.store.settings.pause(Scope.TYPE, "edited"))
    h.run(h.store.settings.limit(Scope.QUEUE, "default", 7))
    h.run(h.store.settings.limit(Scope.APP, "", 70))
    h.run(
        h.store.settings.limit_types(
            {"edited": TypeLimits(rate=Rate(3, 30.0)), "new": TypeLimits(rate=Rate(5, 60.0))}
        )
    )
    h.close()
    return command.url


@pytest.fixture
def elsewhere(command: Command) -> Callable[[str], str]:
    return lambda name: f"sqlite:///{command.folder}/{name}.db"


@pytest.fixture
def sqlite_url(elsewhere: Callable[[str], str]) -> str:
    return elsewhere("new")


@pytest.fixture
def redis_store(redis_url: str, redis_prefix: str) -> str:
    return f"{redis_url}?prefix={quote(redis_prefix)}"


def test_there_and_back_every_record_is_the_same(
    command: Command, filled: str, postgres_url: str, elsewhere: Callable[[str], str]
) -> None:
    before, settings = records(filled), counts(filled)
    assert {record.job.state for record in before} == set(State) - {State.PENDING, State.RUNNING}
    answer = json.loads(command.ok("move", filled, postgres_url, "--migrate", "--json"))
    assert (answer["moved"], answer["present"]) == (len(before), 0)
    assert records(postgres_url) == before
    assert counts(postgres_url) == settings
    assert pauses(postgres_url) == {"other"}
    home = elsewhere("home")
    text = command.ok("move", postgres_url, home, "--batch", "7")
    assert f"moved {len(before)} jobs" in text
    assert records(home) == before
    assert counts(home) == settings
    assert pauses(home) == {"other"}
    assert records(filled) == before


def test_by_way_of_redis_every_record_is_the_same(
    command: Command,
    filled: str,
    redis_store: str,
    postgres_url: str,
    elsewhere: Callable[[str], str],
) -> None:
    """From each of the others to Redis, and from Redis to each of the others."""
    before, settings = records(filled), counts(filled)
    way = [filled, redis_store, postgres_url, f"{redis_store}again:", elsewhere("home")]
    for source, target in pairwise(way):
        answer = json.loads(command.ok("move", source, target, "--migrate", "--json"))
        assert (answer["moved"], answer["present"]) == (len(before), 0)
        assert records(target) == before
        assert counts(target) == settings
        assert pauses(target) == {"other"}
    assert records(redis_store) == before


def events(url: str) -> list[SentEvent]:
    with App(url) as app:
        return list(app.events.find(limit=1_000))


def test_the_records_of_events_come_along_in_their_order(
    command: Command,
    postgres_url: str,
    elsewhere: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """More of them than are copied at once; and one that is sent while jobs are copied."""

    def send(url: str, *names: str) -> None:
        with opened(url) as h:
            for name in names:
                h.run(
                    h.store.events.send(NewEvent(name, Body(b'{"x":1}'), "k"), [NewJob(type="t")])
                )

    send(command.url, *(f"a.n{number}" for number in range(EVENTS_MAX * 2 + 5)))
    before = events(command.url)
    assert len(before) == EVENTS_MAX * 2 + 5
    with monkeypatch.context() as busy:
        after_copying(busy, lambda: send(command.url, "late"))
        command.ok("move", command.url, postgres_url, "--migrate")
    assert events(postgres_url) == events(command.url)
    assert [each.name for each in events(postgres_url)] == ["late", *(e.name for e in before)]
    command.ok("move", postgres_url, elsewhere("home"))
    assert events(elsewhere("home")) == events(command.url)


def after_copying(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Have something happen when jobs were copied, and the source still accepts new ones."""
    copy = Mover.copy

    def copy_and_act(self: Mover, bar: Any) -> None:
        copy(self, bar)
        act()

    monkeypatch.setattr(Mover, "copy", copy_and_act)


def test_one_event_comes_along(command: Command, elsewhere: Callable[[str], str]) -> None:
    with App(command.url) as app:
        app.event("alone").send(x=1)
    command.ok("move", command.url, elsewhere("new"))
    assert events(elsewhere("new")) == events(command.url) != []


def test_jobs_of_concurrency_keys_keep_their_slots(
    command: Command, postgres_url: str, elsewhere: Callable[[str], str]
) -> None:
    """However small the pages: one that waits may come before the one that has the slot."""
    with opened(command.url) as h:
        h.submit_many(3, type="keyed", concurrency_key="tenant:7")
        h.succeed(h.take())
        h.submit(type="keyed", concurrency_key="tenant:7", priority=Priority.HIGH)
        h.succeed(h.take())
        h.submit(type="keyed", concurrency_key="tenant:8")
    before = records(command.url)
    assert [record.job.state for record in before].count(State.SCHEDULED) == 2
    command.ok("move", command.url, postgres_url, "--migrate", "--batch", "1")
    assert records(postgres_url) == before
    command.ok("move", postgres_url, elsewhere("home"), "--batch", "1")
    assert records(elsewhere("home")) == before


def test_from_sqlite_to_sqlite(
    command: Command, filled: str, elsewhere: Callable[[str], str]
) -> None:
    command.ok("move", filled, elsewhere("new"))
    assert records(elsewhere("new")) == records(filled)


def test_from_postgres_to_postgres(
    command: Command, filled: str, postgres_url: str, fresh_postgres: Callable[[str], str]
) -> None:
    with opened(postgres_url) as source, opened(filled) as h:
        source.run(source.store.transfer.load(dump(h)))
    other = fresh_postgres(postgres_sources()[0])
    command.ok("move", postgres_url, other, "--migrate")
    assert records(other) == records(postgres_url) == records(filled)


def test_the_source_is_kept_paused_and_marked(
    command: Command, filled: str, elsewhere: Callable[[str], str]
) -> None:
    result = command("move", filled, elsewhere("new"))
    assert "paused in sqlite:" in result.stderr
    assert {"default", "other"} < pauses(filled)
    assert MOVED in pauses(filled)
    assert MOVING not in pauses(filled)
    findings = {finding["code"]: finding for finding in command.json("doctor")}
    assert findings["moved"]["level"] == "warn"
    with opened(filled) as h:
        assert h.claim(1_000).jobs == []


def test_a_worker_of_the_new_store_runs_what_was_moved(command: Command, postgres_url: str) -> None:
    ids = [command.submit("add", f'{{"a": {n}, "b": 1}}') for n in range(20)]
    target = postgres_url.replace(":", "+psycopg:", 1)
    command.ok("move", command.url, target, "--migrate")
    command.ok("jobs", "ls", "--url", target)
    command.ok("worker", "--burst", "--url", postgres_url.replace(":", "+asyncpg:", 1))
    with App(postgres_url.replace("postgresql:", "postgres:", 1)) as app:
        assert [app.jobs.get(job_id).state for job_id in ids] == [State.COMPLETED] * 20
    with App(command.url) as app:
        assert app.jobs.count(state=State.SCHEDULED) == 20


@pytest.mark.parametrize("where", ["postgres_url", "sqlite_url", "redis_store"])
def test_a_move_that_was_killed_is_repeated(
    command: Command, where: str, request: pytest.FixtureRequest
) -> None:
    """kill -9 between two batches, of which there are far more than it gets to."""
    new = request.getfixturevalue(where)
    submit(command.url, 3_000)
    before = records(command.url)
    with opened(new) as target:
        child = command.start("move", command.url, new, "--batch", "1")
        wait_until(lambda: target.run(target.store.reader.count(JobFilter())) > 20, "some jobs")
        end(child, signal.SIGKILL)
        arrived = target.run(target.store.reader.count(JobFilter()))
    assert 20 < arrived < len(before)
    assert MOVING in pauses(command.url)
    codes = {finding["code"] for finding in command.json("doctor")}
    assert "moved" in codes
    answer = json.loads(command.ok("move", command.url, new, "--json"))
    assert answer["present"] == arrived
    assert answer["moved"] == len(before) - arrived
    assert records(new) == before
    assert pauses(new) == set()


def test_a_move_that_broke_off_keeps_the_pauses_there_were(
    command: Command, filled: str, elsewhere: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second try must not take the pauses of the first for the operator's."""

    def explode(*_: object) -> None:
        raise OSError("out of luck")

    with monkeypatch.context() as broken:
        broken.setattr("fencepost.cli.commands.mover.Mover.copy", explode)
        assert command("move", filled, elsewhere("new")).exit_code == 1
    assert "default" in pauses(filled)
    command.ok("move", filled, elsewhere("new"))
    assert pauses(elsewhere("new")) == {"other"}


def test_a_move_can_be_given_up(
    command: Command, filled: str, elsewhere: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def explode(*_: object) -> None:
        raise OSError("out of luck")

    for step in ("copy", "close", "compare", "finish"):
        with monkeypatch.context() as broken:
            broken.setattr(f"fencepost.cli.commands.mover.Mover.{step}", explode)
            assert command("move", filled, elsewhere("new")).exit_code == 1
        assert "default" in command.ok("move", filled, elsewhere("new"), "--abandon")
        assert pauses(filled) == {"other"}
        submit(filled)
    again = command("move", filled, elsewhere("new"), "--abandon")
    assert (again.exit_code, "no move" in again.stderr) == (1, True)


def test_a_complete_move_cannot_be_given_up(
    command: Command, filled: str, elsewhere: Callable[[str], str]
) -> None:
    command.ok("move", filled, elsewhere("new"))
    result = command("move", filled, elsewhere("new"), "--abandon")
    assert result.exit_code == 1
    assert "would run twice" in result.stderr


@pytest.mark.parametrize("where", ["postgres_url", "sqlite_url", "redis_store"])
def test_a_moved_store_refuses_new_jobs(
    command: Command,
    where: str,
    request: pytest.FixtureRequest,
    elsewhere: Callable[[str], str],
) -> None:
    """They would wait there for nobody. The old copies can be looked at."""
    source = request.getfixturevalue(where)
    submit(source, 3)
    command.ok("move", source, elsewhere("there"))
    refused = command("submit", "add", '{"a": 1, "b": 2}', "--url", source)
    assert refused.exit_code == 1
    assert "new jobs are refused" in refused.stderr
    assert "submit to that store" in refused.stderr
    with App(source) as app:

        @app.event("user.created").on
        def welcome(x: int) -> None: ...

        with pytest.raises(StoreUnavailableError, match="new jobs are refused"):
            app.event("user.created").send(x=1)
        assert app.jobs.count() == 3
    command.ok("submit", "add", '{"a": 1, "b": 2}', "--url", elsewhere("there"))


def test_what_was_moved_is_not_moved_again(
    command: Command, elsewhere: Callable[[str], str]
) -> None:
    """By then the new store is in use, and there is nothing that it could be compared with."""
    submit(command.url, 3)
    command.ok("move", command.url, elsewhere("new"))
    for target in (elsewhere("new"), elsewhere("other")):
        again = command("move", command.url, target)
        assert again.exit_code == 1
        assert "were moved before" in again.stderr
    assert pauses(elsewhere("new")) == set()


def test_a_move_that_broke_off_at_its_very_end_is_complete(
    command: Command, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(command.url)
    resume = SqliteSettings.resume

    def lose(self: SqliteSettings, scope: Scope, name: str) -> Any:
        if name == MOVING:
            raise UnknownOutcomeError("the connection was lost at commit")
        return resume(self, scope, name)

    with monkeypatch.context() as broken:
        broken.setattr(SqliteSettings, "resume", lose)
        assert command("move", command.url, sqlite_url).exit_code == 1
    assert {MOVING, MOVED} < pauses(command.url)
    assert "were moved before" in command("move", command.url, sqlite_url).stderr
    assert "would run twice" in command("move", command.url, sqlite_url, "--abandon").stderr
    [finding] = [each for each in command.json("doctor") if each["code"] == "moved"]
    assert "it refuses new ones" in finding["text"]


def test_a_job_of_an_open_transaction_is_waited_for(command: Command, postgres_url: str) -> None:
    """It was submitted before the source refuses, and is committed after all others were copied."""
    with opened(postgres_url) as h:
        h.submit_many(2)
    with App(postgres_url) as app, psycopg.connect(postgres_url) as connection:

        @app.task
        def add() -> None: ...

        add.using(conn=connection).submit()
        mover = command.start("move", postgres_url, f"sqlite:///{command.folder}/new.db")
        with psycopg.connect(postgres_url, autocommit=True) as other:
            waiting = "select 1 from pg_locks where not granted and relation = %s::regclass"
            wait_until(
                lambda: other.execute(waiting, ("fencepost.submissions",)).fetchone(),
                "a move that waits",
            )
        connection.commit()
        output, _ = mover.communicate(timeout=60)
    assert mover.returncode == 0, command.log
    assert "moved 3 jobs" in output


def test_a_live_job_that_cannot_be_read_does_not_arrive_as_another(
    command: Command, sqlite_url: str
) -> None:
    """A job that has ended badly may: there is nothing left to run."""
    submit(command.url, 2)
    broken = records(command.url)[0].job.id
    with closing(sqlite3.connect(command.folder / "jobs.db")) as connection, connection:
        connection.execute("update jobs set payload = 'no blob' where seq = 1")
    result = command("move", command.url, sqlite_url)
    assert result.exit_code == 1
    assert f"job {broken} cannot be read" in result.stderr
    command.ok("jobs", "cancel", broken)
    assert "moved 2 jobs" in command.ok("move", command.url, sqlite_url)


def test_a_store_that_goes_away_is_no_reason_to_begin_anew(
    command: Command, sqlite_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(command.url)

    def lose(*_: object) -> None:
        raise UnknownOutcomeError("the connection was lost at commit")

    monkeypatch.setattr("fencepost.cli.commands.mover.Mover.compare", lose)
    result = command("move", command.url, sqlite_url)
    assert result.exit_code == 1
    assert "continues where it stopped" in result.stderr


def test_a_person_sees_a_bar(command: Command, sqlite_url: str) -> None:
    submit(command.url, 50)
    ours, theirs = pty.openpty()
    child = subprocess.Popen(
        [sys.executable, "-m", "fencepost", "move", command.url, sqlite_url, "--batch", "5"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TERM": "xterm", "COLUMNS": "140"},
        stdout=subprocess.PIPE,
        stderr=theirs,
    )
    written, _ = child.communicate(timeout=60)
    seen = os.read(ours, 1 << 20).decode()
    os.close(ours)
    os.close(theirs)
    assert b"moved 50 jobs" in written
    assert "copying" in seen
    assert "comparing" in seen
    assert "50/50" in seen


@pytest.mark.parametrize("where", ["postgres_url", "sqlite_url", "redis_store"])
def test_jobs_that_come_while_others_are_copied_come_along(
    command: Command,
    where: str,
    request: pytest.FixtureRequest,
    elsewhere: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source, new = request.getfixturevalue(where), elsewhere("there")
    submit(source)
    after_copying(monkeypatch, lambda: submit(source, 2, queue="made meanwhile"))
    assert "moved 3 jobs" in command.ok("move", source, new)
    assert records(new) == records(source)
    assert "made meanwhile" in pauses(source)
    assert pauses(new) == set()


def test_a_job_that_changed_during_a_move_is_noticed(
    command: Command, elsewhere: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from fencepost.cli.commands.mover import Mover

    submit(command.url, 2)
    copy = Mover.copy

    def copy_and_cancel(self: Mover, bar: Any) -> None:
        copy(self, bar)
        self.source.run(self.source.control.cancel([records(command.url)[0].job.id]))

    monkeypatch.setattr(Mover, "copy", copy_and_cancel)
    result = command("move", command.url, elsewhere("new"))
    assert result.exit_code == 1
    assert "error: changed in " in result.stderr
    assert ": 1 job, such as " in result.stderr


def test_a_live_worker_refuses(command: Command, elsewhere: Callable[[str], str]) -> None:
    submit(command.url)
    info = WorkerInfo(
        id="w7",
        host="barn",
        pid=7,
        queues=None,
        types=("mail",),
        concurrency=1,
        started_at=SystemClock().now(),
    )
    with opened(command.url) as h:
        h.run(h.store.cluster.announce(info))
    result = command("move", command.url, elsewhere("new"))
    assert result.exit_code == 1
    assert "w7 (pid 7 on barn)" in result.stderr
    assert pauses(command.url) == set()


def test_a_running_job_refuses(command: Command, elsewhere: Callable[[str], str]) -> None:
    submit(command.url, 2)
    with opened(command.url) as h:
        claimed = h.take("w9")
    result = command("move", command.url, elsewhere("new"))
    assert result.exit_code == 1
    assert "1 job is running on sqlite:" in result.stderr
    assert f"{claimed.id} on w9 until" in result.stderr
    assert pauses(command.url) == set()


def test_an_expired_lease_is_taken_back_first(
    command: Command, elsewhere: Callable[[str], str]
) -> None:
    submit(command.url)
    past = FakeClock(SystemClock().now() - timedelta(hours=1))
    store = SqliteStore(str(command.folder / "jobs.db"), clock=past)
    # Claimed by a clock that is an hour behind: by now the lease has run out.
    [claimed] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1, lease_ttl=1.0))).jobs
    store.close()
    answer = json.loads(command.ok("move", command.url, elsewhere("new"), "--json"))
    assert (answer["moved"], answer["recovered"]) == (1, 1)
    [record] = records(elsewhere("new"))
    assert (record.job.id, record.job.state) == (claimed.id, State.RETRYING)
    assert len(record.attempts) == 1


def test_a_target_with_jobs_of_its_own_refuses(
    command: Command, elsewhere: Callable[[str], str]
) -> None:
    submit(command.url)
    submit(elsewhere("new"))
    result = command("move", command.url, elsewhere("new"))
    assert result.exit_code == 1
    assert "has other jobs" in result.stderr
    assert pauses(command.url) == set()


def test_a_target_that_was_moved_away_refuses(
    command: Command, elsewhere: Callable[[str], str]
) -> None:
    """Its jobs are old copies, and would be taken for the newest."""
    submit(command.url)
    command.ok("move", command.url, elsewhere("new"))
    result = command("move", elsewhere("new"), command.url)
    assert result.exit_code == 1
    assert "were moved away" in result.stderr


def test_a_key_is_held_in_the_new_store(command: Command, postgres_url: str) -> None:
    submit(command.url, 1, key=Key("k"))
    command.ok("move", command.url, postgres_url, "--migrate")
    with opened(postgres_url) as h:
        [reply] = h.enqueue(NewJob(type="mail", key=Key("k")))
        assert reply.job_id == records(command.url)[0].job.id


def test_a_database_without_schema_is_not_migrated_unasked(
    command: Command, postgres_url: str
) -> None:
    submit(command.url)
    result = command("move", command.url, postgres_url)
    assert result.exit_code == 1
    assert "no schema yet" in result.stderr
    assert "--migrate" in result.stderr
    assert pauses(command.url) == set()


def test_two_names_of_one_database_are_noticed(command: Command, postgres_url: str) -> None:
    submit(postgres_url)
    mark = "&" if "?" in postgres_url else "?"
    result = command("move", postgres_url, f"{postgres_url}{mark}application_name=other")
    assert result.exit_code == 1
    assert "the same store" in result.stderr
    assert pauses(postgres_url) == set()


@pytest.mark.parametrize(
    ("source", "target", "code", "text"),
    [
        ("memory://", "sqlite:///new.db", 2, "one process"),
        ("sqlite:///jobs.db", "memory://", 2, "one process"),
        ("sqlite:///jobs.db", "sqlite:///./jobs.db", 2, "the same store"),
        ("postgresql+asyncpg://h/d", "postgres://h/d", 2, "the same store"),
        ("sqlite:///none.db", "sqlite:///new.db", 1, "/none.db; submit a job first"),
        ("sqlite:///jobs.db", "nonsense", 1, "is not a store URL"),
    ],
)
def test_what_cannot_be_moved_is_refused(
    command: Command, source: str, target: str, code: int, text: str
) -> None:
    submit(command.url)
    result = command("move", source, target)
    assert result.exit_code == code, result.output
    assert text in result.stderr
    assert not Path("new.db").exists()
    assert not Path("none.db").exists()


# Graphs.


def edges(url: str) -> dict[str, tuple[State, tuple[str, ...]]]:
    """Return by id the state of each job and what it waits for."""
    return {record.job.id: (record.job.state, record.dependencies) for record in records(url)}


@pytest.fixture
def graphs(command: Command) -> str:
    """Return the URL of a store with flows: one that goes on, one that failed, one that gathers."""
    with opened(command.url) as h:
        first = h.submit("first")
        gatherer = h.submit("gather", after=Dependencies((first,), gathers=True), flow="f")
        h.submit("behind", after=Dependencies((gatherer,)))
        claimed = h.take(types=frozenset({"first"}))
        new = (NewJob(type="child", key=Key("c")), NewJob(type="child", key=Key("d")))
        h.run(h.store.queue.spawn([Spawn(claimed.id, claimed.lease.token, new)]))
        h.succeed(claimed)
        a, *_ = h.submit_all(*(job("chain", after=_behind(n)) for n in range(5)))
        h.cancel(a)
        done = h.submit("done")
        last = h.submit("last", after=Dependencies((done,), gathers=True))
        claimed = h.take(types=frozenset({"done"}))
        h.run(
            h.store.queue.spawn(
                [Spawn(done, claimed.lease.token, (NewJob(type="kid", key=Key("k")),))]
            )
        )
        h.succeed(claimed)
        h.succeed(h.take(types=frozenset({"kid"})))
        h.succeed(h.take(types=frozenset({"last"})))
        assert h.state(last) is State.COMPLETED
    return command.url


def _behind(place: int) -> Dependencies | None:
    return Dependencies((place - 1,)) if place else None


@pytest.mark.parametrize("batch", ["1", "3", "1000"])
def test_a_graph_is_moved_with_all_that_waits_for_what(
    command: Command, graphs: str, elsewhere: Callable[[str], str], batch: str
) -> None:
    """What gathers stands before what it waits for, and is loaded behind it all the same."""
    new = elsewhere("new")
    before = edges(graphs)
    assert any(state is State.PENDING for state, _ in before.values())
    answer = json.loads(command.ok("move", graphs, new, "--batch", batch, "--json"))
    assert (answer["moved"], answer["present"]) == (len(before), 0)
    assert edges(new) == before
    with opened(new) as h:
        for _ in range(2):
            h.succeed(h.take(types=frozenset({"child"})))
        h.succeed(h.take(types=frozenset({"gather"})))
        h.succeed(h.take(types=frozenset({"behind"})))


def test_a_graph_is_moved_to_postgresql_and_back(
    command: Command, graphs: str, postgres_url: str, elsewhere: Callable[[str], str]
) -> None:
    before = edges(graphs)
    command.ok("move", graphs, postgres_url, "--migrate", "--batch", "2")
    assert edges(postgres_url) == before
    home = elsewhere("home")
    command.ok("move", postgres_url, home, "--batch", "2")
    assert edges(home) == before


def test_a_move_of_a_graph_that_broke_off_is_repeated(
    command: Command,
    graphs: str,
    elsewhere: Callable[[str], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whichever load is the last one that was done."""
    before = edges(graphs)
    for last in range(1, 8):
        new = elsewhere(f"new{last}")
        load, left = Mover._load_some, [last]

        def breaks(mover: Mover, ready: Any, load: Any = load, left: list[int] = left) -> Any:
            left[0] -= 1
            if left[0] < 0:
                raise UnknownOutcomeError("gone")
            return load(mover, ready)

        with monkeypatch.context() as patch:
            patch.setattr(Mover, "_load_some", breaks)
            command("move", graphs, new, "--batch", "2")
        command.ok("move", graphs, new, "--batch", "2")
        assert edges(new) == before
        _unmark(graphs)


def _unmark(url: str) -> None:
    """Make a store one that was never moved."""
    with opened(url) as h:
        for queue in h.store.run(h.store.overview.queues()):
            h.store.run(h.store.settings.resume(Scope.QUEUE, queue.name))
