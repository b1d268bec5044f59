"""Mutants of events: in each store, in what all stores share, and in what sends them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

APP_TESTS = "tests/app/test_events.py"


def _mutant(name: str, about: str, place: Place, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests or ("TestEvents",))


MUTANTS = (
    _mutant(
        "event-key-is-dropped",
        "the key of an event is on record, and on no handler's job",
        Place.WORKER,
        Patch(
            "fencepost.actions.local.events",
            "options = Options(key=key, key_window=None, on_duplicate=on_duplicate)",
            "options = Options(key_window=None, on_duplicate=on_duplicate)",
        ),
        APP_TESTS,
    ),
    _mutant(
        "event-key-outlives-its-job",
        "the key of an event is held for a day, though its job has ended",
        Place.WORKER,
        Patch(
            "fencepost.actions.local.events",
            "options = Options(key=key, key_window=None, on_duplicate=on_duplicate)",
            "options = Options(key=key, on_duplicate=on_duplicate)",
        ),
        APP_TESTS,
    ),
    _mutant(
        "long-wildcard-means-nothing-too",
        "`user.**` means `user`",
        Place.WORKER,
        Patch(
            "fencepost.core.events",
            "if len(words) <= len(wanted):",
            "if len(words) < len(wanted):",
        ),
        "tests/core/test_events.py",
    ),
    _mutant(
        "event-duplicate-is-swallowed",
        "a handler's job that was there before is left out of the record",
        Place.MEMORY,
        Patch(
            "fencepost.store.sql.records.events",
            "isinstance(reply, Duplicate)) for reply in replies\n",
            "isinstance(reply, Duplicate)) for reply in replies\n"
            "        if not isinstance(reply, Duplicate)\n",
        ),
    ),
    _mutant(
        "event-duplicate-is-called-new",
        "the record does not say that a handler's job was there before",
        Place.SQLITE,
        Patch(
            "fencepost.store.sql.records.events", "isinstance(reply, Duplicate)) for", "False) for"
        ),
    ),
    _mutant(
        "event-is-not-recorded",
        "the jobs of an event are stored, and not its record",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.records.events",
            'f"insert into events({COLUMNS}) values (?, ?, ?, ?, ?, ?, ?) returning sent_at"',
            '"select sent_at from (select ?, ?, ?, ? as sent_at, ?, ?, ?)"',
        ),
    ),
    _mutant(
        "event-outlives-its-retention",
        "`<` for `<=`: a record is kept an instant too long",
        Place.SQLITE,
        Patch("fencepost.store.sqlite.records.events", "where sent_at <= ?", "where sent_at < ?"),
    ),
    _mutant(
        "event-is-recorded-apart",
        "the job of an event is committed before its record is written",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.records.events",
            "accept(env, jobs, atomic=atomic)",
            "accept(env, jobs, atomic=False)",
        ),
    ),
    _mutant(
        "event-pages-repeat-their-last",
        "a page begins with what the page before ended with",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.records.events",
            'before="seq < %s::bigint"',
            'before="seq <= %s::bigint"',
        ),
    ),
)
