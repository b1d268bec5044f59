"""``client.queues``, ``client.types`` and ``client.workers``: look, pause and limit."""

from __future__ import annotations

from fencepost.client.exchange import FOREVER, Script, get, post, put, query_of
from fencepost.client.session import Session
from fencepost.core.bounds import SCALE_TARGET_DEFAULT
from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo
from fencepost.core.stats.recent import Statistics
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_queue, check_type

QUEUES = "/v1/queues"
TYPES = "/v1/types"


def pause(session: Session, lane: str, name: str) -> Script[None]:
    """Hand out no more jobs of a queue or a type."""
    yield from session.ask(post(lane, _checked(lane, name), "pause", repeat_for=FOREVER))


def resume(session: Session, lane: str, name: str) -> Script[None]:
    """Hand out the jobs of a queue or a type again."""
    yield from session.ask(post(lane, _checked(lane, name), "resume", repeat_for=FOREVER))


def limit_queue(session: Session, name: str, max_running: int | None) -> Script[None]:
    """Limit how many jobs of a queue run at once."""
    body = {"max_running": max_running}
    yield from session.ask(put(QUEUES, _checked(QUEUES, name), "limit", body=body))


def limit_all(session: Session, max_running: int | None) -> Script[None]:
    """Limit how many jobs run at once in all."""
    yield from session.ask(put("/v1/limit", body={"max_running": max_running}))


def list_queues(session: Session) -> Script[list[QueueView]]:
    """Return every queue with its counts."""
    return (yield from session.read(get(QUEUES), list[QueueView], "queues"))


def list_types(session: Session) -> Script[list[TypeView]]:
    """Return every type with its counts."""
    return (yield from session.read(get(TYPES), list[TypeView], "types"))


def list_workers(session: Session) -> Script[list[WorkerInfo]]:
    """Return the workers heard from within the last minute."""
    return (yield from session.read(get("/v1/workers"), list[WorkerInfo], "workers"))


def stats(session: Session, window: Duration) -> Script[Statistics]:
    """Return how things stand, and how they went of late."""
    query = query_of(window=parse_duration(window, name="window"))
    return (yield from session.read(get("/v1/stats", query=query), Statistics))


def scale(session: Session, queue: str, target: Duration) -> Script[Scale]:
    """Return how many slots a queue could use."""
    query = query_of(target=parse_duration(target, name="target"))
    return (yield from session.read(get("/v1/scale", check_queue(queue), query=query), Scale))


def _checked(lane: str, name: str) -> str:
    """Return *name* if a lane can be called so: a path has no room for anything else."""
    return check_queue(name) if lane == QUEUES else check_type(name)


class Queues:
    """The queues of a server; ``client.aio.queues`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return self._session.run(list_queues(self._session))

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        self._session.run(pause(self._session, QUEUES, name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        self._session.run(resume(self._session, QUEUES, name))

    def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        self._session.run(limit_queue(self._session, name, max_running))

    def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return self._session.run(scale(self._session, name, target))


class AsyncQueues:
    """The awaited face of Queues."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[QueueView]:
        """Return every queue with its counts."""
        return await self._session.run_async(list_queues(self._session))

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a queue; those running go on."""
        await self._session.run_async(pause(self._session, QUEUES, name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a queue again, in their old order."""
        await self._session.run_async(resume(self._session, QUEUES, name))

    async def limit(self, name: str, *, max_running: int | None) -> None:
        """Run at most so many jobs of a queue at once, over all workers; None lifts the limit."""
        await self._session.run_async(limit_queue(self._session, name, max_running))

    async def scale(self, name: str, *, target: Duration = SCALE_TARGET_DEFAULT) -> Scale:
        """Return how many slots a queue has, and how many would drain it within *target*."""
        return await self._session.run_async(scale(self._session, name, target))


class Types:
    """The types of a server; ``client.aio.types`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return self._session.run(list_types(self._session))

    def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        self._session.run(pause(self._session, TYPES, name))

    def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        self._session.run(resume(self._session, TYPES, name))


class AsyncTypes:
    """The awaited face of Types."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[TypeView]:
        """Return every type with its counts."""
        return await self._session.run_async(list_types(self._session))

    async def pause(self, name: str) -> None:
        """Hand out no more jobs of a type; those running go on."""
        await self._session.run_async(pause(self._session, TYPES, name))

    async def resume(self, name: str) -> None:
        """Hand out the jobs of a type again, in their old order."""
        await self._session.run_async(resume(self._session, TYPES, name))


class Workers:
    """The workers of a server; ``client.aio.workers`` has the same method, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return self._session.run(list_workers(self._session))


class AsyncWorkers:
    """The awaited face of Workers."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[WorkerInfo]:
        """Return the workers heard from within the last minute."""
        return await self._session.run_async(list_workers(self._session))
