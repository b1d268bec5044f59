"""Replays of many dead letters, at a rate, until a rule stops them: their state, and decisions.

A replay is one value with a version. A change names the version that it is based on, so of
two changes made at once one is refused. It moves through the list of dead letters in one direction,
and leaves out what died after its start: a job that it made and that failed again is not its own.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Literal

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import (
    PAYLOAD_BYTES_DEFAULT,
    REPLAY_BATCH,
    REPLAY_BURST,
    REPLAY_OPEN_MAX,
    REPLAYS_KEPT_MAX,
    REPLAYS_MAX,
    STOP_AFTER_DEFAULT,
)
from fencepost.core.fingerprints import mark_of
from fencepost.core.job.job import Body, DeadLetter
from fencepost.core.job.lifecycle import DEAD, State
from fencepost.errors import StateConflictError


class ReplayState(StrEnum):
    """Where a replay stands."""

    RUNNING = "running"
    HELD = "held"
    """By hand; it goes on from there when it is resumed."""
    STOPPED = "stopped"
    """By hand, for good."""
    STOPPED_BY_RULE = "stopped_by_rule"
    DONE = "done"
    """There is nothing more to replay."""

    @property
    def is_under_way(self) -> bool:
        return self in (ReplayState.RUNNING, ReplayState.HELD)


Order = Literal["hold", "resume", "stop"]


class LetterChoice(msgspec.Struct, frozen=True, kw_only=True):
    """Which dead letters; all conditions must be met."""

    type: str | None = None
    queue: str | None = None
    group: str | None = None
    """The fingerprint of their failure, see ``core/fingerprints.py``."""
    since: datetime | None = None
    """Dead at this time or later."""
    until: datetime | None = None
    """Dead earlier than this."""
    queues: tuple[str, ...] | None = None
    """The queues within reach of who started it; None: all."""

    @property
    def among(self) -> list[str] | None:
        """The queues to look at; None for all."""
        if self.queue is None:
            return None if self.queues is None else list(self.queues)
        return [self.queue] if self.queues is None or self.queue in self.queues else []

    @property
    def is_narrow(self) -> bool:
        """Whether most dead letters of its type and queues may not meet it."""
        return any(each is not None for each in (self.group, self.since, self.until))

    def is_past(self, letter: DeadLetter) -> bool:
        """Return whether none meets it after *letter*, in a list with the newest first."""
        return self.since is not None and letter.completed_at < self.since

    def meets(self, letter: DeadLetter, started_at: datetime) -> bool:
        """Return whether *letter* is one of them; its queue is as it was asked for."""
        at = letter.completed_at
        return (
            at <= started_at
            and self.type in (None, letter.type)
            and (self.since is None or at >= self.since)
            and (self.until is None or at < self.until)
            and (self.group is None or mark_of(letter).group == self.group)
        )


class StopRule(msgspec.Struct, frozen=True, kw_only=True):
    """When a replay stops by itself: the fault is not mended."""

    share: float | None = None
    """Once more than this part of the jobs that have ended failed again, from 0 to 1, ..."""
    after: int = STOP_AFTER_DEFAULT
    """... and at least so many have ended."""
    failures: int | None = None
    """Once so many failed again."""

    def stops(self, *, failed: int, ended: int) -> bool:
        """Return whether so many failures are too many."""
        if self.failures is not None and failed >= self.failures:
            return True
        return self.share is not None and ended >= self.after and failed > self.share * ended


class BulkReplay(msgspec.Struct, frozen=True, kw_only=True):
    """A replay of many dead letters, as it is kept in the store."""

    id: str
    version: int = 0
    started_by: str
    started_at: datetime | None = None
    """By the store's clock."""
    choice: LetterChoice
    patch: Body | None = None
    """A JSON object, whose fields replace those of each payload."""
    max_payload: int = PAYLOAD_BYTES_DEFAULT
    """Bytes that a payload with the patch may have."""
    sample: int | None = None
    """At most so many, the most recent; None: all."""
    rate: float
    """How many a second."""
    stop: StopRule = StopRule()
    total: int
    """How many there were at the start, ..."""
    is_total_known: bool = True
    """... or, if False, at least."""
    state: ReplayState = ReplayState.RUNNING
    ended_at: datetime | None = None
    replayed: int = 0
    skipped: dict[str, int] = {}
    """How many stay dead letters, by reason."""
    completed: int = 0
    failed: int = 0
    """Jobs that it made and that failed again."""
    position: str | None = None
    """How far it has come in the list of dead letters; it has more digits than some encodings."""
    paid_until: datetime | None = None
    """Up to when its rate is used up."""
    open: tuple[str, ...] = ()
    """Jobs that it made and that have not ended yet."""
    pending: tuple[tuple[str, str], ...] = ()
    """Dead letters that are being replayed, with the ids of their new jobs: where a store cannot
    replay jobs and keep this value in one transaction, it notes here what it is about to do."""

    @property
    def left(self) -> int:
        """How many are still to be replayed, as far as is known."""
        done = self.replayed + sum(self.skipped.values())
        return max(self.total - done, 0) if self.state is not ReplayState.DONE else 0


