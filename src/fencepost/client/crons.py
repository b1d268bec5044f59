"""``client.crons``: jobs that are submitted by the clock."""

from __future__ import annotations

from datetime import datetime

from fencepost.client.exchange import FOREVER, Request, Script, get, path, post, query_of
from fencepost.client.job import AsyncJobHandle, JobHandle, async_handle, handle
from fencepost.client.session import Session
from fencepost.core.bounds import CRON_NEXT_DEFAULT
from fencepost.core.display import shown
from fencepost.errors import CronNotFoundError
from fencepost.wire.crons import CronView
from fencepost.wire.jobs import Accepted

CRONS = "/v1/crons"

Ticks = list[datetime]


def list_all(session: Session) -> Script[list[CronView]]:
    """Return every cron by name."""
    return (yield from session.read(get(CRONS), list[CronView], "crons"))


def pause(session: Session, name: str) -> Script[None]:
    """Fire no more ticks of a cron, or raise CronNotFoundError."""
    yield from session.ask(post(CRONS, _named(name), "pause", repeat_for=FOREVER))


def resume(session: Session, name: str) -> Script[None]:
    """Go on with the first tick from now, or raise CronNotFoundError."""
    yield from session.ask(post(CRONS, _named(name), "resume", repeat_for=FOREVER))


def run(session: Session, name: str) -> Script[Accepted]:
    """Submit a job of a cron now, whatever its schedule says."""
    return (yield from session.read(post(CRONS, _named(name), "run"), Accepted))


def next_ticks(session: Session, name: str, count: int) -> Script[list[datetime]]:
    """Return the next *count* ticks from now."""
    request = get(CRONS, _named(name), "next", query=query_of(count=count))
    return (yield from session.read(request, list[datetime], "ticks"))


def forget(session: Session, name: str) -> Script[None]:
    """Delete a cron from the store, or raise CronNotFoundError."""
    yield from session.ask(Request("DELETE", path(CRONS, _named(name))))


def _named(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise CronNotFoundError(shown(name))
    return name


class Crons:
    """The crons of a server; ``client.aio.crons`` has the same methods, awaited."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def list(self) -> list[CronView]:
        """Return every cron by name: its times, its pause, its last tick and its next."""
        return self._session.run(list_all(self._session))

    def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; jobs that it has made go on."""
        self._session.run(pause(self._session, name))

    def resume(self, name: str) -> None:
        """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
        self._session.run(resume(self._session, name))

    def run(self, name: str) -> JobHandle:
        """Submit a job of a cron now; its schedule goes on as it was."""
        return handle(self._session, self._session.run(run(self._session, name)))

    def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return self._session.run(next_ticks(self._session, name, count))

    def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it brings it back."""
        self._session.run(forget(self._session, name))


class AsyncCrons:
    """The awaited face of Crons."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def list(self) -> list[CronView]:
        """Return every cron by name: its times, its pause, its last tick and its next."""
        return await self._session.run_async(list_all(self._session))

    async def pause(self, name: str) -> None:
        """Fire no more ticks of a cron; jobs that it has made go on."""
        await self._session.run_async(pause(self._session, name))

    async def resume(self, name: str) -> None:
        """Fire the ticks of a cron again; those that passed meanwhile are not made up for."""
        await self._session.run_async(resume(self._session, name))

    async def run(self, name: str) -> AsyncJobHandle:
        """Submit a job of a cron now; its schedule goes on as it was."""
        return async_handle(self._session, await self._session.run_async(run(self._session, name)))

    async def next(self, name: str, count: int = CRON_NEXT_DEFAULT) -> Ticks:
        """Return the next times at which a cron ticks, in UTC, paused or not."""
        return await self._session.run_async(next_ticks(self._session, name, count))

    async def forget(self, name: str) -> None:
        """Delete a cron from the store; a worker whose app declares it brings it back."""
        await self._session.run_async(forget(self._session, name))
