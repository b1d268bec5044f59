"""Concurrency keys: which of a task's jobs share one, and how many of those run at once.

A SCHEDULED or RUNNING job occupies a slot of its key. One that would become SCHEDULED while no slot
is free waits as PENDING, and gets its slot in the transaction that frees one. So a claim never
looks at keys, and no more jobs of a key are claimable than may run.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from enum import Enum
from inspect import Parameter
from typing import Any
from uuid import UUID

from fencepost.core.bounds import RUNNING_MAX, RUNNING_PER_KEY_MAX
from fencepost.core.display import shown
from fencepost.core.job.job import Body
from fencepost.core.job.policy import Policy
from fencepost.core.values.names import check_concurrency_key, check_count
from fencepost.core.values.signature import Signature
from fencepost.errors import ConfigurationError, InvalidJobError

LIMIT_DEFAULT = 1

KeyRule = str | Callable[..., object]
"""The name of a parameter, or a function of the arguments."""

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def limit_of(policy: Policy) -> int:
    """Return how many jobs of one key may be active."""
    limit = policy.max_running_per_key
    return LIMIT_DEFAULT if limit is None else limit


def parse_max_running_per_key(value: object) -> int:
    """Return *value* if it can be the limit of a key, or raise ConfigurationError."""
    return check_count(value, "max_running_per_key", 1, RUNNING_PER_KEY_MAX)


def check_max_running(value: object) -> int | None:
    """Return *value* if it can limit a queue or an app, or raise ConfigurationError."""
    return None if value is None else check_count(value, "max_running", 1, RUNNING_MAX)


def check_rule(rule: object, signature: Signature) -> KeyRule:
    """Return *rule* if it can derive a key from the arguments, or raise ConfigurationError."""
    names = [p.name for p in signature.parameters if p.kind not in _VARIADIC]
    if isinstance(rule, str):
        if rule in names:
            return rule
    elif callable(rule):
        return rule
    known = ", ".join(repr(name) for name in names) or "none"
    raise ConfigurationError(
        f"concurrency_key of {signature.name}() must name one of its parameters ({known}) or be a "
        f"function of the arguments, got {shown(rule)}; "
        f"a fixed key is given by using(concurrency_key=…)"
    )


def key_of(rule: KeyRule, signature: Signature, payload: Body) -> str | None:
    """Return the key of a job with this *payload*, or raise InvalidJobError; None: no limit."""
    args, kwargs = signature.decode(payload)
    value = _value(rule, signature, args, kwargs)
    if value is None:
        return None
    if isinstance(value, Enum):
        value = value.value
    if isinstance(value, (int, UUID)):
        value = str(value)
    return check_concurrency_key(value)


def _value(rule: KeyRule, signature: Signature, args: list[Any], kwargs: dict[str, Any]) -> object:
    if isinstance(rule, str):
        bound = inspect.Signature(signature.parameters).bind(*args, **kwargs)
        bound.apply_defaults()
        found: object = bound.arguments[rule]
        return found
    try:
        return rule(*args, **kwargs)
    except Exception as error:
        raise InvalidJobError(
            f"the concurrency_key of {signature.name}() raised {type(error).__name__}: {error}"
        ) from error
