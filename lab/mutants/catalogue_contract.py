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
            "fencepost.actions.local.events",
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
            "fencepost.core.job.outcome",
            "decision, job, job.correlation_id)",
            "decision, job)",
        ),
        "tests/store/test_observed.py",
    ),
    _mutant(
        "submission-is-logged-without-correlation",
        "the log of a submission does not name the correlation id",
        Place.WORKER,
        Patch(
            "fencepost.store.wrappers.notes",
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
            "fencepost.core.job.timeouts",
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
            "fencepost.core.job.timeouts",
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
            "fencepost.store.postgres.jobs.enqueue",
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
            "fencepost.store.postgres.flows.spawn",
            "    yield from check_times(env, joined)\n",
            "",
        ),
        "TestEnqueueing",
    ),
    _mutant(
        "hastened-job-waits-on",
        "a live job that is retried stays where it waits",
        Place.MEMORY,
        Patch(
            "fencepost.core.job.lifecycle",
            "        if due > now:\n            return state, due\n",
            "        if due >= now:\n            return state, due\n",
        ),
        "TestReopening",
    ),
    _mutant(
        "moved-store-accepts-jobs",
        "a store whose jobs were moved away accepts new ones",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.records.transfer",
            "Statement(ACCEPT if is_accepted else REFUSE)",
            "Statement(ACCEPT)",
        ),
        "TestAcceptance",
    ),
    _mutant(
        "running-job-is-hastened",
        "a retry takes any live job",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.jobs.edit",
            "    if job.state not in HASTENED:\n",
            "    if job.state.is_terminal:\n",
        ),
        "TestReopening",
    ),
    _mutant(
        "retry-outlasts-lifetime",
        "a live job is put off to the end of its lifetime",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.jobs.edit",
            "    if due >= job.expires_at:\n",
            "    if due > job.expires_at:\n",
        ),
        "TestReopening",
    ),
    _mutant(
        "retry-keeps-the-attempts",
        "a live job that is retried has no new budget",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.jobs.edit",
            "        yield Statement(RESET_ATTEMPTS, (job.seq,))\n",
            "",
        ),
        "TestReopening",
    ),
    _mutant(
        "running-job-is-edited",
        "a job that runs is given another payload",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.jobs.edit",
            "    if item.is_for_waiting and job.state not in WAITING:\n",
            "    if item.is_for_waiting and job.state.is_terminal:\n",
        ),
        "TestEditing",
    ),
    _mutant(
        "postponed-job-keeps-its-slot",
        "nobody gets the slot of a key that an edit has freed",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.jobs.edit",
            "        return with_admitted([moved], (yield from admit(env, freed)))[0]\n",
            "        return moved\n",
        ),
        "TestEditing",
    ),
    _mutant(
        "edited-webhook-is-not-delivered",
        "a webhook that an edit adds is not delivered",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.jobs.edit",
            "            yield from _ask_back(env, seq)\n",
            "            yield from ()\n",
        ),
        "TestEditing",
    ),
    _mutant(
        "priority-stops-at-the-children",
        "a priority reaches those that wait for a job, and not those behind them",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.jobs.edit",
            "        changed = [row[0] for row in rows]\n",
            "        changed = rows[:0]\n",
        ),
        "TestEditing",
    ),
    _mutant(
        "priority-is-not-passed-on",
        "a priority reaches nobody who has inherited it",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.jobs.edit",
            "    yield from pass_on_priority(env, seq)\n",
            "",
        ),
        "TestEditing",
    ),
    _mutant(
        "priority-falls-below-its-own",
        "one that has inherited a priority loses its own with it",
        Place.SQLITE,
        Patch(
            "fencepost.store.sqlite.jobs.edit",
            "min(own_priority, (\n  select min(parent.priority)",
            "max(0, (\n  select min(parent.priority)",
        ),
        "TestEditing",
    ),
    _mutant(
        "priority-by-hand-is-overruled",
        "a priority that was set by hand is inherited over",
        Place.SQLITE,
        Patch("fencepost.store.sqlite.jobs.edit", ", own_priority = null where", " where"),
        "TestEditing",
    ),
    _mutant(
        "payload-is-edited-in-the-clear",
        "a payload that is edited is stored as it is",
        Place.WORKER,
        Patch(
            "fencepost.store.wrappers.encrypted.facets",
            "return replace(edit, payload=payload, callback_url=url)",
            "return replace(edit, callback_url=url)",
        ),
        "tests/store/test_encrypted.py",
    ),
    _mutant(
        "backoff-function-is-not-asked",
        "a backoff function is never asked again once its policy is made",
        Place.WORKER,
        Patch(
            "fencepost.core.job.outcome",
            "rng, ask(job))",
            "rng, None)",
        ),
        "tests/worker/test_backoffs.py",
    ),
    _mutant(
        "backoff-of-another-is-asked",
        "the function of a task is asked for a job that was submitted with another",
        Place.WORKER,
        Patch(
            "fencepost.worker.backoff",
            "if function is None or backoff.function != backoff_name(function):",
            "if function is None:",
        ),
        "tests/worker/test_backoffs.py",
    ),
    _mutant(
        "broken-backoff-loses-the-failure",
        "a failure is not recorded if its backoff function raises",
        Place.WORKER,
        Patch(
            "fencepost.worker.backoff",
            "WARNING, error=repr(error))\n            return None\n",
            "WARNING, error=repr(error))\n            raise\n",
        ),
        "tests/worker/test_backoffs.py",
    ),
    _mutant(
        "server-delivers-no-webhooks",
        "webhooks wait for a worker that has the app, where there is none",
        Place.SERVER,
        Patch(
            "fencepost.http.server.server",
            "            self._deliveries.start()\n",
            "            pass\n",
        ),
        "tests/http/test_deliveries.py",
    ),
    _mutant(
        "two-parents-overrule-each-other",
        "of two parents that are edited at once, a dependent hears only the last",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.flows.dependents",
            "        if not (yield Statement(LOCK_HEIRS, (changed,))):\n"
            "            return\n"
            "        yield Statement(LOCK_WAITING_HEIRS, (changed,))\n",
            "",
        ),
        "tests/store/postgres/test_editing.py",
    ),
    _mutant(
        "claim-hands-out-what-was-edited-away",
        "a job in line keeps its row when it is edited, so that a claim hands out what it was",
        Place.POSTGRES,
        Patch(
            "fencepost.store.postgres.jobs.edit",
            "if lane != job.lane or state is State.SCHEDULED:",
            "if lane != job.lane:",
        ),
        "tests/store/postgres/test_editing.py",
    ),
)
