"""Deliveries of one call: stores put them down in orders of their own, so what they say counts."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from fencepost.core.job.job import Job, JobRecord
from fencepost.core.stats.statistics import EndedJob
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.queue import Moved
from lab.model.calls import Look
from lab.model.names import Names, renamed


def is_delivery(value: Any) -> bool:
    """Tell whether a job, a record, a move or an end is that of a delivery."""
    match value:
        case JobRecord():
            return value.job.type == DELIVERY_TYPE
        case Job() | Moved() | EndedJob():
            return value.type == DELIVERY_TYPE
    return False


def apart(values: list[Any]) -> list[Any]:
    """Put deliveries behind the others, in the order of what they say.

    Moves and ends say only whose they are.
    """
    others = [each for each in values if not is_delivery(each)]
    return [*others, *sorted(filter(is_delivery, values), key=_saying)]


def _saying(value: JobRecord | Job | Moved | EndedJob) -> str:
    match value:
        case Moved():
            return value.job_id
        case EndedJob():
            return value.id
        case JobRecord():
            return _saying(value.job)
        case Job():
            return value.payload_body.data.decode(errors="replace")


def without_ids(followed: list[Moved]) -> list[Moved]:
    """Take the ids out of deliveries that were just stored: nobody has seen what they say yet."""
    return [replace(each, job_id="") if is_delivery(each) else each for each in followed]


def learn(names: Names, expected: Look, answered: Look) -> None:
    """Learn names from all that can be seen: of deliveries last, by the jobs of which they tell."""
    both = (expected, answered)
    names.learn(expected.events, answered.events)
    others = [[each for each in look.records if not is_delivery(each)] for look in both]
    names.learn(*others)
    told, own = [[each for each in look.records if is_delivery(each)] for look in both]
    own.sort(key=lambda each: _saying(renamed(each, names.name)))
    names.learn(apart(told), own)
