"""A store with counters and log events around it, so that no engine contains any.

Every operation passes through ``run`` or ``run_async``, and every reply says what happened to its
job: that is all there is to count. What a reply says is in ``notes``; a class that has no note for
an operation that writes is refused when it is made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from contextlib import suppress
from functools import cache, partial
from typing import Any, ClassVar, TypeVar, get_type_hints

from fencepost.errors import DuplicateJobError, StoreUnavailableError, UnknownOutcomeError
from fencepost.observe import names
from fencepost.observe.counters import Counters, Key, key_of
from fencepost.store.interface.facet import Facet, Method
from fencepost.store.interface.store import Facets, Store, WrappedStore
from fencepost.store.interruption import THREAD, undisturbed
from fencepost.store.plan import Declaration, Effect, Operation, declaration_of
from fencepost.store.wrappers.notes import COUNTED_ONLY, NOTES, Note, note_differences
from fencepost.store.wrappers.refusals import RefusalMeter, refused

T = TypeVar("T")


def observed(store: Store, counters: Counters) -> Store:
    """Return *store*, counting into *counters* all that is run on it."""
    return ObservedStore(store, counters)


def facets_of_a_store() -> list[type[Facet]]:
    """Return the interfaces of all facets."""
    return list(get_type_hints(Facets).values())


def by_declaration(
    notes: Mapping[Method, Note], counted_only: Set[Method], facets: Iterable[type[Facet]]
) -> dict[Declaration, Note]:
    """Return *notes* by the declarations of their operations.

    Raises TypeError unless every operation of *facets* that writes has a note or is counted only,
    and nothing else has or is: a new operation is not overlooked.
    """
    declared = {method for facet in facets for method in facet.operations.values()}
    written = {each for each in declared if declaration_of(each).effect is not Effect.READ}
    known = notes.keys() | counted_only
    for problem, methods in (("no note for", written - known), ("unknown", known - declared)):
        if methods:
            raise TypeError(f"{problem} {', '.join(sorted(each.__qualname__ for each in methods))}")
    return {declaration_of(method): note for method, note in notes.items()}


class ObservedStore(WrappedStore):
    """Passes everything on, and counts what comes back."""

    _notes: ClassVar = by_declaration(NOTES, COUNTED_ONLY, facets_of_a_store())

    def __init__(self, store: Store, counters: Counters) -> None:
        super().__init__(store, store.facets)
        self._counters = counters
        self._meter = RefusalMeter()

    def run(self, operation: Operation[T]) -> T:
        if THREAD.call is None:  # as in nearly every thread
            return self._run(operation)
        return undisturbed(partial(self._run, operation))

    def _run(self, operation: Operation[T]) -> T:
        start = self._store.clock.monotonic()
        try:
            result = self._store.run(operation)
        except Exception as error:
            self._note_failure(operation, error)
            raise
        self._note(operation, result, start)
        if record := self._refusals(operation, result):
            with suppress(Exception):  # the refusal stands, whether or not it is recorded
                self._store.run(record)
        return result

    async def run_async(self, operation: Operation[T]) -> T:
        start = self._store.clock.monotonic()
        try:
            result = await self._store.run_async(operation)
        except Exception as error:
            self._note_failure(operation, error)
            raise
        self._note(operation, result, start)
        if record := self._refusals(operation, result):
            with suppress(Exception):
                await self._store.run_async(record)
        return result

    def _refusals(self, operation: Operation[Any], result: Any) -> Operation[None] | None:
        """Return what records the writes of *operation* that were refused, if any were."""
        found = refused(operation, result)
        if not found or not self._meter.is_free(self._store.clock.monotonic()):
            return None
        return self._store.refusals.record(found)

    def _note_failure(self, operation: Operation[Any], error: Exception) -> None:
        pulse, now = self._counters.pulse, self._store.clock.monotonic()
        if isinstance(error, (StoreUnavailableError, UnknownOutcomeError)):
            pulse.refused_at = now
        else:
            pulse.answered_at = now
        if isinstance(error, DuplicateJobError):
            note_differences([error])
        code = getattr(error, "code", type(error).__name__)
        self._counters.add(names.STORE_OPERATION_FAILED, operation=operation.name, code=code)

    def _note(self, operation: Operation[Any], result: Any, start: float) -> None:
        now = self._store.clock.monotonic()
        seconds = now - start
        self._counters.pulse.answered_at = now
        times, duration = _keys(operation.declaration)
        self._counters.add_all(((times, 1), (duration, seconds)))
        note = self._notes.get(operation.declaration)
        if note is not None:
            note(self._counters, operation, result)


@cache
def _keys(declaration: Declaration) -> tuple[Key, Key]:
    return (
        key_of(names.STORE_OPERATION, operation=declaration.name),
        key_of(names.STORE_OPERATION_SECONDS, operation=declaration.name),
    )
