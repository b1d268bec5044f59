"""The steps of a script that runs against a store, what performs them, and submission replies."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.actions.replies import StoredJob
from fencepost.store.interface.queue import Duplicate, EnqueueReply
from fencepost.store.interface.store import Listener, Store, Topic
from fencepost.store.plan import Operation

if TYPE_CHECKING:
    from fencepost.actions.session import Session


class Pause(msgspec.Struct, frozen=True):
    """Wait for a notification of *topic*, at most *timeout* seconds."""

    topic: Topic
    timeout: float


class Join(msgspec.Struct, frozen=True):
    """Run an operation in the transaction of the caller's connection."""

    conn: Any
    make: Callable[[Store], Operation[Any]]


Step = Operation[Any] | Pause | Join


class StoreSteps:
    """Performs the steps of one script; its listeners live as long as the script."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listeners: dict[Topic, Listener] = {}

    def perform(self, step: Step) -> Any:
        """Perform one step in this thread."""
        match step:
            case Pause(topic, timeout):
                return self._listener(topic).wait(timeout)
            case Join(conn, make):
                return self._store.run_in(conn, make)
            case operation:
                return self._store.run(operation)

    async def perform_async(self, step: Step) -> Any:
        """Perform one step without blocking the event loop."""
        match step:
            case Pause(topic, timeout):
                return await self._listener(topic).wait_async(timeout)
            case Join(conn, make):
                return await self._store.run_in_async(conn, make)
            case operation:
                return await self._store.run_async(operation)

    def _listener(self, topic: Topic) -> Listener:
        if topic not in self._listeners:
            self._listeners[topic] = self._store.listen(topic)
        return self._listeners[topic]

    def __enter__(self) -> StoreSteps:
        return self

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            listener.close()


class StoreActions:
    """The actions on one subject of an app's store; each is a script."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def _store(self) -> Store:
        return self._session.store


def stored(reply: EnqueueReply) -> StoredJob:
    """Return the job that was stored, or that its key returned."""
    if isinstance(reply, Duplicate):
        return StoredJob(reply.job_id, reply.type, reply.state, True, reply.differs)
    return StoredJob(reply.job_id, reply.type, reply.state)


def accepted(reply: EnqueueReply) -> StoredJob:
    """As ``stored``, but raise DuplicateJobError if the caller chose to reject duplicates."""
    if isinstance(reply, Duplicate) and reply.is_rejected:
        raise reply.error
    return stored(reply)
