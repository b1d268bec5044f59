"""Running operations over a real connection, on bad days too. PostgreSQL-specific: its driver."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from msgspec.structs import replace
from psycopg.rows import dict_row
from tests.store.postgres.conftest import Admin, Connect
from tests.store.postgres.cutting import Proxy

from fencepost.errors import (
    DuplicateJobError,
    ForkedStoreError,
    InvalidJobError,
    SchemaError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Statement
from fencepost.store.postgres.engine.connections import Connections
from fencepost.store.postgres.engine.group_commit import GroupRunner
from fencepost.store.postgres.engine.runner import CONFLICTS_MAX, Runner
from fencepost.store.postgres.engine.session import ServerSession
from fencepost.store.postgres.joins.transaction import run_in, run_in_async
from fencepost.testing.clock import FakeClock

NOTE = "insert into public.note values (%s) returning text"
XID = Statement("select pg_current_xact_id()::text", alone=True)
COMMITS_LATE = Statement("show synchronous_commit", alone=True)
SUICIDE = "select pg_terminate_backend(pg_backend_pid()), pg_sleep(10)"

Asked = list[list[Statement]]


def operation(
    *statements: Statement, effect: Effect = Effect.WRITE, before: Callable[[int], object] = id
) -> Operation[list[Any]]:
    """Return an operation that executes *statements*; *before* is called with each one's index."""

    def plan() -> Plan[list[Any]]:
        rows: list[Any] = []
        for index, statement in enumerate(statements):
            before(index)
            rows.append((yield statement))
        before(len(statements))
        return rows

    return Operation(Declaration("test", effect), plan)


def note(text: str, *, alone: bool = True) -> Statement:
    return Statement(NOTE, (text,), alone=alone)


def notes(admin: Admin) -> list[str]:
    return [text for (text,) in admin.execute("select text from public.note order by text")]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Asked:
    """Every round trip, as the statements that it carries."""
    trips: Asked = []
    ask = ServerSession.ask

    def record(self: ServerSession, statements: list[Statement], *postscript: Any) -> Any:
        trips.append(list(statements))
        return ask(self, statements, *postscript)

    monkeypatch.setattr(ServerSession, "ask", record)
    return trips


@contextmanager
def grouping(connections: Connections, threads: int = 2) -> Iterator[GroupRunner]:
    runner = GroupRunner(connections, threads=threads)
    try:
        yield runner
    finally:
        runner.close()


async def gather(runner: GroupRunner, *operations: Operation[Any]) -> list[Any]:
    return await asyncio.gather(*map(runner.run, operations), return_exceptions=True)


# In the calling thread.


def test_an_alone_statement_takes_one_round_trip(
    connections: Connections, asked: Asked, admin: Admin
) -> None:
    runner = Runner(connections)
    assert runner.run(operation(note("a"))) == [[("a",)]]
    del asked[:]
    assert runner.run(operation(note("b"))) == [[("b",)]]
    assert len(asked) == 1
    assert notes(admin) == ["a", "b"]


def test_a_plan_that_goes_on_does_so_in_a_transaction(
    connections: Connections, asked: Asked
) -> None:
    with connections.lend():
        del asked[:]
    runner = Runner(connections)
    runner.run(operation(note("a"), note("b"), note("c")))
    assert [len(trip) for trip in asked] == [1, 2, 1, 1]
    assert [trip[0].sql for trip in asked][1::2] == ["begin", "commit"]


def test_a_plan_prepares_its_next_statement_while_the_server_is_at_one(
    connections: Connections,
) -> None:
    called: list[int] = []

    def look(number: int) -> Statement:
        return replace(note(str(number)), meanwhile=lambda: called.append(number))

    before: list[list[int]] = []
    first = replace(look(0), alone=False)
    plan = operation(first, look(1), before=lambda _: before.append(list(called)))
    assert Runner(connections).run(plan) == [[("0",)], [("1",)]]
    assert before == [[], [0], [0, 1]]
    assert Runner(connections).run(operation(look(2))) == [[("2",)]]
    assert called == [0, 1, 2]


