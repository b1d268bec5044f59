"""Mutants of concurrency keys, in every store."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SQLITE = "fencepost.store.sqlite"
SQL = "fencepost.store.postgres.schema/*.sql"


def _mutant(place: Place, name: str, about: str, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests)


ONE_TOO_MANY = "one more job of a key is let in than may be"
FORGOTTEN = "a job that fell due is held up, and nobody looks whether a slot is free"
KEPT = "a job that is tried again keeps its slot, and nobody is let in"
STANDING = "who is let in keeps the place of its submission: the largest tenant comes first"

MUTANTS = (
    _mutant(
        Place.SQLITE,
        "key-keeps-the-place-in-line",
        STANDING,
        Patch(
            f"{SQLITE}.limits.concurrency",
            "set state = {SCHEDULED}, run_at = ?, scheduled_at = ?",
            "set state = {SCHEDULED}, run_at = min(run_at, ?), scheduled_at = ?",
        ),
        "TestKeyTurns",
    ),
    _mutant(
        Place.SQLITE,
        "key-lets-one-too-many-in",
        ONE_TOO_MANY,
        Patch(
            f"{SQLITE}.limits.concurrency",
            "slot.active + place >= _limit(",
            "slot.active + place > _limit(",
        ),
        "TestConcurrencyKeys",
    ),
    _mutant(
        Place.SQLITE,
        "key-is-not-asked-when-due",
        FORGOTTEN,
        Patch(
            f"{SQLITE}.jobs.upkeep",
            "    admitted = yield from admit(env, held, now, counters)\n",
            "    admitted = yield from admit(env, (), now, counters)\n",
        ),
        "TestConcurrencyKeys",
    ),
    _mutant(
        Place.SQLITE,
        "key-of-a-retry-is-kept",
        KEPT,
        Patch(
            f"{SQLITE}.flows.dependents",
            "for each in endings if each.decision.event is not Event.RELEASE]",
            "for each in endings if each.decision.state.is_terminal]",
        ),
        "TestKeyTurns",
    ),
    _mutant(
        Place.SQLITE,
        "key-counts-only-those-that-run",
        "a job that is claimable takes up no slot",
        Patch(
            f"{SQLITE}.limits.concurrency",
            "where jobs.slot = freed.slot and jobs.state in ({SCHEDULED}, {RUNNING})",
            "where jobs.slot = freed.slot and jobs.state in ({RUNNING})",
        ),
        "TestConcurrencyKeys",
    ),
    _mutant(
        Place.POSTGRES,
        "key-lets-one-too-many-in",
        ONE_TOO_MANY,
        Patch(
            SQL, "bool_and(active + n <= max_running)", "bool_and(active + n - 1 <= max_running)"
        ),
        "TestKeyTurns",
    ),
    _mutant(
        Place.POSTGRES,
        "key-of-a-retry-is-kept",
        KEPT,
        Patch(
            SQL,
            "and ((was in (:SCHEDULED, :RUNNING) and state not in (:SCHEDULED, :RUNNING))",
            "and ((was in (:SCHEDULED, :RUNNING) and state > :RETRYING)",
        ),
        "TestKeyTurns",
    ),
    _mutant(
        Place.POSTGRES,
        "key-is-not-noted",
        "who finds a slot in the hands of another leaves no note, and jobs that wait are forgotten",
        Patch(
            SQL,
            "where x.slot not in (select unnest(v_got)) group by x.slot;",
            "where false and x.slot not in (select unnest(v_got)) group by x.slot;",
        ),
        "TestRacingKeys",
    ),
    _mutant(
        Place.POSTGRES,
        "key-notes-are-not-looked-at",
        "what was noted of a slot is never acted upon",
        Patch(SQL, "    perform fencepost.admit_noted(p_now);\n", "    perform 1;\n"),
        "TestRacingKeys",
    ),
)
