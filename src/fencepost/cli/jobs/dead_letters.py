"""``fencepost dlq``: list, replay and discard dead letters, and steer replays of many."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click
from msgspec.structs import replace

from fencepost.cli.jobs.command import each_job
from fencepost.cli.options import Settings, decorated, option, page_options, store_options
from fencepost.cli.output import (
    Columns,
    echo_hint,
    echo_list,
    echo_reply,
    moment,
    progress_bar,
    short_id,
)
from fencepost.core.bounds import PAGE_MAX
from fencepost.core.display import amount
from fencepost.core.encryption import readable
from fencepost.store.interface.control import Discarded, Replayed

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.core.job.job import DeadLetter
    from fencepost.core.job.replay_order import ReplayView

BATCH = 200
LEFT = "their keys are held, or they cannot be decrypted here; replay one by its ID to see which"

COLUMNS: Columns[DeadLetter] = {
    "ID": lambda letter: short_id(letter.job_id),
    "TYPE": lambda letter: letter.type,
    "STATE": lambda letter: letter.state,
    "ATTEMPTS": lambda letter: letter.attempts,
    "DEAD SINCE (UTC)": lambda letter: moment(letter.completed_at),
    "REASON": lambda letter: f"{letter.failure.category}: {letter.failure.message}"[:200],
}


@click.group()
def dlq() -> None:
    """Dead letters: failed jobs that a person should look at."""


@dlq.command("ls")
@option("--type", "type", help="Of this type.")
@page_options
@store_options
def ls(settings: Settings, type: str | None, limit: int, after: str | None) -> None:
    """List dead letters, newest first."""
    with settings.opened() as app:
        page = app.dead_letters.list(type=type, after=after, limit=limit)
    page = replace(page, letters=[readable(letter) for letter in page])
    more = settings.next_page(page.next)
    echo_list(settings, page, COLUMNS, page, empty="no dead letters", more=more)
    if page and not settings.as_json:
        echo_hint(
            f"next: {settings.say('jobs', 'show', 'ID')}, {settings.say('dlq', 'replay', 'ID')}"
        )


def selection_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Accept ids, or instead --all, --type and --limit."""
    return decorated(
        function,
        click.argument("ids", metavar="[ID]...", nargs=-1),
        option("--all", "everything", is_flag=True, help="Every dead letter."),
        option("--type", "type", help="Every dead letter of this type."),
        option("--limit", type=click.IntRange(1), help="With --all or --type: how many at most."),
    )


@dlq.command("replay")
@selection_options
@option("--queue", help="With --rate: of this queue.")
@option("--rate", type=float, help="This many a second, by a worker or server in the background.")
@option("--stop-above", help="With --rate: stop if a larger share fails again, such as 20%.")
@option("--stop-failures", type=int, help="With --rate: stop once this many failed again.")
@store_options
def replay(
    settings: Settings,
    /,
    queue: str | None,
    rate: float | None,
    stop_above: str | None,
    stop_failures: int | None,
    **selection: Any,
) -> None:
    """Submit dead letters again: each becomes a new job and leaves the list."""
    if rate is None:
        if any(each is not None for each in (queue, stop_above, stop_failures)):
            raise click.UsageError("--queue, --stop-above and --stop-failures need --rate")
        _act(settings, "replay", Replayed, **selection)
        return
    if selection["ids"] or not (selection["everything"] or selection["type"]):
        raise click.UsageError("--rate needs --all or --type, and no ids")
    with settings.opened() as app:
        started = app.replays.start(
            type=selection["type"],
            queue=queue,
            sample=selection["limit"],
            rate=rate,
            stop_above=None if stop_above is None else _share(stop_above),
            stop_failures=stop_failures,
        )
    more = "" if started.is_total_known else " or more"
    line = f"started replay {started.id} of {amount(started.total, 'dead letter')}{more}"
    echo_reply(settings, started, line)
    if not settings.as_json:
        echo_hint(f"a worker or a server goes on with it; see: {settings.say('dlq', 'replays')}")


