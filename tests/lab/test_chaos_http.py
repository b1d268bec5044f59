"""Chaos for workers in another language, who come by HTTP: a share of what the lab does."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from tests.thoroughness import IS_FULL

from fencepost.core.job.lifecycle import State
from fencepost.store.interface.queue import AlreadySettled, LeaseLost
from lab.chaos.crew import CLERK_QUEUES, NODE_WORKER
from lab.chaos.entries import Killed, Served, Stalled, Stopped
from lab.chaos.evidence import Evidence
from lab.chaos.faults import STORES, kinds_for
from lab.chaos.ledger import Ledger
from lab.chaos.run import run
from lab.chaos.settings import Settings
from lab.chaos.tasks import declare, make_app
from lab.chaos.writes import reply_of

node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")

KINDS = ("kill_worker", "stop_worker", "kill_api", "api_cut_before")


def test_the_api_is_hurt_only_where_workers_need_it() -> None:
    for store in STORES:
        added = set(kinds_for(store, "node")) - set(kinds_for(store))
        assert {"kill_api", "stop_api", "terminate_api", "api_cut_before"} < added


def test_an_answer_that_is_no_refusal_counts_as_accepted() -> None:
    refused = {"id": "a", "status": 409, "code": "stale_lease", "state": "running"}
    repeated = {"id": "a", "status": 200, "state": "completed", "repeated": True}
    granted = {"id": "a", "status": 200, "state": "completed", "repeated": False}
    assert reply_of(refused) == LeaseLost("a")
    assert reply_of(repeated) == AlreadySettled("a", State.COMPLETED)
    assert reply_of(granted) is granted


def test_an_api_that_is_away_explains_lost_leases_until_the_next_one_listens() -> None:
    evidence = Evidence(ttl=1.0)
    for line in (
        Served(10.0, 7),
        Killed(20.0, 7, "api"),
        Served(22.0, 8),
        Stopped(30.0, 8, "api", 32.0),
        Stalled(41.0, 8, 1.0),
        Killed(50.0, 9, "worker"),
    ):
        evidence.add(line)
    assert evidence.wide(0.5).spans == [(20.0, 22.5), (30.0, 32.5), (40.0, 41.5)]


def test_workers_in_javascript_know_all_that_comes_to_them(tmp_path: Path) -> None:
    """Else a job that only some runs make, such as a cron's, waits until the run gives up."""
    settings = Settings(store="sqlite", folder=str(tmp_path), kinds=KINDS)
    with make_app("memory://", settings) as app:
        declare(app, settings, Ledger(tmp_path, "test"))
        types = {task.type for task in app.session.tasks.values() if task.queue not in CLERK_QUEUES}
    handlers = NODE_WORKER.read_text().partition("await work({")[2]
    assert set(re.findall(r"^  (\w+)[:,]", handlers, re.MULTILINE)) == types


@node
@pytest.mark.timeout(300)
@pytest.mark.parametrize("store", STORES if IS_FULL else ["sqlite"])
def test_a_worker_in_javascript_loses_nothing_and_writes_nothing_stale(store: str) -> None:
    found = run(
        store=store,
        fleet="node",
        seconds=0,
        kinds=KINDS,
        seed=3,
        rate=60,
        workers=2,
        pause=0.2,
    )
    assert found.violations == [], f"see {found.ledgers}"
    assert found.skipped == {}
    assert sorted(found.injected) == sorted(KINDS)
    assert found.acknowledged > 100
    assert found.stale_tried > 100
    assert found.stale_accepted == 0


@node
@pytest.mark.timeout(300)
def test_a_server_that_ignores_tokens_is_found_out() -> None:
    found = run(
        store="sqlite",
        fleet="node",
        mutant="ignore_tokens",
        seconds=6,
        kinds=["stop_worker"],
        seed=3,
        rate=60,
        workers=2,
        pause=0.2,
    )
    assert {"stale_accepted", "settled_once"} & set(found.violations_by_rule)
    assert found.ledgers is not None
    shutil.rmtree(found.ledgers)
