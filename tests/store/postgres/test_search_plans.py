"""How PostgreSQL finds what is looked for: by the index that was made for it.

Store-specific: a plan that reads a whole table gives the right answer, and takes seconds once there
are a million jobs. Plans are compared, not times.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest
from tests.servers.fixtures import Databases, postgres_sources

from fencepost.clock import SystemClock
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.listing import FlowRequest
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.generators import drive
from fencepost.store.chores import Chores
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.postgres.engine import schema
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.engine.url import parse
from fencepost.store.postgres.flows.listing import FLOWS
from fencepost.store.postgres.jobs import claim as claiming
from fencepost.store.postgres.jobs import read as looking
from fencepost.store.postgres.jobs import search as searching
from fencepost.store.postgres.jobs import upkeep
from fencepost.store.postgres.jobs.catalog import Catalog, Env
from fencepost.store.postgres.jobs.upkeep import TidyRounds
from fencepost.store.postgres.store import PostgresStore


def environment() -> Env:
    clock = SystemClock()
    nowhere = Connections(parse("postgresql://localhost/nowhere"), clock=clock, patience=1.0)
    return Env(clock, Catalog(), Chores(clock), TidyRounds(), nowhere)


ENV = environment()
PAGE = PageRequest(50)
HOT = {"submissions", "done", "ready"}
"""The tables that grow: nothing reads one of them whole."""

# In the order of submission: 20,000 that ended, 20,000 in line, 3,000 that wait, 200 that run.
FILL = """
insert into fencepost.lanes(lane, queue, type, priority)
select row_number() over (), 'default', type, priority
from unnest(array['mail', 'rare']) as type, unnest(array[2, 3]) as priority;
insert into fencepost.policies(policy, body, timeout) values (1, '{}', 1800000000);
insert into fencepost.submissions(
  seq, id, created_at, run_at, expires_at, lane, policy, max_attempts, payload, correlation_id,
  tags)
select n, gen_random_uuid(), t, t, t + interval '30 days', case when n % 500 = 7 then l.rare
  else l.mail end, 1, 3, '{}', case when n % 100 = 3 then 'c' || n / 1000 end,
  case when n % 100 = 0 then jsonb_build_object('common', '1', 'rare', n::text) end
from generate_series(1, 43200) as n, lateral (select now() + n * interval '1 ms' as t) as x, (
  select min(lane) filter (where type = 'mail') as mail,
    min(lane) filter (where type = 'rare') as rare from fencepost.lanes
) as l;
insert into fencepost.done(
  seq, completed_at, started_at, attempt, lease_version, state, is_dead_letter, worker, failure)
select seq, created_at, created_at, 1, 1, case when seq % 20 < 3 then 6 + seq % 20 else 5 end,
  case when seq % 20 < 2 then true end, 'w', null
from fencepost.submissions where seq <= 20000;
insert into fencepost.delayed(seq, run_at, updated_at, lane, attempt, lease_version, state)
select seq, run_at + interval '1 day', run_at, lane, 0, 0, 2
from fencepost.submissions where seq between 20001 and 23000;
insert into fencepost.leases(
  lease_token, part, lane, started_at, expires_at, worker, seqs, lease_ttl, deadline)
select gen_random_uuid(), 1, min(lane), now(), now() + interval '1 day', 'w', array_agg(seq),
  30000000, now() + interval '1 day'
from fencepost.submissions where seq between 23001 and 23200 group by seq / 50;
insert into fencepost.ready(run_at, seq, lane)
select run_at, seq, lane from fencepost.submissions where seq > 23200;
insert into fencepost.counters(lane, state, count)
select j.lane, case when j.seq > 23200 then 1 when j.seq > 23000 then 3
  when j.seq > 20000 then 2 else done.state end, count(*)