def test_any_other_operation_is_one_transaction(
    connections: Connections, admin: Admin, asked: Asked
) -> None:
    runner = Runner(connections)
    with connections.lend():
        del asked[:]

    def refuse(index: int) -> None:
        if index == 2:
            raise DuplicateJobError(type="t", key="k", existing_id="j")

    first = note("a", alone=False)
    with pytest.raises(DuplicateJobError):
        runner.run(operation(first, note("b"), before=refuse))
    assert notes(admin) == []
    runner.run(operation(first, note("b")))
    assert notes(admin) == ["a", "b"]
    assert [len(trip) for trip in asked] == [2, 1, 1] * 2
    assert [trip[0].sql for trip in asked] == ["begin", NOTE, "rollback", "begin", NOTE, "commit"]


def test_only_claims_and_heartbeats_do_not_wait_for_the_disk(connections: Connections) -> None:
    """S0-4, and the setting ends with its transaction."""
    runner = Runner(connections)
    later = Statement(COMMITS_LATE.sql)
    for effect, expected in ((Effect.LEASE, "off"), (Effect.WRITE, "on"), (Effect.LEASE, "off")):
        assert runner.run(operation(COMMITS_LATE, effect=effect)) == [[(expected,)]]
        assert runner.run(operation(later, later, effect=effect)) == [[(expected,)]] * 2


def test_a_call_by_itself_that_need_not_wait_for_the_disk_is_one_statement(
    connections: Connections, admin: Admin, asked: Asked
) -> None:
    runner = Runner(connections)
    admin.execute("create schema if not exists fencepost")
    admin.execute(
        "create function fencepost.durability(n integer) returns text language plpgsql as "
        "$$ begin return current_setting('synchronous_commit') || n; end $$"
    )
    call = Statement("select fencepost.durability(%s)", (7,), alone=True)
    for effect, expected in ((Effect.LEASE, "off7"), (Effect.WRITE, "on7")):
        assert runner.run(operation(call, effect=effect)) == [[(expected,)]]
        assert len(asked[-1]) == 1


def test_a_read_of_several_statements_sees_one_moment(
    connections: Connections, admin: Admin
) -> None:
    count = Statement("select count(*) from public.note")

    def disturb(index: int) -> None:
        if index == 1:
            admin.execute("insert into public.note values ('new')")

    runner = Runner(connections)
    assert runner.run(operation(count, count, effect=Effect.READ, before=disturb)) == [[(0,)]] * 2
    with pytest.raises(StoreUnavailableError, match="standby"):
        runner.run(operation(note("a", alone=False), effect=Effect.READ))


def test_a_plan_with_nothing_to_ask_has_its_result(connections: Connections) -> None:
    assert Runner(connections).run(operation()) == []


def test_many_rows_are_one_round_trip(connections: Connections, admin: Admin, asked: Asked) -> None:
    many = Statement("insert into public.note values (%s)", [("a",), ("b",), ("c",)], many=True)
    with connections.lend():
        del asked[:]
    assert Runner(connections).run(operation(many)) == [[]]
    assert len(asked) == 2
    assert notes(admin) == ["a", "b", "c"]


def test_a_conflict_is_tried_again_a_few_times(connect: Connect, admin: Admin) -> None:
    admin.execute("create sequence turns")
    admin.execute(
        "create function public.conflict(times int, code text) returns void language plpgsql as "
        "$$ begin if nextval('public.turns') <= times then "
        "raise exception using errcode = code, message = 'conflict'; end if; end $$"
    )
    runner = Runner(connect(clock=FakeClock()))
    for code in ("40P01", "40001"):
        for alone in (True, False):
            conflict = Statement(
                "select public.conflict(%s, %s)", (CONFLICTS_MAX, code), alone=alone
            )
            admin.execute("alter sequence turns restart")
            runner.run(operation(conflict))
            assert admin.execute("select last_value from turns").fetchone() == (CONFLICTS_MAX + 1,)
    admin.execute("alter sequence turns restart")
    hopeless = Statement("select public.conflict(%s, '40P01')", (CONFLICTS_MAX + 1,))
    with pytest.raises(StoreUnavailableError, match="conflict"):
        runner.run(operation(note("a", alone=False), hopeless))
    assert notes(admin) == []


