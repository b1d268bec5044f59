"""Mutants of what a caller may ask of a job: keys of events, retries, edits, delays."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place


def _mutant(name: str, about: str, place: Place, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests)


MUTANTS = (
    _mutant(
        "event-duplicate-is-returned",
        "an event is sent though the key of one of its handlers is held",
        Place.WORKER,
        Patch(
            "fencepost.app.event",
            "key, data, on_duplicate=OnDuplicate.REJECT",
            "key, data, on_duplicate=OnDuplicate.RETURN",
        ),
        "tests/app/test_events.py",
    ),
)
