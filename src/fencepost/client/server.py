"""``client.server``: who one is there, how the server's store is, and what has happened in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.actions.backend import Script
from fencepost.client.transport import DEAD_LETTERS, JOBS, get, query_of
from fencepost.core.fingerprints import Group
from fencepost.core.stats.attention import Item
from fencepost.core.stats.overview import Finding, PauseView
from fencepost.core.values.names import id_bytes
from fencepost.core.values.times import Duration, parse_duration
from fencepost.wire.access import Me
from fencepost.wire.control import WireRefusal
from fencepost.wire.leases import HeldLease
from fencepost.wire.series import Series

if TYPE_CHECKING:
    from fencepost.client.session import RemoteSession


class _Scripts:
    """The requests, each as a script."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session

    def me(self) -> Script[Me]:
        return self._session.read(get("/v1/me"), Me)

    def doctor(self) -> Script[list[Finding]]:
        return self._session.read(get("/v1/doctor"), list[Finding], "findings")

    def attention(self) -> Script[list[Item]]:
        return self._session.read(get("/v1/attention"), list[Item], "items")

    def dead_groups(self) -> Script[list[Group]]:
        return self._session.read(get(DEAD_LETTERS, "groups"), list[Group], "groups")

    def pauses(self) -> Script[list[PauseView]]:
        return self._session.read(get("/v1/pauses"), list[PauseView], "pauses")

    def leases(self, worker: str | None) -> Script[list[HeldLease]]:
        query = query_of(worker=worker, limit=1000)
        return self._session.read(get("/v1/leases", query=query), list[HeldLease], "leases")

    def refusals(self, job_id: str) -> Script[list[WireRefusal]]:
        id_bytes(job_id)
        request = get(JOBS, job_id, "refusals")
        return self._session.read(request, list[WireRefusal], "refusals")

    def series(
        self, metrics: Iterable[str], by: str | None, window: Duration, step: Duration | None
    ) -> Script[Series]:
        named = tuple(("metric", each) for each in metrics)
        seconds = None if step is None else parse_duration(step, name="step")
        query = query_of(by=by, window=parse_duration(window, name="window"), step=seconds)
        return self._session.read(get("/v1/series", query=(*named, *query)), Series)


class ServerView:
    """What a server says of itself; ``client.aio.server`` has the same methods, awaited."""

    def __init__(self, session: RemoteSession) -> None:
        self._run = session.run
        self._scripts = _Scripts(session)

    def me(self) -> Me:
        """Return whose token this is, what it allows, and what server and store it is for."""
        return self._run(self._scripts.me())

    def doctor(self) -> list[Finding]:
        """Return what an operator should know about the store, durability first."""
        return self._run(self._scripts.doctor())

    def attention(self) -> list[Item]:
        """Return what needs attention, worst first."""
        return self._run(self._scripts.attention())

    def dead_groups(self) -> list[Group]:
        """Return dead letters by what they died of, rising ones first."""
        return self._run(self._scripts.dead_groups())

    def pauses(self) -> list[PauseView]:
        """Return what is paused, and by whom as far as the audit log says."""
        return self._run(self._scripts.pauses())

    def leases(self, *, worker: str | None = None) -> list[HeldLease]:
        """Return which jobs workers hold (or one worker), those whose lease ends first first."""
        return self._run(self._scripts.leases(worker))

    def refusals(self, job_id: str) -> list[WireRefusal]:
        """Return the last writes to a job that were refused, the newest first."""
        return self._run(self._scripts.refusals(job_id))

    def series(
        self,
        *metrics: str,
        by: str | None = None,
        window: Duration = 3600.0,
        step: Duration | None = None,
    ) -> Series:
        """Return counts and times over the last *window*, by queue or type."""
        return self._run(self._scripts.series(metrics, by, window, step))


class AsyncServerView:
    """The awaited face of ServerView."""

    def __init__(self, session: RemoteSession) -> None:
        self._run = session.run_async
        self._scripts = _Scripts(session)

    async def me(self) -> Me:
        """Return whose token this is, what it allows, and what server and store it is for."""
        return await self._run(self._scripts.me())

    async def doctor(self) -> list[Finding]:
        """Return what an operator should know about the store, durability first."""
        return await self._run(self._scripts.doctor())

    async def attention(self) -> list[Item]:
        """Return what needs attention, worst first."""
        return await self._run(self._scripts.attention())

    async def dead_groups(self) -> list[Group]:
        """Return dead letters by what they died of, rising ones first."""
        return await self._run(self._scripts.dead_groups())

    async def pauses(self) -> list[PauseView]:
        """Return what is paused, and by whom as far as the audit log says."""
        return await self._run(self._scripts.pauses())

    async def leases(self, *, worker: str | None = None) -> list[HeldLease]:
        """Return which jobs workers hold (or one worker), those whose lease ends first first."""
        return await self._run(self._scripts.leases(worker))

    async def refusals(self, job_id: str) -> list[WireRefusal]:
        """Return the last writes to a job that were refused, the newest first."""
        return await self._run(self._scripts.refusals(job_id))

    async def series(
        self,
        *metrics: str,
        by: str | None = None,
        window: Duration = 3600.0,
        step: Duration | None = None,
    ) -> Series:
        """Return counts and times over the last *window*, by queue or type."""
        return await self._run(self._scripts.series(metrics, by, window, step))
