"""Lending connections. PostgreSQL-specific: no other store has a pool."""

from __future__ import annotations

import os
import threading
from urllib.parse import quote

import psycopg
import pytest
from tests.servers.pgbouncer import PgBouncer
from tests.store.postgres.conftest import Admin, Connect

from fencepost.errors import ForkedStoreError, StoreUnavailableError
from fencepost.store.plan import Declaration, Effect, Operation, Plan, Row, Statement
from fencepost.store.postgres.engine.connections import SETTINGS, Connections, Dedicated
from fencepost.store.postgres.engine.runner import Runner
from fencepost.store.postgres.engine.session import ServerSession

TERMINATE = "select pg_terminate_backend(%s, 30000)"


def pid_of(session: ServerSession) -> int:
    ((pid,),) = session.ask([Statement("select pg_backend_pid()")])[0]
    assert isinstance(pid, int)
    return pid


def test_nothing_connects_before_it_is_needed(connect: Connect) -> None:
    connections = connect("postgresql://nobody@127.0.0.1:1/nowhere")
    connections.check()
    connections.close()


def test_a_session_has_its_limits_and_its_name(connections: Connections) -> None:
    with connections.lend() as session:
        for name, value in SETTINGS.items():
            assert session.execute(f"show {name}").fetchone() in [(value,), ("1min",)]
        assert session.execute("show application_name").fetchone() == ("fencepost",)
        assert not session.is_pooled


def test_a_name_in_the_url_stays(connect: Connect, postgres_url: str) -> None:
    with connect(f"{postgres_url}?application_name=mine").lend() as session:
        assert session.execute("show application_name").fetchone() == ("mine",)


def test_a_connection_is_used_again(connections: Connections) -> None:
    pids = set()
    for _ in range(3):
        with connections.lend() as session:
            pids.add(pid_of(session))
    assert len(pids) == 1


def test_one_that_was_cut_while_idle_is_replaced(connections: Connections, admin: Admin) -> None:
    with connections.lend() as session:
        pid = pid_of(session)
    admin.execute(TERMINATE, (pid,))
    with connections.lend() as session:
        assert pid_of(session) != pid
    assert session.is_idle


def test_one_left_in_a_transaction_is_thrown_away(connections: Connections, admin: Admin) -> None:
    with connections.lend() as session:
        session.execute("begin")
        session.execute("insert into public.note values ('half')")
    assert session.closed
    assert admin.execute("select count(*) from public.note").fetchone() == (0,)


