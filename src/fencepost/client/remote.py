"""All that a caller can ask of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.actions.script import Script
from fencepost.client.crons import RemoteCrons
from fencepost.client.dead_letters import RemoteDeadLetters
from fencepost.client.events import RemoteEvents
from fencepost.client.exchange import get, put, query_of
from fencepost.client.flows import RemoteFlows
from fencepost.client.jobs import RemoteJobs
from fencepost.client.queues import RemoteQueues, RemoteTypes
from fencepost.core.stats.overview import WorkerInfo
from fencepost.core.stats.recent import Statistics
from fencepost.core.values.duration import Duration, parse_duration

if TYPE_CHECKING:
    from fencepost.client.session import RemoteSession


class RemoteActions:
    """The actions of a client, by subject."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
        self.jobs = RemoteJobs(session)
        self.flows = RemoteFlows(session)
        self.dead_letters = RemoteDeadLetters(session)
        self.events = RemoteEvents(session)
        self.queues = RemoteQueues(session)
        self.types = RemoteTypes(session)
        self.crons = RemoteCrons(session)

    def workers(self) -> Script[list[WorkerInfo]]:
        """Return the workers heard from within the last minute."""
        return self._session.read(get("/v1/workers"), list[WorkerInfo], "workers")

    def limit(self, max_running: int | None) -> Script[None]:
        """Limit how many jobs run at once in all."""
        yield from self._session.ask(put("/v1/limit", body={"max_running": max_running}))

    def stats(self, window: Duration) -> Script[Statistics]:
        """Return how things stand, and how they went of late."""
        query = query_of(window=parse_duration(window, name="window"))
        return self._session.read(get("/v1/stats", query=query), Statistics)
