"""The jobs that a job waits for, by id or by their place in the same submission.

A dependency must exist before its dependent, so that no cycle can be stored; jobs that are
submitted together come after their dependencies.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum

import msgspec

from fencepost.core.bounds import DEPENDENCY_COUNT_MAX, DEPENDENCY_DEPTH_MAX
from fencepost.core.job.policy import Priority
from fencepost.errors import (
    DependencyBreadthError,
    DependencyCycleError,
    DependencyDepthError,
    NoDependencyError,
)


class Mode(StrEnum):
    """When the dependencies of a job are met."""

    ALL = "all"
    """When all have completed; if one ends otherwise, the job ends too (S1-60)."""
    ANY = "any"
    """When any one has ended, in whatever state (S1-61, C26)."""
    ENDED = "ended"
    """When all have ended, in whatever state (C28)."""

    __hash__ = str.__hash__


class Dependencies(msgspec.Struct, gc=False, frozen=True):
    """The jobs that a new one waits for."""

    on: tuple[str | int, ...]
    """Ids of stored jobs, and places of earlier jobs in the same submission."""
    mode: Mode = Mode.ALL
    gathers: bool = False
    """Whether it also waits for the jobs that those spawn (C29)."""


class Waits(msgspec.Struct, frozen=True):
    """The dependencies of a stored job."""

    mode: Mode
    missing: int
    """How many more must end; 0 unless the job is PENDING."""
    depth: int
    """The number of jobs on the longest path to it, itself included."""
    gathers: bool = False
    own_priority: Priority | None = None
    """Its priority at submission; it has the most urgent of this and of its dependencies' (S1-37).
    None once the priority was set by hand."""

    def inherited(self, parents: Iterable[Priority]) -> Priority | None:
        """Return its priority after jobs of these; None if it inherits none."""
        return None if self.own_priority is None else min(self.own_priority, *parents)


def check_dependencies(
    on: Iterable[str | int], *, mode: Mode = Mode.ALL, gathers: bool = False
) -> Dependencies | None:
    """Return the dependencies, each once; None if there are none, which ANY refuses (C26)."""
    distinct = tuple(dict.fromkeys(on))
    check_breadth(len(distinct))
    if not distinct and mode is Mode.ANY:
        raise NoDependencyError("after_any of no jobs would wait for ever; name one")
    return Dependencies(distinct, mode, gathers) if distinct else None


def check_breadth(count: int) -> None:
    """Raise DependencyBreadthError if one job may not wait for *count* others (S1-67)."""
    if count > DEPENDENCY_COUNT_MAX:
        raise DependencyBreadthError(
            f"a job may wait for {DEPENDENCY_COUNT_MAX:,} others, got {count:,}; wait in stages"
        )


def check_depth(depth: int) -> int:
    """Return *depth*, or raise DependencyDepthError (S1-66)."""
    if depth > DEPENDENCY_DEPTH_MAX:
        raise DependencyDepthError(
            f"a chain of {depth} jobs is too long; {DEPENDENCY_DEPTH_MAX} are allowed"
        )
    return depth


def check_places(submission: Iterable[Dependencies | None]) -> None:
    """Raise DependencyCycleError if a job waits for a place that does not come before its own."""
    for own, after in enumerate(submission):
        for on in after.on if after is not None else ():
            if isinstance(on, int) and not 0 <= on < own:
                raise DependencyCycleError(
                    f"job {own} of the submission waits for job {on}, which does not come before it"
                )
