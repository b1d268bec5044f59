"""What the specification leaves open, put into one form: orders, cases, and who tells what."""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import msgspec
from msgspec.structs import replace

from fencepost.core.job.job import Job, JobRecord
from fencepost.core.job.why import Situation
from fencepost.core.stats.statistics import EndedJob
from fencepost.store.interface.control import Edited
from fencepost.store.interface.queue import Claim, Moved, Settled, Spawned
from lab.model.calls import Call, Look
from lab.model.deliveries import apart, is_delivery, without_ids
from lab.model.names import NAMED, renamed
from lab.model.rules import ENDED

MOVING = (Moved, Settled, Spawned)
"""The answers that tell what followed."""


class Told(msgspec.Struct, frozen=True):
    """An answer, and what became of jobs that waited, in whichever reply of the batch it is."""

    answer: Any
    followed: list[Moved]


def settled(call: Call, answer: Any) -> Any:
    """Put into one order, and one case, what the specification leaves open."""
    answer = _closed(answer if call.name == "look" else renamed(answer, _lowered))
    match answer:
        case list() if call.name in ("settle", "cancel", "spawn"):
            return _told(answer)
        case list() if call.name in ("expire", "promote"):
            return _told(apart(answer))
        case list() if call.name in ("find", "dump", "ended"):
            return apart(answer)
        case Claim():
            recovered = _told(sorted(answer.recovered, key=attrgetter("job_id")))
            expired = _told(apart(answer.expired))
            # Of the jobs whose time had come, one may be held up first and get its slot at once.
            quiet = replace(
                answer,
                recovered=recovered.answer,
                expired=expired.answer,
                held=0,
                place=None,
                is_short=False,
            )
            if answer.jobs:
                quiet = replace(quiet, wait=None)  # only one who was given nothing is told
            return Told(quiet, recovered.followed + expired.followed)
        case list() if call.name == "recover":
            return _told(sorted(answer, key=attrgetter("job_id")))
        case list() if call.name == "dead_letters":
            return _by_death(answer)
        case Look():
            return replace(
                answer,
                letters=_by_death(answer.letters),
                records=apart(answer.records),
                jobs=apart(answer.jobs),
                ended=apart(answer.ended),
                held=[sorted(job_ids) for job_ids in answer.held],
            )
    return answer


def _told(replies: list[Any]) -> Told:
    """Take out of *replies* what followed, and put it into one order."""
    followed = [moved for reply in replies if isinstance(reply, MOVING) for moved in reply.followed]
    quiet = [
        replace(reply, followed=()) if isinstance(reply, MOVING) else reply for reply in replies
    ]
    return Told(quiet, sorted(without_ids(followed), key=attrgetter("job_id")))


def _closed(answer: Any) -> Any:
    """Take out when a job that has ended was last due: not every store remembers it.

    And how many stand before a delivery, for those of one call have no order.
    """
    match answer:
        case Situation() if is_delivery(answer.job) and answer.jobs_ahead:
            return _closed(replace(answer, jobs_ahead=0))
        case Job() if answer.state in ENDED:
            return replace(answer, run_at=answer.created_at)
        case JobRecord() | Situation() | Edited() if answer.job.state in ENDED:
            return replace(answer, job=_closed(answer.job))
        case list():
            return [_closed(each) for each in answer]
        case Look():
            return replace(
                answer,
                records=_closed(answer.records),
                jobs=_closed(answer.jobs),
                got=_closed(answer.got),
                situations=_closed(answer.situations),
            )
    return answer


def _lowered(text: str) -> str:
    lowered = text.lower()
    return lowered if lowered.startswith(NAMED[0]) else text


def _by_death(letters: list[Any]) -> list[Any]:
    """Keep the order of death, and put those that died in one instant into the order of ids."""
    return sorted(
        sorted(letters, key=attrgetter("job_id")), key=attrgetter("completed_at"), reverse=True
    )


# Partitions.


def settled_apart(call: Call, answer: Any) -> Any:
    """Put into one form what is left open, and what partitions leave open besides.

    Jobs of one instant have no order, nor have those that ended in one; a reply does not tell of
    jobs of other partitions that followed; a claim is told to wait for its own partitions only; the
    running jobs of the app are not counted, and steps of pruning are a partition's own.
    """
    answer = settled(call, answer)
    match answer:
        case Told(answer=Claim() as claim):
            return Told(replace(claim, wait=None), [])
        case Told() if call.name in ("recover", "expire", "promote"):
            return Told(apart(sorted(answer.answer, key=attrgetter("job_id"))), [])
        case Told():
            return Told(_unordered(answer.answer), [])
        case list() if call.name == "prune":
            return sum(answer)
        case list() if call.name == "dependents":
            return [sorted(each) for each in answer]
        case list():
            return _unordered([_quiet(each) for each in answer])
        case Look():
            return replace(
                answer,
                records=_unordered(answer.records),
                jobs=_unordered(answer.jobs),
                ended=_unordered(answer.ended),
                situations=[_local(each) for each in answer.situations],
                dependents=[sorted(each) for each in answer.dependents],
            )
        case Situation():
            return _local(answer)
    return answer


def _local(found: Situation | None) -> Situation | None:
    """Take out how many jobs of the app run, which counts only where the app has a limit."""
    return found and replace(found, app_running=0)


def _quiet(reply: Any) -> Any:
    match reply:
        case Edited():
            return replace(reply, moved=())
        case each if isinstance(each, MOVING):
            return replace(each, followed=())
    return reply


def _unordered(values: Any) -> Any:
    """Put jobs of one instant into the order of their ids; leave other lists alone."""
    match values:
        case [JobRecord(), *_]:
            return apart(sorted(values, key=lambda each: (each.job.created_at, each.job.id)))
        case [Job(), *_]:
            return apart(sorted(values, key=attrgetter("created_at", "id")))
        case [EndedJob(), *_]:
            return apart(sorted(values, key=attrgetter("completed_at", "id")))
    return values