def _share(text: str) -> float:
    """Return the part that *text*, such as ``20%``, means."""
    try:
        return float(text.removesuffix("%")) / 100
    except ValueError:
        raise click.BadParameter(f"{text!r} is not a percentage; write it as 20%") from None


REPLAY_COLUMNS: Columns[ReplayView] = {
    "ID": lambda each: each.id,
    "STATE": lambda each: each.state.replace("_", " "),
    "STARTED (UTC)": lambda each: moment(each.started_at),
    "BY": lambda each: each.started_by,
    "RATE": lambda each: f"{each.rate:g}/s",
    "REPLAYED": lambda each: each.replayed,
    "SKIPPED": lambda each: sum(each.skipped.values()),
    "FAILED AGAIN": lambda each: each.failed,
    "LEFT": lambda each: each.left,
}


@dlq.command("replays")
@store_options
def replays(settings: Settings) -> None:
    """List replays at a rate, and how far they are."""
    with settings.opened() as app:
        found = app.replays.list()
    echo_list(settings, found, REPLAY_COLUMNS, found, empty="no replays")


def _steer(settings: Settings, verb: str, id: str) -> None:
    with settings.opened() as app:
        changed: ReplayView = getattr(app.replays, verb)(id)
    state = changed.state.replace("_", " ")
    echo_reply(settings, changed, f"replay {changed.id} is {state}; {changed.left:,} left")


@dlq.command("hold")
@click.argument("id")
@store_options
def hold(settings: Settings, id: str) -> None:
    """Let a replay make no more jobs, until it is resumed."""
    _steer(settings, "hold", id)


@dlq.command("resume")
@click.argument("id")
@store_options
def resume(settings: Settings, id: str) -> None:
    """Let a replay go on that is held."""
    _steer(settings, "resume", id)


@dlq.command("stop")
@click.argument("id")
@store_options
def stop(settings: Settings, id: str) -> None:
    """End a replay; what it has not replayed stays a dead letter."""
    _steer(settings, "stop", id)


@dlq.command("discard")
@selection_options
@option("--yes", is_flag=True, help="Do not ask before discarding by --all or --type.")
@store_options
def discard(settings: Settings, /, yes: bool, **selection: Any) -> None:
    """Remove dead letters from the list; their jobs are kept for their retention."""
    question = None if yes else "discard all these dead letters?"
    _act(settings, "discard", Discarded, question, **selection)


def _act(
    settings: Settings,
    verb: str,
    success: type[object],
    question: str | None = None,
    *,
    ids: tuple[str, ...],
    everything: bool,
    type: str | None,
    limit: int | None,
) -> None:
    """Do to dead letters what *verb* says; of a selection, count the replies of type *success*."""
    if bool(ids) == (everything or type is not None):
        raise click.UsageError("give either ids, or --all or --type")
    done = f"{verb}ed"
    with settings.opened() as app:
        if ids:
            each_job(settings, app, ids, done, getattr(app.dead_letters, verb))
            return
        if question:
            click.confirm(question, abort=True)
        found = _ids(app, type, limit)
        act = getattr(app.store.control, verb)
        count = 0
        with progress_bar(f"{done} dead letters", len(found)) as advance:
            for start in range(0, len(found), BATCH):
                batch = found[start : start + BATCH]
                count += sum(isinstance(reply, success) for reply in app.store.run(act(batch)))
                advance(len(batch))
    skipped = len(found) - count
    line = f"{done} {amount(count, 'dead letter')}" + (
        f"; {skipped} left: {LEFT}" if skipped else ""
    )
    echo_reply(settings, {"count": count, "skipped": skipped}, line)


def _ids(app: App, type: str | None, limit: int | None) -> list[str]:
    ids: list[str] = []
    after: str | None = None
    while limit is None or len(ids) < limit:
        page = app.dead_letters.list(type=type, after=after, limit=PAGE_MAX)
        ids += [letter.job_id for letter in page]
        after = page.next
        if after is None:
            break
    return ids[:limit]
