"""What an operator has paused or limited."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.limits.concurrency import check_max_running
from fencepost.errors import ConfigurationError
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.settings import Scope

if TYPE_CHECKING:
    from fencepost.store.memory.world import MemoryWorld


class LaneSettings:
    """Pauses and limits by name; one that is taken back leaves nothing behind."""

    def __init__(self) -> None:
        self.app_limit: int | None = None
        self.queue_limits: dict[str, int] = {}
        self.queue_pauses: set[str] = set()
        self.type_pauses: set[str] = set()

    def pause(self, scope: Scope, name: str, is_paused: bool) -> None:
        """Pause or resume a queue or a type, or raise ConfigurationError."""
        match scope:
            case Scope.QUEUE:
                _keep(self.queue_pauses, name, is_paused)
            case Scope.TYPE:
                _keep(self.type_pauses, name, is_paused)
            case _:
                raise ConfigurationError(f"a queue or a type can be paused, not {scope!r}")

    def limit(self, scope: Scope, name: str, max_running: int | None) -> None:
        """Bound a queue or the app (None: no bound), or raise ConfigurationError."""
        check_max_running(max_running)
        match scope:
            case Scope.QUEUE:
                self.queue_limits.pop(name, None)
                if max_running is not None:
                    self.queue_limits[name] = max_running
            case Scope.APP:
                self.app_limit = max_running
            case _:
                raise ConfigurationError(f"a queue or the app can be limited, not {scope!r}")

    def queue_limit(self, queue: str) -> int | None:
        return self.queue_limits.get(queue)

    def is_queue_paused(self, queue: str) -> bool:
        return queue in self.queue_pauses

    def is_type_paused(self, type: str) -> bool:
        return type in self.type_pauses

    def paused_types(self) -> frozenset[str]:
        return frozenset(self.type_pauses)

    def has_limits(self) -> bool:
        """Tell whether the end of one job can make room for another."""
        return self.app_limit is not None or bool(self.queue_limits)


def _keep(paused: set[str], name: str, is_paused: bool) -> None:
    if is_paused:
        paused.add(name)
    else:
        paused.discard(name)


def pause(world: MemoryWorld, scope: Scope, name: str) -> None:
    """Claim no more jobs of a queue or a type."""
    world.settings.pause(scope, name, True)


def resume(world: MemoryWorld, scope: Scope, name: str) -> None:
    """Claim jobs of a queue or a type again."""
    world.settings.pause(scope, name, False)
    world.journal.announce(Topic.READY)


def limit(world: MemoryWorld, scope: Scope, name: str, max_running: int | None) -> None:
    """Bound the running jobs of a queue or of the app."""
    world.settings.limit(scope, name, max_running)
    world.journal.announce(Topic.READY)


def app_limit(world: MemoryWorld) -> int | None:
    """Return the bound of the whole store."""
    return world.settings.app_limit
