"""What a submission can say beyond its arguments: checked once, then trusted."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from fencepost.actions.dependencies import Awaited, dependencies_of
from fencepost.core.bounds import BULK_MAX, KEY_WINDOW_DEFAULT
from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key, OnDuplicate, check_key, parse_on_duplicate
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.lifetime import check_delay, check_run_at
from fencepost.core.job.policy import Policy
from fencepost.core.job.priority import Priority, parse_priority
from fencepost.core.job.retry import Retry
from fencepost.core.job.task import ForeignTask, Task
from fencepost.core.job.timeouts import Timeouts, parse_lease_ttl, parse_lifetime
from fencepost.core.limits.concurrency import key_of, limit_of
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import (
    check_concurrency_key,
    check_correlation_id,
    check_queue,
    check_tags,
)
from fencepost.core.webhooks.settings import Webhooks, check_callback
from fencepost.errors import ConfigurationError, InvalidJobError


class SubmitOptions(TypedDict, total=False):
    """The options of a submission, to an app or to a server."""

    delay: Duration
    run_at: datetime
    priority: Priority | int | str
    queue: str
    key: str
    on_duplicate: Literal["return", "reject"]
    key_window: Duration | Literal["active"]
    tags: Mapping[str, str]
    correlation_id: str
    callback_url: str
    concurrency_key: str
    timeout: Duration
    lease_ttl: Duration
    lifetime: Duration
    retry: Retry
    after: Awaited
    """Run when all of these have completed: handles, ids, or names of nodes of the same flow."""
    after_any: Awaited
    """Run when any one of these has ended, however it did."""
    accept_failures: bool
    """With ``after``: run when all have ended, however they did."""


class UsingOptions(SubmitOptions, total=False):
    """The keyword arguments of ``TaskHandle.using`` of an app."""

    conn: Any


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Options that have been checked; None means the task's or the app's own."""

    delay: float = 0.0
    run_at: datetime | None = None
    priority: Priority | None = None
    queue: str | None = None
    key: str | None = None
    on_duplicate: OnDuplicate = OnDuplicate.RETURN
    key_window: float | None = KEY_WINDOW_DEFAULT
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    callback_url: str | None = None
    concurrency_key: str | None = None
    policy: dict[str, Any] = {}
    """The fields of the task's policy that are replaced."""
    after: Dependencies | None = None
    conn: Any = None
    """The caller's connection, whose transaction what is submitted joins; never stored."""


def merge(
    options: Options,
    given: UsingOptions,
    timeouts: Timeouts,
    *,
    webhooks: Webhooks | None = None,
) -> Options:
    """Return *options* with what was *given* checked and put in its place."""
    unknown = sorted(given.keys() - UsingOptions.__annotations__.keys())
    if unknown:
        hint = "; ids are assigned by the system" if "id" in unknown else ""
        raise ConfigurationError(f"using() has no option {unknown[0]!r}{hint}")
    changes: dict[str, Any] = {}
    delay, run_at = given.get("delay"), given.get("run_at")
    if delay is not None and run_at is not None:
        raise InvalidJobError("give delay or run_at, not both")
    if delay is not None:
        changes |= {"delay": parse_duration(delay, name="delay"), "run_at": None}
    if run_at is not None:
        changes |= {"run_at": check_run_at(run_at)}
    for name, check in _CHECKS.items():
        if given.get(name) is not None:
            changes[name] = check(given[name])  # type: ignore[literal-required]  # a TypedDict key
    if "tags" in changes:
        changes["tags"] = {**options.tags, **changes["tags"]}
    if (url := given.get("callback_url")) is not None:
        changes["callback_url"] = check_callback(url, webhooks)
    if given.keys() & {"after", "after_any", "accept_failures"}:
        changes["after"] = dependencies_of(
            given.get("after"),
            given.get("after_any"),
            accept_failures=given.get("accept_failures"),
            before=options.after,
        )
    if "conn" in given:
        changes["conn"] = given["conn"]
    policy = {**options.policy, **_policy_changes(given, timeouts)}
    return msgspec.structs.replace(options, policy=policy, **changes)


def _parse_window(value: Duration | Literal["active"]) -> float | None:
    return None if value == "active" else parse_duration(value, name="key_window")


_CHECKS: dict[str, Any] = {
    "priority": parse_priority,
    "queue": check_queue,
    "key": check_key,
    "on_duplicate": parse_on_duplicate,
    "key_window": _parse_window,
    "tags": check_tags,
    "correlation_id": check_correlation_id,
    "concurrency_key": check_concurrency_key,
}


def _policy_changes(given: UsingOptions, timeouts: Timeouts) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    if (retry := given.get("retry")) is not None:
        changes |= retry_fields(retry)
    if (timeout := given.get("timeout")) is not None:
        changes["timeout"] = timeouts.execution_for(timeout)
    if (lease_ttl := given.get("lease_ttl")) is not None:
        changes["lease_ttl"] = parse_lease_ttl(lease_ttl)
    if (lifetime := given.get("lifetime")) is not None:
        changes["lifetime"] = parse_lifetime(lifetime)
    return changes


def retry_fields(retry: Retry) -> dict[str, Any]:
    """Return the fields of a policy that a Retry decides."""
    if not isinstance(retry, Retry):
        raise ConfigurationError(f"retry must be a Retry(…), got {shown(retry)}")
    return {
        "max_attempts": retry.max_attempts,
        "backoff": retry.backoff,
        "on_timeout": retry.on_timeout,
        "on_system": retry.on_system,
    }


def new_job(task: Task | ForeignTask, payload: Body, options: Options) -> NewJob:
    """Return the job to be enqueued."""
    policy: Policy = task.policy
    if options.policy:
        policy = msgspec.structs.replace(policy, **options.policy)
    if options.run_at is None:
        check_delay(options.delay, policy.lifetime)
    concurrency_key, policy = _with_key(task, payload, options, policy)
    key = None
    if options.key is not None:
        key = Key(options.key, options.key_window, options.on_duplicate)
    return NewJob(
        type=task.type,
        payload=payload,
        queue=task.queue if options.queue is None else options.queue,
        priority=task.priority if options.priority is None else options.priority,
        policy=policy,
        delay=options.delay,
        run_at=options.run_at,
        key=key,
        tags=options.tags,
        correlation_id=options.correlation_id,
        callback_url=options.callback_url,
        after=options.after,
        concurrency_key=concurrency_key,
    )


def check_bulk(jobs: list[NewJob]) -> list[NewJob]:
    """Return *jobs* if they are not too many for one transaction, and none chose its id (S1-2)."""
    if len(jobs) > BULK_MAX:
        raise InvalidJobError(
            f"submit at most {BULK_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(jobs):,}; split them"
        )
    if any(job.id is not None for job in jobs):
        raise InvalidJobError("a job is given its id when it is stored; leave NewJob.id alone")
    return jobs


def _with_key(
    task: Task | ForeignTask, payload: Body, options: Options, policy: Policy
) -> tuple[str | None, Policy]:
    """Return the job's concurrency key, and its policy with the limit if it has one."""
    key = options.concurrency_key
    if key is None and isinstance(task, Task) and task.concurrency_key is not None:
        key = key_of(task.concurrency_key, task.signature, payload)
    limit = None if key is None else limit_of(policy)
    if limit != policy.max_running_per_key:
        policy = msgspec.structs.replace(policy, max_running_per_key=limit)
    return key, policy
