"""``GET /v1/stream``: what happens, as it happens, as server-sent events (SSE).

Two kinds of event. ``job``: a job has ended. Its id is where a client that was cut off goes on
from (``Last-Event-ID``), and it misses nothing: what ended meanwhile is read from the store, where
it has been all along. What ended within ENDED_OVERLAP before the cut may be told twice. ``queues``:
the queues as they are now, whenever that has changed; the newest says all, so it has no id.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fencepost.core.bounds import (
    HTTP_STREAM_INTERVAL,
    HTTP_STREAMS_MAX,
    PAGE_MAX,
    POLL_INTERVAL,
    STREAM_SILENCE,
    TOKEN_RECHECK_SECONDS,
)
from fencepost.core.filter import ENDS, decode_cursor, encode_cursor, parse_states
from fencepost.core.stats.ended import FIRST, EndedJob, Follower
from fencepost.core.values.instants import check_instant
from fencepost.errors import FencepostError, StoreError
from fencepost.http.auth.scope import queue_for
from fencepost.http.request.call import Call, Nothing, Streamed
from fencepost.http.request.problems import HttpError
from fencepost.store.interface.listener import Listener, Topic
from fencepost.wire.queues import Queues
from fencepost.wire.search import StreamQuery

MEDIA_TYPE = "text/event-stream"
LAST_EVENT_ID = "last-event-id"
_RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a client that was cut off comes again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


async def stream(call: Call[Nothing, StreamQuery]) -> Streamed:
    """Tell of jobs as they end, and of the queues as they change, until somebody hangs up."""
    if call.api.streams >= HTTP_STREAMS_MAX:
        raise HttpError(
            f"{HTTP_STREAMS_MAX} streams are open here, and no more are served",
            status=503,
            code="too_many_streams",
            headers={"retry-after": "5"},
        )
    # Taken before anything is waited for, lest many who come at once all see the last one free.
    call.api.streams += 1
    try:
        call.listen()
        told = Stream(call, _Wanted(call), await _start(call))
    except BaseException:
        call.api.streams -= 1
        raise
    return Streamed(
        told.parts(), MEDIA_TYPE, {"x-accel-buffering": "no"}, close=lambda: _leave(call)
    )


def _leave(call: Call[Any, Any]) -> None:
    call.api.streams -= 1


async def _start(call: Call[Nothing, StreamQuery]) -> Follower:
    """Return a follower of what is new, or of what ended since the client was cut off."""
    last = call.headers[LAST_EVENT_ID]
    if last:
        return Follower(_EPOCH + decode_cursor(last, ENDS) * _MICROSECOND)
    since = call.query.since
    if since is not None:
        return Follower(check_instant(since, name="since"))
    # By the store's clock, not by ours: from the last end that it has.
    store = call.session.store
    page = await store.run_async(store.overview.ended(FIRST, limit=1, newest_first=True))
    follower = Follower(page.jobs[0].ended_at if page.jobs else call.session.clock.now())
    seen = await store.run_async(
        store.overview.ended(follower.since, limit=PAGE_MAX, newest_first=True)
    )
    follower.take(seen.jobs)
    return follower


class _Wanted:
    """Which ends a client wants to hear of, and may."""

    def __init__(self, call: Call[Nothing, StreamQuery]) -> None:
        query = call.query
        self._states = parse_states(query.state or None)
        self._type = query.type
        named = None if query.queue is None else queue_for(call.principal, query.queue)
        self._reach = call.principal.queues
        self._queues = self._reach if named is None else frozenset([named])

    def job(self, job: EndedJob) -> bool:
        return (
            (not self._states or job.state in self._states)
            and (self._type is None or job.type == self._type)
            and self.queue(job.queue)
        )

    def is_within_reach(self, job: EndedJob) -> bool:
        """Tell whether the client may know that *job* has ended, wanted or not."""
        return self._reach is None or job.queue in self._reach

    def queue(self, name: str) -> bool:
        return self._queues is None or name in self._queues


class Stream:
    """What one client is told. It is asked for its parts one by one: a slow client gets fewer."""

    def __init__(self, call: Call[Any, Any], wanted: _Wanted, follower: Follower) -> None:
        self._call = call
        self._wanted = wanted
        self._follower = follower
        self._queues = b""
        self._newest = 0
        self._is_behind = False
        """True while there is more to tell than fits into one go."""

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield events, and a comment now and then to show that somebody is there."""
        call, clock = self._call, self._call.session.clock
        listener = call.session.store.listen(Topic.SETTLED)
        try:
            yield _RETRY
            spoke_at = checked_at = clock.monotonic()
            while not call.is_off():
                if clock.monotonic() - checked_at >= TOKEN_RECHECK_SECONDS:
                    checked_at = clock.monotonic()
                    await self._check_again()
                news = await self._news()
                if news:
                    spoke_at = clock.monotonic()
                    yield news
                elif clock.monotonic() - spoke_at >= STREAM_SILENCE:
                    spoke_at = clock.monotonic()
                    yield b": still here\n\n"
                if not self._is_behind:
                    await self._pause(listener)
        except FencepostError:
            return  # the token is no longer good: to come again says why
        finally:
            listener.close()

    async def _check_again(self) -> None:
        """Raise if the token was revoked: it hears no more. One for fewer queues hears of those."""
        before = self._call.principal
        await self._call.check_again()
        if self._call.principal != before:
            self._wanted = _Wanted(self._call)

    async def _pause(self, listener: Listener) -> None:
        """Wait for news; not to be woken for each of a thousand jobs a second."""
        clock = self._call.session.clock
        await clock.sleep_async(HTTP_STREAM_INTERVAL)
        await listener.wait_async(POLL_INTERVAL - HTTP_STREAM_INTERVAL)

    async def _news(self) -> bytes:
        """Return what there is to tell; nothing while the store is away."""
        try:
            ended = await self._ended()
            queues = await self._changed_queues()
        except StoreError:
            return b""
        told = [self._job(job) for job in ended if self._wanted.job(job)]
        if ended and not told:
            # An id alone is no event, but a client that comes again begins behind what it names.
            told.append(f"id: {encode_cursor(self._newest, ENDS)}\n\n".encode())
        return b"".join([*told, queues])

    async def _ended(self) -> list[EndedJob]:
        """Return what has ended since the last look, or as much of it as fits into one go."""
        store, after = self._call.session.store, None
        fresh: list[EndedJob] = []
        since = self._follower.since
        while len(fresh) < PAGE_MAX:
            page = await store.run_async(store.overview.ended(since, limit=PAGE_MAX, after=after))
            fresh += self._follower.take(page.jobs)
            after = page.next
            if after is None:
                break
        self._is_behind = after is not None
        # Not even that something ended is told of a job out of reach.
        fresh = [job for job in fresh if self._wanted.is_within_reach(job)]
        for job in fresh:
            self._newest = max(self._newest, (job.ended_at - _EPOCH) // _MICROSECOND)
        return fresh

    def _job(self, job: EndedJob) -> bytes:
        return _event("job", job, encode_cursor((job.ended_at - _EPOCH) // _MICROSECOND, ENDS))

    async def _changed_queues(self) -> bytes:
        views = await self._call.api.queues()
        shown = [view for view in views if self._wanted.queue(view.name)]
        event = _event("queues", Queues(shown))
        if event == self._queues:
            return b""
        self._queues = event
        return event


_encode = msgspec.json.Encoder().encode


def _event(kind: str, data: Any, id: str | None = None) -> bytes:
    head = b"" if id is None else f"id: {id}\n".encode()
    return head + f"event: {kind}\ndata: ".encode() + _encode(data) + b"\n\n"
