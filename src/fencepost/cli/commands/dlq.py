"""``fencepost dlq``: dead letters, until somebody has dealt with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from fencepost.cli.jobs.command import each_job
from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import PAGE_DEFAULT, PAGE_MAX

if TYPE_CHECKING:
    from fencepost.app import App

BATCH = 200
LEFT = "their keys are held, or they cannot be decrypted here; replay one by its ID to be told"


@click.group()
def dlq() -> None:
    """Dead letters: jobs that ended in failure and that somebody should look at."""


@dlq.command("ls")
@option("--type", "type", help="Of this type.")
@option(
    "--limit",
    type=click.IntRange(1, PAGE_MAX),
    default=PAGE_DEFAULT,
    show_default=True,
    help="At the most so many.",
)
@option("--after", help="The cursor at the end of the page before.")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, type: str | None, limit: int, after: str | None, as_json: bool) -> None:
    """List dead letters, the most recent first."""
    from msgspec.structs import replace

    from fencepost.cli.output import echo_json, echo_table, when
    from fencepost.core.crypto.envelope import readable

    with settings.opened() as app:
        page = app.dead_letters.list(type=type, after=after, limit=limit)
    page = replace(page, letters=[readable(letter) for letter in page])
    if as_json:
        echo_json(page)
        return
    rows = [
        (
            letter.job_id,
            letter.type,
            letter.state,
            letter.attempts,
            when(letter.dead_at),
            f"{letter.failure.category}: {letter.failure.message}"[:200],
        )
        for letter in page
    ]
    columns = ("ID", "TYPE", "STATE", "ATTEMPTS", "DEAD SINCE (UTC)", "REASON")
    echo_table(columns, rows, empty="no dead letters")
    if page.next:
        echo(f"more: {settings.say('dlq', 'ls', '--after', page.next)}", err=True)


@dlq.command("replay")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--all", "everything", is_flag=True, help="Every dead letter.")
@option("--type", "type", help="Every dead letter of this type.")
@option("--limit", type=click.IntRange(1), help="With --all or --type: at the most so many.")
@url_option
@json_option
@pass_settings
def replay(
    settings: Settings,
    ids: tuple[str, ...],
    everything: bool,
    type: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Submit dead letters afresh: a new job for each, and the record removed with it."""
    _check_selection(ids, everything, type)
    with settings.opened() as app:
        if ids:
            each_job(settings, ids, "replayed", as_json, app.dead_letters.replay)
            return
        from fencepost.store.interface.control import Replayed

        def act(batch: list[str]) -> int:
            replies = app.store.run(app.store.control.replay(batch))
            return sum(isinstance(reply, Replayed) for reply in replies)

        _in_batches(app, type, limit, "replayed", as_json, act)


@dlq.command("discard")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@option("--all", "everything", is_flag=True, help="Every dead letter.")
@option("--type", "type", help="Every dead letter of this type.")
@option("--limit", type=click.IntRange(1), help="With --all or --type: at the most so many.")
@option("--yes", is_flag=True, help="Do not ask before discarding by --all or --type.")
@url_option
@json_option
@pass_settings
def discard(
    settings: Settings,
    ids: tuple[str, ...],
    everything: bool,
    type: str | None,
    limit: int | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Take dead letters off the list; their jobs are kept until retention ends them."""
    _check_selection(ids, everything, type)
    with settings.opened() as app:
        if ids:
            each_job(settings, ids, "discarded", as_json, app.dead_letters.discard)
            return
        if not yes:
            click.confirm("discard all these dead letters?", abort=True)
        from fencepost.store.interface.control import Discarded

        def act(batch: list[str]) -> int:
            replies = app.store.run(app.store.control.discard(batch))
            return sum(isinstance(reply, Discarded) for reply in replies)

        _in_batches(app, type, limit, "discarded", as_json, act)


def _check_selection(ids: tuple[str, ...], everything: bool, type: str | None) -> None:
    if bool(ids) == (everything or type is not None):
        raise click.UsageError("name ids, or --all, or --type; not both, not neither")


def _in_batches(
    app: App,
    type: str | None,
    limit: int | None,
    done: str,
    as_json: bool,
    act: Callable[[list[str]], int],
) -> None:
    """Act on every dead letter there is now, showing how far it is."""
    from fencepost.cli.output import echo_json, progress_bar

    ids = _ids(app, type, limit)
    count = 0
    with progress_bar(f"{done} dead letters", len(ids)) as bar:
        for start in range(0, len(ids), BATCH):
            batch = ids[start : start + BATCH]
            count += act(batch)
            bar.advance(len(batch))
    if as_json:
        echo_json({"count": count, "skipped": len(ids) - count})
        return
    skipped = f"; {len(ids) - count} left: {LEFT}" if count < len(ids) else ""
    echo(f"{done} {count} dead letters{skipped}")


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
