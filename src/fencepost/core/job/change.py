"""What a hook may change in a job before it is stored: each value is checked like a caller's.

A store trusts what it is given. A tag that is not text, or a priority that does not exist, would be
noticed only by the claim that reads it, which would fail for the other jobs as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from fencepost.core.display import shown
from fencepost.core.job.idempotency import Key, check_key
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.policy import Policy, parse_priority
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.limits.concurrency import limit_of
from fencepost.core.values.names import (
    check_concurrency_key,
    check_correlation_id,
    check_own_type,
    check_queue,
    check_tags,
    reserved_tags,
)
from fencepost.core.values.times import parse_duration
from fencepost.core.webhooks.callback import parse_callback_url
from fencepost.errors import InvalidJobError


def checked_change(job: NewJob, changed: NewJob) -> NewJob:
    """Return *changed*, which a hook made of *job*, or raise if that cannot be stored."""
    values: dict[str, Any] = {}
    for name in NewJob.__struct_fields__:
        value = getattr(changed, name)
        if value is not getattr(job, name) and value != getattr(job, name):
            if name not in _CHECKS:
                raise InvalidJobError(f"a hook cannot change {name} of a job, got {shown(value)}")
            is_cleared = value is None and name in _OPTIONAL
            values[name] = None if is_cleared else _CHECKS[name](value)
    if "tags" in values and reserved_tags(values["tags"]) != reserved_tags(job.tags):
        raise InvalidJobError("a hook cannot change tags that only Fencepost sets")
    made = replace(changed, **values) if values else changed
    if made.concurrency_key is not None and made.policy.max_running_per_key is None:
        made = replace(made, policy=replace(made.policy, max_running_per_key=limit_of(made.policy)))
    return made


def _instance(kind: type) -> Callable[[object], Any]:
    def check(value: object) -> object:
        if not isinstance(value, kind):
            raise InvalidJobError(f"expected a {kind.__name__}, got {shown(value)}")
        return value

    return check


def _key(value: object) -> Key:
    key: Key = _instance(Key)(value)
    check_key(key.value)
    return key


def _callback_url(value: object) -> object:
    parse_callback_url(value)
    return value


_CHECKS: dict[str, Callable[[Any], Any]] = {
    "type": check_own_type,
    "payload": _instance(Body),
    "queue": check_queue,
    "priority": parse_priority,
    "policy": _instance(Policy),
    "delay": lambda value: parse_duration(value, name="delay"),
    "run_at": check_run_at,
    "key": _key,
    "tags": lambda value: check_tags(value, may_be_reserved=True),
    "correlation_id": check_correlation_id,
    "callback_url": _callback_url,
    "concurrency_key": check_concurrency_key,
}
_OPTIONAL = frozenset(("run_at", "key", "correlation_id", "callback_url", "concurrency_key"))
