"""What a shell completes beside commands and options: names of queues and types, ids of jobs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any, Literal

import click

from fencepost.errors import FencepostError

if TYPE_CHECKING:
    from fencepost.app import App

Kind = Literal["queue", "type"]
Completion = Callable[[click.Context, click.Parameter, str], list[str]]
IDS_SHOWN = 20
PLAIN = frozenset("._-:/@+,")
"""The characters, besides letters and digits, that no shell treats in a special way."""


def known_names(app: App, kind: Kind) -> set[str]:
    """Return the names that jobs and settings have, and those that live workers serve."""
    views: Sequence[Any] = app.queues.list() if kind == "queue" else app.types.list()
    served = [each.queues or {} if kind == "queue" else each.types for each in app.workers.list()]
    return {view.name for view in views}.union(*served)


def _is_plain(name: str) -> bool:
    """Tell whether *name* is one word of a line, and means nothing else to any shell.

    Who may submit a job chooses such names, and bash does not quote what it completes.
    """
    return not name.startswith("-") and all(c.isalnum() or c in PLAIN for c in name)


def complete(kind: Kind) -> Completion:
    """Return what completes the names of queues or types that begin as typed; for ``click``."""

    def names(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
        known = _ask(ctx, lambda app: known_names(app, kind))
        return sorted(name for name in known if name.startswith(incomplete) and _is_plain(name))

    return names


def complete_id(ctx: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return ids of the newest jobs that begin as typed; for ``click``."""
    prefix = incomplete or None
    found = _ask(
        ctx, lambda app: [job.id for job in app.jobs.find(id_prefix=prefix, limit=IDS_SHOWN)]
    )
    return list(found)


def _ask(ctx: click.Context, read: Callable[[App], Collection[str]]) -> Collection[str]:
    """Return what *read* finds in the store that the line names; nothing if that fails."""
    from fencepost.cli.options import Settings

    try:
        settings = ctx.ensure_object(Settings)
        settings.use_store_of_app()
        with settings.opened() as app:
            return read(app)
    except (FencepostError, OSError):
        return ()  # a shell that waits for Tab has no place for an error
