"""What a caller can ask for, whether the store is here or behind a server.

Handles hold a ``Backend`` and nothing else. ``actions/session.py`` is the one of an app, whose
scripts run store operations; ``client/session.py`` is the one of a client, whose scripts send
requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

import msgspec

from fencepost.actions.pages import DeadLetters, Page, SentEvents
from fencepost.actions.script import Script
from fencepost.core.filter import JobFilter
from fencepost.core.job.edits import Edits
from fencepost.core.job.history import Change
from fencepost.core.job.job import Attempt, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.priority import Priority
from fencepost.core.job.why import Reason
from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo
from fencepost.core.stats.recent import Statistics
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration
from fencepost.errors import DuplicateJobError

T = TypeVar("T")
J = TypeVar("J")
C = TypeVar("C")

Ids = Mapping[str, str]
"""The ids of a flow's jobs by their names there."""


class KnownJob(Protocol):
    """What a handle is made of; it may also say that the job is a ``duplicate``."""

    @property
    def id(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def state(self) -> State: ...


class StoredJob(msgspec.Struct, gc=False, frozen=True):
    """A job that is stored, or that a key returned."""

    id: str
    type: str
    state: State
    duplicate: bool = False


class StoredFlow(msgspec.Struct, frozen=True):
    """A flow, and its jobs by name."""

    id: str
    jobs: Mapping[str, KnownJob]


class StoredEvent(msgspec.Struct, frozen=True):
    """An event on record, and the jobs that it came to."""

    id: str
    name: str
    sent_at: datetime
    jobs: Sequence[KnownJob]


class JobActions(Protocol[J]):
    """Jobs; *J* is a job as a list shows it."""

    def get(self, job_id: str) -> Script[Job]: ...
    def existing(self, error: DuplicateJobError) -> Script[Job | None]:
        """Return the job that holds the key, if it can be seen."""
        ...

    def result(self, job_id: str, timeout: Duration | None) -> Script[tuple[Any, Job]]: ...
    def find(self, filter: JobFilter, after: str | None, limit: int) -> Script[Page[J]]: ...
    def count(self, filter: JobFilter) -> Script[int]: ...
    def cancel(self, job_id: str) -> Script[State]: ...
    def cancel_all(self, filter: JobFilter) -> Script[int]: ...
    def retry(
        self,
        job_id: str,
        reset_attempts: bool,
        delay: Duration,
        priority: Priority | int | str | None,
    ) -> Script[State]: ...
    def edit(self, job_id: str, edits: Edits) -> Script[J]: ...
    def why(self, job_id: str) -> Script[list[Reason]]: ...
    def attempts(self, job_id: str) -> Script[list[Attempt]]: ...
    def history(self, job_id: str) -> Script[list[Change]]: ...


class FlowActions(Protocol):
    """Flows."""

    def submit(self, nodes: Mapping[str, Any], conn: Any = None) -> Script[StoredFlow]: ...
    def get(self, flow_id: str) -> Script[Mapping[str, KnownJob]]: ...
    def states(self, flow_id: str, ids: Ids) -> Script[dict[str, State]]: ...
    def wait(
        self, flow_id: str, ids: Ids, timeout: Duration | None
    ) -> Script[dict[str, State]]: ...
    def results(
        self, flow_id: str, ids: Ids, timeout: Duration | None
    ) -> Script[dict[str, Any]]: ...
    def cancel(self, flow_id: str) -> Script[int]: ...
    def retry(self, flow_id: str) -> Script[int]: ...


class DeadLetterActions(Protocol):
    """Jobs that ended in failure, until somebody has dealt with them."""

    def find(self, type: str | None, after: str | None, limit: int) -> Script[DeadLetters]: ...
    def replay(self, job_id: str) -> Script[KnownJob]: ...
    def replay_all(self, type: str | None, limit: int | None) -> Script[int]: ...
    def discard(self, job_id: str) -> Script[None]: ...


class EventActions(Protocol):
    """Events, and the record of them."""

    def send(
        self, name: str, key: str | None, data: dict[str, Any], conn: Any = None
    ) -> Script[StoredEvent]: ...
    def find(self, name: str | None, after: str | None, limit: int) -> Script[SentEvents]: ...


class TypeActions(Protocol[T]):
    """Types; and, with limits, queues. *T* is what is shown of one."""

    def all(self) -> Script[list[T]]: ...
    def pause(self, name: str) -> Script[None]: ...
    def resume(self, name: str) -> Script[None]: ...


class QueueActions(TypeActions[QueueView], Protocol):
    """Queues."""

    def limit(self, name: str, max_running: int | None) -> Script[None]: ...
    def scale(self, name: str, target: Duration) -> Script[Scale]: ...


class CronActions(Protocol[C]):
    """Crons; *C* is what is shown of one."""

    def all(self) -> Script[list[C]]: ...
    def pause(self, name: str) -> Script[None]: ...
    def resume(self, name: str) -> Script[None]: ...
    def run(self, name: str) -> Script[KnownJob]: ...
    def next(self, name: str, count: int) -> Script[list[datetime]]: ...
    def forget(self, name: str) -> Script[None]: ...


class CallerActions(Protocol):
    """All that a caller can ask for, by subject; each returns a script."""

    @property
    def jobs(self) -> JobActions[Any]: ...
    @property
    def flows(self) -> FlowActions: ...
    @property
    def dead_letters(self) -> DeadLetterActions: ...
    @property
    def events(self) -> EventActions: ...
    @property
    def queues(self) -> QueueActions: ...
    @property
    def types(self) -> TypeActions[TypeView]: ...
    @property
    def crons(self) -> CronActions[Any]: ...
    def workers(self) -> Script[list[WorkerInfo]]: ...
    def limit(self, max_running: int | None) -> Script[None]: ...
    def stats(self, window: Duration) -> Script[Statistics]: ...


class Backend(Protocol):
    """Where actions are run."""

    @property
    def actions(self) -> CallerActions: ...
    def run(self, script: Script[T]) -> T: ...
    async def run_async(self, script: Script[T]) -> T: ...

    def submit_all(self, jobs: list[Any], conn: Any = None) -> Script[Sequence[KnownJob]]: ...

    # A single job is no script: the awaited face shares a commit with others.
    def submit(self, job: Any, conn: Any = None) -> KnownJob: ...
    async def submit_async(self, job: Any, conn: Any = None) -> KnownJob: ...
