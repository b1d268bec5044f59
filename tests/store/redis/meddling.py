"""Something happens in the middle of an operation, between two of its scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.store.redis.store import RedisStore


def before_write(store: RedisStore, act: Callable[[], object], number: int = 1) -> None:
    """Do *act*, once, just before the next script of *store* that writes, or a later one."""
    connections: Any = store._connections
    run = connections.run
    seen = 0

    def meddle(name: str, *args: Any) -> Any:
        nonlocal seen
        seen += name != "read"
        if seen == number:
            connections.run = run
            act()
            # The test's clock comes with the script; it is read when that runs, as a server's is.
            args = (str(store.clock.now_us()).encode(), *args[1:])
        return run(name, *args)

    connections.run = meddle


def after_write(store: RedisStore, act: Callable[[], object]) -> None:
    """Do *act*, once, just after the next script of *store* that writes."""
    connections: Any = store._connections
    run = connections.run

    def meddle(name: str, *args: Any) -> Any:
        answer = run(name, *args)
        if name != "read":
            connections.run = run
            act()
        return answer

    connections.run = meddle
