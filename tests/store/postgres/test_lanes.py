"""Lanes on PostgreSQL: who looks at them, and what removes them while others are under way.

PostgreSQL-specific: here claims and submissions run beside the removal, and remember numbers.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from fencepost.core.bounds import LANE_IDLE
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.settings import Scope
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.postgres.jobs import claim as claiming
from fencepost.store.postgres.store import PostgresStore
from fencepost.testing.clock import FakeClock

pytestmark = pytest.mark.postgres("quiet", "migrated")

LANES_READ = """
select seq_tup_read + idx_tup_fetch from pg_stat_xact_user_tables
where schemaname = 'fencepost' and relname = 'lanes'
"""
FOREIGN = """
select fencepost.lane_number('q' || n %% %s, 't' || n, 2) from generate_series(%s::integer, %s) as n
"""
PASSES = 6
PATIENCE = 60
DONE = Body(b"null")


class Rig:
    def __init__(self, url: str) -> None:
        self.url = url
        self.clock = FakeClock()
        self.store = PostgresStore(url, clock=self.clock)
        self.store.migrate()

    def submit(self, *jobs: NewJob) -> list[str]:
        return [reply.job_id for reply in self.store.run(self.store.queue.enqueue(jobs))]

    def claim(self, **fields: Any) -> list[str]:
        request = ClaimRequest(worker="w", limit=100, **fields)
        return [job.id for job in self.store.run(self.store.queue.claim(request)).jobs]

    def finish(self) -> None:
        claim = self.store.run(self.store.queue.claim(ClaimRequest(worker="w", limit=100)))
        settled = [
            Settlement(job.id, job.lease.token, decide(job, Succeeded(DONE), self.clock.rng))
            for job in claim.jobs
        ]
        self.store.run(self.store.queue.settle(settled))

    def prune(self, passes: int = PASSES, *, tidies: bool = True) -> None:
        for _ in range(passes):
            self.clock.advance(LANE_IDLE)
            if tidies:
                self.store.run(self.store.upkeep.tidy())
            request = PruneRequest(keep=dict.fromkeys(State, 60.0), limit=100)
            self.store.run(self.store.upkeep.prune(request))

    def remove_lanes(self) -> None:
        """Prune until there are no lanes; transactions of other tests may hold that up."""
        self.prune()
        deadline = time.monotonic() + PATIENCE
        while self.lanes() and time.monotonic() < deadline:
            time.sleep(0.1)
            self.prune(1)
        assert self.lanes() == []

    def lanes(self) -> list[str]:
        with psycopg.connect(self.url) as connection:
            return [row[0] for row in connection.execute("select type from fencepost.lanes")]

    def lanes_read(self, request: ClaimRequest) -> int:
        """Return how many rows of lanes the server reads for a claim."""
        self.store.run(self.store.queue.claim(request))  # which learns the lanes that are asked for
        lease_token = self.clock.new_id().hex()
        params = claiming._params(self.store._env, request, lease_token, 7, 100, asks=True)
        with psycopg.connect(self.url) as connection:
            [(text,)] = connection.execute(claiming.CLAIM, params).fetchall()
            assert "todo" not in text
            [(count,)] = connection.execute(LANES_READ).fetchall()
            connection.rollback()
        return int(count)

    def add_foreign(self, first: int, last: int, queues: int) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(FOREIGN, (queues, first, last))
            connection.execute("analyze fencepost.lanes")


@pytest.fixture
def rig(postgres_url: str) -> Iterator[Rig]:
    rig = Rig(postgres_url)
    yield rig
    rig.store.close()


ASKED = {
    "both": ({"mine": 1}, frozenset({"mail"})),
    "types": (None, frozenset({"mail"})),
    "queues": ({"mine": 1}, None),
}


@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("is_paused", [False, True])
def test_a_claim_reads_no_lanes_that_it_does_not_ask_for(
    rig: Rig, asked: str, is_paused: bool
) -> None:
    """However many names others make up."""
    queues, types = ASKED[asked]
    rig.submit(NewJob(type="mail", queue="mine"))
    if is_paused:
        rig.store.run(rig.store.settings.pause(Scope.TYPE, "other"))
    request = ClaimRequest(worker="w", limit=0, queues=queues, types=types)
    rig.add_foreign(1, 10, queues=3)
    few = rig.lanes_read(request)
    assert few > 0
    rig.add_foreign(11, 1000, queues=300)
    assert rig.lanes_read(request) == few
    catalog = rig.store._env.catalog
    assert len(catalog.view("these", lambda lanes: lanes.of(queues, types))) == 1


@pytest.mark.parametrize("what", ["queue", "type"])
def test_names_that_share_one_half_are_not_read_either(rig: Rig, what: str) -> None:
    """New types in the worker's own queue, and its own type in new queues."""
    rig.submit(NewJob(type="mail", queue="mine"))
    request = ClaimRequest(worker="w", limit=0, queues={"mine": 1}, types=frozenset({"mail"}))
    few = rig.lanes_read(request)
    new = "'mine', 'x' || n" if what == "queue" else "'x' || n, 'mail'"
    with psycopg.connect(rig.url, autocommit=True) as connection:
        sql = f"select fencepost.lane_number({new}, 2) from generate_series(1, 1000) as n"
        connection.execute(sql.encode())
        connection.execute("analyze fencepost.lanes")
    assert rig.lanes_read(request) == few


