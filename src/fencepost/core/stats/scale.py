"""How many slots a queue could use, for whoever starts and stops workers.

Two things are added up. To keep up, ``arrivals a second * seconds a job takes`` slots are busy all
the time. To be rid of the backlog within *target* seconds, ``depth * seconds a job takes / target``
more are. What runs keeps its slots; a limit on the queue bounds it all, and a paused queue wants
nothing more than what it runs.
"""

from __future__ import annotations

import math

import msgspec

from fencepost.core.bounds import SCALE_RUN_DEFAULT, SCALE_SLOTS_MAX


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a queue."""

    depth: int
    """Jobs that are claimable."""
    running: int
    slots: int
    """Slots of all workers that take jobs of this queue, whatever else they take."""
    arrivals: float
    """Jobs a second that were submitted of late."""
    run_time: float | None
    """Seconds that half of the jobs took at the most; None when none has completed of late."""
    max_running: int | None = None
    is_paused: bool = False
    oldest_age: float | None = None


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How many slots a queue has, and how many it could use."""

    queue: str
    depth: int
    running: int
    slots: int
    wanted_slots: int
    drain_seconds: float | None
    """Until the backlog is gone with the slots there are; None: never, as things go."""
    oldest_age: float | None
    """For how many seconds the oldest claimable job has been due."""


def scale(queue: str, load: Load, *, target: float) -> Scale:
    """Return what *load* asks for, if its backlog is to be gone within *target* seconds."""
    assert target > 0
    return Scale(
        queue=queue,
        depth=load.depth,
        running=load.running,
        slots=load.slots,
        wanted_slots=_wanted(load, target),
        drain_seconds=_drain_seconds(load),
        oldest_age=load.oldest_age,
    )


def _wanted(load: Load, target: float) -> int:
    if load.is_paused:
        return load.running
    each = _run_time(load)
    busy = load.arrivals * each + load.depth * each / target
    # A tiny share of a slot is a slot if anything is to run, and a rounding error if not.
    wanted = math.ceil(min(busy, SCALE_SLOTS_MAX) - 1e-9) if busy else 0
    limit = SCALE_SLOTS_MAX if load.max_running is None else load.max_running
    return max(min(max(wanted, 1 if load.depth else 0), limit), load.running)


def _drain_seconds(load: Load) -> float | None:
    if load.depth == 0:
        return 0.0
    usable = load.slots if load.max_running is None else min(load.slots, load.max_running)
    if load.is_paused or usable == 0:
        return None
    net = usable / max(_run_time(load), 1e-6) - load.arrivals
    return load.depth / net if net > 0 else None


def _run_time(load: Load) -> float:
    return SCALE_RUN_DEFAULT if load.run_time is None else load.run_time
