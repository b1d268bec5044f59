"""Which exceptions of a handler are retried: ``Retry(on=…, never=…)``.

The classes belong to the task and not to the job: a store keeps data, and only a process that has
the code can compare an exception with a class. They apply in the worker that runs the handler.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError, HandlerSignal

ExceptionClasses = type[Exception] | Iterable[type[Exception]]


@dataclass(frozen=True, slots=True)
class ExceptionRule:
    """The exceptions that are retried, and those that never are."""

    on: tuple[type[Exception], ...] | None = None
    """Only these are retried; None: all."""
    never: tuple[type[Exception], ...] = ()
    """These are not retried, even if ``on`` has them too."""

    def forbids(self, error: BaseException) -> bool:
        """Return whether *error*, or any member of a group, is never retried."""
        return any(isinstance(each, self.never) for each in (error, *_members(error)))

    def allows(self, error: BaseException) -> bool:
        """Return whether *error* is retried: a group if it is named, or if all its members are."""
        if self.forbids(error):
            return False
        if self.on is None or isinstance(error, self.on):
            return True
        members = _members(error)
        return bool(members) and all(isinstance(each, self.on) for each in members)


def _members(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group, at any depth; none for a plain exception."""
    found: list[BaseException] = []
    groups = [error]
    while groups:
        group = groups.pop()
        for each in group.exceptions if isinstance(group, BaseExceptionGroup) else ():
            (groups if isinstance(each, BaseExceptionGroup) else found).append(each)
    return found


def parse_rule(on: object, never: object) -> ExceptionRule | None:
    """Return the rule that a user wrote, None without one; or raise ConfigurationError."""
    only = None if on is None else _classes(on, "on")
    excluded = _classes(never, "never")
    return ExceptionRule(only, excluded) if only is not None or excluded else None


def _classes(value: object, name: str) -> tuple[type[Exception], ...]:
    given: list[Any] = [value]
    if isinstance(value, Iterable) and not isinstance(value, (type, str)):
        given = list(value)
    for each in given:
        if not isinstance(each, type) or not issubclass(each, Exception):
            raise ConfigurationError(
                f"Retry({name}=…) takes exception classes, such as "
                f"{name}=(ConnectionError, TimeoutError), got {shown(each)}"
            )
        if issubclass(each, HandlerSignal):
            raise ConfigurationError(
                f"Retry({name}=…) cannot list {each.__name__}: TemporaryError, PermanentError and "
                f"Snooze say themselves whether the job is retried"
            )
    return tuple(given)


def check_importable(rule: ExceptionRule) -> None:
    """Raise ConfigurationError unless a child process can import every class of *rule*."""
    for each in (*(rule.on or ()), *rule.never):
        found: Any = sys.modules.get(each.__module__)
        for part in each.__qualname__.split("."):
            found = getattr(found, part, None)
        if found is not each:
            raise ConfigurationError(
                f'isolation="process" needs exception classes at module level, which the child '
                f"process can import; {each.__module__}.{each.__qualname__} is not"
            )
