"""``fencepost queues``, ``types`` and ``workers``: list them; pause and limit the first two."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import click

from fencepost.cli.completion import Kind, complete
from fencepost.cli.names import confirm_name, yes_option
from fencepost.cli.options import Settings, option, store_options
from fencepost.cli.output import Cell, Columns, counted, echo, echo_list, echo_reply, moment, when
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.overview import unserved

if TYPE_CHECKING:
    from fencepost.core.stats.overview import QueueView, TypeView, WorkerInfo

STATES = (
    "pending",
    "scheduled",
    "delayed",
    "retrying",
    "running",
    "completed",
    "failed",
    "dead_letter",
    "cancelled",
)


WORKER_COLUMNS: Columns[WorkerInfo] = {
    "WORKER": lambda worker: worker.id,
    "HOST": lambda worker: worker.host,
    "PID": lambda worker: worker.pid,
    "RUNNING": lambda worker: f"{worker.running}/{worker.concurrency}",
    "QUEUES": lambda worker: queue_weights(worker),
    "TYPES": lambda worker: ", ".join(worker.types),
    "STARTED (UTC)": lambda worker: moment(worker.started_at),
    "SEEN (UTC)": lambda worker: moment(worker.seen_at),
    "VERSION": lambda worker: worker.version or "",
    "FENCEPOST": lambda worker: worker.fencepost_version or "",
    "LAG": lambda worker: "" if worker.lag is None else f"{worker.lag * 1000:.0f} ms",
    "NOTE": lambda worker: ", ".join(worker_notes(worker)),
}


def worker_notes(worker: WorkerInfo) -> list[str]:
    """Return what stands out about a worker."""
    return [*(["leader"] if worker.is_leader else []), *(["stopped"] if worker.has_stopped else [])]


def queue_weights(worker: WorkerInfo) -> str:
    """Return the queues that a worker serves, each with its weight."""
    if worker.queues is None:
        return "all"
    return ", ".join(f"{name}={weight}" for name, weight in worker.queues.items())


def count_columns(first: str) -> Columns[QueueView | TypeView]:
    """Return the columns of a list of queues or types: name, pauses and limits, and counts."""
    return {
        first: lambda view: view.name,
        **{state.upper(): partial(_count, state) for state in STATES},
        "NOTE": _note,
    }


def _note(view: QueueView | TypeView) -> str:
    oldest_at = getattr(view, "oldest_at", None)
    notes = [*(["paused"] if view.is_paused else []), *view.limit_notes]
    notes += [f"oldest since {when(oldest_at)}"] if oldest_at is not None else []
    return ", ".join(notes)


def _count(state: str, view: QueueView | TypeView) -> Cell:
    return counted(view.counts.get(State(state), 0))


@click.group()
def queues() -> None:
    """Queues: list, pause, resume, limit."""


@click.group()
def types() -> None:
    """Types: list, pause, resume, limit."""


@click.group()
def workers() -> None:
    """Workers: list the live ones."""


@workers.command("ls")
@option("--gone", is_flag=True, help="Those that stopped or fell silent within an hour.")
@store_options
def ls_workers(settings: Settings, gone: bool) -> None:
    """List the workers heard from within the last minute."""
    with settings.opened() as app:
        found = app.workers.gone() if gone else app.workers.list()
    if gone:
        echo_list(
            settings,
            {"workers": found},
            WORKER_COLUMNS,
            found,
            empty="no worker stopped or fell silent within an hour",
        )
        return
    empty = f"no live workers; next: {settings.say('worker', 'APP')}"
    echo_list(settings, {"workers": found}, WORKER_COLUMNS, found, empty=empty)


@queues.command("limit")
@click.argument("name", required=False, shell_complete=complete("queue"))
@click.argument("max_running", metavar="[N]", type=click.IntRange(1), required=False)
@option("--none", "lift", is_flag=True, help="Remove the limit.")
@option("--all", "whole", type=click.IntRange(1), help="Limit all queues together instead.")
@yes_option
@store_options
def limit(
    settings: Settings,
    name: str | None,
    max_running: int | None,
    lift: bool,
    whole: int | None,
    yes: bool,
) -> None:
    """Run at most N jobs of queue NAME at once, over all workers.

    `limit NAME --none` removes the limit; `limit --all N` limits all queues together, and
    `limit --none` removes that.
    """
    given = [max_running is not None, lift, whole is not None]
    if sum(given) != 1 or (name is not None and whole is not None):
        raise click.UsageError("write `limit NAME N`, `limit NAME --none` or `limit --all N`")
    with settings.opened() as app:
        if name is None:
            app.limit(max_running=whole)
        else:
            confirm_name(settings, app, "queue", name, verb="limit", yes=yes)
            app.queues.limit(name, max_running=max_running)
    number = whole if name is None else max_running
    what = "all queues together" if name is None else f"queue {name}"
    line = f"{what}: {'no limit' if number is None else f'at most {number} jobs at once'}"
    echo_reply(settings, {"name": name, "max_running": number}, line)


@types.command("limit")
@click.argument("name", shell_complete=complete("type"))
@click.argument("rate", metavar="[RATE]", required=False)
@option("--none", "lift", is_flag=True, help="Remove the limit.")
@yes_option
@store_options
def limit_type(settings: Settings, name: str, rate: str | None, lift: bool, yes: bool) -> None:
    """Let jobs of type NAME start at most at RATE, such as 100/m, over all workers.

    It holds until a worker starts: a worker declares the rates that its code has.
    """
    if (rate is None) != lift:
        raise click.UsageError("write `limit NAME 100/m` or `limit NAME --none`")
    with settings.opened() as app:
        confirm_name(settings, app, "type", name, verb="limit", yes=yes)
        app.types.limit(name, rate=rate)
    line = f"type {name}: {'no rate' if rate is None else f'starts at most {rate}'}"
    echo_reply(settings, {"name": name, "rate": rate}, line)


def _add_commands(group: click.Group, kind: Kind) -> None:
    """Give the group of queues or of types the commands that list, pause and resume them."""
    names = f"{kind}s"

    @group.command("ls", help=f"List every {kind} with its counts.")
    @store_options
    def ls(settings: Settings) -> None:
        notes: list[str] = []
        with settings.opened() as app:
            found = getattr(app, names).list()
            view = {names: found}
            if kind == "queue":
                view["app_max_running"] = limit = app.store.run(app.store.settings.app_limit())
                view["unserved"] = waiting = unserved(found, app.workers.list())
                if limit is not None:
                    notes.append(f"at most {limit} jobs run at once in all queues together")
                notes += [each.text for each in waiting]
        echo_list(settings, view, count_columns(kind.upper()), found, empty=f"no {names} yet")
        for note in notes if not settings.as_json else ():
            echo(note, err=True)

    def add_switch(verb: str, text: str) -> None:
        @group.command(verb, help=text)
        @click.argument("name", shell_complete=complete(kind))
        @yes_option
        @store_options
        def switch(settings: Settings, name: str, yes: bool) -> None:
            with settings.opened() as app:
                confirm_name(settings, app, kind, name, verb=verb, yes=yes)
                getattr(getattr(app, names), verb)(name)
            back = f"; next: {settings.say(names, 'resume', name)}" if verb == "pause" else ""
            reply = {"name": name, "is_paused": verb == "pause"}
            echo_reply(settings, reply, f"{verb}d {kind} {name}{back}")

    add_switch("pause", f"Stop handing out jobs of {kind} NAME; running ones continue.")
    add_switch("resume", f"Hand out jobs of {kind} NAME again, in their old order.")


_add_commands(queues, "queue")
_add_commands(types, "type")
