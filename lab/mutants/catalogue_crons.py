"""Mutants of the crons, in every store and in the worker that fires them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SQLITE = "fencepost.store.sqlite.records.crons"
POSTGRES = "fencepost.store.postgres.records.crons"
SHARED = "fencepost.store.sql.records.crons"


def _mutant(place: Place, name: str, about: str, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests)


TICK = "a tick is fired by everybody who comes to it"
PAUSE = "a paused cron fires"
TIMES = "a cron whose times have changed meanwhile is fired"
MISSED = "a cron that is declared again forgets which ticks were missed"

STORES = (
    _mutant(
        Place.SQLITE, "cron-tick-is-not-compared", TICK,
        Patch(SQLITE, "where name = ? and next_tick = ? and",
              "where name = ? and ? is not null and"),
        "TestFiring",
    ),
    _mutant(
        Place.SQLITE, "cron-pause-is-ignored", PAUSE, Patch(SQLITE, " and is_paused = 0", ""),
        "TestFiring",
    ),
    _mutant(
        Place.SQLITE, "cron-times-are-not-compared", TIMES,
        Patch(SQLITE, " and expression = ? and tz = ?", " and ? is not null and ? is not null"),
        "TestFiring",
    ),
    _mutant(
        Place.SQLITE, "cron-forgets-what-was-missed", MISSED,
        Patch(SHARED, "then known.next_tick else", "then excluded.next_tick else"),
        "TestCrons",
    ),
    _mutant(
        Place.SQLITE, "cron-resume-makes-up", "a resumed cron goes on where it was paused",
        Patch(SQLITE, "case when is_paused then ? else", "case when ? is null then null else"),
        "TestCrons",
    ),
    _mutant(
        Place.POSTGRES, "cron-tick-is-not-compared", TICK,
        Patch(POSTGRES, "and next_tick = %s::timestamptz and",
              "and %s::timestamptz is not null and"),
        "TestFiring",
    ),
    _mutant(
        Place.POSTGRES, "cron-pause-is-ignored", PAUSE, Patch(POSTGRES, " and not is_paused", ""),
        "TestFiring",
    ),
)  # fmt: skip

WORKER = (
    _mutant(
        Place.WORKER, "cron-skipping-goes-too-far", "a tick within its grace is passed over",
        Patch(
            "fencepost.core.cron", "if now - tick < GRACE]", "if now - tick < GRACE and False]"
        ),
        "tests/core/test_cron.py",
    ),
    _mutant(
        Place.WORKER, "cron-repeats-an-hour", "in autumn, a fixed time can tick a second time",
        Patch("fencepost.core.cron", "                if tick > last:\n",
              "                if tick != last:\n"),
        "tests/core/test_schedule.py",
    ),
    _mutant(
        Place.WORKER, "cron-is-taken-back-and-forth", "two versions of an app take turns",
        Patch("fencepost.maintenance.ticker",
              "DECLARE_INTERVAL if has_same_times(cron, row) else SILENCE", "DECLARE_INTERVAL"),
        "tests/maintenance/test_ticker.py",
    ),
)  # fmt: skip

MUTANTS = (*STORES, *WORKER)