def test_an_error_that_a_plan_accepts_does_not_become_a_silent_rollback(
    connections: Connections, admin: Admin
) -> None:
    def plan() -> Plan[str]:
        yield note("a", alone=False)
        with pytest.raises(psycopg.errors.DivisionByZero):
            yield Statement("select 1 / 0")
        return "fine"

    with pytest.raises(InvalidJobError, match="division"):
        Runner(connections).run(Operation(Declaration("test", Effect.WRITE), plan))
    assert notes(admin) == []


def test_a_missing_schema_says_so(connections: Connections) -> None:
    with pytest.raises(SchemaError, match="fencepost migrate"):
        Runner(connections).run(operation(Statement("select missing.f()", alone=True)))


# Cut connections.


def test_a_connection_cut_before_anything_was_sent_costs_nobody(
    connections: Connections, admin: Admin
) -> None:
    runner = Runner(connections)
    ((pid,),) = runner.run(operation(Statement("select pg_backend_pid()", alone=True)))[0]
    admin.execute("select pg_terminate_backend(%s, 30000)", (pid,))
    assert runner.run(operation(note("a"))) == [[("a",)]]
    assert notes(admin) == ["a"]


@pytest.mark.parametrize("alone", [True, False])
def test_a_connection_ended_in_mid_statement_has_done_nothing(
    connections: Connections, admin: Admin, alone: bool
) -> None:
    """The server says so before the statement's own answer, so it is tried on another, once."""
    deadly = Statement(
        f"with written as (insert into public.note values ('a')) {SUICIDE} ", alone=alone
    )
    with pytest.raises(StoreUnavailableError, match="administrator"):
        Runner(connections).run(operation(deadly))
    assert notes(admin) == []


def test_a_connection_ended_in_mid_transaction_is_tried_once_more(
    connections: Connections, admin: Admin
) -> None:
    starts: list[int] = []

    def count(index: int) -> None:
        starts.extend([1] if index == 0 else [])

    runner = Runner(connections)
    with pytest.raises(StoreUnavailableError):
        runner.run(operation(note("a", alone=False), Statement(SUICIDE), before=count))
    assert len(starts) == 2
    assert notes(admin) == []


@pytest.mark.parametrize("alone", [True, False])
def test_a_connection_ended_at_the_commit_leaves_the_outcome_open(
    connections: Connections, admin: Admin, alone: bool
) -> None:
    """A deferred trigger ends it while the server commits."""
    admin.execute(
        "create function die() returns trigger language plpgsql as "
        f"$$ begin perform {SUICIDE.removeprefix('select ')}; return null; end $$"
    )
    admin.execute(
        "create constraint trigger die after insert on note deferrable initially deferred "
        "for each row execute function die()"
    )
    with pytest.raises(UnknownOutcomeError):
        Runner(connections).run(operation(note("a", alone=alone)))


@pytest.mark.parametrize("alone", [True, False])
def test_a_commit_whose_answer_is_lost_is_not_repeated(
    connect: Connect, admin: Admin, postgres_url: str, alone: bool
) -> None:
    with Proxy(postgres_url) as proxy:
        connections = connect(proxy.url)
        with connections.lend():
            pass
        last = 0 if alone else 1  # before the only statement, or before the commit

        def cut(index: int) -> None:
            if index == last:
                proxy.cut_next_answer()

        with pytest.raises(UnknownOutcomeError) as raised:
            Runner(connections).run(operation(note("a", alone=alone), before=cut))
        assert "repeat" in str(raised.value)
        assert notes(admin) == ["a"]
        connections.close()