def test_one_that_was_interrupted_half_way_is_thrown_away(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its answer would otherwise be taken for that to the next question."""

    def interrupt(self: ServerSession) -> None:
        raise KeyboardInterrupt

    with connections.lend() as session:
        pass
    monkeypatch.setattr(ServerSession, "_receive", interrupt)
    with pytest.raises(KeyboardInterrupt), connections.lend() as lent:
        lent.ask([Statement("select 1")])
    monkeypatch.undo()
    assert session.closed
    with connections.lend() as other:
        assert other.ask([Statement("select 2")]) == [[(2,)]]


def test_no_more_are_lent_than_the_pool_has(connect: Connect, postgres_url: str) -> None:
    connections = connect(f"{postgres_url}?pool_size=1", patience=0)
    with (
        connections.lend(),
        pytest.raises(StoreUnavailableError, match="pool_size"),
        connections.lend(),
    ):
        pass
    with connections.lend() as session:
        assert pid_of(session)


def test_whoever_waits_gets_the_next_one(connect: Connect, postgres_url: str) -> None:
    connections = connect(f"{postgres_url}?pool_size=2", patience=60)
    pids: set[int] = set()

    def use() -> None:
        for _ in range(10):
            with connections.lend() as session:
                pids.add(pid_of(session))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert 1 <= len(pids) <= 2


def test_too_many_connections_are_a_clear_error(
    connect: Connect, admin: Admin, postgres_url: str
) -> None:
    name = f"few_{os.getpid()}"
    admin.execute(f"create role {name} login connection limit 1")
    try:
        connections = connect(f"{postgres_url}?user={name}")
        with (
            connections.lend() as session,
            pytest.raises(StoreUnavailableError, match="max_connections"),
            connections.lend(),
        ):
            pass
        session.close()
        connections.close()
        admin.execute(
            "select pg_terminate_backend(pid, 30000) from pg_stat_activity where usename = %s",
            (name,),
        )
    finally:
        admin.execute(f"drop role {name}")


def test_a_child_process_must_open_its_own(connections: Connections, admin: Admin) -> None:
    with connections.lend() as session:
        pid = pid_of(session)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            with connections.lend():
                code = 2
        except ForkedStoreError:
            connections.close()  # must not end the parent's
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    with connections.lend() as session:
        assert pid_of(session) == pid


def test_a_closed_pool_lends_nothing_and_keeps_nothing(connections: Connections) -> None:
    with connections.lend() as idle:
        pass
    with connections.lend() as lent:
        assert lent is idle
        connections.close()
        connections.close()
        assert lent.ask([Statement("select 1")]) == [[(1,)]]
    assert lent.closed
    with pytest.raises(StoreUnavailableError, match="closed"), connections.lend():
        pass


def test_a_dedicated_connection_is_kept_and_replaced(
    connections: Connections, admin: Admin
) -> None:
    own = Dedicated(connections)
    with own.lend() as session:
        pid = pid_of(session)
    with own.lend() as session:
        assert pid_of(session) == pid
    admin.execute(TERMINATE, (pid,))
    with own.lend() as session:
        assert pid_of(session) != pid
    own.close()
    own.close()
    assert session.closed


def test_a_pooler_is_noticed_by_its_invented_number(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is then set or prepared in a session that may be another's the next moment."""
    monkeypatch.setattr(psycopg.ConnectionInfo, "backend_pid", 0)
    with connections.lend() as session:
        assert session.is_pooled
        assert session.execute("show statement_timeout").fetchone() == ("0",)
        for _ in range(5):
            session.ask([Statement("select %s::int", (1,))])
        assert session.execute("select count(*) from pg_prepared_statements").fetchone() == (0,)


def test_statements_are_prepared_with_their_second_use(connections: Connections) -> None:
    count = Statement("select count(*) from pg_prepared_statements where name like 'fencepost%%'")
    with connections.lend() as session:
        twice = [Statement("select %s::int", (number,)) for number in range(3)]
        assert session.ask(twice) == [[(0,)], [(1,)], [(2,)]]
        assert session.ask([count]) == [[(1,)]]
        # One that fails before it is prepared is prepared the next time.
        broken = Statement("select 1 / %s::int", (0,))
        late = Statement("select %s::text", ("x",))
        session.ask([late])
        with pytest.raises(psycopg.errors.DivisionByZero):
            session.ask([broken, late])
        assert session.ask([late, late]) == [[("x",)], [("x",)]]


def test_large_questions_and_answers_do_not_wait_for_each_other(connections: Connections) -> None:
    """Both sides' buffers are full long before this is through."""
    text = "x" * 1_000_000
    with connections.lend() as session:
        answers = session.ask([Statement("select %s::text", (text,)) for _ in range(30)])
    assert [len(rows[0][0]) for rows in answers] == [1_000_000] * 30


def test_through_a_real_pooler_it_works(
    connect: Connect, pgbouncer: PgBouncer, postgres_url: str
) -> None:
    database = postgres_url.rpartition("/")[2].partition("?")[0]
    url = f"{pgbouncer.url(database)}?listen={quote(postgres_url, safe='')}"
    connections = connect(url)
    with connections.lend() as session, connections.lend() as other:
        assert session.is_pooled
        for _ in range(5):
            for each in (session, other):
                assert each.ask([Statement("select %s::int", (7,))] * 2) == [[(7,)], [(7,)]]
    several = [Statement("show synchronous_commit") for _ in range(2)]
    for effect, expected in ((Effect.LEASE, "off"), (Effect.WRITE, "on"), (Effect.READ, "on")):
        operation: Operation[str] = Operation(Declaration("test", effect), lambda: ask_all(several))
        assert Runner(connections).run(operation) == expected


def ask_all(statements: list[Statement]) -> Plan[str]:
    rows: list[Row] = []
    for statement in statements:
        rows = yield statement
    return str(rows[0][0])
