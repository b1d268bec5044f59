"""Numbers of lanes and policies: remembered when committed, and never forgotten halfway."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from tests.store.postgres.blocking import settlement

from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.errors import StoreUnavailableError
from fencepost.generators import drive
from fencepost.store.interface.control import Edit, NotFound
from fencepost.store.interface.queue import ClaimRequest, Enqueued, LeaseLost, Moved, Settled
from fencepost.store.plan import Row, Statement
from fencepost.store.postgres.jobs import catalog as module
from fencepost.store.postgres.jobs.catalog import ALL_LANES, GET_POLICIES
from fencepost.store.postgres.jobs.claim import CLAIM, claim
from fencepost.store.postgres.store import PostgresStore

pytestmark = pytest.mark.postgres("migrated")

# What a retry does, which does not get that far without the lane.
PUT_AGAIN = """
select fencepost.attach(null, json_build_array(json_build_object(
  'seq', x.seq, 'lane', x.lane, 'was_lane', x.lane, 'state', 0, 'was', 8, 'attempt', 0,
  'lease_version', x.lease_version, 'run_at', x.run_at, 'expires_at', x.expires_at)))
from fencepost.submissions cross join lateral fencepost.detach_done(submissions.seq) as x
"""
JOBS = [NewJob(type="mail", policy=Policy(max_attempts=n)) for n in range(1, 6)]


def test_a_job_that_cannot_be_read_is_failed_and_is_in_nobodys_way(postgres_url: str) -> None:
    """Else every claim that meets it would fail, and each worker end with it."""
    store = PostgresStore(postgres_url)
    store.migrate()
    bad: Any = {"tenant": 7}
    jobs = [NewJob(type="mail", tags=bad), NewJob(type="mail", tags={"tenant": "7"})]
    replies = store.run(store.queue.enqueue(jobs))
    broken, sound = [reply for reply in replies if isinstance(reply, Enqueued)]
    found = store.run(store.queue.claim(ClaimRequest(worker="w", limit=100)))
    assert [job.id for job in found.jobs] == [sound.job_id]
    assert [(moved.job_id, moved.state) for moved in found.corrupt] == [
        (broken.job_id, State.FAILED)
    ]
    store.close()


@pytest.mark.parametrize("knows_the_lane", [False, True])
@pytest.mark.parametrize("damage", ["{", "", '1,{"payload_encoding":0}', '{}],[7,"x"'])
def test_a_payload_that_is_no_json_is_in_nobodys_way(
    postgres_url: str, damage: str, knows_the_lane: bool
) -> None:
    """It is a part of the reply to a claim. No other job of that claim is counted or lost."""
    store = PostgresStore(postgres_url)
    store.migrate()
    request = ClaimRequest(worker="w", limit=100)
    if knows_the_lane:  # then a claim is one statement, and committed when it is answered
        store.run(store.queue.enqueue([NewJob(type="mail")]))
        assert store.run(store.queue.claim(request)).jobs
    replies = store.run(store.queue.enqueue([NewJob(type="mail") for _ in range(3)]))
    first, broken, last = [reply.job_id for reply in replies]
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        update = "update fencepost.submissions set payload = %s where id = %s"
        connection.execute(update, (damage, broken))
    found = store.run(store.queue.claim(request))
    assert [(job.id, job.attempt) for job in found.jobs] == [(first, 1), (last, 1)]
    assert [(moved.job_id, moved.state) for moved in found.corrupt] == [(broken, State.FAILED)]
    for job in found.jobs:
        (reply,) = store.run(store.queue.settle([settlement(job)]))
        assert isinstance(reply, Settled)
    store.close()


def test_a_full_memory_forgets_nothing_that_is_needed_now(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "POLICIES_REMEMBERED_MAX", 2)
    store = PostgresStore(postgres_url)
    store.migrate()
    for batch in (JOBS[:2], [JOBS[0], JOBS[2]], JOBS):
        replies = store.run(store.queue.enqueue(batch))
        assert all(isinstance(reply, Enqueued) for reply in replies)
    found = store.run(store.queue.claim(ClaimRequest(worker="w", limit=100)))
    assert sorted(job.max_attempts for job in found.jobs) == [1, 1, 1, 2, 2, 3, 3, 4, 5]
    assert found.corrupt == []
    store.close()


# A failover to a standby that was behind, a restore or a truncate takes numbers back that living
# processes remember, and gives them to others.

MAIL = NewJob(type="mail", policy=Policy(max_attempts=7))
REPORT = NewJob(type="report", queue="slow", policy=Policy(max_attempts=3))
EMPTY = """
do $$ declare t text; begin
  for t in select tablename from pg_tables
    where schemaname = 'fencepost' and tablename not in ('schema_version', 'function_files') loop
    execute format('truncate fencepost.%I restart identity', t);
  end loop;
