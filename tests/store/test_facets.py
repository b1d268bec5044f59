"""Operations are declared once; an engine or a wrapper that leaves one out cannot be defined."""

from __future__ import annotations

from typing import Any

import pytest

from fencepost.core.encryption import EncryptionKey, KeyRing
from fencepost.store.chores import Chores
from fencepost.store.interface.facet import Binder, BoundFacet, Facet, operation, planned
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.reader import ReaderFacet
from fencepost.store.interface.store import Store, WrappedStore
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Effect, Operation, Plan, Statement, declaration_of
from fencepost.store.postgres.facets import PostgresQueue
from fencepost.store.sqlite.facets import SqliteQueue, bound
from fencepost.store.sqlite.jobs.catalog import Catalog, Env
from fencepost.store.wrappers.encrypted import encrypted
from fencepost.store.wrappers.encrypted.facet import Encrypting
from fencepost.store.wrappers.encrypted.facets import EncryptedQueue
from fencepost.store.wrappers.notes import COUNTED_ONLY, NOTES
from fencepost.store.wrappers.observed import ObservedStore, by_declaration, facets_of_a_store
from fencepost.testing.clock import FakeClock

KEYS = KeyRing((EncryptionKey("k", b"k" * 32),))
FACET_OPERATIONS_MAX = 9


class PeekFacet(QueueFacet, abstract=True):
    """The queue as it may be one day: with an operation that shows what users have stored."""

    @operation(Effect.WRITE, has_content=True)
    def peek(self, job_id: str) -> Operation[str]:
        """Show a job."""
        raise NotImplementedError


class NudgeFacet(QueueFacet, abstract=True):
    """The same with an operation that holds no content."""

    @operation(Effect.LEASE, has_content=False)
    def nudge(self, job_id: str) -> Operation[str]:
        """Hurry a job."""
        raise NotImplementedError


class GlanceFacet(QueueFacet, abstract=True):
    """The same with one that only reads, and holds none."""

    @operation(Effect.READ, has_content=False)
    def glance(self, job_id: str) -> Operation[str]:
        """Look at a job."""
        raise NotImplementedError


WIDER = [(PeekFacet, "peek"), (NudgeFacet, "nudge"), (GlanceFacet, "glance")]
ENGINES = [SqliteQueue, PostgresQueue]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("wider", "name"), WIDER)
def test_an_engine_without_a_plan_for_an_operation_is_refused(
    engine: type[Facet], wider: type[Facet], name: str
) -> None:
    with pytest.raises(TypeError, match=f"Wider has no plan for {name}"):
        type("Wider", (engine, wider), {})


def test_an_encrypting_store_without_a_plan_for_an_operation_with_content_is_refused() -> None:
    with pytest.raises(TypeError, match="Wider has no plan for peek"):
        type("Wider", (EncryptedQueue, PeekFacet), {})


@pytest.mark.parametrize(("wider", "name"), WIDER[1:])
def test_one_without_content_is_passed_on_as_it_is_declared(wider: type[Facet], name: str) -> None:
    encrypting = type("Wider", (EncryptedQueue, wider), {})

    class Inner:
        """Stands for the facet inside."""

    setattr(Inner, name, lambda self, job_id: f"{name} {job_id}")
    made = encrypting(Inner(), MemoryStore(clock=FakeClock()), None, None)
    assert getattr(made, name)("x") == f"{name} x"


def test_a_facet_of_its_own_is_refused_just_as_one_that_grew() -> None:
    with pytest.raises(TypeError, match="Wider has no plan for get, find, attempts"):
        type("Wider", (Encrypting, ReaderFacet), {})


@pytest.mark.parametrize(("wider", "name"), WIDER[:2])
def test_an_observing_store_without_a_note_for_an_operation_that_writes_is_refused(
    wider: type[Facet], name: str
) -> None:
    with pytest.raises(TypeError, match=f"no note for {wider.__name__}.{name}"):

        class Observing(ObservedStore):
            _notes = by_declaration(NOTES, COUNTED_ONLY, [*facets_of_a_store(), wider])


def test_one_that_only_reads_needs_no_note() -> None:
    known = by_declaration(NOTES, COUNTED_ONLY, [*facets_of_a_store(), GlanceFacet])
    assert known == by_declaration(NOTES, COUNTED_ONLY, facets_of_a_store())


