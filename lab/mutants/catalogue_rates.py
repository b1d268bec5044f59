"""Mutants of the rates, in every store and in the worker that declares them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

CORE = "fencepost.core.limits.rates"
SQLITE = "fencepost.store.sqlite"
SQL = "fencepost.store.postgres.schema/*.sql"
WORKER = "fencepost.worker"


def _mutant(place: Place, name: str, about: str, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests)


FIXED = "windows do not slide: they begin at whole multiples of their length"
UNWRITTEN = "what starts is not written down"
UNSHARED = "several queues of one type each have the whole rate"
HIDING = "a type that may not start keeps its place in the claim, and other jobs from it"

AHEAD = "a clock that is set back stops a type until it has caught up"

STORES = (
    _mutant(
        Place.MEMORY, "rate-waits-for-the-clock", AHEAD,
        Patch(CORE, "        return uses if ahead <= 0 else", "        return uses if True else"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-waits-for-the-clock", AHEAD,
        Patch(f"{SQLITE}.limits.rates", "newest > rate.moment(self._now)", "newest < 0"),
        "TestRates",
    ),
    _mutant(
        Place.POSTGRES, "rate-waits-for-the-clock", AHEAD,
        Patch(SQL, "    exit when v_is_ahead is not true;\n", "    exit;\n"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-window-does-not-slide", FIXED,
        Patch(f"{SQLITE}.limits.rates", "        since = self._now - rate.window_us\n",
              "        since = self._now // rate.window_us * rate.window_us - 1\n"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-counts-an-instant-too-long",
        "`>=` for `>`: a start counts also when it is as old as the window",
        Patch(f"{SQLITE}.limits.rates", "        since = self._now - rate.window_us\n",
              "        since = self._now - rate.window_us - 1\n"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-is-not-used", UNWRITTEN,
        Patch(f"{SQLITE}.limits.rates", "            yield Statement(NOTE, rows, many=True)\n",
              "            assert rows\n"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-is-not-shared", UNSHARED,
        Patch(f"{SQLITE}.limits.rates", "            self._left[type] -= number\n",
              "            assert number\n"),
        "TestRates",
    ),
    _mutant(
        Place.SQLITE, "rate-takes-turns-for-nothing", HIDING,
        Patch(f"{SQLITE}.jobs.claim", "        lanes = _allowed(lanes, budget)\n", ""),
        "TestRates",
    ),
    _mutant(
        Place.POSTGRES, "rate-window-does-not-slide", FIXED,
        Patch(SQL, "where u.type = r.type and u.at > v_now - r.window_us",
              "where u.type = r.type and u.at >= v_now / r.window_us * r.window_us"),
        "TestRates",
    ),
    _mutant(
        Place.POSTGRES, "rate-is-not-locked", "claimers at once count the same room",
        Patch(SQL, "  perform fencepost.lock_types(types);\n", ""),
        "TestRatesRacing",
    ),
    _mutant(
        Place.POSTGRES, "rate-is-not-used", UNWRITTEN,
        Patch(SQL, "where x.spent > 0 and b.moments[x.place] is not null",
              "where x.spent > 1000000 and b.moments[x.place] is not null"),
        "TestRates",
    ),
    _mutant(
        Place.POSTGRES, "rate-takes-turns-for-nothing", HIDING,
        Patch(SQL, "    b.paused := b.paused || a.closed;\n", ""),
        "TestRates",
    ),
)  # fmt: skip

WORKERS = (
    _mutant(
        Place.WORKER, "rate-is-declared-only-where-there-is-one",
        "the rate of an earlier version of the app outlives it",
        Patch(f"{WORKER}.run.fetcher", "for type, task in tasks.items()}",
              "for type, task in tasks.items() if task.limits.rate}"),
        "tests/worker/test_rates.py",
    ),
    _mutant(
        Place.WORKER, "rate-is-declared-once", "a worker that was not heard claims regardless",
        Patch(f"{WORKER}.run.fetcher",
              "            await store.clock.sleep_async(backoff.failed(error))\n",
              "            backoff.failed(error)\n            return\n"),
        "tests/worker/test_rates.py",
    ),
)  # fmt: skip

MUTANTS = (*STORES, *WORKERS)
