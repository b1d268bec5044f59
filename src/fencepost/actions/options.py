"""The options of a submission, beside its arguments: checked once, then trusted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any, Literal, TypedDict

import msgspec

from fencepost.actions.synonyms import option_instead
from fencepost.core.bounds import BULK_MAX, CORRELATION_ID_LENGTH_MAX, KEY_WINDOW_DEFAULT
from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Dependencies, Mode, check_dependencies
from fencepost.core.job.idempotency import Key, OnDuplicate, check_key, parse_on_duplicate
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Policy, Priority, PriorityLike, Retry, parse_priority
from fencepost.core.job.task import ForeignTask, Task
from fencepost.core.job.timeouts import (
    Timeouts,
    check_delay,
    check_run_at,
    parse_lease_ttl,
    parse_lifetime,
)
from fencepost.core.limits.concurrency import key_of, limit_of
from fencepost.core.values.names import (
    check_concurrency_key,
    check_correlation_id,
    check_name,
    check_queue,
    check_tags,
)
from fencepost.core.values.times import Duration, parse_duration
from fencepost.core.webhooks.callback import Webhooks, check_callback
from fencepost.errors import ConfigurationError, InvalidJobError


class JobReference:
    """Names one job by its id; handles are such."""

    id: str


AwaitedJob = JobReference | str
Awaited = AwaitedJob | Iterable[AwaitedJob]


class SubmitOptions(TypedDict, total=False):
    """The options of a submission, to an app or to a server."""

    delay: Duration
    """Start after this time; not with ``run_at``."""
    run_at: datetime
    """Start at this time, an aware datetime."""
    priority: PriorityLike
    """``"critical"``, ``"high"``, ``"normal"``, ``"low"`` or ``"bulk"``."""
    queue: str
    """The queue of the job."""
    key: str
    """An idempotency key: one job per key."""
    on_duplicate: Literal["return", "reject"]
    """Return the job that holds the key (the default), or raise DuplicateJobError."""
    key_window: Duration | Literal["active"]
    """How long the key is held, or ``"active"``: until the job has ended."""
    tags: Mapping[str, str]
    """Names and values to search by, added to those there are."""
    correlation_id: str
    """An id that logs, searches and traces share."""
    callback_url: str
    """Where a webhook goes when the job has ended."""
    concurrency_key: str
    """Jobs of this type with one key share a limit."""
    timeout: Duration
    """The longest that one attempt may run."""
    lease_ttl: Duration
    """How long a silent worker keeps the job."""
    lifetime: Duration
    """From the submission to the end at the latest."""
    retry: Retry
    """How often the job is tried again, and when."""
    after: Awaited
    """Run when all of these have completed: handles, ids, or names of nodes of the same flow."""
    after_any: Awaited
    """Run when any one of these has ended, whatever its state."""
    accept_failures: bool
    """With ``after``: run when all have ended, whatever their states."""


class UsingOptions(SubmitOptions, total=False):
    """The options of ``using`` of an app's task."""

    conn: Any
    """A database connection whose transaction the job joins."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Checked options; None means the task's or the app's default."""

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
    """The caller's connection, in whose transaction jobs are submitted; never stored."""


def merge(
    options: Options,
    given: UsingOptions,
    timeouts: Timeouts,
    *,
    webhooks: Webhooks | None = None,
    task: str = "task",
) -> Options:
    """Return *options* with those *given* checked and put in their place; *task* is for errors."""
    unknown = sorted(given.keys() - UsingOptions.__annotations__.keys())
    if unknown:
        hint = option_instead(given, unknown[0], task)
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


def dependencies_of(
    after: Awaited | None,
    after_any: Awaited | None,
    *,
    accept_failures: bool | None,
    before: Dependencies | None,
) -> Dependencies | None:
    """Return the jobs to wait for; *before* stays unless others are named.

    Raises InvalidJobError for a value that names no job and for both options at once,
    NoDependencyError for an empty ``after_any``, and DependencyBreadthError.
    """
    if after is not None and after_any is not None:
        raise InvalidJobError("give after or after_any, not both; put a job in between")
    if after_any is not None:
        return check_dependencies(ids_of(after_any), mode=Mode.ANY)
    mode = Mode.ENDED if accept_failures else Mode.ALL
    if after is not None:
        return check_dependencies(ids_of(after), mode=mode)
    if before is None:
        if accept_failures:
            raise InvalidJobError("accept_failures says how to wait; name the jobs with after=")
        return None
    if accept_failures is None or before.mode is Mode.ANY:
        return before
    return check_dependencies(before.on, mode=mode)