from fencepost.submissions j left join fencepost.done on done.seq = j.seq group by 1, 2;
analyze;
"""
# In this transaction.
READ_SO_FAR = """
select sum(pg_stat_get_xact_tuples_fetched(c.oid) + pg_stat_get_xact_tuples_returned(c.oid))::bigint
from pg_class c left join pg_index i on i.indexrelid = c.oid
where coalesce(i.indrelid, c.oid) = any (%s::regclass[])
"""


class Explainer:
    """Executes the statements of a plan, and notes how the server does each."""

    def __init__(self, session: ServerSession) -> None:
        self._session = session
        self.reads: set[tuple[str, str]] = set()
        """Table, and the index by which it is read, or ``whole``."""

    def execute(self, statement: Statement) -> list[Row]:
        explain = Statement(f"explain (format json) {statement.sql}", statement.params)
        ((plans,),) = self._session.ask([explain])[0]
        for plan in plans:
            self._note(plan["Plan"], None)
        return self._session.ask([statement])[0]

    def _note(self, node: dict[str, Any], table: str | None) -> None:
        table = node.get("Relation Name", table)
        if table is not None and "Index Name" in node:
            self.reads.add((table, node["Index Name"]))
        elif node["Node Type"].endswith("Seq Scan"):
            self.reads.add((node["Relation Name"], "whole"))
        for child in node.get("Plans", ()):
            # A bitmap of an index does not say of which table it is; its parent does.
            is_bitmap = node["Node Type"].startswith("Bitmap")
            self._note(child, table if is_bitmap else None)

    @property
    def read_whole(self) -> set[str]:
        return {table for table, how in self.reads if how == "whole"}


@pytest.fixture(scope="module", params=postgres_sources())
def filled(request: pytest.FixtureRequest, postgres_databases: Databases) -> Iterator[str]:
    """Return the URL of a database with jobs in it, which no test changes."""
    server = postgres_databases.server(request.param)
    name = f"fencepost_plans_{uuid.uuid4().hex[:8]}"
    url = server.create_database(name)
    try:
        with psycopg.connect(url, autocommit=True) as admin:
            schema.apply(admin)
            admin.execute(FILL.encode())
        yield url
    finally:
        server.drop_database(name)


@pytest.fixture
def session(filled: str) -> Iterator[ServerSession]:
    """Return a session in a transaction that is rolled back."""
    session = ServerSession.connect(filled, autocommit=True, prepare_threshold=None)
    session.execute("begin isolation level repeatable read")
    yield session
    session.close()


@pytest.fixture
def explainer(session: ServerSession) -> Explainer:
    return Explainer(session)


def explained(explainer: Explainer, plan: Plan[Any]) -> Any:
    return drive(plan, explainer.execute)


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ({}, {("submissions", "submissions_pkey")}),
        ({"states": (State.COMPLETED,)}, {("done", "done_pkey")}),
        ({"states": (State.FAILED,)}, {("done", "done_unsuccessful")}),
        ({"states": (State.DEAD_LETTER, State.FAILED)}, {("done", "done_unsuccessful")}),
        ({"states": (State.DELAYED,)}, {("delayed", "delayed_pkey")}),
        ({"states": (State.RUNNING,)}, {("leases", "whole")}),
        (
            {"states": (State.SCHEDULED,)},
            {("submissions", "submissions_pkey"), ("ready", "ready_pkey")},
        ),
        (
            {"states": (State.SCHEDULED, State.RUNNING, State.COMPLETED)},
            {("submissions", "submissions_pkey"), ("ready", "ready_pkey"), ("done", "done_pkey")},
        ),
        ({"type": "mail"}, {("submissions", "submissions_pkey")}),
        ({"type": "mail", "states": (State.SCHEDULED,)}, {("ready", "ready_pkey")}),
        ({"type": "rare", "states": (State.SCHEDULED,)}, {("ready", "ready_pkey")}),
        ({"tags": {"common": "1"}}, {("submissions", "submissions_pkey")}),
        ({"tags": {"rare": "500"}}, {("submissions", "submissions_tags")}),
        (
            {"tags": {"rare": "500"}, "states": (State.FAILED,)},
            {("submissions", "submissions_tags")},
        ),
        ({"type": "rare"}, {("submissions", "submissions_lane")}),
        ({"type": "rare", "states": (State.COMPLETED,)}, {("submissions", "submissions_lane")}),
        ({"correlation_id": "c5"}, {("submissions", "submissions_correlation")}),
        ({"id_prefix": "3f2"}, {("submissions", "submissions_id")}),
        (
            {"correlation_id": "c5", "states": (State.FAILED,)},
            {("submissions", "submissions_correlation")},
        ),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_page_is_read_by_an_index(
    explainer: Explainer, conditions: dict[str, Any], expected: set[tuple[str, str]]
) -> None:
    seqs = explained(explainer, searching.find(JobFilter(**conditions), PAGE))
    assert seqs == sorted(seqs, reverse=True)
    assert seqs or conditions.get("correlation_id")
    assert expected <= explainer.reads
    assert not explainer.read_whole & HOT


@pytest.mark.parametrize("request_", [FlowRequest(), FlowRequest(kind="live", queues=("default",))])
def test_flows_are_read_by_their_index_and_their_jobs_one_by_one(
    session: ServerSession, explainer: Explainer, request_: FlowRequest
) -> None:
    session.execute("""
