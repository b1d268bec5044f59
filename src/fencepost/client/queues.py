"""What can be asked of the queues and types of a server."""

from __future__ import annotations

from fencepost.actions.script import Script
from fencepost.client.exchange import (
    FOREVER,
    QUEUES,
    SCALE,
    TYPES,
    ServerActions,
    get,
    post,
    put,
    query_of,
)
from fencepost.core.stats.overview import QueueView, TypeView
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_queue, check_type


class RemoteQueues(ServerActions):
    """The queues of a server. Names are checked here: a path has no room for anything else."""

    def all(self) -> Script[list[QueueView]]:
        """Return every queue with its counts."""
        return self._session.read(get(QUEUES), list[QueueView], "queues")

    def pause(self, name: str) -> Script[None]:
        """Hand out no more jobs of a queue."""
        yield from self._session.ask(post(QUEUES, check_queue(name), "pause", repeat_for=FOREVER))

    def resume(self, name: str) -> Script[None]:
        """Hand out the jobs of a queue again."""
        yield from self._session.ask(post(QUEUES, check_queue(name), "resume", repeat_for=FOREVER))

    def limit(self, name: str, max_running: int | None) -> Script[None]:
        """Limit how many jobs of a queue run at once."""
        body = {"max_running": max_running}
        yield from self._session.ask(put(QUEUES, check_queue(name), "limit", body=body))

    def scale(self, name: str, target: Duration) -> Script[Scale]:
        """Return how many slots a queue could use."""
        query = query_of(target=parse_duration(target, name="target"))
        return self._session.read(get(SCALE, check_queue(name), query=query), Scale)


class RemoteTypes(ServerActions):
    """The types of a server."""

    def all(self) -> Script[list[TypeView]]:
        """Return every type with its counts."""
        return self._session.read(get(TYPES), list[TypeView], "types")

    def pause(self, name: str) -> Script[None]:
        """Hand out no more jobs of a type."""
        yield from self._session.ask(post(TYPES, check_type(name), "pause", repeat_for=FOREVER))

    def resume(self, name: str) -> Script[None]:
        """Hand out the jobs of a type again."""
        yield from self._session.ask(post(TYPES, check_type(name), "resume", repeat_for=FOREVER))
