"""Which operations of a store carry no content of users, and what becomes of those nobody named.

A wrapper that passes on whatever it does not know would pass on the content of the operation that
is added next. So each is named, as one that is wrapped or as one of these.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C", bound=type)

CONTENTLESS = frozenset(
    {
        # The store itself.
        "url",
        "clock",
        "tidy_interval",
        "run",
        "run_async",
        "close",
        "listen",
        "migrate",
        "pending_migrations",
        "inspect",
        # Leases, and transactions of a handler's own: tokens and numbers.
        "heartbeat",
        "mark",
        "fates",
        # Control: ids, states and times.
        "cancel",
        "retry",
        "discard",
        # Settings of queues, types and the app.
        "pause",
        "resume",
        "limit",
        "set_rates",
        # Crons: names and times.
        "pause_cron",
        "resume_cron",
        "forget_cron",
        # Tokens, of which hashes are kept, and the audit log.
        "add_token",
        "tokens",
        "revoke_token",
        "record_action",
        "actions",
        "prune_actions",
        # Upkeep: ids and states.
        "recover",
        "promote",
        "expire",
        "prune",
        "prune_events",
        "tidy",
        # Looking at numbers, names, ids, states and times.
        "count",
        "dependents",
        "locate",
        "ended",
        "queues",
        "types",
        "app_limit",
        # Moving to another store.
        "accept_jobs",
        # Workers and leading.
        "announce",
        "retire",
        "workers",
        "lead",
        "resign",
    }
)
"""What an encrypting store passes on as it is."""


def names_all_of(protocol: type, passed_on: frozenset[str]) -> Callable[[C], C]:
    """Give a class that wraps ``self._store`` what is *passed_on*.

    Raises TypeError unless it names every public member of *protocol*, and nothing else.
    """

    def decorate(wrapper: C) -> C:
        wanted = _members(protocol)
        own = {name for name in _members(wrapper) if name not in passed_on} | {"keys"}
        forgotten = sorted(wanted - own - passed_on)
        unknown = sorted((own | passed_on) - wanted)
        if forgotten:
            raise TypeError(
                f"{wrapper.__name__} does not know {', '.join(forgotten)} of {protocol.__name__}: "
                f"wrap it, or list it as one without content"
            )
        if unknown:
            raise TypeError(
                f"{protocol.__name__} has no {', '.join(unknown)}, which {wrapper.__name__} names"
            )
        for name in passed_on:
            setattr(wrapper, name, property(_passing_on(name)))
        return wrapper

    return decorate


def _members(kind: type) -> set[str]:
    """Return the names of the public methods and attributes of *kind*."""
    names = {
        *dir(kind),
        *(name for each in kind.__mro__ for name in vars(each).get("__annotations__", ())),
    }
    return {name for name in names if not name.startswith("_")}


def _passing_on(name: str) -> Callable[[Any], Any]:
    return lambda self: getattr(self._store, name)
