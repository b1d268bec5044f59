"""The suite that every store passes: import it, say how to open your store, run pytest.

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

Each test runs twice, with ``store.run`` and with ``store.run_async``; it names in its docstring the
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
            "cancellation",
            "checkpoints",
            "chores",
            "claims",
            "concurrency",
            "concurrency_keys",
            "crons",
            "dates",
            "dead_letters",
            "deadlines",
            "dependencies",
            "durability",
            "edits",
            "ends",
            "events",
            "fences",
            "flow_lists",
            "graphs",
            "harness",
            "history",
            "key_arrivals",
            "key_races",
            "keys",
            "lanes",
            "leases",
            "limits",
            "lookups",
            "new_jobs",
            "order",
            "pages",
            "pauses",
            "rates",
            "recovery",
            "refusals",
            "refused_dependencies",
            "replays",
            "retention",
            "retries",
            "retries_in_graphs",
            "scopes",
            "series",
            "settlements",
            "sizes",
            "spawns",
            "transfer",
            "transfer_of_graphs",
            "turns",
            "unreadable",
            "upkeep",
            "wakeups",
            "workers",
        )
    )
)

from conformance.acceptance import TestAcceptance
from conformance.access import TestAuditLog, TestSessions, TestTokens
from conformance.callbacks import TestCallbacks
from conformance.cancellation import TestCancelling
from conformance.checkpoints import TestSaving
from conformance.chores import TestChores, TestFans
from conformance.claims import TestClaiming, TestWaiting
from conformance.concurrency import TestConcurrency
from conformance.concurrency_keys import (
    TestConcurrencyKeys,
    TestKeysAndDependencies,
    TestKeyTurns,
)
from conformance.crons import TestCrons, TestFiring
from conformance.dates import TestDates
from conformance.dead_letters import TestDeadLetters, TestReplaying
from conformance.deadlines import TestDeadlines, TestLeaseLengths
from conformance.dependencies import TestDependencies
from conformance.durability import TestDurability
from conformance.edits import TestEditing, TestRacingEdits
from conformance.ends import TestEnded
from conformance.events import TestEvents
from conformance.fences import TestFencing, TestZombies
from conformance.fixtures import colour, h, is_durable
from conformance.flow_lists import TestFlowLists
from conformance.history import TestAttempts, TestHistories
from conformance.key_arrivals import TestKeyedArrivals
from conformance.key_races import TestMovingKeys, TestRacingKeys
from conformance.keys import TestKeys
from conformance.lanes import TestLanes
from conformance.leases import TestLeases
from conformance.limits import TestLimits
from conformance.lookups import (
    TestFinding,
    TestLooking,
    TestSituations,
    TestViews,
)
from conformance.new_jobs import TestEnqueueing, TestPayloads
from conformance.order import TestOrdering
from conformance.pages import TestPages
from conformance.pauses import TestPausing
from conformance.rates import TestRates, TestRatesOfMany, TestRatesRacing
from conformance.recovery import TestRecovering
from conformance.refusals import TestRefusals
from conformance.refused_dependencies import TestRefusedDependencies
from conformance.replays import TestReplays, TestReplaysThatBreak
from conformance.retention import TestPruning
from conformance.retries import TestReopening
from conformance.retries_in_graphs import (
    TestRacingDependencies,
    TestReopenedDependencies,
)
from conformance.scopes import TestScopes, TestSubmitters
from conformance.series import TestSeries
from conformance.settlements import TestFailing, TestRepeating, TestSettling
from conformance.sizes import TestSizes
from conformance.spawns import TestSpawning, TestSpawningIntoOtherQueues
from conformance.transfer import TestMoving
from conformance.transfer_of_graphs import TestMovingGraphs
from conformance.turns import TestTurns
from conformance.unreadable import TestUnreadable
from conformance.upkeep import TestExpiring, TestPromoting
from conformance.wakeups import TestWaking
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
