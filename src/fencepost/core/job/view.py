"""A job as plain values, for JSON: the form that Python, HTTP and the command line share."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from fencepost.core.encryption import readable
from fencepost.core.job.job import Job
from fencepost.core.values.payload import body_fields

BODIES = ("payload", "result", "checkpoint")
_APART = frozenset(("policy", "waits", "submitter", *(f"{name}_body" for name in BODIES)))
_PLAIN = tuple(name for name in Job.__struct_fields__ if name not in _APART)


def job_fields(job: Job, *, is_raw: bool = False, is_full: bool = True) -> dict[str, Any]:
    """Return the fields of *job*; its policy, payload, result and checkpoint only if *is_full*."""
    seen = readable(job)
    fields = {name: getattr(seen, name) for name in _PLAIN}
    if is_full:
        # The stored form omits defaults; a reader should not have to know them.
        backoff = asdict(job.policy.backoff)
        backoff["delays"] = list(backoff["delays"])
        fields["policy"] = {**asdict(job.policy), "backoff": backoff}
        for name in BODIES:
            fields |= body_fields(name, getattr(job, f"{name}_body"), is_raw=is_raw)
    return fields
