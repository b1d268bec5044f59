"""The chore that goes on with replays: what it does with one that fails (memory store)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from conformance.harness import Colour, Harness
from conformance.replays import dead_letters, kept, start
from fencepost.core.job.replays import LetterChoice, ReplayState
from fencepost.errors import StoreUnavailableError
from fencepost.maintenance.replays import Replayer
from fencepost.store.interface.store import Store
from fencepost.store.memory.store import MemoryStore
from fencepost.store.plan import Operation


@pytest.fixture
def h() -> Iterator[Harness]:
    harness = Harness(lambda clock: MemoryStore(clock=clock), colour=Colour.SYNC, is_durable=False)
    yield harness
    harness.close()


class HalfAway:
    """A store that cannot be asked for the dead letters of a type, as if a part of it were away."""

    def __init__(self, store: Store, type: str) -> None:
        self._store = store
        self._type = type

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run_async(self, operation: Operation[Any]) -> Any:
        if operation.name == "dead_letters" and self._type in operation.given:
            raise StoreUnavailableError(f"the partition of {self._type} is away")
        return await self._store.run_async(operation)


def test_a_replay_that_cannot_go_on_keeps_no_other_from_it(h: Harness) -> None:
    dead_letters(h, 2, type="a")
    dead_letters(h, 2, type="b")
    older = start(h, 2, choice=LetterChoice(type="a"))
    h.advance(1.0)
    newer = start(h, 2, choice=LetterChoice(type="b"))
    leader = Replayer(cast(Store, HalfAway(h.store, "b")))
    for _ in range(3):
        h.advance(1.0)
        with pytest.raises(StoreUnavailableError):
            h.wait(leader.step())
    assert kept(h, older.id).state is ReplayState.DONE
    assert kept(h, newer.id).state is ReplayState.RUNNING
    h.advance(1.0)
    assert h.wait(Replayer(h.store).step()) == 2
