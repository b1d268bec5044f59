"""What the outcome of an operation means to those who wait for news."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fencepost.core.job.lifecycle import TERMINAL, State
from fencepost.store.interface.crons import Fired
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.queue import Claim, Settled, Spawned
from fencepost.store.interface.replies import Moved
from fencepost.store.plan import Operation, Wakes


def topics_of(operation: Operation[Any], result: Any) -> set[Topic]:
    """Return whom the outcome of an operation may concern."""
    topics: set[Topic] = set()
    wakes = operation.declaration.wakes
    if wakes is Wakes.READY or (wakes is Wakes.IF_FIRED and _has_fired(result)):
        topics.add(Topic.READY)
    moves = _moves(result)
    states = {reply.state for reply in moves}
    states.update(moved.state for reply in moves for moved in reply.followed)
    states.update(moved.state for moved in _moved_by_spawning(result))
    if State.SCHEDULED in states:
        topics.add(Topic.READY)
    if not states.isdisjoint(TERMINAL):
        topics.add(Topic.SETTLED)
    return topics


def _moved_by_spawning(result: Any) -> list[Moved]:
    replies = result if isinstance(result, list) else []
    return [moved for each in replies if isinstance(each, Spawned) for moved in each.followed]


def _moves(result: Any) -> Sequence[Moved | Settled]:
    if isinstance(result, Claim):
        return [*result.recovered, *result.expired, *result.corrupt, *result.followed]
    if isinstance(result, list):
        return [reply for reply in result if isinstance(reply, (Moved, Settled))]
    return []


def _has_fired(result: Any) -> bool:
    """Tell whether a cron made jobs; most of those who come to a tick come too late."""
    return any(isinstance(reply, Fired) and reply.jobs for reply in result)
