"""The conditions of a search, and the cursors of its pages."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Literal, NamedTuple, TypedDict, TypeVar, Unpack, get_args

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX
from fencepost.core.display import did_you_mean, shown
from fencepost.core.job.idempotency import check_key
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import PriorityLike
from fencepost.core.look import ANY, Comparison, Look, make_look
from fencepost.core.values.names import (
    check_correlation_id,
    check_count,
    check_flow,
    check_id_prefix,
    check_queue,
    check_tags,
    check_type,
)
from fencepost.core.values.times import check_instant
from fencepost.errors import ConfigurationError

T = TypeVar("T")

_STATES = f"there are {', '.join(State)}"


class JobFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that meet every condition given; an empty filter means all jobs."""

    states: tuple[State, ...] = ()
    type: str | None = None
    queue: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    flow: str | None = None
    id_prefix: str | None = None
    """The hexadecimal digits, without dashes, with which their ids begin."""
    created_after: datetime | None = None
    """Submitted at this time or later."""
    created_before: datetime | None = None
    """Submitted earlier than this: adjacent filters do not overlap."""
    key: str | None = None
    """Of each type, the last job that took this idempotency key, whether or not it holds it now."""

    @property
    def is_dated(self) -> bool:
        return self.created_after is not None or self.created_before is not None

    @property
    def is_countable(self) -> bool:
        """Whether counts by queue, type and state can answer it."""
        marks = (self.tags or None, self.correlation_id, self.flow, self.id_prefix, self.key)
        return not self.is_dated and all(mark is None for mark in marks)


class JobQuery(msgspec.Struct, frozen=True):
    """What a store selects, and what each of those jobs has to be read for.

    Not one struct: a store that would ignore a condition selects too much.
    """

    filter: JobFilter = JobFilter()
    look: Look = ANY

    def within(self, states: Iterable[State]) -> JobQuery | None:
        """Return it restricted to *states*; None if it matches no job in them."""
        named = self.filter.states
        kept = tuple(state for state in State if state in states and (not named or state in named))
        return replace(self, filter=replace(self.filter, states=kept)) if kept else None


States = State | str | Iterable[State | str] | None


class Conditions(TypedDict, total=False):
    """The keyword arguments of a search; jobs meet every condition given."""

    state: States
    """A state, fine or coarse, or several."""
    type: str | None
    queue: str | None
    tags: Mapping[str, str] | None
    correlation_id: str | None
    flow: str | None
    id_prefix: str | None
    """The beginning of the id, such as ``3f2a``."""
    created_after: datetime | None
    """Submitted at this time or later."""
    created_before: datetime | None
    """Submitted earlier than this."""
    key: str | None
    """The idempotency key; of each type, only the last job that was submitted with it is found."""
    priority: PriorityLike | Iterable[PriorityLike] | None
    """A priority, or several. This and what follows has no index: jobs are read one by one."""
    error: str | None
    """Part of the message of its last failure, or the code, category or class of that."""
    where: str | Comparison | Iterable[str | Comparison] | None
    """What it carries, such as ``payload.user.id=42``; or several such conditions."""


JobOrder = Literal["newest", "oldest"]


def is_oldest_first(order: object) -> bool:
    """Return whether this is the order of the oldest; raise ConfigurationError if it is none."""
    if order not in get_args(JobOrder):
        raise ConfigurationError(f"order must be 'newest' or 'oldest', got {shown(order)}")
    return order == "oldest"


class Listing(NamedTuple):
    """A list that is read page by page; each has its own cursors."""

    prefix: bytes
    digits_max: int
    """The most digits of a position in this list."""


JOBS = Listing(b"j1:", 18)
PARTITIONED_JOBS = Listing(b"p1:", 1_500)
"""Jobs of a store with partitions, whose position has one of each."""
DEAD_LETTERS = Listing(b"d1:", 37)
FOUND_LETTERS = Listing(b"f1:", 5)
"""Dead letters that meet conditions, by how many come before."""
EVENTS = Listing(b"e1:", 18)
ACTIONS = Listing(b"a1:", 18)
ENDS = Listing(b"s1:", 17)
"""Ended jobs, by the time of their end in microseconds."""


class PageRequest(msgspec.Struct, frozen=True):
    """How many jobs, and after which; newest first unless the oldest are wanted first."""

    limit: int = PAGE_DEFAULT
    after: int | None = None
    is_oldest_first: bool = False


def make_filter(
    *,
    state: States = None,
    type: str | None = None,
    queue: str | None = None,
    tags: Mapping[str, str] | None = None,
    correlation_id: str | None = None,
    flow: str | None = None,
    id_prefix: str | None = None,
    created_after: datetime | None = None,
    created_before: datetime | None = None,
    key: str | None = None,
) -> JobFilter:
    """Check the conditions of a user, or raise ConfigurationError or InvalidJobError."""
    return JobFilter(
        states=parse_states(state),
        type=_given(check_type, type),
        queue=_given(check_queue, queue),
        tags=check_tags(tags, may_be_reserved=True),
        correlation_id=_given(check_correlation_id, correlation_id),
        flow=_given(check_flow, flow),
        id_prefix=None if id_prefix is None else check_id_prefix(id_prefix),
        created_after=_given(partial(check_instant, name="created_after"), created_after),
        created_before=_given(partial(check_instant, name="created_before"), created_before),
        key=_given(check_key, key),
    )


def make_query(**conditions: Unpack[Conditions]) -> JobQuery:
    """Check all conditions of a user, or raise ConfigurationError, InvalidJobError or the like."""
    look = {name: conditions.pop(name, None) for name in _LOOKED}  # type: ignore[misc]  # its names
    return JobQuery(make_filter(**conditions), make_look(**look))  # type: ignore[misc]


_LOOKED = ("priority", "error", "where")


def _given(check: Callable[[T], T], value: T | None) -> T | None:
    return None if value is None else check(value)


def parse_states(value: States) -> tuple[State, ...]:
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
            near = did_you_mean(lowered or "", (state.value for state in State))
            raise ConfigurationError(f"no state is called {shown(name)}; {_STATES}{near}")
        states.extend(matches)
    return tuple(dict.fromkeys(states))


def make_page(*, limit: object, after: str | None, of: Listing = JOBS) -> PageRequest:
    """Check a page's size and cursor, or raise ConfigurationError."""
    count = check_count(limit, "limit", 1, PAGE_MAX)
    return PageRequest(count, None if after is None else decode_cursor(after, of))


def encode_cursor(position: int, of: Listing = JOBS) -> str:
    """Return the opaque cursor of *position*."""
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
