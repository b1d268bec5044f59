"""Concurrency keys: which of a task's jobs share one, and how many of those run at once.

A job that is SCHEDULED or RUNNING takes up a slot of its key. One that would become SCHEDULED while
no slot is free waits as PENDING, and takes its turn in the transaction in which a slot comes free;
so a claim never looks at a key, and a key has no more jobs in line than may run.
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
from fencepost.core.values.names import check_concurrency_key
from fencepost.core.values.signature import Signature
from fencepost.errors import ConfigurationError, InvalidJobError

LIMIT_DEFAULT = 1
_MOST = RUNNING_PER_KEY_MAX

KeyRule = str | Callable[..., object]
"""The name of a parameter, or a function of the arguments."""

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)


def limit_of(policy: Policy) -> int:
    """Return how many jobs of one key may be under way."""
    limit = policy.max_running_per_key
    return LIMIT_DEFAULT if limit is None else limit


def parse_max_running_per_key(value: object) -> int:
    """Return *value* if it can be the limit of a key, or raise ConfigurationError."""
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MOST:
        raise ConfigurationError(
            f"max_running_per_key must lie between 1 and {_MOST:,}, got {shown(value)}"
        )
    return value


def check_max_running(value: object) -> int | None:
    """Return *value* if it can limit a queue or an app, or raise ConfigurationError."""
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= RUNNING_MAX:
        raise ConfigurationError(
            f"max_running must lie between 1 and {RUNNING_MAX:,}, or be None; got {shown(value)}"
        )
    return value


def check_rule(rule: object, signature: Signature) -> KeyRule:
    """Return *rule* if it can find a key in the arguments, or raise ConfigurationError."""
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
    """Return the key of a job with this *payload*; None, and no limit, when the value is None.

    Raises InvalidJobError when what the rule finds is no key.
    """
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
