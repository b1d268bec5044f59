"""What a job waits for: other jobs, by id or by their place in the same submission.

A dependency must exist before its dependent does, so that no cycle can ever be stored; those that
are submitted together come in an order in which each stands behind what it waits for.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from fencepost.core.bounds import DEPENDENCY_COUNT_MAX, DEPENDENCY_DEPTH_MAX
from fencepost.core.job.priority import Priority
from fencepost.errors import (
    DependencyBreadthError,
    DependencyCycleError,
    DependencyDepthError,
    NoDependencyError,
)


class Mode(StrEnum):
    """When those that a job waits for let it go."""

    ALL = "all"
    """When every one of them has completed; one that ends otherwise ends it too (S1-60)."""
    ANY = "any"
    """When any one of them has ended, however it did (S1-61, C26)."""
    ENDED = "ended"
    """When every one of them has ended, however it did (C28)."""

    __hash__ = str.__hash__


class Dependencies(msgspec.Struct, gc=False, frozen=True):
    """The jobs that a new one waits for."""

    on: tuple[str | int, ...]
    """Ids of stored jobs, and places of earlier jobs in the same submission."""
    mode: Mode = Mode.ALL
    gathers: bool = False
    """Whether it also waits for whatever those jobs spawn while they run (C29)."""


class Waits(msgspec.Struct, frozen=True):
    """What a stored job that has dependencies waits for."""

    mode: Mode
    missing: int
    """How many more must let it go; 0 unless the job is PENDING."""
    depth: int
    """The number of jobs on the longest way to it, itself included."""
    gathers: bool = False
    own_priority: Priority | None = None
    """What it was submitted with; it has the most urgent of this and of those that it waits for
    (S1-37). None once its priority was set by hand, which then holds."""

    def inherited(self, parents: Iterable[Priority]) -> Priority | None:
        """Return its priority behind jobs of these; None if it inherits none."""
        return None if self.own_priority is None else min(self.own_priority, *parents)


def check_dependencies(
    on: Iterable[str | int], *, mode: Mode = Mode.ALL, gathers: bool = False
) -> Dependencies | None:
    """Return the dependencies, each once; None for none, which AFTER_ANY does not allow (C26)."""
    distinct = tuple(dict.fromkeys(on))
    if len(distinct) > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(len(distinct))
    if not distinct and mode is Mode.ANY:
        raise NoDependencyError
    return Dependencies(distinct, mode, gathers) if distinct else None


def check_depth(depth: int) -> int:
    """Return *depth*, or raise DependencyDepthError (S1-66)."""
    if depth > DEPENDENCY_DEPTH_MAX:
        raise DependencyDepthError(depth)
    return depth


def check_place(place: int, own: int) -> int:
    """Return *place*, or raise DependencyCycleError: only what stands before can be waited for."""
    if not 0 <= place < own:
        raise DependencyCycleError(
            f"job {own} of the submission waits for job {place}, which does not come before it"
        )
    return place
