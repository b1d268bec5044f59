"""Fingerprints of failures: jobs that died of the same thing, whatever their payloads.

Two dead letters are alike if they have the same type, the same class of error and the same
innermost frame of the user's own code. The line is left out: it changes with every release. Without
a traceback, as from a worker in another language, the code of the failure stands for the frame.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

import msgspec

from fencepost.core.bounds import GROUP_HOURS, GROUP_SAMPLE, RISING_FACTOR, RISING_MIN
from fencepost.core.display import shortened
from fencepost.core.job.job import DeadLetter, Failure

_FRAME = re.compile(r'^\s*File "([^"\n]+)", line ([0-9]+)(?:, in ([^\n]+))?$', re.MULTILINE)
_OTHERS = ("site-packages", "dist-packages", "lib/python", "/fencepost/", "<frozen", "<string>")
_PARTS_SHOWN = 3
HOUR = timedelta(hours=1)


class LetterMark(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a dead letter to group it; small, since there may be thousands."""

    job_id: str
    group: str
    type: str
    queue: str
    exception: str | None
    frame: str | None
    message: str
    at: datetime


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Dead letters that died of the same thing."""

    id: str
    type: str
    exception: str | None
    """The class of the error."""
    frame: str | None
    """The innermost frame of the user's own code, in the newest of them."""
    message: str
    """Of the newest."""
    count: int
    first_at: datetime
    last_at: datetime
    is_rising: bool
    """More than five times as many in the last hour as usual in the day before."""
    trend: list[int]
    """How many an hour, for 24 hours; the last is the hour that ends now."""
    queues: dict[str, int]
    sample: list[str]
    """Ids of the newest."""


def mark_of(letter: DeadLetter) -> LetterMark:
    """Return what is needed to group *letter*."""
    failure = letter.failure
    where = _own_frame(failure)
    frame = None if where is None else f"{where[0]}:{where[1]} in {where[2]}"
    place = failure.code or "" if where is None else f"{where[0]} {where[2]}"
    return LetterMark(
        job_id=letter.job_id,
        group=_digest(letter.type, failure.exception or failure.category, place),
        type=letter.type,
        queue=letter.queue,
        exception=failure.exception,
        frame=frame,
        message=shortened(failure.message),
        at=letter.completed_at,
    )


def _own_frame(failure: Failure) -> tuple[str, str, str] | None:
    """Return file, line and function of the innermost frame of the user's own code."""
    found = _FRAME.findall(failure.traceback or "")
    own = [each for each in found if not any(part in each[0] for part in _OTHERS)]
    if not found:
        return None
    path, line, function = (own or found)[-1]
    # The beginning of a path differs from machine to machine.
    return "/".join(path.replace("\\", "/").split("/")[-_PARTS_SHOWN:]), line, function or "?"


def _digest(*parts: str) -> str:
    return hashlib.blake2b("\0".join(parts).encode("utf-8", "replace"), digest_size=8).hexdigest()


def grouped(marks: Iterable[LetterMark], now: datetime) -> list[Group]:
    """Return the groups of *marks*: rising ones first, then the most recent."""
    by_id: dict[str, list[LetterMark]] = {}
    for mark in marks:
        by_id.setdefault(mark.group, []).append(mark)
    groups = [_group(some, now) for some in by_id.values()]
    return sorted(groups, key=lambda each: (each.is_rising, each.last_at, each.id), reverse=True)


def _group(marks: Sequence[LetterMark], now: datetime) -> Group:
    newest = sorted(marks, key=lambda mark: mark.at, reverse=True)
    trend = trend_of((mark.at for mark in marks), now)
    return Group(
        id=newest[0].group,
        type=newest[0].type,
        exception=newest[0].exception,
        frame=newest[0].frame,
        message=newest[0].message,
        count=len(newest),
        first_at=newest[-1].at,
        last_at=newest[0].at,
        is_rising=is_rising(trend),
        trend=trend,
        queues=dict(Counter(mark.queue for mark in marks)),
        sample=[mark.job_id for mark in newest[:GROUP_SAMPLE]],
    )


def trend_of(times: Iterable[datetime], now: datetime) -> list[int]:
    """Return how many of *times* lie in each of the last hours, the latest hour last."""
    trend = [0] * GROUP_HOURS
    for at in times:
        # A clock elsewhere may be ahead: what has not come yet is of the latest hour.
        hours = max((now - at) // HOUR, 0)
        if hours < GROUP_HOURS:
            trend[-1 - hours] += 1
    return trend


def is_rising(trend: Sequence[int]) -> bool:
    """Return whether the latest hour has far more than is usual in those before."""
    usual = sum(trend[:-1]) / (len(trend) - 1)
    return trend[-1] >= RISING_MIN and trend[-1] > RISING_FACTOR * usual
