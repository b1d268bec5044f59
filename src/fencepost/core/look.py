"""Conditions for which no store has an index: a job has to be read to know whether it meets them.

A search reads the jobs that meet its other conditions, in order, and stops after LOOK_MAX; its
answer says how many it has read, and the next page goes on where it stopped. What is encrypted with
keys that are not here, or is not JSON, cannot be compared: such a job does not match, and is
counted.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import ERROR_TEXT_LENGTH_MAX, WHERE_LENGTH_MAX, WHERE_MAX
from fencepost.core.display import shown
from fencepost.core.encryption import from_text
from fencepost.core.job.job import BODIES, Failure, Job
from fencepost.core.job.policy import Priority, PriorityLike, parse_priority
from fencepost.core.values.names import check_text
from fencepost.core.values.payload import body_fields
from fencepost.errors import ConfigurationError

ROOTS: Final = ("payload", "result", "checkpoint", "progress", "failure")
MISSING: Final = object()
UNREADABLE: Final = object()

_PART = r"[^.=!<> ](?:[^.=!<>]*[^.=!<> ])?"
WHERE_PATTERN: Final = rf"^ *(?:{'|'.join(ROOTS)})(?:\.{_PART})* *(?:!=|<=|>=|=|<|>)[\s\S]*$"
_WHERE = re.compile(rf" *((?:{'|'.join(ROOTS)})(?:\.{_PART})*) *(!=|<=|>=|=|<|>)([\s\S]*)")
_INDEX = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_COMPARED = re.compile(r"[^=!<>]+(?:!=|<=|>=|=|<|>)")
_ORDERS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


class Comparison(NamedTuple):
    """What is at *path* compares to *value*, or to the *text* that was typed."""

    path: tuple[str, ...]
    compare: str
    text: str
    value: Any

    def __str__(self) -> str:
        return f"{'.'.join(self.path)}{self.compare}{self.text}"

    def is_met(self, root: Any) -> bool:
        """Return whether it holds for what the root has; nothing at the path meets only ``!=``."""
        found = self._find(root)
        if self.compare in _ORDERS:
            return self._is_ordered(found)
        return self._is_equal(found) == (self.compare == "=")

    def _find(self, found: Any) -> Any:
        for part in self.path[1:]:
            if isinstance(found, dict) and part in found:
                found = found[part]
            elif isinstance(found, list) and _INDEX.fullmatch(part) and int(part) < len(found):
                found = found[int(part)]
            else:
                return MISSING
        return found

    def _is_equal(self, found: Any) -> bool:
        if isinstance(found, str) and found == self.text:
            return True
        # True equals 1 in Python, and not in JSON.
        return isinstance(found, bool) == isinstance(self.value, bool) and found == self.value

    def _is_ordered(self, found: Any) -> bool:
        order = _ORDERS[self.compare]
        if isinstance(found, str):
            text = self.value if isinstance(self.value, str) else self.text
            return bool(order(found, text))
        are_numbers = all(type(each) in (int, float) for each in (found, self.value))
        return are_numbers and bool(order(found, self.value))


class Look(msgspec.Struct, frozen=True, kw_only=True):
    """What a job has to be read for; all that is given must hold."""

    priorities: tuple[Priority, ...] = ()
    error: str | None = None
    """In lower case: part of the message of its last failure, or its code, category or class."""
    where: tuple[Comparison, ...] = ()
    withholds_dependency: bool = False
    """Of a job that failed with another one, compare nothing that names the other."""

    @property
    def is_any(self) -> bool:
        """Whether nothing is asked, so that no job has to be read."""
        return not (self.priorities or self.where) and self.error is None

    @property
    def needs_content(self) -> bool:
        """Whether it compares what only those who may read a job may know."""
        return self.error is not None or bool(self.where)

    def judge(self, job: Job) -> bool | None:
        """Return whether *job* meets it; None if it cannot be known here."""
        if self.priorities and job.priority not in self.priorities:
            return False
        failure = job.failure
        if self.withholds_dependency and failure is not None and failure.failed_dependency:
            job = replace(job, failure=Failure(failure.category, "", code=failure.code))
        verdicts = [] if self.error is None else [_is_error(job.failure, self.error)]
        roots = {root: _value_of(job, root) for root in {each.path[0] for each in self.where}}
        for each in self.where:
            root = roots[each.path[0]]
            verdicts.append(None if root is UNREADABLE else each.is_met(root))
        if False in verdicts:
            return False
        return None if None in verdicts else True


ANY: Final = Look()


def make_look(
    *,
    priority: PriorityLike | Iterable[PriorityLike] | None,
    error: str | None,
    where: str | Comparison | Iterable[str | Comparison] | None,
) -> Look:
    """Check the conditions of a user, or raise ConfigurationError, InvalidJobError or the like."""
    return Look(
        priorities=_priorities(priority),
        error=None if error is None else _check_error(error),
        where=_comparisons(where),
    )


def _priorities(given: PriorityLike | Iterable[PriorityLike] | None) -> tuple[Priority, ...]:
    if given is None:
        return ()
    every = [given] if isinstance(given, str | int) or not isinstance(given, Iterable) else given
    return tuple(sorted({parse_priority(each) for each in every}))


def _check_error(given: object) -> str:
    text = check_text(given, what="an error", limit=ERROR_TEXT_LENGTH_MAX, error=ConfigurationError)
    return text.lower()


def _comparisons(given: Any) -> tuple[Comparison, ...]:
    if given is None:
        return ()
    one = isinstance(given, str | Comparison) or not isinstance(given, Iterable)
    every = [given] if one else list(given)
    if len(every) > WHERE_MAX:
        raise ConfigurationError(f"where has {len(every)} conditions; at most {WHERE_MAX}")
    return tuple(map(parse_comparison, every))


def parse_comparison(given: Any, _: str = "where") -> Comparison:
    """Return a condition such as ``payload.user.id=42``; raise ConfigurationError."""
    if isinstance(given, Comparison):
        return given
    if not isinstance(given, str) or len(given) > WHERE_LENGTH_MAX:
        found = None
    else:
        found = _WHERE.fullmatch(given)
    if found is None:
        raise ConfigurationError(
            f"{shown(given)} is not a condition such as payload.user.id=42: it begins with "
            f"{', '.join(ROOTS)}, compares by = != < <= > >=, and has at most {WHERE_LENGTH_MAX:,} "
            f"characters"
        )
    text = found[3].strip()
    try:
        value = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeError):
        value = text
    return Comparison(tuple(found[1].split(".")), found[2], text, value)


def without_value(text: str) -> str:
    """Return a condition without what it compares to, which may be content of users."""
    found = _COMPARED.match(text)
    return "…" if found is None else f"{found[0]}…"


def _is_error(failure: Failure | None, wanted: str) -> bool | None:
    if failure is None:
        return False
    kind = failure.exception or ""
    names = (failure.category, failure.code or "", kind, kind.rpartition(".")[2])
    if wanted in map(str.lower, names):
        return True
    if from_text(failure.message) is not None:
        return None
    return wanted in failure.message.lower()


def _value_of(job: Job, root: str) -> Any:
    """Return what a job has under a name, as JSON shows it, or UNREADABLE."""
    if root in BODIES:
        return body_fields(root, getattr(job, f"{root}_body")).get(root, UNREADABLE)
    value: Any = getattr(job, root)
    if value is None:
        return None
    found = msgspec.to_builtins(value)
    message = found.get("message")
    return UNREADABLE if isinstance(message, str) and from_text(message) is not None else found
