"""Something happens in the middle of an operation, between two of its scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.store.redis.engine.connections import ServerPin
from fencepost.store.redis.store import RedisStore


def before_commit(store: RedisStore, act: Callable[[], object], number: int = 1) -> None:
    """Do *act*, once, just before the next commit of *store*, or a later one.

    All has been read by then on which the commit relies.
    """
    connections: Any = store._connections
    run = connections.run
    seen = 0

    def meddle(name: str, *args: Any, pin: ServerPin | None = None) -> Any:
        nonlocal seen
        seen += name == "commit"
        if seen == number:
            connections.run = run
            act()
            # The test's clock comes with the script; it is read when that runs, as a server's is.
            args = (str(store.clock.now_us()).encode(), *args[1:])
        return run(name, *args, pin=pin)

    connections.run = meddle


def after_script(
    store: RedisStore, script: str, act: Callable[[], object], number: int = 1
) -> None:
    """Do *act*, once, just after the next such script of *store*, or a later one."""
    connections: Any = store._connections
    run = connections.run
    seen = 0

    def meddle(name: str, *args: Any, pin: ServerPin | None = None) -> Any:
        nonlocal seen
        answer = run(name, *args, pin=pin)
        seen += name == script
        if seen == number:
            connections.run = run
            act()
        return answer

    connections.run = meddle
