"""``fencepost move``: the jobs of one store to another, ids kept and nothing lost."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option, pass_settings
from fencepost.cli.settings import Settings, sqlite_path
from fencepost.core.bounds import DUMP_BATCH, DUMP_MAX

if TYPE_CHECKING:
    from fencepost.cli.move.mover import Mover
    from fencepost.store.interface.store import Store


@click.command()
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@option(
    "--batch",
    type=click.IntRange(1, DUMP_MAX),
    default=DUMP_BATCH,
    show_default=True,
    help="Jobs in one transaction.",
)
@option("--migrate", is_flag=True, help="Bring the schema of TO up to date first.")
@option("--abandon", is_flag=True, help="Give up a move that is not complete; resume FROM.")
@json_option
@pass_settings
def move(
    settings: Settings,
    source: str,
    target: str,
    batch: int,
    migrate: bool,
    abandon: bool,
    as_json: bool,
) -> None:
    """Move all jobs of the store FROM to the empty store TO, as they are.

    Stop the workers of FROM first. Its queues are paused and stay so, its jobs stay where they are,
    and once they are copied it refuses new ones; point callers at TO and start workers there when
    all is done. A move that broke off is simply repeated.
    """
    from fencepost.cli.move.mover import Mover

    _check(source, target)
    settings.url = source  # what an error says to type next is about FROM
    with _opened(source) as here, _opened(target, must_exist=abandon) as there:
        if not abandon:
            _see_to_schema(there, Settings(url=target), is_wanted=migrate)
        mover = Mover(here, there, batch=batch)
        if abandon:
            _abandon(mover, as_json=as_json)
        else:
            _move(mover, as_json=as_json)


def _check(source: str, target: str) -> None:
    """Refuse what cannot be moved, or not to there."""
    for url in (source, target):
        if url.partition(":")[0].lower() == "memory":
            raise click.UsageError("memory:// lives in one process; it cannot be moved")
    paths = [sqlite_path(url) for url in (source, target)]
    files = [None if path is None else path.resolve() for path in paths]
    if source == target or (files[0] is not None and files[0] == files[1]):
        raise click.UsageError("FROM and TO are the same store")


@contextmanager
def _opened(url: str, *, must_exist: bool = True) -> Iterator[Store]:
    with Settings(url=url).opened(must_exist=must_exist) as app:
        yield app.store


def _see_to_schema(store: Store, settings: Settings, *, is_wanted: bool) -> None:
    from fencepost.cli.errors import Refusal
    from fencepost.core.display import shown_url

    if is_wanted:
        store.migrate()
    elif store.pending_migrations():
        raise Refusal(
            f"{shown_url(store.url)} has no schema yet, or an old one",
            "schema",
            f"the same with --migrate, or {settings.say('migrate')}",
        )


def _move(mover: Mover, *, as_json: bool) -> None:
    from fencepost.cli.output import echo_json, progress_bar
    from fencepost.core.display import shown_url

    clock = mover.source.clock
    start = clock.monotonic()
    with progress_bar("looking", None) as bar:
        mover.prepare(bar)
    here, there = shown_url(mover.source.url), shown_url(mover.target.url)
    if mover.paused:
        echo(f"paused in {here}: {', '.join(mover.paused)}", err=True)
    with _resumable():
        total = mover.count()
        with progress_bar("copying", total) as bar:
            mover.copy(bar)
        mover.close()
        with progress_bar("comparing", total) as bar:
            mover.compare(bar)
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
    had = f" ({mover.present:,} were there already)" if mover.present else ""
    echo(f"moved {mover.loaded:,} jobs from {here} to {there}{had}; all were compared")
    echo(
        f"  {here} keeps its copies, stays paused and refuses new jobs; submit to {there} and "
        f"start workers on it",
        err=True,
    )


@contextmanager
def _resumable() -> Iterator[None]:
    """Say, when a store is gone, that the way goes on from there."""
    from fencepost.cli.errors import Refusal
    from fencepost.errors import StoreUnavailableError, UnknownOutcomeError

    try:
        yield
    except (StoreUnavailableError, UnknownOutcomeError) as error:
        text = " ".join(str(error).split())
        raise Refusal(text, error.code, "the same again: it goes on where it broke off") from error


def _abandon(mover: Mover, *, as_json: bool) -> None:
    from fencepost.cli.output import echo_json
    from fencepost.core.display import shown_url

    resumed = mover.abandon()
    if as_json:
        echo_json({"from": shown_url(mover.source.url), "resumed": resumed})
        return
    echo(f"resumed in {shown_url(mover.source.url)}: {', '.join(resumed) or 'nothing'}")
    echo(f"  {shown_url(mover.target.url)} holds copies: delete it before anybody works on it")