def ids_of(awaited: Awaited) -> list[str]:
    """Return the ids or names that *awaited* stands for."""
    if isinstance(awaited, (str, JobReference)):
        awaited = [awaited]
    elif not isinstance(awaited, Iterable):
        raise _no_job(awaited)
    return [_id(each) for each in awaited]


def _id(each: object) -> str:
    if isinstance(each, JobReference):
        return each.id
    if not isinstance(each, str):
        raise _no_job(each)
    return check_name(each, what="a job to wait for", limit=CORRELATION_ID_LENGTH_MAX)


def _no_job(value: object) -> InvalidJobError:
    return InvalidJobError(
        f"a job waits for handles, ids, or nodes of its flow by name, not for {shown(value)}"
    )


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
        if retry.rule is not None:
            raise ConfigurationError(RULED)
    if (timeout := given.get("timeout")) is not None:
        changes["timeout"] = timeouts.execution_for(timeout)
    if (lease_ttl := given.get("lease_ttl")) is not None:
        changes["lease_ttl"] = parse_lease_ttl(lease_ttl)
    if (lifetime := given.get("lifetime")) is not None:
        changes["lifetime"] = parse_lifetime(lifetime)
    return changes


RULED = (
    "Retry(on=…, never=…) belongs to the task, where workers find the classes: declare it with "
    "@app.task(retry=…); retry= of a submission changes the rest, and leaves them in force"
)


def retry_fields(retry: Retry) -> dict[str, Any]:
    """Return the fields of a policy that a Retry sets."""
    if not isinstance(retry, Retry):
        raise ConfigurationError(f"retry must be a Retry(…), got {shown(retry)}")
    return {
        "max_attempts": retry.max_attempts,
        "backoff": retry.backoff,
        "on_timeout": retry.on_timeout,
        "on_system": retry.on_system,
    }


class RetryChoice(msgspec.Struct, frozen=True):
    """How a job is run again."""

    reset_attempts: bool
    delay: float
    priority: Priority | None


class RetryArguments(TypedDict, total=False):
    """The keyword arguments of ``retry``."""

    reset_attempts: bool
    """Whether attempts are counted from 1 again; by default yes."""
    delay: Duration
    """By default none."""
    priority: PriorityLike | None
    """A new one for the job."""


def retry_choice(
    reset_attempts: bool = True, delay: Duration = 0, priority: Priority | int | str | None = None
) -> RetryChoice:
    """Return the arguments of a retry, checked."""
    return RetryChoice(
        bool(reset_attempts),
        parse_duration(delay, name="delay"),
        None if priority is None else parse_priority(priority),
    )


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


def new_jobs(
    task: Task | ForeignTask, payloads: Iterable[Body], options: Options
) -> Iterator[NewJob]:
    """As ``new_job`` for each payload; what does not depend on it is checked and made once."""
    is_keyed = options.concurrency_key is not None or getattr(task, "concurrency_key", None)
    first: NewJob | None = None
    for payload in payloads:
        if first is None or is_keyed:
            first = new_job(task, payload, options)
            yield first
        else:
            yield msgspec.structs.replace(first, payload=payload)


def check_bulk(jobs: list[NewJob]) -> list[NewJob]:
    """Return *jobs* if all are prepared, none has an id (S1-2), and one transaction holds them."""
    if len(jobs) > BULK_MAX:
        raise InvalidJobError(
            f"submit at most {BULK_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(jobs):,}; split them"
        )
    if (wrong := next((job for job in jobs if not isinstance(job, NewJob)), None)) is not None:
        raise InvalidJobError(
            f"app.submit_many takes prepared jobs, such as task.prepare(…), got {shown(wrong)}; "
            f"task.submit_many([…]) takes the arguments of jobs of one task"
        )
    if any(job.id is not None for job in jobs):
        raise InvalidJobError("the store assigns a job's id; leave NewJob.id alone")
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
