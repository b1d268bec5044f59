"""``fencepost move``: move all jobs to another store, with their ids and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fencepost.cli.commands.mover import Mover
from fencepost.cli.errors import Refusal
from fencepost.cli.options import Settings, json_options, option, sqlite_path
from fencepost.cli.output import echo, echo_json, progress_bar
from fencepost.core.bounds import DUMP_BATCH, DUMP_MAX
from fencepost.core.display import amount, shown_url
from fencepost.errors import StoreUnavailableError, UnknownOutcomeError
from fencepost.store.url import plain_url

if TYPE_CHECKING:
    from fencepost.store.interface.store import Store


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@option(
    "--batch", type=click.IntRange(1, DUMP_MAX), default=DUMP_BATCH, help="Jobs in one transaction."
)
@option("--migrate", is_flag=True, help="Bring the schema of TO up to date first.")
@option("--abandon", is_flag=True, help="Give up an unfinished move; resume FROM.")
@json_options
def move(
    settings: Settings, source: str, target: str, batch: int, migrate: bool, abandon: bool
) -> None:
    """Move all jobs of the store FROM to the empty store TO, as they are.

    Stop the workers of FROM first. Its queues are paused and stay paused, its jobs are copied and
    not deleted, and then it refuses new ones. When the move is done, point callers at TO and start
    workers there. If the move is interrupted, repeat it.
    """
    _check(source, target)
    settings.url = source  # the next command after an error is about FROM
    to = Settings(url=target)
    with settings.opened() as here, to.opened(must_exist=abandon) as there:
        # FROM is opened first: without it, no file is made for TO.
        opened = here.store, there.store
        if not abandon:
            _check_schema(there.store, to, is_wanted=migrate)
        mover = Mover(*opened, batch=batch)
        (_abandon if abandon else _move)(mover, as_json=settings.as_json)


def _check(source: str, target: str) -> None:
    """Refuse stores between which jobs cannot be moved."""
    for url in (source, target):
        if url.partition(":")[0].lower() == "memory":
            raise click.UsageError("memory:// lives in one process; it cannot be moved")
    paths = [sqlite_path(url) for url in (source, target)]
    files = [None if path is None else path.resolve() for path in paths]
    if plain_url(source) == plain_url(target) or (files[0] is not None and files[0] == files[1]):
        raise click.UsageError("FROM and TO are the same store")


def _check_schema(store: Store, settings: Settings, *, is_wanted: bool) -> None:
    if is_wanted:
        store.migrate()
    elif store.pending_migrations():
        raise Refusal(
            f"{shown_url(store.url)} has no schema yet, or an old one",
            "schema",
            f"repeat it with --migrate, or run {settings.say('migrate')}",
        )


def _move(mover: Mover, *, as_json: bool) -> None:
    clock = mover.source.clock
    start = clock.monotonic()
    with progress_bar("checking", None) as advance:
        mover.prepare(advance)
    here, there = shown_url(mover.source.url), shown_url(mover.target.url)
    if mover.paused:
        echo(f"paused in {here}: {', '.join(mover.paused)}", err=True)
    with _resumable():
        total = mover.count()
        with progress_bar("copying", total) as advance:
            mover.copy(advance)
        mover.close()
        with progress_bar("comparing", total) as advance:
            mover.compare(advance)
        mover.copy_events()
        mover.finish()
    if as_json:
        echo_json(
            {
                "from": here,
                "to": there,
                "moved": mover.loaded,
                "present": mover.present,
                "recovered": mover.recovered,
                "paused": mover.paused,
                "seconds": round(clock.monotonic() - start, 3),
            }
        )
        return
    had = f" ({mover.present:,} were already there)" if mover.present else ""
    echo(f"moved {amount(mover.loaded, 'job')} from {here} to {there}{had}; all were compared")
    echo(
        f"  {here} keeps its copies, stays paused and refuses new jobs; submit to {there} and "
        f"start workers on it",
        err=True,
    )


@contextmanager
def _resumable() -> Iterator[None]:
    """When a store becomes unavailable, say that the move can be repeated."""
    try:
        yield
    except (StoreUnavailableError, UnknownOutcomeError) as error:
        text = " ".join(str(error).split())
        raise Refusal(text, error.code, "repeat it: it continues where it stopped") from error


def _abandon(mover: Mover, *, as_json: bool) -> None:
    resumed = mover.abandon()
    if as_json:
        echo_json({"from": shown_url(mover.source.url), "resumed": resumed})
        return
    echo(f"resumed in {shown_url(mover.source.url)}: {', '.join(resumed) or 'nothing'}")
    echo(f"  {shown_url(mover.target.url)} holds copies: delete it before a worker uses it")