def test_notes_of_what_nothing_declares_are_refused() -> None:
    """Else a table would go on naming what was renamed."""
    with pytest.raises(TypeError, match=r"unknown PeekFacet\.peek"):
        by_declaration(NOTES, COUNTED_ONLY | {PeekFacet.peek}, facets_of_a_store())


def read_content(env: Env) -> Plan[str]:
    yield from ()
    return "content"


def test_a_plan_for_what_nothing_declares_is_refused() -> None:
    with pytest.raises(TypeError, match="Wider binds peek, which nothing declares"):

        class Wider(SqliteQueue):
            peek = bound(read_content)


def test_every_operation_stands_on_one_facet_of_at_most_nine() -> None:
    facets = facets_of_a_store()
    assert max(len(facet.operations) for facet in facets) <= FACET_OPERATIONS_MAX
    declared = [declaration_of(each) for facet in facets for each in facet.operations.values()]
    assert len({each.name for each in declared}) == len(declared), "labels are unique"


def test_an_operation_is_known_by_its_declaration_whatever_made_it() -> None:
    inner = MemoryStore(clock=FakeClock())
    for store in (inner, encrypted(inner, KEYS)):
        made = store.queue.settle([])
        assert made.is_a(QueueFacet.settle)
        assert made.is_a(QueueFacet.claim, QueueFacet.settle)
        assert not made.is_a(QueueFacet.claim)
        assert made.declaration is declaration_of(QueueFacet.settle)
        assert (made.new_jobs, store.queue.enqueue([]).new_jobs) == ((), [])


def test_what_only_reads_is_given_the_environment_of_readers() -> None:
    class LookFacet(Facet, abstract=True):
        @operation(Effect.READ, has_content=False)
        def look(self) -> Operation[str]:
            """Look."""
            raise NotImplementedError

        @operation(Effect.WRITE, has_content=False)
        def touch(self) -> Operation[str]:
            """Touch."""
            raise NotImplementedError

    def plan(env: str) -> Plan[str]:
        yield Statement("")
        return env

    binder: Binder[str] = Binder()

    class Looking(BoundFacet[str], LookFacet):
        look = binder(plan)
        touch = binder(plan)

    facet = Looking("writer", "reader")
    assert [_result(made) for made in (facet.look(), facet.touch())] == ["reader", "writer"]
    assert Looking.look.__doc__ == "Look."


def _result(made: Operation[Any]) -> Any:
    plan = made.start()
    next(plan)
    with pytest.raises(StopIteration) as stop:
        plan.send([])
    return stop.value.value


def test_a_method_of_a_wrapper_is_declared_by_its_name() -> None:
    class Own(SqliteQueue):
        @planned
        def save(self, saves: Any) -> Plan[Any]:
            yield from ()
            return saves

    clock = FakeClock()
    made = Own(Env(clock, Catalog(), Chores(clock), lambda _: [])).save(["x"])
    assert (made.declaration, made.given) == (declaration_of(QueueFacet.save), (["x"],))


def test_what_only_an_engine_has_is_not_passed_on() -> None:
    inner = MemoryStore(clock=FakeClock())
    store = encrypted(inner, KEYS)
    inner.peek = lambda: "content"  # type: ignore[attr-defined]
    with pytest.raises(AttributeError, match="peek"):
        store.peek()  # type: ignore[attr-defined]
    assert (store.url, store.clock, store.tidy_interval) == (inner.url, inner.clock, None)
    with pytest.raises(AttributeError):
        store.url = "memory://elsewhere"


def test_every_store_has_every_facet() -> None:
    store: Store = encrypted(MemoryStore(clock=FakeClock()), KEYS)
    for name, facet in vars(store.facets).items():
        assert getattr(store, name) is facet


def test_a_wrapper_passes_on_all_that_a_store_itself_has() -> None:
    """Not what a store inherits: that would answer for the wrapper, not for the store inside."""
    own = {name for name in (*vars(Store), *Store.__annotations__) if not name.startswith("_")}
    assert {"run", "run_in", "listen", "keys"} <= own <= set(vars(WrappedStore))
