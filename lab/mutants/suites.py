"""Which part of which suite is asked to notice a mutant."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Place

NAMES = ("conformance", "nth", "model", "simulation")
"""The cheapest first."""

CONFORMANCE = {
    Place.MEMORY: "tests/store/test_conformance.py",
    Place.SQLITE: "tests/store/test_conformance.py",
    Place.POSTGRES: "tests/store/postgres/test_conformance.py",
    Place.REDIS: "tests/store/redis/test_conformance.py",
}
STRIDES = {"memory": 3, "sqlite": 6, "postgres": 20, "redis": 20}
"""Of the calls that fail: a store that is slow has fewer of them."""
OPERATIONS = "2500"
"""That are compared with the model."""
SEEDS = "5"
"""That are simulated."""


def arguments(mutant: Mutant, suite: str) -> tuple[str, ...]:
    """Return what the child has to run; an empty tuple if the suite is not for this mutant."""
    match suite:
        case "conformance":
            return _conformance(mutant)
        case _ if mutant.place is Place.SERVER:
            return ()
        case "nth":
            store = "memory" if mutant.place is Place.WORKER else mutant.place.value
            return (store, str(STRIDES[store]))
        case "model":
            return _model(mutant)
        case _:
            return _simulation(mutant)


def _conformance(mutant: Mutant) -> tuple[str, ...]:
    """Return node ids: classes of the conformance suite, and other tests as they are named."""
    named = [
        test if test.startswith("tests/") else f"{CONFORMANCE[mutant.place]}::{test}"
        for test in mutant.tests
    ]
    if mutant.place in (Place.MEMORY, Place.SQLITE):
        return (*named, "-k", mutant.place.value)
    return tuple(named)


def _model(mutant: Mutant) -> tuple[str, ...]:
    """Return the store to compare; the model knows of no worker."""
    if mutant.place is not Place.WORKER:
        return (mutant.place.value, OPERATIONS)
    is_shared = any(patch.target.startswith("fencepost.core.") for patch in mutant.patches)
    return ("memory", OPERATIONS) if is_shared else ()


def _simulation(mutant: Mutant) -> tuple[str, ...]:
    """Return how many seeds to live through; they run on the memory store, with SQLite's plans."""
    return () if mutant.place in (Place.POSTGRES, Place.REDIS) else (SEEDS,)


def needs_server(mutant: Mutant) -> bool:
    """Tell whether a PostgreSQL is needed."""
    return mutant.place is Place.POSTGRES or any("complete_in" in test for test in mutant.tests)
