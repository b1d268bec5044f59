"""``fencepost demo``: the main job, watched live: work, failure, a killed worker, a frozen one."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn
from urllib.parse import quote

import click

from fencepost.cli.options import DURATION, option, pass_settings
from fencepost.cli.settings import Settings

if TYPE_CHECKING:
    from fencepost.app import App
    from fencepost.cli.demo.crew import Crew

DATABASE = "jobs.db"
TRICKLE_INTERVAL = 0.5
WORKERS = 2


@click.command()
@option("--exit", "ends", is_flag=True, help="End when the story is told, instead of staying.")
@option(
    "--path",
    type=click.Path(file_okay=False, path_type=Path),
    help="Keep the database and the logs in this folder; a temporary one unless told.",
)
@option("--lease-ttl", type=DURATION, default=2.0, show_default="2s", help="How long leases last.")
@pass_settings
def demo(settings: Settings, ends: bool, path: Path | None, lease_ttl: float) -> None:
    """Watch jobs run, fail, crash, recover and finish on SQLite, with real worker processes.

    Exits with 0 only if everything that it claims was seen to be true.
    """
    from fencepost.cli.apps import point
    from fencepost.cli.demo.crew import Crew
    from fencepost.cli.demo.tasks import app

    signal.signal(signal.SIGTERM, _leave)
    with _folder(path) as folder:
        settings.url = f"sqlite:///{quote(str(folder / DATABASE))}"
        point(app, settings.url)
        crew = Crew(folder, settings.url, lease_ttl, app.session.clock)
        try:
            is_proven, example = _tell(settings, app, crew, lease_ttl)
            _print_next(settings, example, ends=ends, is_kept=path is not None)
            if not ends:
                _stay(app, crew)
        except KeyboardInterrupt:
            click.echo("\nstopping the workers")
            is_proven = not ends
        finally:
            crew.dismiss()
            app.close()
    raise SystemExit(0 if is_proven else 1)


def _leave(*_: object) -> NoReturn:
    """Treat SIGTERM as Ctrl-C, so that nothing is left behind."""
    raise KeyboardInterrupt


@contextmanager
def _folder(path: Path | None) -> Iterator[Path]:
    """Give a folder for the database: the user's own, or one that is removed afterwards."""
    if path is not None:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        yield path.resolve()
        return
    folder = Path(tempfile.mkdtemp(prefix="fencepost-demo-")).resolve()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _tell(settings: Settings, app: App, crew: Crew, lease_ttl: float) -> tuple[bool, str]:
    """Play the story and print its summary; return whether all was proven, and a job's id."""
    from fencepost.cli.demo.story import Story, StoryError
    from fencepost.cli.demo.view import print_summary, shown

    click.echo(f"fencepost demo: durable jobs on SQLite, no service installed ({settings.url})")
    findings = app.store.run(app.store.overview.inspect())
    click.echo(next((f.text for f in findings if f.code == "durability"), ""))
    trouble: str | None = None
    is_proven = False
    with shown(app.session.clock) as view:
        story = Story(app, crew, view, lease_ttl)
        try:
            is_proven = story.play()
        except StoryError as error:
            trouble = str(error)
    print_summary(story, trouble)
    if not is_proven:
        click.echo(crew.log_tails(), err=True)
    return is_proven, story.parts[-1].job_id if story.parts else "ID"


def _print_next(settings: Settings, example: str, *, ends: bool, is_kept: bool) -> None:
    """Say what to type next; only what will work."""
    click.echo()
    if ends and not is_kept:
        click.echo("Look around yourself: `fencepost demo` stays, and `fencepost demo --exit")
        click.echo("--path ./demo` keeps its database for `jobs ls`, `dlq ls` and `jobs why`.")
        return
    click.echo("Next:" if ends else "In another terminal:")
    for words in (
        ("jobs", "ls"),
        ("dlq", "ls"),
        ("jobs", "show", example),
        ("jobs", "why", example),
        ("top",),
    ):
        click.echo(f"  {settings.say(*words)}")


def _stay(app: App, crew: Crew) -> None:
    """Keep the workers busy with a trickle of jobs until Ctrl-C."""
    from fencepost.cli.demo.tasks import resize_image, send_mail
    from fencepost.cli.top.command import live
    from fencepost.cli.top.snapshot import Snapshot, take

    click.echo("\nThe workers go on, with a trickle of jobs. Ctrl-C ends the demo.")
    count = 0
    before: Snapshot | None = None
    with live(screen=False) as show:
        while True:
            count += 1
            send_mail.submit(f"reader{count}@example.org")
            resize_image.submit(f"cover-{count}.jpg", 320)
            crew.keep(WORKERS)
            now = take(app)
            show(now, before)
            before = now
            app.session.clock.sleep(TRICKLE_INTERVAL)
