"""The actions of a client by subject; those on jobs and flows have their own files."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.actions.backend import Script
from fencepost.actions.replies import DeadLetters, SentEvents, StoredEvent
from fencepost.client.jobs import RemoteFlows, RemoteJobs
from fencepost.client.transport import (
    CRONS,
    DEAD_LETTERS,
    EVENTS,
    FOREVER,
    QUEUES,
    REPLAYS,
    SCALE,
    TYPES,
    Request,
    ServerActions,
    get,
    path,
    post,
    put,
    query_of,
)
from fencepost.core.bounds import PAYLOAD_BYTES_MAX
from fencepost.core.display import shown
from fencepost.core.job.replay_order import ReplayOptions, ReplayView, order_replay
from fencepost.core.job.replays import Order
from fencepost.core.limits.type_limits import parse_limits
from fencepost.core.runs import CronRun
from fencepost.core.stats.overview import QueueView, Scale, TypeView, WorkerInfo
from fencepost.core.stats.statistics import Statistics
from fencepost.core.values.names import check_queue, check_type, id_bytes, id_text, is_id
from fencepost.core.values.payload import encode_json
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import CronNotFoundError, ReplayNotFoundError
from fencepost.wire.control import WireDeadLetterPage
from fencepost.wire.events import Sent, WireEventPage, event_of
from fencepost.wire.jobs import Accepted
from fencepost.wire.overview import WireCronView

if TYPE_CHECKING:
    from fencepost.client.session import RemoteSession


class RemoteDeadLetters(ServerActions):
    """The dead letters of a server."""

    def find(self, type: str | None, after: str | None, limit: int) -> Script[DeadLetters]:
        request = get(DEAD_LETTERS, query=query_of(type=type, after=after, limit=limit))
        page = yield from self._session.read(request, WireDeadLetterPage)
        return DeadLetters(page.dead_letters, page.next)

    def replay(self, job_id: str) -> Script[Accepted]:
        id_bytes(job_id)
        return self._session.read(post(DEAD_LETTERS, job_id, "replay"), Accepted)

    def replay_all(self, type: str | None, limit: int | None) -> Script[int]:
        request = post(DEAD_LETTERS, "replay", body={"type": type, "limit": limit})
        return self._session.read(request, int, "count")

    def discard(self, job_id: str) -> Script[None]:
        id_bytes(job_id)
        yield from self._session.ask(Request("DELETE", path(DEAD_LETTERS, job_id)))


class RemoteReplays(ServerActions):
    """The replays of many dead letters of a server."""

    def start(self, options: ReplayOptions) -> Script[ReplayView]:
        """The id makes a repeat harmless: of two requests with it, one starts a replay."""
        fresh = id_text(self._session.clock.new_id())
        limit = PAYLOAD_BYTES_MAX
        order_replay(fresh, "", options, max_payload=limit)  # checks them
        given = {name: value for name, value in options.items() if value is not None}
        if "patch" in given:
            given["patch"] = msgspec.Raw(encode_json(given["patch"]).data)
        request = post(REPLAYS, body={"id": fresh, **given}, repeat_for=FOREVER)
        return (yield from self._session.read(request, ReplayView))

    def all(self) -> Script[list[ReplayView]]:
        return self._session.read(get(REPLAYS), list[ReplayView], "replays")

    def get(self, replay_id: str) -> Script[ReplayView]:
        return self._session.read(get(REPLAYS, _replay(replay_id)), ReplayView)

    def steer(self, replay_id: str, order: Order) -> Script[ReplayView]:
        request = post(REPLAYS, _replay(replay_id), order, repeat_for=FOREVER)
        return self._session.read(request, ReplayView)


def _replay(replay_id: str) -> str:
    if not isinstance(replay_id, str) or not is_id(replay_id):
        raise ReplayNotFoundError(shown(replay_id))
    return replay_id


class RemoteEvents(ServerActions):
    """The events of a server."""

    def send(
        self, name: str, key: str | None, data: dict[str, Any], conn: None = None
    ) -> Script[StoredEvent]:
        """It is not sent again when the answer is lost: the event would be recorded twice."""
        payload = msgspec.Raw(encode_json(data).data)
        body = {"payload": payload, "key": key, "on_duplicate": "reject"}
        sent = yield from self._session.read(post(EVENTS, name, body=body), Sent)
        return StoredEvent(sent.id, sent.name, sent.sent_at, sent.jobs)

    def find(self, name: str | None, after: str | None, limit: int) -> Script[SentEvents]:
        request = get(EVENTS, query=query_of(name=name, after=after, limit=limit))
        page = yield from self._session.read(request, WireEventPage)
        return SentEvents([event_of(each) for each in page.events], page.next)


class PausableActions(ServerActions):
    """What can be paused, below *root*. Names are checked here: they become part of a path."""

    def __init__(self, session: RemoteSession, root: str, check: Callable[[str], str]) -> None:
        super().__init__(session)
        self._root = root
        self._check = check

    def pause(self, name: str) -> Script[None]:
        yield from self._session.ask(self._setting(name, "pause"))

    def resume(self, name: str) -> Script[None]:
        yield from self._session.ask(self._setting(name, "resume"))

    def _setting(self, name: str, verb: str) -> Request:
        return post(self._root, self._check(name), verb, repeat_for=FOREVER)


class RemoteQueues(PausableActions):
    """The queues of a server."""

    def all(self) -> Script[list[QueueView]]:
        return self._session.read(get(QUEUES), list[QueueView], "queues")

    def limit(self, name: str, max_running: int | None) -> Script[None]:
        body = {"max_running": max_running}
        yield from self._session.ask(put(QUEUES, check_queue(name), "limit", body=body))

    def scale(self, name: str, target: Duration) -> Script[Scale]:
        query = query_of(target=parse_duration(target, name="target"))
        return self._session.read(get(SCALE, check_queue(name), query=query), Scale)


class RemoteTypes(PausableActions):
    """The types of a server."""

    def all(self) -> Script[list[TypeView]]:
        return self._session.read(get(TYPES), list[TypeView], "types")

    def limit(self, name: str, rate: str | None) -> Script[None]:
        parse_limits(rate=rate)
        yield from self._session.ask(put(TYPES, check_type(name), "limit", body={"rate": rate}))


class RemoteCrons(PausableActions):
    """The crons of a server."""

    def all(self) -> Script[list[WireCronView]]:
        return self._session.read(get(CRONS), list[WireCronView], "crons")

    def run(self, name: str) -> Script[Accepted]:
        return self._session.read(post(CRONS, _named(name), "run"), Accepted)

    def next(self, name: str, count: int) -> Script[list[datetime]]:
        request = get(CRONS, _named(name), "next", query=query_of(count=count))
        return self._session.read(request, list[datetime], "ticks")

    def runs(self, name: str, limit: int) -> Script[list[CronRun]]:
        request = get(CRONS, _named(name), "runs", query=query_of(limit=limit))
        return self._session.read(request, list[CronRun], "runs")

    def forget(self, name: str) -> Script[None]:
        yield from self._session.ask(Request("DELETE", path(CRONS, _named(name))))


def _named(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise CronNotFoundError(shown(name))
    return name


class RemoteActions:
    """All actions of a client."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self.jobs = RemoteJobs(session)
        self.flows = RemoteFlows(session)
        self.dead_letters = RemoteDeadLetters(session)
        self.replays = RemoteReplays(session)
        self.events = RemoteEvents(session)
        self.queues = RemoteQueues(session, QUEUES, check_queue)
        self.types = RemoteTypes(session, TYPES, check_type)
        self.crons = RemoteCrons(session, CRONS, _named)

    def workers(self) -> Script[list[WorkerInfo]]:
        return self._session.read(get("/v1/workers"), list[WorkerInfo], "workers")

    def gone_workers(self) -> Script[list[WorkerInfo]]:
        return self._session.read(get("/v1/workers"), list[WorkerInfo], "gone")

    def limit(self, max_running: int | None) -> Script[None]:
        yield from self._session.ask(put("/v1/limit", body={"max_running": max_running}))

    def stats(self, window: Duration) -> Script[Statistics]:
        query = query_of(window=parse_duration(window, name="window"))
        return self._session.read(get("/v1/stats", query=query), Statistics)