update fencepost.submissions set flow = 'f' || lpad((seq / 10)::text, 6, '0') where seq % 2 = 0
""")
    found = explained(explainer, FLOWS.flows(ENV, request_))
    assert [flow.id for flow in found.flows] == [f"f{4_320 - n:06}" for n in range(50)]
    assert sum(found.flows[1].counts.values()) == 5
    assert ("submissions", "submissions_flow") in explainer.reads
    assert not explainer.read_whole & HOT


def test_the_next_page_is_as_cheap_as_the_first(explainer: Explainer) -> None:
    seqs = explained(explainer, searching.find(JobFilter(), PageRequest(50, after=30_000)))
    assert seqs == list(range(29_999, 29_948, -1))
    assert explainer.reads == {("submissions", "submissions_pkey")}


def test_few_claimable_jobs_are_sorted_rather_than_looked_for(
    session: ServerSession, explainer: Explainer
) -> None:
    """Far down in a long history, to walk to them would take for ever."""
    session.execute("delete from fencepost.ready where seq <> 40000")
    session.execute("delete from fencepost.counters where state = 1")
    session.execute("insert into fencepost.counters(lane, state, count) values (1, 1, 1)")
    found = explained(explainer, searching.find(JobFilter(states=(State.SCHEDULED,)), PAGE))
    assert found == [40_000]
    assert {table for table, _ in explainer.reads} == {
        "counters",
        "counter_totals",
        "lanes",
        "ready",
    }


def test_what_the_newest_do_not_show_is_found_in_its_own_table(
    session: ServerSession, explainer: Explainer
) -> None:
    """The newest twenty thousand are in line; those that ended are found below them."""
    filter = JobFilter(type="mail", states=(State.FAILED, State.CANCELLED))
    found = explained(explainer, searching.find(filter, PAGE))
    assert len(found) == PAGE.limit + 1
    assert max(found) <= 20_000
    assert ("done", "done_unsuccessful") in explainer.reads
    assert not explainer.read_whole & HOT


def test_the_jobs_of_a_page_are_shown_without_reading_a_table(explainer: Explainer) -> None:
    for states in ((), *((state,) for state in State)):
        page = explained(explainer, looking.READER.find(ENV, JobFilter(states=states), PAGE))
        assert all(job.state in states for job in page.jobs if states)
    assert not explainer.read_whole & HOT


def test_jobs_are_got_by_their_ids(session: ServerSession, explainer: Explainer) -> None:
    row = session.execute(
        "select array_agg(id::text) from fencepost.submissions where seq < 20"
    ).fetchone()
    assert row is not None
    assert all(explained(explainer, looking.READER.get(ENV, row[0])))
    assert ("submissions", "submissions_id") in explainer.reads
    assert not explainer.read_whole & HOT


def test_counts_come_from_the_counters(explainer: Explainer) -> None:
    assert explained(explainer, searching.count(ENV, JobFilter())) == 43_200
    assert (
        explained(explainer, searching.count(ENV, JobFilter(states=(State.SCHEDULED,)))) == 20_000
    )
    assert (
        explained(explainer, searching.count(ENV, JobFilter(type="mail", queue="default")))
        == 43_113
    )
    assert {table for table, _ in explainer.reads} <= {"counters", "counter_totals", "lanes"}
    assert explained(explainer, searching.count(ENV, JobFilter(tags={"rare": "500"}))) == 1
    assert ("submissions", "submissions_tags") in explainer.reads


def test_dead_letters_come_from_their_index(explainer: Explainer) -> None:
    page = explained(explainer, looking.READER.dead_letters(ENV, None, PAGE))
    assert len(page.letters) == PAGE.limit
    older = PageRequest(50, page.next)
    following = explained(explainer, looking.READER.dead_letters(ENV, "mail", older))
    assert following.letters[0].completed_at < page.letters[-1].completed_at
    assert ("done", "done_dead") in explainer.reads
    assert not explainer.read_whole & HOT


def test_the_line_ahead_is_counted_in_the_lane(
    session: ServerSession, explainer: Explainer
) -> None:
    ((last,),) = session.execute(
        "select id::text from fencepost.submissions where seq = 43200"
    ).fetchall()
    situation = explained(explainer, looking.READER.situation(ENV, last))
    assert situation.jobs_ahead == 1000
    assert ("ready", "ready_pkey") in explainer.reads
    assert not explainer.read_whole & HOT


@pytest.mark.parametrize(
    "plan",
    [
        lambda env: upkeep.expire(env, 10),
        lambda env: upkeep.recover(env, 10),
        lambda env: upkeep.promote(env, 10),
        lambda env: upkeep.tidy_once(env, True),
        lambda env: claiming.claim(env, ClaimRequest(worker="w", limit=10)),
    ],
    ids=["expire", "recover", "promote", "tidy", "claim"],
)
def test_what_is_done_all_the_time_reads_few_rows(
    session: ServerSession, plan: Callable[[Env], Plan[Any]]
) -> None:
    """Also inside functions, where no plan is shown. Forty thousand rows are there to be read."""
    tables = [f"fencepost.{table}" for table in sorted(HOT)]
    count = Statement(READ_SO_FAR, (tables,))
    ((before,),) = session.ask([count])[0]
    drive(plan(environment()), _Plain(session).execute)
    ((after,),) = session.ask([count])[0]
    assert after - before < 500


@pytest.mark.parametrize("few", [1, 5, 50])
def test_a_plan_made_while_there_were_few_jobs_serves_for_many(postgres_url: str, few: int) -> None:
    """A session keeps its plans until the next `analyze`, and a worker claims for days."""
    store = PostgresStore(postgres_url)
    store.migrate()
    env = environment()
    tables = [f"fencepost.{table}" for table in sorted(HOT)]
    count = Statement(READ_SO_FAR, (tables,))

    def claim(session: ServerSession) -> None:
        request = ClaimRequest(worker="w", limit=10)
        drive(claiming.claim(env, request), _Plain(session).execute)

    with ServerSession.connect(postgres_url, autocommit=True, prepare_threshold=None) as session:
        store.run(store.queue.enqueue([NewJob(type="mail")] * few))
        session.execute("analyze")
        for _ in range(3):
            claim(session)
        store.run(store.queue.enqueue([NewJob(type="mail")] * 2_000))
        session.execute("begin")
        ((before,),) = session.ask([count])[0]
        claim(session)
        ((after,),) = session.ask([count])[0]
        session.execute("rollback")
    store.close()
    assert after - before < 500


class _Plain:
    def __init__(self, session: ServerSession) -> None:
        self._session = session

    def execute(self, statement: Statement) -> list[Row]:
        return self._session.ask([statement])[0]
