"""Replays of many dead letters: the request that starts one, and the list of them."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from fencepost.core.bounds import (
    REPLAY_RATE_DEFAULT,
    REPLAY_RATE_MAX,
    REPLAY_RATE_MIN,
    STOP_AFTER_DEFAULT,
)
from fencepost.core.job.replay_order import ReplayView
from fencepost.wire.control import GroupedConditions
from fencepost.wire.terms import NewId

Few = Annotated[int, Meta(ge=1, le=1_000_000)]


class NewReplay(GroupedConditions, frozen=True, kw_only=True):
    """Which dead letters to replay, how fast, and when to stop. No condition: every one."""

    id: NewId | None = None
    """A UUID of version 4 for the replay, so that a request can be repeated: it starts one."""
    patch: dict[str, msgspec.Raw] = field(default_factory=dict)
    """Fields that replace those of each payload. One that is not an object is skipped."""
    sample: Few | None = None
    """At most so many, the most recent."""
    rate: Annotated[float, Meta(ge=REPLAY_RATE_MIN, le=REPLAY_RATE_MAX)] = REPLAY_RATE_DEFAULT
    """How many a second."""
    stop_above: Annotated[float, Meta(ge=0, le=1)] | None = None
    """Stop once more than this part of those that have ended failed again, from 0 to 1, ..."""
    stop_after: Few = STOP_AFTER_DEFAULT
    """... and at least so many have ended."""
    stop_failures: Few | None = None
    """Stop once so many failed again."""
    expected: Annotated[int, Meta(ge=0)] | None = None
    """Refuse with 409 if there are more than these and a tenth of them."""


class WireReplays(msgspec.Struct, frozen=True, kw_only=True):
    """The replays that are kept, the newest first."""

    replays: list[ReplayView]
