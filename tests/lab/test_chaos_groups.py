"""Chaos on Redis servers that take over from each other: short runs, and what they rest on."""

from __future__ import annotations

from random import Random

import pytest
from tests.lab.test_chaos_checker import evidence, record, rules_broken, run_of, started
from tests.thoroughness import IS_FULL

from fencepost.store.redis.partitions.numbers import partition_of
from lab.chaos.checker import taken_back
from lab.chaos.entries import Acknowledged, Asked, Kept, Struck, Tried
from lab.chaos.evidence import Evidence
from lab.chaos.faults import kinds_for
from lab.chaos.nemesis import rounds
from lab.chaos.run import run
from lab.chaos.settings import LAYOUTS
from lab.chaos.tasks import BAIT_QUEUE, LEFT_QUEUE, QUEUE, RIGHT_QUEUE


@pytest.mark.parametrize("layout", LAYOUTS[1:])
def test_each_layout_has_faults_of_its_own_and_each_has_its_turn(layout: str) -> None:
    kinds = kinds_for("redis", layout=layout)
    assert {"kill_master", "kill_ahead", "stop_replica", "kill_worker"} <= {*kinds}
    assert ("move_slots" in kinds) is (layout != "sentinel")
    assert "kill_server" not in kinds
    drawn = rounds(kinds, Random(1))
    assert sorted(next(drawn)[0].name for _ in kinds) == sorted(kinds)


def test_what_is_asked_for_must_exist() -> None:
    with pytest.raises(ValueError, match="only redis has other layouts"):
        run(store="sqlite", layout="cluster")
    with pytest.raises(ValueError, match="durability= is for"):
        run(store="redis", durability="process")
    with pytest.raises(ValueError, match="by replica only"):
        run(store="redis", layout="partitions", durability="process")


def test_the_queues_of_a_run_are_in_the_partitions_that_it_needs() -> None:
    assert partition_of(BAIT_QUEUE) == partition_of(QUEUE), "jobs of one type with keys"
    assert len({partition_of(each) for each in (QUEUE, LEFT_QUEUE, RIGHT_QUEUE)}) == 3


# The checker.


def failed_over(*, may_lose: bool) -> Evidence:
    """Return a run with a failover from 30 to 34, in which a job is lost that had been answered."""
    found = evidence(record(1, run_of(1, 11.0, 11.5)), is_server=True, may_lose=may_lose)
    found.add(Struck(30.0, "kill_ahead", 34.0, is_wide=True))
    found.add(Asked(30.4, ["quick/bulk/2"]))
    found.add(Acknowledged(30.5, ["quick/bulk/2"], ["job-2"], 0.1))
    return found


def test_a_failover_takes_back_only_what_the_durability_allows() -> None:
    found = failed_over(may_lose=True)
    assert taken_back(found) == {"job-2"}
    assert rules_broken(found) == set()
    assert rules_broken(failed_over(may_lose=False)) == {"lost"}


def test_what_was_acknowledged_long_before_a_failover_must_be_there() -> None:
    found = failed_over(may_lose=True)
    found.add(Asked(20.0, ["quick/bulk/3"]))
    found.add(Acknowledged(20.1, ["quick/bulk/3"], ["job-3"], 0.1))
    assert rules_broken(found) == {"lost"}


@pytest.mark.parametrize(
    ("at", "may_lose", "broken"), [(31.0, True, False), (31.0, False, True), (25.0, True, True)]
)
def test_a_checkpoint_is_taken_back_only_with_what_else_was_lost(
    at: float, may_lose: bool, broken: bool
) -> None:
    found = evidence(
        record(1, run_of(1, 24.0, 33.0, "released"), run_of(2, 40.0, 40.1, number=1)),
        is_server=True,
        may_lose=may_lose,
    )
    found.add(Struck(30.0, "kill_master", 34.0, is_wide=True))
    found.add(started(1, 1, 24.1))
    found.add(Kept(at, "job-1", 1, 3))
    found.add(started(1, 2, 40.05))
    assert ("checkpoint_lost" in rules_broken(found)) is broken


@pytest.mark.parametrize(
    ("since", "at", "is_excused"), [(29.0, 30.5, True), (0.0, 30.5, False), (35.0, 35.2, False)]
)
def test_a_token_is_valid_again_only_if_a_failover_came_after_it_was_seen_stale(
    since: float, at: float, is_excused: bool
) -> None:
    """A lease whose time was over stays so."""
    found = evidence(
        record(1, run_of(1, 11.0, 11.5), result='"zombie"'), is_server=True, may_lose=True
    )
    found.add(Struck(30.0, "kill_ahead", 34.0, is_wide=True))
    found.add(Tried(at, 3, 2, 0, ["Settled for job-1"], ["job-1"], since))
    assert ("stale_accepted" in rules_broken(found)) is not is_excused


# A share of the real thing.

SHARES = [("sentinel", "process", "kill_ahead,forgotten_scripts")]
MORE = [
    ("partitions", "replica", "kill_ahead"),
    ("sentinel", "replica", "kill_ahead,demote_master,stop_replica"),
    ("cluster", "replica", "kill_master,move_slots,cut_replication"),
    ("partitions", "replica", "kill_ahead,move_slots,kill_worker"),
]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("layout", "durability", "kinds"), SHARES + (MORE if IS_FULL else []))
def test_a_failover_loses_no_more_than_its_durability_says_and_nothing_stale_is_written(
    layout: str, durability: str, kinds: str, redis_url: str
) -> None:
    del redis_url  # or it is skipped
    found = run(
        store="redis",
        layout=layout,
        durability=durability,
        seconds=0,
        kinds=kinds.split(","),
        seed=4,
        rate=50,
        workers=2,
        pause=0.2,
    )
    assert found.violations == [], f"see {found.ledgers}"
    assert found.skipped == {}
    assert sorted(found.injected) == sorted(kinds.split(","))
    assert found.acknowledged > 50
    assert found.stale_tried > 100
    assert found.stale_accepted == found.lost == 0
    assert found.taken_back == 0 or durability == "process"