def test_a_submission_under_way_keeps_its_lane(rig: Rig) -> None:
    """S0-1: it has seen its lane before that was retired, and stores its job after all passes."""
    rig.submit(NewJob(type="mail"))
    rig.finish()
    rig.prune(1)
    with psycopg.connect(rig.url) as connection:
        [(lane, policy)] = connection.execute(
            "select lanes.lane, policies.policy from fencepost.lanes, fencepost.policies"
        ).fetchall()
        connection.execute("select fencepost.check_numbers(%s, %s)", (lane, policy))
        rig.prune()
        assert rig.lanes() == ["mail"]
        id_ = rig.clock.new_id()
        connection.execute(
            "with j as (insert into fencepost.submissions(seq, id, created_at, run_at, expires_at,"
            " lane, policy, max_attempts, payload) select nextval('fencepost.seq'), %s,"
            " %s::timestamptz, %s, %s::timestamptz + interval '1 day', %s, %s, 3, '[[],{}]'"
            " returning seq, run_at)"
            " insert into fencepost.ready(lane, run_at, seq) select %s, run_at, seq from j",
            (id_.hex(), rig.clock.now(), rig.clock.now(), rig.clock.now(), lane, policy, lane),
        )
        connection.execute(
            "insert into fencepost.counters(lane, state, count) values (%s, 1, 1)", (lane,)
        )
    rig.prune(2)
    assert rig.lanes() == ["mail"]
    assert len(rig.claim(types=frozenset({"mail"}))) == 1


def test_nothing_is_stored_in_a_lane_that_is_about_to_be_removed(rig: Rig) -> None:
    """S0-1: nobody waits for who comes after the fence, so that they are refused."""
    rig.submit(NewJob(type="mail"))
    rig.finish()
    with psycopg.connect(rig.url, autocommit=True) as connection:
        fenced: list[tuple[int, int]] = []
        for _ in range(PASSES):
            rig.prune(1)
            fenced = connection.execute(
                "select lanes.lane, policies.policy from fencepost.lanes, fencepost.policies"
                " where fence is not null"
            ).fetchall()
            if fenced:
                break
        with pytest.raises(psycopg.Error) as caught:
            connection.execute("select fencepost.check_numbers(%s, %s)", fenced[0])
    assert caught.value.sqlstate == "FP001"
    [job_id] = rig.submit(NewJob(type="mail"))  # which revives it
    rig.prune(3)
    assert rig.claim() == [job_id]


def test_a_transaction_that_looks_at_the_past_stores_nothing_in_a_removed_lane(rig: Rig) -> None:
    """S0-1: to it, the lane is still there."""
    rig.submit(NewJob(type="mail"))
    rig.finish()
    with psycopg.connect(rig.url) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        sql = "select lanes.lane, policies.policy from fencepost.lanes, fencepost.policies"
        [numbers] = connection.execute(sql).fetchall()
        rig.remove_lanes()
        with pytest.raises(psycopg.errors.SerializationFailure):
            connection.execute("select fencepost.check_numbers(%s, %s)", numbers)


def test_a_callers_transaction_meets_no_removed_lane(rig: Rig) -> None:
    """On a connection that lives on; a statement that is refused takes its work with it."""
    job = NewJob(type="mail")
    with psycopg.connect(rig.url) as connection:
        with connection.transaction():
            rig.store.run_in(connection, lambda store: store.queue.enqueue([job]))
        rig.finish()
        rig.remove_lanes()
        with connection.transaction():
            [reply] = rig.store.run_in(connection, lambda store: store.queue.enqueue([job]))
    assert rig.claim() == [reply.job_id]


def test_counts_do_not_outlive_a_lane(rig: Rig) -> None:
    """What was not added up yet is waited for: the sum of all that is left is nothing."""
    rig.submit(NewJob(type="mail"))
    rig.finish()
    rig.prune(tidies=False)
    assert rig.lanes() == ["mail"]
    rig.remove_lanes()
    with psycopg.connect(rig.url) as connection:
        for table in ("lanes", "lane_marks", "counter_totals", "counters"):
            [(count,)] = connection.execute(f"select count(*) from fencepost.{table}".encode())
            assert (table, count) == (table, 0)
