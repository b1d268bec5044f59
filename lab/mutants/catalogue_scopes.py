"""Mutants of scopes: what a token for some queues, or one that only submits, learns of others."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

SCOPE = "tests/http/test_scope.py"
BY_ID = f"{SCOPE}::test_an_id_out_of_reach_is_an_id_that_nobody_has"
KEYS = f"{SCOPE}::test_a_key_that_is_held_out_of_reach_is_a_bare_refusal"
BLAME = f"{SCOPE}::test_who_is_to_blame_is_not_told_out_of_reach"
FLOWS = f"{SCOPE}::test_a_flow_over_queues_is_seen_as_far_as_the_token_reaches"
CANCEL = f"{SCOPE}::test_what_is_cancelled_takes_along_what_waits_and_tells_nothing_of_it"
SUBMITTERS = "tests/http/test_submitters.py"
SEARCH = "tests/http/test_search.py"
REVOKING = "tests/http/test_revoking.py"
STREAM = "tests/http/test_stream.py"
LINKED = "a key that a job of another queue holds returns that job"
LISTED = "dead letters of other queues are listed"
UNKNOWN = "a replay forgets who submitted the job"


def _stored(place: Place, name: str, about: str, patch: Patch, test: str = "TestScopes") -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), (test,))


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


MUTANTS = (
    # What stores answer.
    _stored(
        Place.SQLITE,
        "key-held-elsewhere-is-returned",
        LINKED,
        Patch(
            "fencepost.store.sqlite.jobs.enqueue",
            "job.key.refuses(holder.queue)",
            "job.key.refuses(job.queue)",
        ),
    ),
    _stored(
        Place.SQLITE,
        "node-stands-for-a-job-elsewhere",
        LINKED,
        Patch(
            "fencepost.store.sqlite.flows.enqueue",
            "key.refuses(holding.queue)",
            "key.refuses(job.queue)",
        ),
    ),
    _stored(
        Place.POSTGRES,
        "key-held-elsewhere-is-returned",
        LINKED,
        Patch(
            "fencepost.store.postgres.jobs.enqueue",
            "job.key.refuses(queues.get(holder))",
            "job.key.refuses(job.queue)",
        ),
    ),
    _stored(
        Place.POSTGRES,
        "node-stands-for-a-job-elsewhere",
        LINKED,
        Patch(
            "fencepost.store.postgres.flows.enqueue",
            "job.key.refuses(queues.get(job_id))",
            "job.key.refuses(job.queue)",
        ),
    ),
    _stored(
        Place.SQLITE,
        "dead-letters-of-all-queues",
        LISTED,
        Patch(
            "fencepost.store.sqlite.jobs.read",
            "lanes.queue in (select value from json_each(?))",
            "? is not lanes.queue",
        ),
    ),
    _stored(
        Place.POSTGRES,
        "dead-letters-of-all-queues",
        LISTED,
        Patch(
            "fencepost.store.postgres.jobs.read",
            '"l.queue = any (%s::text[])"',
            '"%s::text[] is not null"',
        ),
    ),
    _stored(
        Place.SQLITE,
        "replay-forgets-its-submitter",
        UNKNOWN,
        Patch("fencepost.store.sqlite.jobs.control", "dead.id, dead.submitter,", "dead.id, None,"),
        "TestSubmitters",
    ),
    _stored(
        Place.POSTGRES,
        "replay-forgets-its-submitter",
        UNKNOWN,
        Patch(
            "fencepost.store.postgres.jobs.control",
            "'submitter', j.submitter\n",
            "'submitter', nullif(j.submitter, j.submitter)\n",
        ),
        "TestSubmitters",
    ),
    _stored(
        Place.POSTGRES,
        "submitters-of-a-batch-are-one",
        "jobs of two tokens that are stored by one statement are the first one's",
        Patch(
            "fencepost.store.postgres.jobs.enqueue",
            "        and job.submitter == other.submitter\n",
            "        and job.tags == other.tags\n",
        ),
        "TestSubmitters",
    ),
    # What is shown of jobs out of reach.
    _mutant(
        "waits-for-a-job-out-of-reach",
        "a job may wait for one of a queue that its token is not for",
        "http.scope",
        "    hidden = await outside(call, named)\n",
        "    hidden = set[str]()\n    assert isinstance(named, list)\n",
        BY_ID,
    ),
    _mutant(
        "refusal-names-the-alias",
        "an id out of reach in `after` is refused by another name than the one that was given",
        "http.scope",
        "return UnknownDependencyError(self._given[error.job_id])",
        "return UnknownDependencyError(error.job_id)",
        BY_ID,
    ),
    _mutant(
        "leases-tell-of-jobs-out-of-reach",
        "a write under a wrong lease tells the state of a job out of reach",
        "http.operations.leases",
        "    hidden = await outside(call, [item.id for item in items])\n",
        "    hidden = set[str]() if call.principal.roles else await outside(call, [])\n",
        BY_ID,
    ),
    _mutant(
        "refused-key-names-its-holder",
        "a key that is held out of reach is refused with the id of its holder",
        "http.scope",
        "if await beyond(call, [named]):\n            return bare",
        "if await beyond(call, [named]):\n            return error",
        KEYS,
    ),
    _mutant(
        "batch-names-the-holder",
        "a job of a batch whose key is held out of reach is refused with the id of the holder",
        "http.operations.submit",
        "existing = None if reply.job_id in hidden else reply.job_id",
        "existing = reply.job_id if reply.job_id in hidden else reply.job_id",
        KEYS,
    ),
    _mutant(
        "key-returns-any-job",
        "a key returns a job of a queue that the token is not for",
        "http.scope",
        "key = replace(key, within=principal.queues)",
        "key = replace(key, within=None)",
        KEYS,
    ),
    _mutant(
        "dependency-out-of-reach-is-named",
        "the failure of a job names the one out of reach for which it waited",
        "http.scope",
        "if failure is None or failure.failed_dependency not in hidden:",
        "if failure is None or failure.failed_dependency in hidden:",
        BLAME,
    ),
    _mutant(
        "claim-gives-results-out-of-reach",
        "a claim gives the results of jobs of queues that the token is not for",
        "http.scope",
        "[each for each in some if each.job_id not in hidden]",
        "[each for each in some if each.job_id]",
        FLOWS,
    ),
    _mutant(
        "cancelled-out-of-reach-is-counted",
        "the count of a cancellation tells how many waited in other queues",
        "actions.local.bulk",
        "count += sum(queue in queues for queue in located)",
        "count += len(located)",
        CANCEL,
    ),
    _mutant(
        "claim-tells-when-others-fall-due",
        "the answer of a claim tells when a job of another queue falls due",
        "http.operations.claims",
        "    if call.principal.queues is not None:\n        wait = POLL",
        "    if call.principal.queues == frozenset():\n        wait = POLL",
        f"{SCOPE}::test_lists_and_counts_are_as_if_there_was_nothing_else",
    ),
    _mutant(
        "stream-ids-tell-of-others",
        "a bare id in a stream tells that a job out of reach has ended",
        "http.operations.stream",
        "[job for job in fresh if self._wanted.is_within_reach(job)]",
        "[job for job in fresh if job.id]",
        f"{STREAM}::test_not_even_an_id_tells_of_an_end_out_of_reach",
    ),
    # What is shown of jobs that others submitted.
    _mutant(
        "submitter-sees-the-jobs-of-others",
        "a token that may submit sees the payloads of all jobs that any token submitted",
        "http.scope",
        "or job.submitter == principal.token_id",
        "or job.submitter is not None",
        SUBMITTERS,
    ),
    _mutant(
        "submitter-guesses-the-payloads-of-others",
        "a token that may submit hears in what any job that holds a key differs",
        "http.scope",
        "if job is not None and may_see_all(call.principal, job)}",
        "if job is not None}",
        SUBMITTERS,
    ),
    _mutant(
        "submitter-sees-the-results-of-others",
        "a token that may submit gets the result of any job",
        "http.operations.jobs",
        '    check_content_allowed(call.principal, job, "read the result")\n',
        "    assert call.principal.roles\n",
        SUBMITTERS,
    ),
    _mutant(
        "operator-sees-the-failures-of-others",
        "a token that may cancel is answered with the failure and the callback URL of any job",
        "http.operations.jobs",
        "    return summary_of(job, is_full=may_see_all(principal, job))\n",
        "    return summary_of(job, is_full=bool(principal.roles))\n",
        SUBMITTERS,
    ),
    # What waits when its token ends.
    _mutant(
        "wait-answers-a-revoked-token",
        "a long poll for a job is answered though its token was revoked meanwhile",
        "http.operations.jobs",
        "        await call.check_again()\n",
        "        call.is_off()\n",
        REVOKING,
    ),
    _mutant(
        "claim-hands-out-to-a-revoked-token",
        "a waiting claim hands out a job though its token was revoked meanwhile",
        "http.operations.claims",
        "        await _check_again(call, claim.jobs)\n",
        "        call.is_off()\n",
        REVOKING,
    ),
    _mutant(
        "claim-keeps-what-it-refused",
        "a job that was claimed for a revoked token stays leased to nobody",
        "http.operations.claims",
        "            await _give_back(call.session, jobs)\n        raise\n",
        "            call.is_off()\n        raise\n",
        REVOKING,
    ),
    _mutant(
        "looking-again-uses-up-the-rate",
        "a token with a rate cannot wait: each look at it counts as a request",
        "http.authentication",
        "        if not is_repeated:\n            self._count(known.record)\n",
        "        self._count(known.record)\n",
        REVOKING,
    ),
    _mutant(
        "late-body-of-a-revoked-token",
        "a body that arrives long after its head is taken though the token was revoked meanwhile",
        "http.request.endpoint",
        "                await call.check_again()",
        "                call.is_off()",
        REVOKING,
    ),
    # What searches tell.
    _mutant(
        "content-is-guessed-without-read",
        "a token that may not read learns by dry runs what payloads and failures hold",
        "http.scope",
        "    if query.look.needs_content and not _may_read(principal):\n",
        "    if False:\n",
        f"{SEARCH}::test_content_is_not_guessed_by_a_token_that_may_not_read",
    ),
    _mutant(
        "blame-is-found-by-searching",
        "a token for some queues finds its job by the job of another queue that failed it",
        "http.scope",
        "    return replace(query, look=replace(query.look, withholds_dependency=True))\n",
        "    return query\n",
        f"{SEARCH}::test_a_search_does_not_tell_who_is_to_blame_out_of_reach",
    ),
    _mutant(
        "a-part-is-cancelled",
        "of more jobs than are read, those that were read are cancelled",
        "actions.local.bulk",
        "            if left <= 0:\n",
        "            if left <= 0:\n                break\n            if False:\n",
        f"{SEARCH}::test_bulk_acts_by_what_no_index_knows_or_not_at_all",
    ),
    _mutant(
        "unreadable-matches",
        "a payload that cannot be decrypted counts as one that differs",
        "core.look",
        "verdicts.append(None if root is UNREADABLE else each.is_met(root))",
        "verdicts.append(each.is_met(root))",
        f"{SEARCH}::test_what_cannot_be_read_is_counted_and_does_not_match",
    ),
)
