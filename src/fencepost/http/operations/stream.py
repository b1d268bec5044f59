"""``GET /v1/stream``: ended jobs and changed queues, as server-sent events (SSE).

There are two kinds of event. ``job``: a job has ended. A client that was cut off continues from the
id of the last one (``Last-Event-ID``) and misses nothing: what ended meanwhile is read from the
store. Jobs that ended within ENDED_OVERLAP before the cut may be sent twice. ``queues``: the queues
as they are now, whenever they changed; the newest replaces the others, so it has no id.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from fencepost.core.access.bounds import TOKEN_RECHECK_SECONDS
from fencepost.core.bounds import PAGE_MAX, POLL_INTERVAL
from fencepost.core.filter import ENDS, decode_cursor, encode_cursor, parse_states
from fencepost.core.stats.statistics import FIRST, EndedJob, Follower
from fencepost.core.values.times import check_instant
from fencepost.errors import FencepostError, StoreError
from fencepost.http.request.call import Call, Nothing, Streamed
from fencepost.http.request.problems import HttpError
from fencepost.http.request.route import route
from fencepost.http.scope import queue_for
from fencepost.store.interface.store import Listener, Topic
from fencepost.wire.bounds import HTTP_STREAM_INTERVAL, HTTP_STREAMS_MAX, STREAM_SILENCE
from fencepost.wire.control import StreamQuery
from fencepost.wire.overview import Queues

MEDIA_TYPE = "text/event-stream"
LAST_EVENT_ID = "last-event-id"
_RETRY = b"retry: 1000\n\n"
"""Milliseconds after which a client that was cut off connects again."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)


@route(
    "GET /v1/stream",
    "Hear of jobs as they end",
    str,
    "too_many_streams",
    headers=(LAST_EVENT_ID,),
    media_type=MEDIA_TYPE,
)
async def stream(call: Call[Nothing, StreamQuery]) -> Streamed:
    """Send an event for each job that ends and for each change of the queues."""
    if call.api.streams >= HTTP_STREAMS_MAX:
        raise HttpError(
            f"stream limit reached ({HTTP_STREAMS_MAX})",
            code="too_many_streams",
            headers={"retry-after": "5"},
        )
    # Counted before the first await, so that requests at the same time do not exceed the limit.
    call.api.streams += 1
    try:
        call.listen()
        made = Stream(call, _Wanted(call), await _start(call))
    except BaseException:
        call.api.streams -= 1
        raise

    def leave() -> None:
        call.api.streams -= 1

    return Streamed(made.parts(), MEDIA_TYPE, {"x-accel-buffering": "no"}, close=leave)


async def _start(call: Call[Nothing, StreamQuery]) -> Follower:
    """Return a follower of jobs that end from now, or that ended since the client was cut off."""
    last = call.headers[LAST_EVENT_ID]
    if last:
        return Follower(_EPOCH + decode_cursor(last, ENDS) * _MICROSECOND)
    since = call.query.since
    if since is not None:
        return Follower(check_instant(since, name="since"))
    # From the last end in the store, by the store's clock and not by ours.
    store = call.session.store
    page = await store.run_async(store.overview.ended(FIRST, limit=1, newest_first=True))
    follower = Follower(page.jobs[0].completed_at if page.jobs else call.session.clock.now())
    seen = await store.run_async(
        store.overview.ended(follower.since, limit=PAGE_MAX, newest_first=True)
    )
    follower.take(seen.jobs)
    return follower


class _Wanted:
    """Which jobs and queues a client asked for, and may see."""

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
        """Return whether the client may know of *job*, asked for or not."""
        return self._reach is None or job.queue in self._reach

    def queue(self, name: str) -> bool:
        return self._queues is None or name in self._queues


class Stream:
    """The events for one client, read one by one: a slow client gets fewer."""

    def __init__(self, call: Call[Any, Any], wanted: _Wanted, follower: Follower) -> None:
        self._call = call
        self._wanted = wanted
        self._follower = follower
        self._queues = b""
        self._newest = 0
        self._is_behind = False
        """True while there is more than fits into one part."""

    async def parts(self) -> AsyncGenerator[bytes, None]:
        """Yield events, and after a silence a comment, to keep the connection alive."""
        call, clock = self._call, self._call.session.clock
        listener = call.session.store.listen(Topic.SETTLED)
        try:
            yield _RETRY
            sent_at = checked_at = clock.monotonic()
            while not call.is_off():
                if clock.monotonic() - checked_at >= TOKEN_RECHECK_SECONDS:
                    checked_at = clock.monotonic()
                    await self._check_again()
                events = await self._events()
                if events:
                    sent_at = clock.monotonic()
                    yield events
                elif clock.monotonic() - sent_at >= STREAM_SILENCE:
                    sent_at = clock.monotonic()
                    yield b": still here\n\n"
                if not self._is_behind:
                    await self._pause(listener)
        except FencepostError:
            return  # the token is no longer valid: the next request says why
        finally:
            listener.close()

    async def _check_again(self) -> None:
        """Raise if the token was revoked; follow a change of its queues."""
        before = self._call.principal
        await self._call.check_again()
        if self._call.principal != before:
            self._wanted = _Wanted(self._call)

    async def _pause(self, listener: Listener) -> None:
        """Wait for a notification, though not for each of a thousand jobs a second."""
        clock = self._call.session.clock
        await clock.sleep_async(HTTP_STREAM_INTERVAL)
        await listener.wait_async(POLL_INTERVAL - HTTP_STREAM_INTERVAL)

    async def _events(self) -> bytes:
        """Return the new events; none while the store is unavailable."""
        try:
            ended = await self._ended()
            queues = await self._changed_queues()
        except StoreError:
            return b""
        sent = [self._job(job) for job in ended if self._wanted.job(job)]
        if ended and not sent:
            # An id alone is not an event, but a client that comes back continues after it.
            sent.append(f"id: {encode_cursor(self._newest, ENDS)}\n\n".encode())
        return b"".join([*sent, queues])

    async def _ended(self) -> list[EndedJob]:
        """Return the jobs that ended since the last time, or as many as fit into one part."""
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
        # The client must not even learn that a job out of reach has ended.
        fresh = [job for job in fresh if self._wanted.is_within_reach(job)]
        for job in fresh:
            self._newest = max(self._newest, (job.completed_at - _EPOCH) // _MICROSECOND)
        return fresh

    def _job(self, job: EndedJob) -> bytes:
        return _event("job", job, encode_cursor((job.completed_at - _EPOCH) // _MICROSECOND, ENDS))

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
