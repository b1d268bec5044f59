"""Servers with a defect, so that it can be shown that a run finds it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.core.job.outcome import Settlement
from fencepost.http.operations import claims, leases


def ignore_tokens() -> None:
    """Settle under the last lease that this server gave out, whatever token is named."""
    latest: dict[str, str] = {}
    claimed_of = vars(claims)["claimed_of"]

    def remember(job: Any, *rest: Any) -> Any:
        latest[job.id] = job.lease.token
        return claimed_of(job, *rest)

    def settle(job_id: str, token: str, *rest: Any, **more: Any) -> Settlement:
        return Settlement(job_id, latest.get(job_id, token), *rest, **more)

    vars(claims)["claimed_of"] = remember
    vars(leases)["Settlement"] = settle


MUTANTS: dict[str, Callable[[], None]] = {"ignore_tokens": ignore_tokens}