end $$
"""


class Fleet:
    """Three living processes of one database, and an administrator who has it lose something."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.caller, self.other, self.worker = (PostgresStore(url) for _ in range(3))
        self.caller.migrate()

    def execute(self, sql: str) -> None:
        with psycopg.connect(self.url) as admin:
            admin.execute(sql.encode())

    def submit(self, store: PostgresStore, *jobs: NewJob) -> list[str]:
        return [reply.job_id for reply in store.run(store.queue.enqueue(jobs))]

    def claimed(self) -> dict[str, tuple[str, str, int]]:
        request = ClaimRequest(worker="w", limit=100)
        found = self.worker.run(self.worker.queue.claim(request))
        return {job.id: (job.type, job.queue, job.policy.max_attempts) for job in found.jobs}

    def close(self) -> None:
        for store in (self.caller, self.other, self.worker):
            store.close()


@pytest.fixture
def fleet(postgres_url: str) -> Iterator[Fleet]:
    fleet = Fleet(postgres_url)
    yield fleet
    fleet.close()


@pytest.mark.parametrize("is_own", [True, False])
def test_a_claim_asks_for_a_new_lane_once_and_for_its_own_never(fleet: Fleet, is_own: bool) -> None:
    """A process knows the lanes that it has made; for those of others it asks once.

    Not in the conformance suite: claims find the job without this, after more round trips.
    """
    assert fleet.claimed() == {}
    fleet.submit(fleet.worker if is_own else fleet.other, NewJob(type="mail"))
    statements: list[str] = []
    with fleet.worker._connections.lend() as session:

        def execute(statement: Statement) -> list[Row]:
            statements.append(statement.sql)
            return session.ask([statement])[0]

        found = drive(claim(fleet.worker._env, ClaimRequest(worker="w", limit=100)), execute)
    assert len(found.jobs) == 1
    asked = [sql for sql in statements if sql != GET_POLICIES]
    assert asked == ([CLAIM] if is_own else [CLAIM, ALL_LANES, CLAIM])


def _plainly(fleet: Fleet, job: NewJob) -> str:
    return fleet.submit(fleet.caller, job)[0]


def _awaited(fleet: Fleet, job: NewJob) -> str:
    store = fleet.caller

    async def submit() -> str:
        many = (store.run_async(store.queue.enqueue([job])) for _ in range(3))
        return [reply.job_id for [reply] in await asyncio.gather(*many)][-1]

    return asyncio.run(submit())


def _with_a_key(fleet: Fleet, job: NewJob) -> str:
    return fleet.submit(fleet.caller, replace(job, key=Key("k")))[0]


def _in_a_flow(fleet: Fleet, job: NewJob) -> str:
    return fleet.submit(fleet.caller, replace(job, flow="f", node="n"))[0]


def _joined(fleet: Fleet, job: NewJob) -> str:
    with psycopg.connect(fleet.url) as connection:
        [reply] = fleet.caller.run_in(connection, lambda store: store.queue.enqueue([job]))
    return reply.job_id


WAYS: dict[str, Callable[[Fleet, NewJob], str]] = {
    "plainly": _plainly,
    "awaited": _awaited,
    "with a key": _with_a_key,
    "in a flow": _in_a_flow,
    "joined": _joined,
}


@pytest.mark.parametrize("way", WAYS)
def test_a_living_process_notices_that_its_numbers_were_lost(fleet: Fleet, way: str) -> None:
    """S0-1, INV-17: an acknowledged job is found and claimed as what it is, and nothing else is."""
    fleet.submit(fleet.caller, MAIL, REPORT)
    assert len(fleet.claimed()) == 2
    fleet.execute(EMPTY)
    [report] = fleet.submit(fleet.other, REPORT)  # the first to be numbered now
    mail = WAYS[way](fleet, MAIL)
    claimed = fleet.claimed()
    assert claimed[report] == ("report", "slow", 3)
    assert claimed[mail] == ("mail", "default", 7)
    [job] = fleet.other.run(fleet.other.reader.get([mail]))
    assert job is not None
    assert (job.type, job.policy) == ("mail", MAIL.policy)