@pytest.mark.parametrize("effect", [Effect.WRITE, Effect.READ])
def test_an_answer_lost_before_the_commit_is_asked_for_again(
    connect: Connect, admin: Admin, postgres_url: str, effect: Effect
) -> None:
    with Proxy(postgres_url) as proxy:
        connections = connect(proxy.url)
        with connections.lend():
            pass
        cuts = iter([True])

        def cut(index: int) -> None:
            if index == 1 and next(cuts, False):
                proxy.cut_next_answer()

        asking = Statement("select 1") if effect is Effect.READ else note("a", alone=False)
        Runner(connections).run(operation(asking, asking, effect=effect, before=cut))
        assert proxy.connection_count == 2
        assert notes(admin) == ([] if effect is Effect.READ else ["a", "a"])
        connections.close()


def test_a_part_that_was_done_is_never_called_undone(
    connections: Connections, admin: Admin
) -> None:
    with pytest.raises(UnknownOutcomeError, match="a part"):
        Runner(connections).run(operation(note("a"), Statement("select 1 / 0")))
    assert notes(admin) == ["a"]


def test_a_server_that_is_silent_is_given_up(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    with connections.lend():
        pass
    monkeypatch.setattr("fencepost.store.postgres.engine.session.ANSWER_TIMEOUT", 0.05)
    with pytest.raises(UnknownOutcomeError, match="no answer"):
        Runner(connections).run(operation(Statement("select pg_sleep(20)", alone=True)))


def test_whatever_is_cut_nothing_acknowledged_is_lost_and_nothing_refused_is_done(
    connections: Connections, admin: Admin
) -> None:
    """Every connection is ended again and again, at moments that nobody chose."""
    is_over = threading.Event()

    def cut() -> None:
        while not is_over.is_set():
            admin.execute(
                "select pg_terminate_backend(pid) from pg_stat_activity "
                "where application_name = 'fencepost' and datname = current_database()"
            )

    async def run() -> dict[str, Any]:
        texts = [f"{letter}{number:03}" for letter in "abc" for number in range(200)]
        made = {"a": [True], "b": [False], "c": [True, False]}
        outcomes: dict[str, Any] = {}
        for start in range(0, len(texts), 20):
            batch = texts[start : start + 20]
            operations = [operation(*[note(t, alone=a) for a in made[t[0]]]) for t in batch]
            outcomes |= zip(batch, await gather(runner, *operations), strict=True)
        return outcomes

    cutter = threading.Thread(target=cut)
    cutter.start()
    try:
        with grouping(connections) as runner:
            outcomes = asyncio.run(run())
    finally:
        is_over.set()
        cutter.join()
    found = notes(admin)
    for text, outcome in outcomes.items():
        count = found.count(text)
        if isinstance(outcome, list):
            assert count == len(outcome), text
        elif isinstance(outcome, UnknownOutcomeError):
            assert count in (0, 1, 2), text
        else:
            assert isinstance(outcome, StoreUnavailableError), outcome
            assert count == 0, text


# Posted.


def test_what_is_posted_together_shares_a_round_trip_and_a_commit(
    connections: Connections, asked: Asked
) -> None:
    with grouping(connections) as runner:
        xids = asyncio.run(gather(runner, *[operation(XID) for _ in range(50)]))
    assert len({xid for (((xid,),),) in xids}) == 1
    # The first is the greeting; in the second, how long to wait for locks comes before all else.
    assert [len(trip) for trip in asked] == [1, 51]


def test_one_that_fails_takes_nobody_with_it(connections: Connections, admin: Admin) -> None:
    """S0-5: nothing of the group happened, and each is run by itself."""
    wrong = Statement("select 1 / 0", alone=True)
    with grouping(connections) as runner:
        first, failed, second = asyncio.run(
            gather(runner, operation(note("a")), operation(wrong), operation(note("b")))
        )
    assert isinstance(failed, InvalidJobError)
    assert (first, second) == ([[("a",)]], [[("b",)]])
    assert notes(admin) == ["a", "b"]


def test_a_plan_may_handle_the_error_of_its_statement_in_a_group_too(
    connections: Connections,
) -> None:
    def plan() -> Plan[str]:
        try:
            yield Statement("select 1 / 0", alone=True)
        except psycopg.errors.DivisionByZero:
            return "handled"
        return "not reached"

    with grouping(connections) as runner:
        careful: Operation[str] = Operation(Declaration("test", Effect.WRITE), plan)
        results = asyncio.run(gather(runner, careful, operation(note("a"))))
    assert results == ["handled", [[("a",)]]]


def test_a_group_waits_for_the_disk_if_anybody_in_it_does(connections: Connections) -> None:
    lease = operation(COMMITS_LATE, effect=Effect.LEASE)
    write = operation(COMMITS_LATE)
    with grouping(connections) as runner:
        assert asyncio.run(gather(runner, lease, lease)) == [[[("off",)]]] * 2
        assert asyncio.run(gather(runner, lease, write)) == [[[("on",)]]] * 2
        assert asyncio.run(gather(runner, write, write)) == [[[("on",)]]] * 2


def test_those_of_a_group_that_go_on_and_those_that_stand_apart_are_run_too(
    connections: Connections, admin: Admin
) -> None:
    def reject(index: int) -> None:
        if index == 1:
            raise DuplicateJobError(type="t", key="k", existing_id="j")

    async def run() -> list[Any]:
        return await gather(
            runner,
            operation(note("a"), note("b")),
            operation(note("c", alone=False), note("d")),
            operation(note("e")),
            operation(note("f"), before=reject),
            operation(note("g"), Statement("select 1 / 0")),
            operation(),
        )

    with grouping(connections) as runner:
        results = asyncio.run(run())
    assert results[:3] == [[[("a",)], [("b",)]], [[("c",)], [("d",)]], [[("e",)]]]
    assert isinstance(results[3], DuplicateJobError)
    assert isinstance(results[4], UnknownOutcomeError)
    assert results[5] == []
    assert notes(admin) == ["a", "b", "c", "d", "e", "f", "g"]


def test_a_group_whose_answer_is_lost_is_unknown_to_all_of_it(
    connect: Connect, admin: Admin, postgres_url: str
) -> None:
    with Proxy(postgres_url) as proxy:
        connections = connect(proxy.url)
        with grouping(connections, threads=1) as runner:
            asyncio.run(runner.run(operation(note("a"))))
            proxy.cut_next_answer()
            results = asyncio.run(gather(runner, *[operation(note("b")) for _ in range(5)]))
            assert {type(result) for result in results} == {UnknownOutcomeError}
            assert notes(admin) == ["a", *"bbbbb"]
            assert asyncio.run(runner.run(operation(note("c")))) == [[("c",)]]
        connections.close()


def test_reads_whose_answer_is_lost_are_asked_for_again(
    connect: Connect, postgres_url: str
) -> None:
    read = operation(Statement("select 1", alone=True), effect=Effect.READ)
    with Proxy(postgres_url) as proxy:
        connections = connect(proxy.url)
        with grouping(connections) as runner:
            asyncio.run(runner.run(read))
            proxy.cut_next_answer()
            assert asyncio.run(gather(runner, read, read)) == [[[(1,)]]] * 2
        connections.close()


def test_a_group_cut_while_idle_or_in_mid_statement_is_run_again(
    connections: Connections, admin: Admin
) -> None:
    pid = Statement("select pg_backend_pid()", alone=True)
    with grouping(connections, threads=1) as runner:
        ((number,),) = asyncio.run(runner.run(operation(pid)))[0]
        admin.execute("select pg_terminate_backend(%s, 30000)", (number,))
        results = asyncio.run(gather(runner, operation(note("a")), operation(note("b"))))
        assert results == [[[("a",)]], [[("b",)]]]
        deadly = operation(Statement(SUICIDE, alone=True))
        results = asyncio.run(gather(runner, operation(note("c")), deadly, operation(note("d"))))
        assert isinstance(results[1], StoreUnavailableError)
    assert notes(admin) == ["a", "b", "c", "d"]


def test_without_a_server_everybody_is_told_at_once(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    connections = connect("postgresql://u@127.0.0.1:1/d")
    attempts: list[int] = []
    opening = connections.open

    def count() -> ServerSession:
        attempts.append(1)
        return opening()

    monkeypatch.setattr(connections, "open", count)
    apart = [operation(note("a", alone=False)) for _ in range(20)]
    with grouping(connections) as runner:
        results = asyncio.run(gather(runner, *[operation(note("a")) for _ in range(20)], *apart))
    assert {type(result) for result in results} == {StoreUnavailableError}
    assert len(attempts) == 2  # for those together, and for the first of those apart


def test_what_comes_while_one_thread_waits_is_taken_by_the_other(
    connections: Connections, admin: Admin
) -> None:
    """And reads wait for neither."""
    # A busy machine may need longer than a lock is waited for, before the second one waits as well.
    patient = "select set_config('lock_timeout', '0', true), pg_advisory_xact_lock(7)"
    wait = operation(Statement(patient, alone=True))
    read = operation(Statement("select 1", alone=True), effect=Effect.READ)

    async def until_waiting(count: int) -> None:
        sql = """
        select count(*) from pg_locks where locktype = 'advisory' and not granted
          and database = (select oid from pg_database where datname = current_database())
        """
        while admin.execute(sql).fetchone() != (count,):
            await asyncio.sleep(0)

    async def run() -> None:
        held = asyncio.ensure_future(runner.run(wait))
        await until_waiting(1)
        await runner.run(operation(note("a")))
        second = asyncio.ensure_future(runner.run(wait))
        await until_waiting(2)
        await runner.run(read)
        assert not held.done()
        assert not second.done()
        admin.execute("select pg_advisory_unlock(7)")
        await asyncio.gather(held, second)

    admin.execute("select pg_advisory_lock(7)")
    with grouping(connections) as runner:
        asyncio.run(run())


def test_many_loops_may_post(connections: Connections, admin: Admin) -> None:
    async def run(name: str) -> None:
        for _ in range(20):
            await asyncio.gather(*[runner.run(operation(note(name))) for _ in range(3)])

    async def run_all() -> None:
        threads = [asyncio.to_thread(asyncio.run, run(name)) for name in "abcd"]
        await asyncio.gather(*threads)

    with grouping(connections) as runner:
        asyncio.run(run_all())
    assert len(notes(admin)) == 4 * 60


def test_one_that_is_cancelled_before_it_starts_is_not_run(
    connections: Connections, admin: Admin
) -> None:
    async def run() -> None:
        task = asyncio.ensure_future(runner.run(operation(note("a"))))
        other = asyncio.ensure_future(runner.run(operation(note("b"))))
        await asyncio.sleep(0)  # both are posted; no thread is told before the next turn
        task.cancel()
        await asyncio.gather(task, other, return_exceptions=True)

    with grouping(connections) as runner:
        asyncio.run(run())
    assert notes(admin) in (["b"], ["a", "b"])


def test_closing_finishes_what_was_posted(connections: Connections, admin: Admin) -> None:
    async def post_and_close() -> None:
        posted = [asyncio.ensure_future(runner.run(operation(note("a")))) for _ in range(50)]
        await asyncio.sleep(0)
        await asyncio.to_thread(runner.close)
        await asyncio.gather(*posted)
        with pytest.raises(StoreUnavailableError, match="closed"):
            await runner.run(operation(note("b")))

    runner = GroupRunner(connections)
    asyncio.run(post_and_close())
    runner.close()
    assert notes(admin) == ["a"] * 50


def test_a_bug_in_a_plan_reaches_whoever_waits_and_ends_no_thread(
    connections: Connections,
) -> None:
    def broken() -> Plan[None]:
        yield Statement(str(1 // 0))

    faulty: Operation[None] = Operation(Declaration("test", Effect.WRITE), broken)
    with grouping(connections, threads=1) as runner:
        results = asyncio.run(gather(runner, faulty, operation(note("a")), faulty))
        assert [type(result) for result in results] == [
            ZeroDivisionError,
            list,
            ZeroDivisionError,
        ]
        assert asyncio.run(runner.run(operation(note("b")))) == [[("b",)]]


def test_a_loop_that_is_gone_is_not_waited_for(connections: Connections, admin: Admin) -> None:
    async def post_and_leave() -> None:
        asyncio.ensure_future(runner.run(operation(note("a"))))  # noqa: RUF006 - left on purpose
        await asyncio.sleep(0)

    with grouping(connections) as runner:
        asyncio.run(post_and_leave())
        assert asyncio.run(runner.run(operation(note("b")))) == [[("b",)]]
    assert "b" in notes(admin)


def test_posting_after_a_fork_is_refused(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "_pid", -1)
    with grouping(connections) as runner, pytest.raises(ForkedStoreError):
        asyncio.run(runner.run(operation(note("a"))))
    monkeypatch.undo()


# In a transaction of the caller's.


def test_an_operation_in_the_callers_transaction_goes_with_it(
    postgres_url: str, admin: Admin
) -> None:
    many = Statement("insert into public.note values (%s)", [("c",)], many=True)
    work = operation(note("a"), note("b"), many, Statement("select 1 where false"))
    with psycopg.connect(postgres_url, row_factory=dict_row) as connection:
        assert run_in(connection, work) == [[("a",)], [("b",)], [], []]
        connection.rollback()
        assert notes(admin) == []
        run_in(connection, work)
    assert notes(admin) == ["a", "b", "c"]


async def test_the_same_on_an_async_connection(postgres_url: str, admin: Admin) -> None:
    many = Statement("insert into public.note values (%s)", [("c",)], many=True)
    work = operation(note("a"), many)
    async with await psycopg.AsyncConnection.connect(
        postgres_url, row_factory=dict_row
    ) as connection:
        assert await run_in_async(connection, work) == [[("a",)], []]
        await connection.rollback()
        assert notes(admin) == []
        await run_in_async(connection, work)
    assert notes(admin) == ["a", "c"]


async def test_the_callers_errors_are_the_drivers_own(postgres_url: str, admin: Admin) -> None:
    """So that the caller's own way to repeat a transaction goes on working."""
    wrong = operation(Statement("select 1 / 0"))
    missing = operation(Statement("select missing.f()"))
    with psycopg.connect(postgres_url) as connection:
        with pytest.raises(psycopg.errors.DivisionByZero):
            run_in(connection, wrong)
        connection.rollback()
        with pytest.raises(SchemaError):
            run_in(connection, missing)
    async with await psycopg.AsyncConnection.connect(postgres_url) as other:
        with pytest.raises(psycopg.errors.DivisionByZero):
            await run_in_async(other, wrong)
        await other.rollback()
        with pytest.raises(SchemaError):
            await run_in_async(other, missing)


def test_a_connection_of_another_library_needs_only_a_cursor(
    postgres_url: str, admin: Admin
) -> None:
    class Wrapped:
        def __init__(self, connection: psycopg.Connection[Any]) -> None:
            self.cursor = connection.cursor

    with psycopg.connect(postgres_url) as connection:
        assert run_in(Wrapped(connection), operation(note("a"))) == [[("a",)]]
    assert notes(admin) == ["a"]
