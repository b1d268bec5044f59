"""What an operator has paused or limited."""

from __future__ import annotations

from fencepost.errors import ConfigurationError
from fencepost.store.requests import Scope


class Settings:
    """Pauses and limits by name; a name that was ever set stays known."""

    def __init__(self) -> None:
        self.app_limit: int | None = None
        self.queue_limits: dict[str, int | None] = {}
        self.queue_pauses: dict[str, bool] = {}
        self.type_pauses: dict[str, bool] = {}

    def pause(self, scope: Scope, name: str, is_paused: bool) -> None:
        """Pause or resume a queue or a type, or raise ConfigurationError."""
        match scope:
            case Scope.QUEUE:
                self.queue_pauses[name] = is_paused
            case Scope.TYPE:
                self.type_pauses[name] = is_paused
            case _:
                raise ConfigurationError(f"a queue or a type can be paused, not {scope!r}")

    def limit(self, scope: Scope, name: str, max_running: int | None) -> None:
        """Bound a queue or the app (None: no bound), or raise ConfigurationError."""
        _check_limit(max_running)
        match scope:
            case Scope.QUEUE:
                self.queue_limits[name] = max_running
            case Scope.APP:
                self.app_limit = max_running
            case _:
                raise ConfigurationError(f"a queue or the app can be limited, not {scope!r}")

    def queue_limit(self, queue: str) -> int | None:
        return self.queue_limits.get(queue)

    def is_queue_paused(self, queue: str) -> bool:
        return self.queue_pauses.get(queue, False)

    def is_type_paused(self, type: str) -> bool:
        return self.type_pauses.get(type, False)

    def paused_types(self) -> frozenset[str]:
        return frozenset(type for type, is_paused in self.type_pauses.items() if is_paused)

    def has_limits(self) -> bool:
        """Tell whether the end of one job can make room for another."""
        limits = (self.app_limit, *self.queue_limits.values())
        return any(limit is not None for limit in limits)


def _check_limit(max_running: int | None) -> None:
    if max_running is None:
        return
    if not isinstance(max_running, int) or isinstance(max_running, bool) or max_running < 1:
        raise ConfigurationError(f"max_running must be 1 or more, or None; got {max_running!r}")
