"""The exam that every store passes: import it, say how to open your store, run pytest.

A store's tests are a file like this one::

    import pytest
    from fencepost.testing.conformance import *  # noqa: F403
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
            "pausing",
            "pruning",
            "racing_keys",
            "rates",
            "recovering",
            "refusing",
            "reopening",
            "reopening_graphs",
            "saving",
            "scopes",
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

from fencepost.testing.conformance.access import TestAuditLog, TestTokens
from fencepost.testing.conformance.callbacks import TestCallbacks
from fencepost.testing.conformance.cancelling import TestCancelling
from fencepost.testing.conformance.chores import TestChores, TestFans
from fencepost.testing.conformance.claiming import TestClaiming, TestWaiting
from fencepost.testing.conformance.concurrency import TestConcurrency
from fencepost.testing.conformance.concurrency_keys import (
    TestConcurrencyKeys,
    TestKeysAndDependencies,
    TestKeyTurns,
)
from fencepost.testing.conformance.crons import TestCrons, TestFiring
from fencepost.testing.conformance.dates import TestDates
from fencepost.testing.conformance.deadletters import TestDeadLetters, TestReplaying
from fencepost.testing.conformance.deadlines import TestDeadlines, TestLeaseLengths
from fencepost.testing.conformance.dependencies import TestDependencies
from fencepost.testing.conformance.durability import TestDurability
from fencepost.testing.conformance.editing import TestEditing, TestRacingEdits
from fencepost.testing.conformance.ended import TestEnded
from fencepost.testing.conformance.enqueueing import TestEnqueueing, TestPayloads
from fencepost.testing.conformance.events import TestEvents
from fencepost.testing.conformance.fencing import TestFencing, TestZombies
from fencepost.testing.conformance.fixtures import colour, h, is_durable
from fencepost.testing.conformance.history import TestAttempts, TestHistories
from fencepost.testing.conformance.keyed_arrivals import TestKeyedArrivals
from fencepost.testing.conformance.keys import TestKeys
from fencepost.testing.conformance.lanes import TestLanes
from fencepost.testing.conformance.leases import TestLeases
from fencepost.testing.conformance.limits import TestLimits
from fencepost.testing.conformance.looking import (
    TestFinding,
    TestLooking,
    TestSituations,
    TestViews,
)
from fencepost.testing.conformance.moving import TestMoving
from fencepost.testing.conformance.moving_graphs import TestMovingGraphs
from fencepost.testing.conformance.ordering import TestOrdering
from fencepost.testing.conformance.pausing import TestPausing
from fencepost.testing.conformance.pruning import TestPruning
from fencepost.testing.conformance.racing_keys import TestMovingKeys, TestRacingKeys
from fencepost.testing.conformance.rates import TestRates, TestRatesOfMany, TestRatesRacing
from fencepost.testing.conformance.recovering import TestRecovering
from fencepost.testing.conformance.refusing import TestRefusedDependencies
from fencepost.testing.conformance.reopening import TestReopening
from fencepost.testing.conformance.reopening_graphs import (
    TestRacingDependencies,
    TestReopenedDependencies,
)
from fencepost.testing.conformance.saving import TestSaving
from fencepost.testing.conformance.scopes import TestScopes, TestSubmitters
from fencepost.testing.conformance.settling import TestFailing, TestRepeating, TestSettling
from fencepost.testing.conformance.sizes import TestSizes
from fencepost.testing.conformance.spawning import TestSpawning
from fencepost.testing.conformance.turns import TestTurns
from fencepost.testing.conformance.unreadable import TestUnreadable
from fencepost.testing.conformance.upkeep import TestExpiring, TestPromoting
from fencepost.testing.conformance.waking import TestWaking
from fencepost.testing.conformance.workers import TestLeading, TestWorkers

__all__ = [
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
    "TestRefusedDependencies",
    "TestReopenedDependencies",
    "TestReopening",
    "TestRepeating",
    "TestReplaying",
    "TestSaving",
    "TestScopes",
    "TestSettling",
    "TestSituations",
    "TestSizes",
    "TestSpawning",
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