def test_a_callers_transaction_fails_once_if_numbers_were_lost_under_it(fleet: Fleet) -> None:
    """A truncate does not end connections: what was lost is forgotten, and the next succeeds."""
    with psycopg.connect(fleet.url) as connection:
        fleet.caller.run_in(connection, lambda store: store.queue.enqueue([MAIL]))
        connection.commit()
        fleet.execute(EMPTY)
        with pytest.raises(StoreUnavailableError, match="has lost what this process remembers"):
            fleet.caller.run_in(connection, lambda store: store.queue.enqueue([MAIL]))
        connection.rollback()
        [reply] = fleet.caller.run_in(connection, lambda store: store.queue.enqueue([MAIL]))
    assert fleet.claimed() == {reply.job_id: ("mail", "default", 7)}


def test_a_worker_learns_lanes_that_came_for_others_that_were_lost(fleet: Fleet) -> None:
    """S0-1: as many as before, but not the same."""
    for store in (fleet.caller, fleet.worker):
        fleet.submit(store, MAIL, REPORT)
    assert len(fleet.claimed()) == 4
    fleet.execute(EMPTY)
    kinds = [NewJob(type="call"), NewJob(type="fax")]
    wanted = dict(zip(fleet.submit(fleet.other, *kinds), ("call", "fax"), strict=True))
    assert {job: type_ for job, (type_, *_) in fleet.claimed().items()} == wanted


def test_a_lane_has_the_same_number_whenever_it_is_made(fleet: Fleet, postgres_url: str) -> None:
    """A number that somebody remembers never comes to mean another lane or policy."""
    numbers = "select lane, queue, type from fencepost.lanes order by 1"
    policies = "select policy, body from fencepost.policies order by 1"
    with psycopg.connect(postgres_url, autocommit=True) as admin:
        fleet.submit(fleet.caller, MAIL, REPORT)
        before = admin.execute(numbers).fetchall(), admin.execute(policies).fetchall()
        admin.execute(EMPTY.encode())
        fleet.submit(fleet.other, REPORT)
        fleet.submit(fleet.other, MAIL)
        assert (admin.execute(numbers).fetchall(), admin.execute(policies).fetchall()) == before


def test_two_lanes_whose_names_give_the_same_number_get_two(fleet: Fleet) -> None:
    fleet.execute(
        "create or replace function fencepost.number_of(p_name text, p_try integer) "
        "returns integer language sql as 'select 7 + p_try'"
    )
    jobs = [MAIL, REPORT, NewJob(type="call", policy=Policy(max_attempts=2))]
    ids = fleet.submit(fleet.caller, *jobs)
    claimed = fleet.claimed()
    assert [claimed[each] for each in ids] == [
        (job.type, job.queue, job.policy.max_attempts) for job in jobs
    ]


def test_an_edit_after_a_loss_makes_the_lane_that_it_needs(fleet: Fleet) -> None:
    fleet.submit(fleet.caller, MAIL, replace(MAIL, priority=Priority.LOW))
    fleet.execute("delete from fencepost.lanes where priority <> 2; delete from fencepost.ready")
    [mail] = fleet.submit(fleet.other, MAIL)
    fleet.caller.run(fleet.caller.control.edit([Edit(mail, Priority.LOW)]))
    assert mail in fleet.claimed()


def test_a_job_whose_lane_is_missing_stops_no_claim_and_comes_back_with_it(fleet: Fleet) -> None:
    """Somebody deleted the row: others go on, and a submission of the same kind makes it again."""
    lost = fleet.submit(fleet.caller, MAIL, replace(MAIL, delay=0.001))
    request = ClaimRequest(worker="w", limit=1, lease_ttl=0.001)
    fleet.caller.run(fleet.caller.queue.claim(request))
    fleet.execute("delete from fencepost.lanes")
    late = PostgresStore(fleet.url)
    late.run(late.queue.claim(request))
    late.close()
    [report] = fleet.submit(fleet.other, REPORT)
    assert list(fleet.claimed()) == [report]
    fleet.submit(fleet.other, MAIL)
    fleet.execute("update fencepost.delayed set run_at = now() - interval '1 second'")
    assert {*lost} & {*fleet.claimed()}


