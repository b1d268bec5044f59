"""The exam that every store passes: import it, say how to open your store, run pytest.

A store's tests are a file like this one::

    import pytest
    from conformance import *  # noqa: F403
    from mine import MyStore

    @pytest.fixture
    def make_store(tmp_path):
        return lambda clock: MyStore(tmp_path / "jobs", clock=clock)

``make_store`` returns a function that is given a ``FakeClock`` and returns an open store, schema
and all, which judges every time by that clock. The first call opens an empty store; each further
call of the same function opens the *same data* once more, also while stores opened before are
still open. A store that keeps nothing beyond its object says so, and its reopened stores must then
be empty::

    @pytest.fixture
    def is_durable():
        return False

Each test runs in both colours, ``store.run`` and ``store.run_async``; it names in its docstring the
requirements that it proves (``S0-40``) and the resolutions that it follows (``C10``). None sleeps:
time moves when the test moves the clock.
"""

# ruff: noqa: E402 - pytest must be told to rewrite the assertions before the modules are imported

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in (
            "acceptance",
            "access",
            "callbacks",
            "cancelling",
            "chores",
            "claiming",
            "concurrency",
            "concurrency_keys",
            "crons",
            "dates",
            "deadletters",
            "deadlines",
            "dependencies",
            "durability",
            "editing",
            "ended",
            "enqueueing",
            "events",
            "fencing",
            "flow_lists",
            "graphs",
            "harness",
            "history",
            "keyed_arrivals",
            "keys",
            "lanes",
            "leases",
            "limits",
            "looking",
            "moving",
            "moving_graphs",
            "ordering",
            "pages",
            "pausing",
            "pruning",
            "racing_keys",
            "rates",
            "recovering",
            "refusals",
            "refusing",
            "replays",
            "reopening",
            "reopening_graphs",
            "saving",
            "scopes",
            "series",
            "settling",
            "sizes",
            "spawning",
            "turns",
            "unreadable",
            "upkeep",
            "waking",
            "workers",
        )
    )
)

from conformance.acceptance import TestAcceptance
from conformance.access import TestAuditLog, TestSessions, TestTokens
from conformance.callbacks import TestCallbacks
from conformance.cancelling import TestCancelling
from conformance.chores import TestChores, TestFans
from conformance.claiming import TestClaiming, TestWaiting
from conformance.concurrency import TestConcurrency
from conformance.concurrency_keys import (
    TestConcurrencyKeys,
    TestKeysAndDependencies,
    TestKeyTurns,
)
from conformance.crons import TestCrons, TestFiring
from conformance.dates import TestDates
from conformance.deadletters import TestDeadLetters, TestReplaying
from conformance.deadlines import TestDeadlines, TestLeaseLengths
from conformance.dependencies import TestDependencies
from conformance.durability import TestDurability
from conformance.editing import TestEditing, TestRacingEdits
from conformance.ended import TestEnded
from conformance.enqueueing import TestEnqueueing, TestPayloads
from conformance.events import TestEvents
from conformance.fencing import TestFencing, TestZombies
from conformance.fixtures import colour, h, is_durable
from conformance.flow_lists import TestFlowLists
from conformance.history import TestAttempts, TestHistories
from conformance.keyed_arrivals import TestKeyedArrivals
from conformance.keys import TestKeys
from conformance.lanes import TestLanes
from conformance.leases import TestLeases
from conformance.limits import TestLimits
from conformance.looking import (
    TestFinding,
    TestLooking,
    TestSituations,
    TestViews,
)
from conformance.moving import TestMoving
from conformance.moving_graphs import TestMovingGraphs
from conformance.ordering import TestOrdering
from conformance.pages import TestPages
from conformance.pausing import TestPausing
from conformance.pruning import TestPruning
from conformance.racing_keys import TestMovingKeys, TestRacingKeys
from conformance.rates import TestRates, TestRatesOfMany, TestRatesRacing
from conformance.recovering import TestRecovering
from conformance.refusals import TestRefusals
from conformance.refusing import TestRefusedDependencies
from conformance.reopening import TestReopening
from conformance.reopening_graphs import (
    TestRacingDependencies,
    TestReopenedDependencies,
)
from conformance.replays import TestReplays, TestReplaysThatBreak
from conformance.saving import TestSaving
from conformance.scopes import TestScopes, TestSubmitters
from conformance.series import TestSeries
from conformance.settling import TestFailing, TestRepeating, TestSettling
from conformance.sizes import TestSizes
from conformance.spawning import TestSpawning, TestSpawningIntoOtherQueues
from conformance.turns import TestTurns
from conformance.unreadable import TestUnreadable
from conformance.upkeep import TestExpiring, TestPromoting
from conformance.waking import TestWaking
from conformance.workers import TestLeading, TestWorkers

__all__ = [
    "TestAcceptance",
    "TestAttempts",
    "TestAuditLog",
    "TestCallbacks",
    "TestCancelling",
    "TestChores",
    "TestClaiming",
    "TestConcurrency",
    "TestConcurrencyKeys",
    "TestCrons",
    "TestDates",
    "TestDeadLetters",
    "TestDeadlines",
    "TestDependencies",
    "TestDurability",
    "TestEditing",
    "TestEnded",
    "TestEnqueueing",
    "TestEvents",
    "TestExpiring",
    "TestFailing",
    "TestFans",
    "TestFencing",
    "TestFinding",
    "TestFiring",
    "TestFlowLists",
    "TestHistories",
    "TestKeyTurns",
    "TestKeyedArrivals",
    "TestKeys",
    "TestKeysAndDependencies",
    "TestLanes",
    "TestLeading",
    "TestLeaseLengths",
    "TestLeases",
    "TestLimits",
    "TestLooking",
    "TestMoving",
    "TestMovingGraphs",
    "TestMovingKeys",
    "TestOrdering",
    "TestPages",
    "TestPausing",
    "TestPayloads",
    "TestPromoting",
    "TestPruning",
    "TestRacingDependencies",
    "TestRacingEdits",
    "TestRacingKeys",
    "TestRates",
    "TestRatesOfMany",
    "TestRatesRacing",
    "TestRecovering",
    "TestRefusals",
    "TestRefusedDependencies",
    "TestReopenedDependencies",
    "TestReopening",
    "TestRepeating",
    "TestReplaying",
    "TestReplays",
    "TestReplaysThatBreak",
    "TestSaving",
    "TestScopes",
    "TestSeries",
    "TestSessions",
    "TestSettling",
    "TestSituations",
    "TestSizes",
    "TestSpawning",
    "TestSpawningIntoOtherQueues",
    "TestSubmitters",
    "TestTokens",
    "TestTurns",
    "TestUnreadable",
    "TestViews",
    "TestWaiting",
    "TestWaking",
    "TestWorkers",
    "TestZombies",
    "colour",
    "h",
    "is_durable",
]
