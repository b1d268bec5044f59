"""The fault at the N-th store call: a share of it; `python -m lab.nth` runs it all."""

from __future__ import annotations

import pytest
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.thoroughness import IS_FULL

from lab.nth.scenarios import SCENARIOS
from lab.nth.suite import Report, run

# Thousands of answers are awaited one by one, each for as long as the machine is busy.
pytestmark = pytest.mark.timeout(300)


def check(report: Report, *, faults: int) -> None:
    """See that every promise held, and that it was put to the test."""
    assert report.failures == []
    assert report.faults >= faults


def test_there_are_enough_scenarios() -> None:
    assert len(SCENARIOS) >= 6


@pytest.mark.parametrize("offset", range(4 if IS_FULL else 1))
def test_any_call_may_fail_on_the_memory_store(offset: int) -> None:
    """Every eighth call of every scenario, before it took effect and after; or every one."""
    stride, faults = (4, 180) if IS_FULL else (8, 90)
    check(run(stores=["memory"], stride=stride, offset=offset), faults=faults)


@pytest.mark.parametrize("offset", (0, 4) if IS_FULL else (4,))
def test_any_call_may_fail_on_sqlite(offset: int) -> None:
    """Other calls than on the memory store, which runs the same plans."""
    stride, faults = (8, 80) if IS_FULL else (16, 40)
    check(run(stores=["sqlite"], stride=stride, offset=offset), faults=faults)


@pytest.mark.parametrize("source", postgres_sources() if IS_FULL else postgres_sources()[:1])
def test_any_call_may_fail_on_postgresql(source: str, fresh_postgres: FreshPostgres) -> None:
    offset = 11 + 3 * postgres_sources().index(source)
    url = fresh_postgres(source)
    stride, faults = (60, 20) if IS_FULL else (120, 10)
    check(run(stores=["postgres"], stride=stride, offset=offset, postgres_url=url), faults=faults)


@pytest.mark.parametrize("offset", (7, 47) if IS_FULL else (7,))
def test_any_call_may_fail_on_redis(offset: int, redis_url: str) -> None:
    """A commit whose answer is lost, a settlement and a submission that are repeated."""
    check(run(stores=["redis"], stride=80, offset=offset, redis_url=redis_url), faults=10)
