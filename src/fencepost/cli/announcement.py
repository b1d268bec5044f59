"""What a worker says when it starts: its store, what it serves, and what looks like a mistake."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.cli.options import Settings, sqlite_path
from fencepost.cli.output import echo
from fencepost.core.display import did_you_mean, shown, shown_url
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE
from fencepost.errors import StoreUnavailableError
from fencepost.observe import names
from fencepost.observe.log import log, write

if TYPE_CHECKING:
    from fencepost.app import App


def announce(settings: Settings, app: App, name: str, serves: str, *, is_patient: bool) -> None:
    """Print what starts, what it *serves* and how durable the store is.

    A patient worker may start without a store.
    """
    file = sqlite_path(app.url)
    store = shown_url(app.url) if file is None else f"sqlite:///{file.absolute()}"
    try:
        promise = durability(app) or "durability unknown"
    except StoreUnavailableError as error:
        if not is_patient:
            raise
        promise = f"waiting for the store: {error}"
    if settings.logs_json:
        log(names.STORE_OPENED, worker=name, store=store, durability=promise)
        return
    types = ", ".join(sorted(app.session.tasks))
    echo(f"fencepost worker {name} on {store}", err=True)
    echo(f"  {promise}", err=True)
    echo(f"  types: {types}", err=True)
    echo(f"  {serves}; Ctrl-C stops", err=True)


def durability(app: App) -> str:
    """Return what the store reports about its durability; empty if it reports nothing."""
    findings = app.store.run(app.store.overview.inspect())
    return next((finding.text for finding in findings if finding.code == "durability"), "")


def warn_of_new_file(app: App) -> None:
    """Warn that there is no SQLite file yet: jobs that were submitted are in another one.

    Most often the worker was started in another folder than the program that submits.
    """
    file = sqlite_path(app.url)
    if file is None or file.exists():
        return
    path = str(file.absolute())
    text = (
        f"{path} did not exist and is created, without jobs. If you have submitted some, they are "
        f"in another file: run the worker in the same folder, or give both the same FENCEPOST_URL"
    )
    write(names.STORE_CREATED, {"file": path}, level=logging.WARNING, text=text)


def warn_of_queues(app: App, queues: Iterable[str]) -> None:
    """Warn of a queue that no task has, if its name is like one that a task has.

    It is not an error: ``using(queue=…)`` can put jobs into it.
    """
    known = {task.queue for task in app.session.tasks.values()} | {DELIVERY_QUEUE}
    for queue in queues:
        near = "" if queue in known else did_you_mean(queue, known)
        if near:
            text = f"no task of this app has queue {shown(queue)}{near}"
            write(names.QUEUE_UNKNOWN, {"queue": queue}, level=logging.WARNING, text=text)
