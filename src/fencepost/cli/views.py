"""Jobs and all around them as JSON shows them: times in ISO 8601, payloads decoded."""

from __future__ import annotations

import base64
from typing import Any

import msgspec

from fencepost.core.crypto.envelope import readable, shown_body
from fencepost.core.job.job import Attempt, Body, Encoding, Job

_LARGE = ("payload", "result", "checkpoint", "policy")


def job_view(job: Job, *, full: bool = False) -> dict[str, Any]:
    """Return a job as JSON shows it; payload, result and policy only in *full*."""
    view: dict[str, Any] = msgspec.to_builtins(readable(job), str_keys=True)
    view["priority"] = job.priority.name.lower()
    for name in _LARGE:
        if not full:
            del view[name]
    if full:
        for name in ("payload", "result", "checkpoint"):
            del view[name]
            view |= body_view(name, getattr(job, name))
        # The stored form leaves defaults out; a reader should not have to know them.
        backoff = msgspec.structs.asdict(job.policy.backoff)
        view["policy"] = {**msgspec.structs.asdict(job.policy), "backoff": backoff}
    return view


def body_view(name: str, body: Body | None) -> dict[str, Any]:
    """Return a body under its name: the value if it is JSON, else ``…_base64``.

    One that cannot be decrypted here is ``…_encrypted``, and says with which key it can be.
    """
    if body is None:
        return {name: None}
    if body.encoding is Encoding.ENCRYPTED:
        return {f"{name}_encrypted": shown_body(body)}
    if body.encoding is Encoding.JSON:
        try:
            return {name: msgspec.json.decode(body.data)}
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass  # a corrupt row is shown as it is
    return {f"{name}_base64": base64.b64encode(body.data).decode()}


def attempt_view(attempt: Attempt) -> dict[str, Any]:
    """Return an attempt as JSON shows it."""
    view: dict[str, Any] = msgspec.to_builtins(readable(attempt))
    return view