# How a replay goes on. Each of these raises the version by one: they are written one at a time.


def started(replay: BulkReplay, known: Sequence[BulkReplay], now: datetime) -> list[str]:
    """Return the ids of those that have to make room, or raise StateConflictError."""
    assert replay.state.is_under_way
    if sum(each.state.is_under_way for each in known) >= REPLAYS_MAX:
        raise StateConflictError(
            f"{REPLAYS_MAX} replays are under way; stop one, or wait until one is done"
        )
    oldest = sorted(known, key=lambda each: (each.started_at or now, each.id))
    over = [each.id for each in oldest if not each.state.is_under_way]
    return over[: max(len(known) + 1 - REPLAYS_KEPT_MAX, 0)]


def steered(replay: BulkReplay, order: Order, now: datetime) -> BulkReplay:
    """Return it held, resumed or stopped; itself if it is so already. Raise StateConflictError."""
    if order == "stop":
        return _ended(replay, ReplayState.STOPPED, now) if replay.state.is_under_way else replay
    if not replay.state.is_under_way:
        words = replay.state.replace("_", " ")
        raise StateConflictError(
            f"replay {replay.id} is {words}: start another", state=replay.state
        )
    state = ReplayState.HELD if order == "hold" else ReplayState.RUNNING
    if state is replay.state:
        return replay
    paid = now if state is ReplayState.RUNNING else replay.paid_until
    return _next(replay, state=state, paid_until=paid)


def allowance(replay: BulkReplay, now: datetime) -> int:
    """Return how many dead letters it may replay now, in one batch."""
    if replay.state is not ReplayState.RUNNING or replay.pending:
        return 0
    seconds = (now - _paid(replay, now)).total_seconds()
    taken = replay.replayed + sum(replay.skipped.values())
    most = REPLAY_BATCH if replay.sample is None else min(REPLAY_BATCH, replay.sample - taken)
    credit = int(seconds * replay.rate + 1e-6)
    return max(min(credit, most, REPLAY_OPEN_MAX - len(replay.open)), 0)


def _paid(replay: BulkReplay, now: datetime) -> datetime:
    """Return up to when the rate is used up: what was not used long ago is lost."""
    window = timedelta(seconds=max(REPLAY_BURST, 1 / replay.rate))
    if replay.paid_until is None:
        return now - timedelta(seconds=max(1.0, 1 / replay.rate))
    return max(replay.paid_until, now - window)


def moved_on(
    replay: BulkReplay, count: int, now: datetime, *, position: int | None, is_end: bool
) -> BulkReplay:
    """Return it after *count* more dead letters were chosen, and others passed over."""
    paid = replay.paid_until
    if count:
        paid = _paid(replay, now) + timedelta(seconds=count / replay.rate)
    place = replay.position if position is None else str(position)
    moved = _next(replay, paid_until=paid, position=place)
    return _ended(moved, ReplayState.DONE, now, raises=0) if is_end else moved


def counted(replay: BulkReplay, fresh: Iterable[str], skipped: Mapping[str, int]) -> BulkReplay:
    """Return it with what a batch has come to; this does not raise its version."""
    made = tuple(fresh)
    reasons = Counter(replay.skipped)
    reasons.update(skipped)
    return replace(
        replay,
        replayed=replay.replayed + len(made),
        skipped=dict(reasons),
        open=replay.open + made,
    )


def with_states(
    replay: BulkReplay, states: Mapping[str, State | None], now: datetime
) -> BulkReplay:
    """Return it with these states of jobs that it made; None: gone. Itself if nothing has ended."""
    ended = {id_: state for id_, state in states.items() if state is None or state.is_terminal}
    if not ended:
        return replay
    rest = tuple(id_ for id_ in replay.open if id_ not in ended)
    failed = replay.failed + sum(state in DEAD for state in ended.values())
    completed = replay.completed + sum(state is State.COMPLETED for state in ended.values())
    seen = _next(replay, open=rest, failed=failed, completed=completed)
    is_running = seen.state is ReplayState.RUNNING
    if is_running and seen.stop.stops(failed=failed, ended=failed + completed):
        return _ended(seen, ReplayState.STOPPED_BY_RULE, now, raises=0)
    return seen


def _next(replay: BulkReplay, **changes: object) -> BulkReplay:
    return replace(replay, version=replay.version + 1, **changes)


def _ended(replay: BulkReplay, state: ReplayState, now: datetime, *, raises: int = 1) -> BulkReplay:
    return replace(replay, version=replay.version + raises, state=state, ended_at=now)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(BulkReplay)


def encode_replay(replay: BulkReplay) -> bytes:
    """Return *replay* as stores keep it."""
    return _encoder.encode(replay)


def decode_replay(data: bytes) -> BulkReplay:
    """Return what ``encode_replay`` was given."""
    return _decoder.decode(data)
