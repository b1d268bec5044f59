"""Mutants of the HTTP API: of what workers write, of what callers submit, and of what is read."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

LEASES = "tests/http/test_leases.py"
SUBMITTING = "tests/http/test_submitting.py"
BAD_INPUT = "tests/http/test_bad_input.py"
SETTLE = "if record.is_leased_by(settlement.token, now):"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


def _unfenced(verb: str, about: str, condition: str) -> Mutant:
    """Return a mutant that the tests of the API are to notice, whatever those of stores do."""
    token = f"(record.token if settlement.decision.event.name {condition} else settlement.token)"
    patch = Patch(
        "fencepost.store.memory.jobs.settle", SETTLE, f"if record.is_leased_by({token} or '', now):"
    )
    return Mutant(f"memory-{verb}-ignores-the-token", about, Place.MEMORY, (patch,), (LEASES,))


SUBMISSION = "tests/app/test_submission_timeout.py"

MUTANTS = (
    # What callers wait for.
    _mutant(
        "blocking-submission-has-no-timeout",
        "a blocking submission waits for as long as the store has patience",
        "actions.session",
        "patience = min(self.timeouts.submission, 10.0)",
        "patience = 10.0",
        SUBMISSION,
    ),
    _mutant(
        "strangers-are-refused-together",
        "one job that is refused fails all that were submitted at the same moment",
        "actions.group_commit",
        "except InvalidJobError as error:",
        "except ZeroDivisionError as error:",
        SUBMITTING,
    ),
    _mutant(
        "awaited-submission-has-no-timeout-of-its-own",
        "an awaited submission is told after half a minute, whatever the app says",
        "actions.session",
        "Submitter(store, self.timeouts.submission)",
        "Submitter(store)",
        SUBMISSION,
    ),
    _mutant(
        "submission-is-never-given-up",
        "whoever awaits a submission is never told that it took too long",
        "actions.group_commit",
        "            _fail(future, _too_slow(self._timeout))\n",
        "            pass\n",
        SUBMISSION,
    ),
    # What workers write.
    _unfenced("ack", "whoever says that a running job is done is believed", "== 'SUCCEED'"),
    _unfenced("nack", "whoever says that a running job failed is believed", "!= 'SUCCEED'"),
    _mutant(
        "single-stale-write-is-200",
        "a write under a lease that is over changes nothing, and is answered as if it had",
        "http.operations.leases",
        "        raise StaleLeaseError(item.id, reply.state)\n    return _reply_of(item, reply)",
        "        return LeaseReply(id=item.id, status=200, state=reply.state)\n"
        "    return _reply_of(item, reply)",
        LEASES,
    ),
    _mutant(
        "batch-stale-write-is-200",
        "in a batch, a write under a lease that is over is answered as if it had been done",
        "http.operations.leases",
        "id=item.id, status=409, state=state",
        "id=item.id, status=200, state=state",
        LEASES,
    ),
    _mutant(
        "contradiction-is-a-repeat",
        "a token that gave its job back is told that the job is done",
        "http.operations.leases",
        "if is_done is not isinstance(item, Ack):",
        "if is_done is None:",
        LEASES,
    ),
    _mutant(
        "claim-of-a-ghost-is-kept",
        "jobs that were claimed for a client that hung up stay leased to nobody",
        "http.operations.claims",
        "if claim.jobs and call.is_gone():",
        "if claim.jobs is None:",
        LEASES,
    ),
    _mutant(
        "claim-takes-what-is-fenceposts-own",
        "a claim that names no types takes deliveries, which only a worker of ours can make",
        "http.operations.claims",
        "if not view.name.startswith(RESERVED_TYPES)",
        "if view.name",
        LEASES,
    ),
    # What callers submit.
    _mutant(
        "atomic-batch-stores-some",
        "of an atomic batch, all is stored but what is refused by the store",
        "http.operations.submit",
        "store.queue.enqueue(carrying, atomic=atomic)",
        "store.queue.enqueue(carrying, atomic=False)",
        SUBMITTING,
    ),
    _mutant(
        "atomic-batch-leaves-out-what-is-invalid",
        "of an atomic batch, all is stored but what makes no sense",
        "http.operations.submit",
        "        if call.body.atomic:\n",
        "        if call.body.atomic is None:\n",
        SUBMITTING,
    ),
    _mutant(
        "batch-fails-with-one",
        "a batch that is not atomic is refused for one job that makes no sense",
        "http.operations.submit",
        "        if call.body.atomic:\n",
        "        if call.body.jobs:\n",
        SUBMITTING,
    ),
    _mutant(
        "duplicate-is-201",
        "a job that was there already is answered as if it were new",
        "http.operations.submit",
        "return Reply(existing_of(seen, is_full=may_see_all(call.principal, seen)))",
        "return Reply(existing_of(seen, is_full=may_see_all(call.principal, seen)), 201)",
        SUBMITTING,
    ),
    # What is read.
    _mutant(
        "announced-body-is-read",
        "a body that says that it is too large is read all the same",
        "http.request.read",
        "int(length) > limit:",
        "int(length) > limit * limit:",
        BAD_INPUT,
    ),
    _mutant(
        "chunked-body-has-no-limit",
        "a body that comes in parts may be of any size",
        "http.request.read",
        "            if size > limit:\n",
        "            if len(data) > limit:\n",
        BAD_INPUT,
    ),
    _mutant(
        "whole-body-has-no-limit",
        "a body that comes in one piece, and announces nothing, may be of any size",
        "http.request.read",
        "    if len(data) > limit:\n        raise",
        "    if limit < 0:\n        raise",
        BAD_INPUT,
    ),
    _mutant(
        "any-media-type-is-json",
        "a form on any page of the web can submit a job",
        "http.request.read",
        '.strip().lower() != "application/json":',
        '.strip().lower() == "application/xml":',
        BAD_INPUT,
    ),
    _mutant(
        "any-site-is-local",
        "a page of another site may ask while there is no token",
        "http.auth.anonymous",
        "        if not _is_same(origin, host):\n",
        "        if not origin:\n",
        "tests/http/test_access.py",
    ),
    _mutant(
        "action-is-not-recorded",
        "what an operator does is not in the audit log",
        "http.request.endpoint",
        "            elif call is not None and action is not None:\n",
        "            elif call is None and action is not None:\n",
        "tests/http/test_jobs.py",
    ),
)