def test_upkeep_goes_past_jobs_whose_lane_is_missing(fleet: Fleet) -> None:
    """A process that never knew the lane cannot name it, and does for the others what is due."""
    held = fleet.submit(fleet.caller, *[replace(MAIL, type="held")] * 2)
    request = ClaimRequest(worker="w", limit=2, lease_ttl=0.001)
    assert len(fleet.caller.run(fleet.caller.queue.claim(request)).jobs) == 2
    late, mortal = replace(MAIL, delay=0.001), replace(MAIL, policy=Policy(lifetime=0.001))
    kinds = [replace(job, type=type_) for type_ in ("mail", "report") for job in (late, mortal)]
    others = fleet.submit(fleet.caller, *kinds)
    fleet.execute("delete from fencepost.lanes where type in ('mail', 'held')")
    store = PostgresStore(fleet.url)
    try:
        passes = (store.upkeep.recover, store.upkeep.promote, store.upkeep.expire)
        moved = [each for pass_ in passes for each in store.run(pass_(10))]
    finally:
        store.close()
    assert {*others, *held} == {each.job_id for each in moved}


LOOKUPS = " + ".join(
    f"(select count(*) from fencepost.{table})"
    for table in ("pending", "ready", "delayed", "leases", "done")
)
KEYED = replace(MAIL, concurrency_key="k", policy=Policy(max_running_per_key=1))


@pytest.mark.parametrize("way", ["promoted", "let go", "retried"])
def test_a_job_with_a_concurrency_key_whose_lane_is_missing_is_not_lost(
    fleet: Fleet, way: str
) -> None:
    """It is put down somewhere, and comes back with its lane."""
    store = fleet.caller
    [first] = fleet.submit(store, REPORT)
    [report] = store.run(store.queue.claim(ClaimRequest(worker="w", limit=1))).jobs
    after = Dependencies((first,)) if way == "let go" else None
    [keyed] = fleet.submit(store, replace(KEYED, delay=way == "promoted", after=after))
    if way == "retried":
        store.run(store.control.cancel([keyed]))
    deleted = (
        "delete from fencepost.lanes where type = 'mail' returning lane, queue, type, priority"
    )
    with psycopg.connect(fleet.url, autocommit=True) as admin:
        row = admin.execute(deleted).fetchone()
        assert row is not None
        admin.execute("update fencepost.delayed set run_at = now() - interval '1 second'")
        if way == "promoted":
            store.run(store.upkeep.promote(10))
        elif way == "retried":
            admin.execute(PUT_AGAIN)
            admin.execute(
                "insert into fencepost.freed_slots select slot, 0 from fencepost.keyed_jobs"
            )
        store.run(store.queue.settle([settlement(report)]))
        assert admin.execute(f"select {LOOKUPS}".encode()).fetchone() == (2,)
        back = "insert into fencepost.lanes(lane, queue, type, priority) values (%s, %s, %s, %s)"
        admin.execute(back, row)
    assert list(fleet.claimed()) == [keyed]


def test_a_job_that_stands_nowhere_keeps_no_others_from_ending(fleet: Fleet) -> None:
    """Somebody deleted its row, or it was lost: nobody finds it, however often they look."""
    store = fleet.caller
    short = replace(MAIL, policy=Policy(lifetime=0.1))
    lost, other, third = fleet.submit(store, short, short, MAIL)
    fleet.execute("delete from fencepost.ready where seq = (select min(seq) from fencepost.ready)")
    store.clock.sleep(0.2)
    assert [moved.job_id for moved in store.run(store.upkeep.expire(10))] == [other]
    replies = store.run(store.control.cancel([lost, third]))
    assert [type(reply) for reply in replies] == [NotFound, Moved]


def test_a_running_job_that_was_lost_keeps_no_others_from_being_settled(fleet: Fleet) -> None:
    store = fleet.caller
    fleet.submit(store, MAIL, REPORT)
    lost, other = store.run(store.queue.claim(ClaimRequest(worker="w", limit=2))).jobs
    first = "(select min(seq) from fencepost.submissions)"
    fleet.execute(f"delete from fencepost.leases where seqs = array[{first}]")
    replies = store.run(store.queue.settle([settlement(lost), settlement(other)]))
    assert [type(reply) for reply in replies] == [LeaseLost, Settled]
