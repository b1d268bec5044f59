"""The fixtures behind the tests; only ``make_store`` is left to the author of a store."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from conformance.harness import Colour, Harness, MakeStore


@pytest.fixture(params=list(Colour), ids=str)
def colour(request: pytest.FixtureRequest) -> Colour:
    """Run each test blocking and awaited."""
    return Colour(request.param)


@pytest.fixture
def is_durable() -> bool:
    """Override it with one that returns False where a reopened store is empty."""
    return True


@pytest.fixture
def h(make_store: MakeStore, is_durable: bool, colour: Colour) -> Iterator[Harness]:
    """A fresh store, its clock and shorthands."""
    harness = Harness(make_store, colour=colour, is_durable=is_durable)
    yield harness
    harness.close()
