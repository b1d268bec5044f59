"""Queues and types of an app's store: look at them, pause and limit them."""

from __future__ import annotations

from fencepost.actions.local.stats import scale
from fencepost.actions.local.steps import StoreActions
from fencepost.actions.script import Script
from fencepost.core.stats.scale import Scale
from fencepost.core.values.duration import Duration
from fencepost.core.values.names import check_queue, check_type
from fencepost.store.interface.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope


class LocalQueues(StoreActions):
    """The queues of an app's store."""

    def all(self) -> Script[list[QueueView]]:
        """Return every queue with its counts."""
        views: list[QueueView] = yield self._store.overview.queues()
        return views

    def pause(self, name: str) -> Script[None]:
        """Hand out no more jobs of a queue."""
        yield self._store.settings.pause(Scope.QUEUE, check_queue(name))

    def resume(self, name: str) -> Script[None]:
        """Hand out the jobs of a queue again."""
        yield self._store.settings.resume(Scope.QUEUE, check_queue(name))

    def limit(self, name: str, max_running: int | None) -> Script[None]:
        """Limit how many jobs of a queue run at once."""
        yield self._store.settings.limit(Scope.QUEUE, check_queue(name), max_running)

    def scale(self, name: str, target: Duration) -> Script[Scale]:
        """Return how many slots a queue could use."""
        return scale(self._session, name, target)


class LocalTypes(StoreActions):
    """The types of an app's store."""

    def all(self) -> Script[list[TypeView]]:
        """Return every type with its counts."""
        views: list[TypeView] = yield self._store.overview.types()
        return views

    def pause(self, name: str) -> Script[None]:
        """Hand out no more jobs of a type."""
        yield self._store.settings.pause(Scope.TYPE, check_type(name))

    def resume(self, name: str) -> Script[None]:
        """Hand out the jobs of a type again."""
        yield self._store.settings.resume(Scope.TYPE, check_type(name))
