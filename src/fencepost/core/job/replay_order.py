"""A request to replay many dead letters, and how a replay is shown to callers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypedDict, TypeVar

import msgspec

from fencepost.core.bounds import (
    REPLAY_RATE_DEFAULT,
    REPLAY_RATE_MAX,
    REPLAY_RATE_MIN,
    STOP_AFTER_DEFAULT,
)
from fencepost.core.job.job import Body, Encoding
from fencepost.core.job.replays import BulkReplay, LetterChoice, ReplayState, StopRule
from fencepost.core.values.names import check_count, check_number, check_queue, check_type
from fencepost.core.values.payload import encode_json
from fencepost.core.values.times import check_instant
from fencepost.errors import ConfigurationError

T = TypeVar("T")

_keys = msgspec.json.Decoder(dict[str, msgspec.Raw])


class ReplayOptions(TypedDict, total=False):
    """The options of a caller. All conditions must be met; none means every dead letter."""

    type: str | None
    queue: str | None
    group: str | None
    """The fingerprint of their failure."""
    since: datetime | None
    until: datetime | None
    patch: Mapping[str, Any] | None
    """Fields that replace those of each payload."""
    sample: int | None
    """At most so many, the most recent."""
    rate: float
    """How many a second."""
    stop_above: float | None
    """Stop once more than this part of those that have ended failed again, from 0 to 1, ..."""
    stop_after: int
    """... and at least so many have ended."""
    stop_failures: int | None
    """Stop once so many failed again."""


def order_replay(
    id: str,
    started_by: str,
    options: ReplayOptions,
    *,
    queues: Iterable[str] | None = None,
    max_payload: int,
) -> BulkReplay:
    """Return the replay that is asked for, or raise ConfigurationError or InvalidJobError."""
    unknown = options.keys() - ReplayOptions.__annotations__.keys()
    if unknown:
        raise ConfigurationError(f"a replay has no option {min(unknown)!r}")
    group, patch = options.get("group"), options.get("patch")
    if group is not None and not isinstance(group, str):
        raise ConfigurationError("group must be the id of a group of dead letters")
    if patch is not None and not isinstance(patch, Mapping):
        raise ConfigurationError("patch must be a mapping from fields to their new values")
    rate = options.get("rate", REPLAY_RATE_DEFAULT)
    return BulkReplay(
        id=id,
        started_by=started_by,
        choice=LetterChoice(
            type=_checked(check_type, options.get("type")),
            queue=_checked(check_queue, options.get("queue")),
            group=group,
            since=_checked(partial(check_instant, name="since"), options.get("since")),
            until=_checked(partial(check_instant, name="until"), options.get("until")),
            queues=None if queues is None else tuple(sorted(queues)),
        ),
        patch=encode_json(dict(patch)) if patch else None,
        max_payload=max_payload,
        sample=_checked(_count("sample"), options.get("sample")),
        rate=check_number(rate, "rate", REPLAY_RATE_MIN, REPLAY_RATE_MAX),
        stop=StopRule(
            share=_checked(_share, options.get("stop_above")),
            after=_count("stop_after")(options.get("stop_after", STOP_AFTER_DEFAULT)),
            failures=_checked(_count("stop_failures"), options.get("stop_failures")),
        ),
        total=0,
    )


def _checked(check: Callable[[T], T], value: T | None) -> T | None:
    return None if value is None else check(value)


def _count(name: str) -> Callable[[int], int]:
    return partial(check_count, name=name, minimum=1, maximum=1_000_000)


def _share(value: float) -> float:
    return check_number(value, "stop_above", 0.0, 1.0)


class ReplayView(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of many dead letters: what was asked for, and how far it is."""

    id: str
    state: ReplayState
    started_by: str
    """The name of the token; ``local`` for an app or the command line."""
    started_at: datetime
    ended_at: datetime | None
    type: str | None
    queue: str | None
    group: str | None
    since: datetime | None
    until: datetime | None
    patched: list[str] | None
    """The names of the fields that are replaced; null if the patch cannot be decrypted here."""
    sample: int | None
    rate: float
    stop_above: float | None
    stop_after: int
    stop_failures: int | None
    total: int
    """How many dead letters met the conditions at the start, ..."""
    is_total_known: bool
    """... or, if false, at least."""
    replayed: int
    skipped: dict[str, int]
    """How many stay dead letters, by reason."""
    completed: int
    failed: int
    """Jobs that it made and that failed again."""
    open: int
    """Jobs that it made and that have not ended yet."""
    left: int
    """How many are still to be replayed, as far as is known."""


def view_of(replay: BulkReplay) -> ReplayView:
    """Return what callers are shown of *replay*."""
    assert replay.started_at is not None
    choice, stop = replay.choice, replay.stop
    return ReplayView(
        id=replay.id,
        state=replay.state,
        started_by=replay.started_by,
        started_at=replay.started_at,
        ended_at=replay.ended_at,
        type=choice.type,
        queue=choice.queue,
        group=choice.group,
        since=choice.since,
        until=choice.until,
        patched=_patched(replay.patch),
        sample=replay.sample,
        rate=replay.rate,
        stop_above=stop.share,
        stop_after=stop.after,
        stop_failures=stop.failures,
        total=replay.total,
        is_total_known=replay.is_total_known,
        replayed=replay.replayed,
        skipped=replay.skipped,
        completed=replay.completed,
        failed=replay.failed,
        open=len(replay.open),
        left=replay.left,
    )


def _patched(patch: Body | None) -> list[str] | None:
    if patch is None:
        return []
    return sorted(_keys.decode(patch.data)) if patch.encoding is Encoding.JSON else None
