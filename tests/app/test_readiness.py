"""Whether an app could be served: asked of the store, briefly, and not too often."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fencepost import App
from fencepost.actions.health import Readiness
from fencepost.errors import StoreUnavailableError
from fencepost.store.memory.store import MemoryStore
from fencepost.testing.clock import FakeClock


class Rig:
    """An app on a memory store that can be told how to answer."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.store = MemoryStore(clock=self.clock)
        self.app = App("memory://", store=self.store)
        self.readiness = Readiness(self.app.session)
        self.asked = 0

    async def codes(self, *, is_stopping: bool = False) -> list[str]:
        found = await self.readiness.check(is_stopping=is_stopping)
        return [reason.partition(":")[0] for reason in found.reasons]


@pytest.fixture
def rig() -> Iterator[Rig]:
    made = Rig()
    yield made
    made.app.close()


async def test_an_app_whose_store_answers_is_ready(rig: Rig) -> None:
    assert await rig.codes() == []


async def test_one_that_stops_is_not_whatever_its_store_says(rig: Rig) -> None:
    assert await rig.codes(is_stopping=True) == ["stopping"]


async def test_a_store_that_is_away_is_named_until_it_is_back(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def away(operation: Any) -> Any:
        raise StoreUnavailableError("no route")

    with monkeypatch.context() as patch:
        patch.setattr(rig.store, "run_async", away)
        assert await rig.codes() == ["store_unavailable"]
    rig.clock.advance(1)
    assert await rig.codes() == []


async def test_a_store_that_hangs_is_waited_for_briefly_and_asked_once(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()
    asked: list[str] = []

    async def slow(operation: Any) -> Any:
        asked.append(operation.name)
        await gate.wait()

    monkeypatch.setattr("fencepost.actions.health.READY_TIMEOUT", 0.02)
    monkeypatch.setattr(rig.store, "run_async", slow)
    assert await rig.codes() == ["store_unavailable"]
    rig.clock.advance(1)
    assert await rig.codes() == ["store_unavailable"]
    assert asked == ["app_limit"]
    gate.set()
    rig.clock.advance(1)
    assert await rig.codes() == []


async def test_many_probes_at_once_are_one_question(rig: Rig) -> None:
    """S2-38."""
    found = await asyncio.gather(*(rig.readiness.check() for _ in range(20)))
    assert all(each.is_ok for each in found)
    assert rig.app.session.counters.get("store.operation", operation="app_limit") == 1
    rig.clock.advance(0.5)
    await rig.codes()
    assert rig.app.session.counters.get("store.operation", operation="app_limit") == 1


async def test_a_schema_that_is_not_there_yet_is_told_with_what_to_do(postgres_url: str) -> None:
    with App(postgres_url) as app:
        found = await Readiness(app.session).check()
        assert not found.is_ok
        assert "fencepost migrate" in found.reasons[0]
        app.migrate()
        assert (await Readiness(app.session).check()).is_ok


async def test_a_store_that_cannot_be_opened_is_told_of(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/no/such/folder/jobs.db") as app:
        found = await Readiness(app.session).check()
    assert not found.is_ok
