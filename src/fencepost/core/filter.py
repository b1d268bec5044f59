"""Which jobs a search means, and where its next page begins."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import NamedTuple, TypedDict

import msgspec

from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.core.display import shown
from fencepost.core.job.lifecycle import State
from fencepost.core.values.instants import check_instant
from fencepost.core.values.names import (
    check_correlation_id,
    check_flow,
    check_queue,
    check_tags,
    check_type,
)
from fencepost.errors import ConfigurationError

_STATES = f"there are {', '.join(State)}"


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that meet every condition given; an empty filter means all jobs."""

    states: tuple[State, ...] = ()
    type: str | None = None
    queue: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    flow: str | None = None
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this: of two filters that meet at a time, one job meets one."""

    @property
    def is_dated(self) -> bool:
        return self.created_after is not None or self.created_before is not None

    @property
    def is_countable(self) -> bool:
        """Whether counts by queue, type and state know how many jobs are meant."""
        is_marked = self.tags or self.correlation_id is not None or self.flow is not None
        return not is_marked and not self.is_dated


States = State | str | Iterable[State | str] | None


class Conditions(TypedDict, total=False):
    """What a search can ask of jobs; they meet every condition given."""

    state: States
    """A state, fine or coarse, or several."""
    type: str | None
    queue: str | None
    tags: Mapping[str, str] | None
    correlation_id: str | None
    flow: str | None
    created_after: datetime | None
    """Submitted at this time or later."""
    created_before: datetime | None
    """Submitted earlier than this."""


class Listing(NamedTuple):
    """A list that is read page by page; the cursors of one are none of another."""

    prefix: bytes
    digits_max: int
    """So many digits has a position of this list at the most."""


JOBS = Listing(b"j1:", 18)
DEAD_LETTERS = Listing(b"d1:", 37)
EVENTS = Listing(b"e1:", 18)
ACTIONS = Listing(b"a1:", 18)
ENDS = Listing(b"s1:", 17)
"""Of jobs, by the time of their end in microseconds."""


class PageRequest(msgspec.Struct, frozen=True):
    """How many jobs, and after which; newest first."""

    limit: int = PAGE_DEFAULT
    after: int | None = None


def make_filter(
    *,
    state: State | str | Iterable[State | str] | None = None,
    type: str | None = None,
    queue: str | None = None,
    tags: Mapping[str, str] | None = None,
    correlation_id: str | None = None,
    flow: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
) -> JobFilter:
    """Check the conditions that a user gave, or raise ConfigurationError or InvalidJobError.

    Jobs are created after a time from that very microsecond on, and before it until then.
    """
    return JobFilter(
        states=parse_states(state),
        type=None if type is None else check_type(type),
        queue=None if queue is None else check_queue(queue),
        tags=check_tags(tags, may_be_reserved=True),
        correlation_id=check_correlation_id(correlation_id),
        flow=check_flow(flow),
        created_after=_instant(created_after, "created_after"),
        created_before=_instant(created_before, "created_before"),
    )


def _instant(value: datetime | None, name: str) -> datetime | None:
    return None if value is None else check_instant(value, name=name)


def parse_states(value: State | str | Iterable[State | str] | None) -> tuple[State, ...]:
    """Return the states that *value* names, fine or coarse."""
    if value is None:
        return ()
    if not isinstance(value, Iterable):
        raise ConfigurationError(f"no state is called {shown(value)}; {_STATES}")
    names: list[object] = [value] if isinstance(value, str) else list(value)
    states: list[State] = []
    for name in names:
        lowered = name.lower() if isinstance(name, str) else None
        matches = [state for state in State if lowered in (state.value, state.coarse)]
        if not matches:
            raise ConfigurationError(f"no state is called {shown(name)}; {_STATES}")
        states.extend(matches)
    return tuple(dict.fromkeys(states))


def make_page(*, limit: object, after: str | None, of: Listing = JOBS) -> PageRequest:
    """Check a page's size and cursor, or raise ConfigurationError."""
    if not isinstance(limit, int) or isinstance(limit, bool) or not 1 <= limit <= PAGE_MAX:
        raise ConfigurationError(f"limit must lie between 1 and {PAGE_MAX}, got {shown(limit)}")
    return PageRequest(limit, None if after is None else decode_cursor(after, of))


def encode_cursor(position: int, of: Listing = JOBS) -> str:
    """Return an opaque mark for the job at *position*."""
    return base64.urlsafe_b64encode(of.prefix + str(position).encode()).decode().rstrip("=")


def decode_cursor(text: str, of: Listing = JOBS) -> int:
    """Return the position behind a cursor, or raise ConfigurationError."""
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
        digits = raw.removeprefix(of.prefix)
        if not digits.isdigit() or len(digits) > of.digits_max:
            raise ValueError(text)
        position = int(digits)
        if encode_cursor(position, of) != text:
            raise ValueError(text)
        return position
    except (ValueError, TypeError, binascii.Error):
        raise ConfigurationError(
            f"{shown(text)} is not a cursor; pass the `next` of an earlier page"
        ) from None
