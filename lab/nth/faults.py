"""A store of which one call goes wrong: before it took effect, or after."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.interface.queue import QueueFacet
from fencepost.store.interface.store import Store, Topic
from fencepost.store.plan import Operation
from lab.nth.audit import Auditor
from lab.nth.loop import LoopClock

T = TypeVar("T")

CALLS_MAX = 3_000
"""A scenario that asks more often goes round in circles."""


class Kind(StrEnum):
    """When a call goes wrong."""

    BEFORE = "before"
    """It is surely not done, and the caller gets an error that says so."""
    AFTER = "after"
    """It is done, and the caller cannot know."""


class Fault(msgspec.Struct, frozen=True):
    """The call that goes wrong, counted from 1."""

    number: int
    kind: Kind


class FaultyStore:
    """Passes everything on to a store, counts the calls, and lets one of them fail.

    Awaited calls are made at once: the event loop's time stands still meanwhile, and a run repeats
    exactly. A listener never hears anything, so that all depends on the slow poll beneath.
    """

    def __init__(self, store: Store, fault: Fault | None) -> None:
        self.inner = store
        self.clock: LoopClock = store.clock  # type: ignore[assignment]  # as it was opened
        self.calls: list[str] = []
        self.audit = Auditor()
        self._fault = fault

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def run(self, operation: Operation[T]) -> T:
        def act() -> T:
            result = self.inner.run(operation)
            self.audit.note(operation, result, self.clock.now_us())
            return result

        return self._call(operation.name, act)

    async def run_async(self, operation: Operation[T]) -> T:
        return self.run(operation)

    def run_in(
        self, conn: Any, make: Callable[[Store], Operation[T]], *, must_be_open: bool = False
    ) -> T:
        made: list[Operation[T]] = []

        def make_and_keep(store: Store) -> Operation[T]:
            made.append(make(store))
            if made[0].is_a(QueueFacet.settle):
                for settlement in made[0].given[0]:
                    self.audit.note_joined(settlement.job_id)
            return made[0]

        return self._call(
            "run_in", lambda: self.inner.run_in(conn, make_and_keep, must_be_open=must_be_open)
        )

    def listen(self, topic: Topic) -> SilentListener:
        return SilentListener(self.clock)

    @property
    def has_failed(self) -> bool:
        """Whether the call that was to fail was reached."""
        return self._fault is not None and len(self.calls) >= self._fault.number

    def _call(self, name: str, act: Callable[[], T]) -> T:
        self.calls.append(name)
        assert len(self.calls) <= CALLS_MAX, "the scenario asks the store without end"
        fault = self._fault
        if fault is None or fault.number != len(self.calls):
            return act()
        if fault.kind is Kind.BEFORE:
            raise StoreUnavailableError(f"call {fault.number} ({name}) was not made")
        act()
        raise UnknownOutcomeError(f"call {fault.number} ({name}) was made, and its answer lost")


class SilentListener:
    """Hears nothing: a wake-up may always be lost."""

    def __init__(self, clock: LoopClock) -> None:
        self._clock = clock

    def wait(self, timeout: float) -> bool:
        self._clock.sleep(timeout)
        return False

    async def wait_async(self, timeout: float) -> bool:
        await self._clock.sleep_async(timeout)
        return False

    def close(self) -> None:
        """Hold nothing."""


async def insist(act: Callable[[], Any], clock: LoopClock, *, times: int = 5) -> Any:
    """Do what a careful caller does: after a store error, the same again."""
    for left in reversed(range(times)):
        try:
            result = act()
            return await result if asyncio.iscoroutine(result) else result
        except (StoreUnavailableError, UnknownOutcomeError):
            if not left:
                raise
            await clock.sleep_async(0.1)
    raise AssertionError("unreachable")
