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
    _mutant(
        "settlement-is-logged-without-correlation",
        "the log of a settlement does not name the correlation id",
        Place.WORKER,
        Patch(
            "fencepost.core.outcome",
            "decision, job.type, job.correlation_id)",
            "decision, job.type)",
        ),
        "tests/store/test_observed.py",
    ),
    _mutant(
        "submission-is-logged-without-correlation",
        "the log of a submission does not name the correlation id",
        Place.WORKER,
        Patch(
            "fencepost.store.observed",
            "_log_each(names.JOB_ENQUEUED, result, Enqueued, correlations)",
            "_log_each(names.JOB_ENQUEUED, result, Enqueued)",
        ),
        "tests/store/test_observed.py",
    ),
)
