"""All that a caller can ask of an app's own store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.actions.audit import LocalAudit
from fencepost.actions.local.crons import LocalCrons
from fencepost.actions.local.dead_letters import LocalDeadLetters
from fencepost.actions.local.events import LocalEvents
from fencepost.actions.local.flows import LocalFlows
from fencepost.actions.local.jobs import LocalJobs
from fencepost.actions.local.queues import LocalQueues, LocalTypes
from fencepost.actions.local.stats import stats
from fencepost.actions.local.tokens import LocalTokens
from fencepost.actions.script import Script
from fencepost.core.stats.recent import Statistics
from fencepost.core.values.duration import Duration
from fencepost.store.interface.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope

if TYPE_CHECKING:
    from fencepost.actions.session import Session


class LocalActions:
    """The actions of an app, by subject."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.jobs = LocalJobs(session)
        self.flows = LocalFlows(session)
        self.dead_letters = LocalDeadLetters(session)
        self.events = LocalEvents(session)
        self.queues = LocalQueues(session)
        self.types = LocalTypes(session)
        self.crons = LocalCrons(session)
        self.tokens = LocalTokens(session)
        self.audit = LocalAudit(session)

    def workers(self) -> Script[list[WorkerInfo]]:
        """Return the workers heard from within the last minute."""
        workers: list[WorkerInfo] = yield self._session.store.cluster.workers()
        return workers

    def limit(self, max_running: int | None) -> Script[None]:
        """Limit how many jobs run at once in all."""
        yield self._session.store.settings.limit(Scope.APP, "", max_running)

    def stats(self, window: Duration) -> Script[Statistics]:
        """Return counts, and rates and times of the last *window*."""
        return stats(self._session, window)
