"""Mutants of encryption: content of somebody without a key is read, or can be read by them."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

TAMPERING = "tests/store/test_tampering.py"
SEALING, UNSEALING = (
    "fencepost.store.wrappers.encrypted.encrypt",
    "fencepost.store.wrappers.encrypted.decrypt",
)
ENVELOPE, STORE = "fencepost.core.encryption", "fencepost.store.wrappers.encrypted.facets"
FACET = "fencepost.store.wrappers.encrypted.facet"


def _mutant(name: str, about: str, patch: Patch, *tests: str) -> Mutant:
    return Mutant(
        f"{Place.WORKER}-encryption-{name}", about, Place.WORKER, (patch,), tests or (TAMPERING,)
    )


MUTANTS = (
    _mutant(
        "takes-plain-content",
        "content that is not encrypted is read as if it were",
        Patch(
            UNSEALING,
            "        raise PlainContentError\n\n    def _open_body",
            "        return value\n\n    def _open_body",
        ),
    ),
    _mutant(
        "takes-plain-content-for-ever",
        "plain content is accepted after the day that was named",
        Patch("fencepost.core.encryption", ".date() <= self.until", ".date() is not None"),
    ),
    _mutant(
        "takes-plain-failures",
        "any failure passes for one that a store records by itself",
        Patch(
            "fencepost.store.wrappers.encrypted.decrypt",
            "return form.fullmatch(failure.message) is not None",
            "return True",
        ),
    ),
    _mutant(
        "does-not-bind-the-queue",
        "a job is run in another queue than it was submitted to",
        Patch(ENVELOPE, "{len(queue)}:{queue}", ""),
    ),
    _mutant(
        "does-not-bind-the-key",
        "a job is run with another idempotency key than it was submitted with",
        Patch(ENVELOPE, "{'-' if key is None else '+' + key}", ""),
    ),
    _mutant(
        "does-not-bind-the-type",
        "a payload is given to a handler of another type",
        Patch(ENVELOPE, "{len(type_)}:{type_}", ""),
    ),
    _mutant(
        "result-of-another-attempt",
        "a result is returned of another attempt than the job ended with",
        Patch(
            UNSEALING, "is_last = partial(eq, job.lease_version)", "is_last = partial(ge, 2**63)"
        ),
    ),
    _mutant(
        "failures-of-other-attempts",
        "the failures of two attempts can be exchanged",
        Patch(
            UNSEALING,
            "is_its_own = partial(eq, attempt.lease_version)",
            "is_its_own = partial(ge, 2**63)",
        ),
    ),
    _mutant(
        "completed-without-a-result",
        "a job that failed is shown as completed, with no result",
        Patch(
            UNSEALING,
            "return None if self._plain.accepts(self._clock.now()) else TAMPERED",
            "return None",
        ),
    ),
    _mutant(
        "replays-plain-content",
        "a dead letter that is not encrypted becomes a fresh job",
        Patch(
            FACET,
            "return Sealed(dead.id) if is_copied else Replay(request.job_id)",
            "return Replay(request.job_id)",
        ),
    ),
    _mutant(
        "copies-refused-content",
        "what was refused is lost when a store is moved",
        Patch(UNSEALING, "        if _lacks(opened):\n", "        if False:\n"),
    ),
    _mutant(
        "stores-addresses-in-the-clear",
        "where a webhook goes is stored as it is",
        Patch(
            SEALING,
            "return to_text(self._cipher.seal(url.encode(), Field.CALLBACK, owner))",
            "return url",
        ),
    ),
    _mutant(
        "edits-addresses-in-the-clear",
        "where a webhook goes is stored as it is when it is edited",
        Patch(
            STORE,
            "return replace(edit, payload=payload, callback_url=url)",
            "return replace(edit, payload=payload)",
        ),
    ),
    _mutant(
        "takes-altered-for-missing",
        "`jobs run --local` says of an altered payload that its key is missing",
        Patch("fencepost.cli.jobs.local", "        return TAMPERED\n", "        return body\n"),
        "tests/cli/test_local_runs.py",
    ),
    _mutant(
        "passes-on-what-is-new",
        "an operation that the encrypting store does not know is passed on",
        Patch(
            FACET,
            "        if declaration.has_content:\n",
            "        if False:\n",
        ),
        "tests/store/test_facets.py",
    ),
)
