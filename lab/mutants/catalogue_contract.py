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
    _mutant(
        "job-falls-due-at-its-end",
        "a job is taken that falls due at the very end of its lifetime",
        Place.MEMORY,
        Patch(
            "fencepost.core.lifetime",
            "if to_us(job.run_at) >= ends:",
            "if to_us(job.run_at) > ends:",
        ),
        "TestEnqueueing",
    ),
    _mutant(
        "delay-outlasts-lifetime",
        "a job is taken whose delay is as long as its lifetime",
        Place.SQLITE,
        Patch(
            "fencepost.core.lifetime",
            "if seconds_to_us(delay) >= seconds_to_us(lifetime):",
            "if seconds_to_us(delay) > seconds_to_us(lifetime):",
        ),
        "TestEnqueueing",
    ),
    _mutant(
        "due-time-is-not-looked-at",
        "a job is stored that falls due when its lifetime is over",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.enqueueing",
            "    for job in jobs:\n        check_due(job, now)\n",
            "",
        ),
        "TestEnqueueing",
    ),
    _mutant(
        "spawned-due-time-is-not-looked-at",
        "a job is spawned that falls due when its lifetime is over",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.spawning",
            "    yield from check_times(env, joined)\n",
            "",
        ),
        "TestEnqueueing",
    ),
    _mutant(
        "late-job-takes-strangers-along",
        "a job that falls due too late refuses those that share its group",
        Place.WORKER,
        Patch(
            "fencepost.app.session",
            "if job.after is not None or job.run_at is not None:",
            "if job.after is not None:",
        ),
        "tests/app/test_submitting.py",
    ),
)
