"""Mutants of the HTTP API: of what workers write, of what callers submit, and of what is read."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

LEASES = "tests/http/test_leases.py"
SUBMITTING = "tests/http/test_submitting.py"
BAD_INPUT = "tests/http/test_bad_input.py"
SETTLE = "if job is None or not is_valid(job, job_id, lease_token, now):"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"server-{name}", about, Place.SERVER, patches, tests)


def _unfenced(verb: str, about: str, condition: str) -> Mutant:
    """Return a mutant that the tests of the API are to notice, whatever those of stores do."""
    token = f"(job.lease_token if decision.event.name {condition} else lease_token)"
    unfenced = f"if job is None or not is_valid(job, job_id, {token} or '', now):"
    patch = Patch("fencepost.store.sqlite.jobs.settle", SETTLE, unfenced)
    return Mutant(f"memory-{verb}-ignores-the-token", about, Place.MEMORY, (patch,), (LEASES,))


SUBMISSION = "tests/app/test_submission_timeout.py"

MUTANTS = (
    # What callers wait for.
    _mutant(
        "blocking-submission-has-no-timeout",
        "a blocking submission waits for as long as the store has patience",
        "actions.session",
        "patience=min(self.timeouts.submission, 10.0)",
        "patience=10.0",
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
        "an awaited submission times out after half a minute, whatever the app says",
        "actions.session",
        "Submitter(store, self.timeouts.submission)",
        "Submitter(store)",
        SUBMISSION,
    ),
    _mutant(
        "submission-is-never-given-up",
        "an awaited submission never times out",
        "actions.group_commit",
        "            _fail(future, _too_slow(self._timeout))\n",
        "            pass\n",
        SUBMISSION,
    ),
    # What workers write.
    _unfenced("ack", "an ack of a running job is accepted without its lease", "== 'SUCCEED'"),
    _unfenced("nack", "a nack of a running job is accepted without its lease", "!= 'SUCCEED'"),
    _mutant(
        "single-stale-write-is-200",
        "a write under a lease that is over changes nothing, and is answered as if it had",
        "http.operations.leases",
        "        raise only\n",
        "        return Reply(LeaseReply(id=items[0].id, status=200, state=None))\n",
        LEASES,
    ),
    _mutant(
        "batch-stale-write-is-200",
        "in a batch, a write under a lease that is over is answered as if it had been done",
        "http.operations.leases",
        "        status=status_of(outcome),\n",
        "        status=200,\n",
        LEASES,
    ),
    _mutant(
        "contradiction-is-a-repeat",
        "the token of a released job gets the reply that the job is done",
        "http.operations.leases",
        "if (state is State.COMPLETED) is not isinstance(item, Ack):",
        "if state is None:",
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
        "own_types=False",
        "own_types=True",
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
        "return Reply(existing_of(seen, reply.differs, is_full=is_full))",
        "return Reply(existing_of(seen, reply.differs, is_full=is_full), 201)",
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
        "if size > limit:",
        "if size > limit and parts:",
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
        "http.origin",
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
