"""Mutants of what has ended and when, of times of creation, and of what is worked out from them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SQLITE = "fencepost.store.sqlite"
POSTGRES = "fencepost.store.postgres"


def _ended(place: Place, name: str, about: str, *patches: Patch) -> Mutant:
    return Mutant(f"{place}-ended-{name}", about, place, patches, ("TestEnded",))


def _dated(place: Place, name: str, about: str, patch: Patch) -> Mutant:
    return Mutant(f"{place}-created-{name}", about, place, (patch,), ("TestDates",))


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


BY_NUMBER = "jobs that ended are in the order of their submission"
ONE_WAY = "the oldest come first, though the newest were asked for"
LATER = "`>` for `>=`: what ended at the very time that is given is left out"
AFTER = "`>` for `>=`: a job that was created at the very time is not found after it"
BEFORE = "`<=` for `<`: a job that was created at the very time is found before it, too"

MUTANTS = (
    _ended(
        Place.SQLITE,
        "by-number",
        BY_NUMBER,
        Patch(
            f"{SQLITE}.records.overview",
            "order by completed_at {way}, seq {way}",
            "order by seq {way}",
        ),
    ),
    _ended(
        Place.POSTGRES,
        "by-number",
        BY_NUMBER,
        Patch(
            f"{POSTGRES}.records.overview",
            "order by completed_at {way}, seq {way} limit",
            "order by seq {way} limit",
        ),
        Patch(
            f"{POSTGRES}.records.overview", "order by p.completed_at {way}, p.seq", "order by p.seq"
        ),
    ),
    _ended(
        Place.SQLITE,
        "one-way",
        ONE_WAY,
        Patch(
            f"{SQLITE}.records.overview",
            "newest_first=newest_first, goes_on",
            "newest_first=False, goes_on",
        ),
    ),
    _ended(
        Place.POSTGRES,
        "one-way",
        ONE_WAY,
        Patch(
            f"{POSTGRES}.records.overview",
            "newest_first=newest_first, goes_on",
            "newest_first=False, goes_on",
        ),
    ),
    _ended(
        Place.SQLITE,
        "later-only",
        LATER,
        Patch(f"{SQLITE}.records.overview", "completed_at >= ?", "completed_at > ?"),
    ),
    _ended(
        Place.POSTGRES,
        "later-only",
        LATER,
        Patch(
            f"{POSTGRES}.records.overview", "where completed_at >= %s", "where completed_at > %s"
        ),
    ),
    _ended(
        Place.POSTGRES,
        "page-ends-with-the-first-second",
        "a page that is not full after the first second has no more",
        Patch(
            f"{POSTGRES}.records.overview", "        if len(rows) > limit:\n", "        if rows:\n"
        ),
    ),
    _dated(
        Place.SQLITE,
        "after",
        AFTER,
        Patch(f"{SQLITE}.jobs.search", '"created_at >= ?"', '"created_at > ?"'),
    ),
    _dated(
        Place.SQLITE,
        "before",
        BEFORE,
        Patch(f"{SQLITE}.jobs.search", '"created_at < ?"', '"created_at <= ?"'),
    ),
    _dated(
        Place.POSTGRES,
        "after",
        AFTER,
        Patch(f"{POSTGRES}.jobs.search", '"j.created_at >= %s"', '"j.created_at > %s"'),
    ),
    _dated(
        Place.POSTGRES,
        "before",
        BEFORE,
        Patch(f"{POSTGRES}.jobs.search", '"j.created_at < %s"', '"j.created_at <= %s"'),
    ),
    _mutant(
        "follower-has-no-overlap",
        "an end that commits late, at a place that was read before, is never reported",
        "core.stats.statistics",
        "return max(self._newest, FIRST + OVERLAP) - OVERLAP",
        "return max(self._newest, FIRST)",
        "tests/core/test_ended.py",
    ),
    _mutant(
        "follower-tells-twice",
        "an end is reported again whenever it is read",
        "core.stats.statistics",
        "fresh = [job for job in jobs if job.position not in self._reported]",
        "fresh = list(jobs)",
        "tests/core/test_ended.py",
    ),
    _mutant(
        "percentiles-are-one-too-high",
        "a percentile is the rank behind the nearest",
        "core.stats.statistics",
        "ranked[math.ceil(len(ranked) * p / 100) - 1]",
        "ranked[min(math.ceil(len(ranked) * p / 100), len(ranked) - 1)]",
        "tests/core/test_statistics.py",
    ),
    _mutant(
        "percentiles-are-one-too-low",
        "a percentile is the rank before the nearest",
        "core.stats.statistics",
        "ranked[math.ceil(len(ranked) * p / 100) - 1]",
        "ranked[max(math.ceil(len(ranked) * p / 100) - 2, 0)]",
        "tests/core/test_statistics.py",
    ),
    _mutant(
        "paused-queue-wants-workers",
        "a queue that is paused asks for slots that could do nothing",
        "core.stats.overview",
        "    if load.is_paused:\n        return load.running\n",
        "",
        "tests/core/test_scale.py",
    ),
    _mutant(
        "paused-queue-drains",
        "a queue that is paused says when it will be empty",
        "core.stats.overview",
        "if load.is_paused or usable == 0:",
        "if usable == 0:",
        "tests/core/test_scale.py",
    ),
    _mutant(
        "scale-asks-nobody-whether-a-queue-is-paused",
        "the pause of a queue is not looked at when it is asked how many slots it could use",
        "actions.local.queues",
        "is_paused=queue.is_paused,",
        "is_paused=False,",
        "tests/app/test_stats.py",
    ),
)
