"""How ``fencepost demo`` is shown: live on a terminal, line by line in a pipe."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.demo.story import Part, Story, View
from fencepost.cli.lines import clean, echo
from fencepost.cli.output import STATE_STYLES, console, is_terminal

if TYPE_CHECKING:
    from fencepost.clock import Clock

COLUMNS = ("STORY", "TYPE", "STATE", "ATTEMPT", "NOW")


@contextmanager
def shown(clock: Clock) -> Iterator[View]:
    """Show the story while it runs."""
    if not is_terminal():
        yield PlainView(clock)
        return
    from rich.live import Live

    with Live(console=console(), auto_refresh=False, transient=True) as live:
        yield TerminalView(clock, live)


class PlainView:
    """A line for everything that is said, and for every change of a special job."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._start = clock.monotonic()
        self._seen: dict[str, tuple[object, ...]] = {}
        self._everyday = 0

    def say(self, text: str) -> None:
        echo(f"{self._clock.monotonic() - self._start:5.1f}s  {text}")

    def look(self, story: Story) -> None:
        for part in story.parts:
            job = part.job
            now = () if job is None else (job.state, job.attempt)
            if job is not None and self._seen.get(part.job_id) != now:
                self._seen[part.job_id] = now
                self.say(f"  {part.title:<15} {job.state:<12} {_now(part, story)}".rstrip())
        done = sum(part.is_over for part in story.everyday)
        if done != self._everyday and done == len(story.everyday):
            self.say(f"  everyday work   {done} of {len(story.everyday)} done")
        self._everyday = done


class TerminalView:
    """What was said scrolls by; below it stand the jobs, live."""

    def __init__(self, clock: Clock, live: Any) -> None:
        self._clock = clock
        self._live = live
        self._start = clock.monotonic()

    def say(self, text: str) -> None:
        from rich.text import Text

        seconds = f"{self._clock.monotonic() - self._start:5.1f}s  "
        self._live.console.print(Text(seconds, style="dim") + Text(clean(text), style="default"))

    def look(self, story: Story) -> None:
        self._live.update(render(story), refresh=True)


def render(story: Story) -> Any:
    """Return the live part: how many jobs are done, and a row for each special one."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    done = sum(part.is_over for part in story.all_parts)
    total = len(story.all_parts)
    bar = Table.grid(padding=(0, 1))
    bar.add_row(ProgressBar(total=max(total, 1), completed=done, width=40), f"{done}/{total} jobs")
    return Group(Text(), bar, jobs_table(story))


def jobs_table(story: Story) -> Any:
    """Return a row for the everyday work, and one for each special job."""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for column in COLUMNS:
        table.add_column(column, no_wrap=column != "NOW")
    for row in rows(story):
        table.add_row(*(Text(clean(cell), style=STATE_STYLES.get(cell, "")) for cell in row))
    return table


def rows(story: Story) -> list[tuple[str, ...]]:
    """Return the cells of the table of jobs."""
    found: list[tuple[str, ...]] = []
    if story.everyday:
        done = sum(part.is_right for part in story.everyday)
        state = "completed" if done == len(story.everyday) else "running"
        count = f"{done} of {len(story.everyday)} done"
        found.append(("everyday work", "send_mail, resize_image", state, "", count))
    for part in story.parts:
        job = part.job
        if job is not None:
            attempt = f"{job.attempt}/{job.max_attempts}"
            found.append((part.title, job.type, job.state, attempt, _now(part, story)))
    return found


def _now(part: Part, story: Story) -> str:
    """Say what is happening to a job."""
    job = part.job
    if job is None:
        return ""
    if job.lease is not None and job.lease.expired:
        return "its lease has run out; the next claim takes it back"
    if job.lease is not None:
        hand = story.crew.holder_of(job.lease.worker)
        if hand is not None and hand.trouble:
            left = (job.lease.expires_at - story.app.session.clock.now()).total_seconds()
            return f"{hand.name} is {hand.trouble}; its lease ends in {max(left, 0):.1f} s"
        worker = story.crew.name_of(job.lease.worker)
        doing = job.progress.message if job.progress else f"attempt {job.attempt}"
        return f"{doing} on {worker}"
    if job.state == "cancelled":
        return "before its time had come"
    if job.failure is not None and job.state != "completed":
        return clean(f"{job.failure.category}: {job.failure.message}")
    return f"on attempt {job.attempt}" if job.state == "completed" else ""


def print_summary(story: Story, trouble: str | None) -> None:
    """Print how every job ended and which claims were seen to be true."""
    click.echo()
    if is_terminal():
        console().print(jobs_table(story))
    else:
        from fencepost.cli.output import plain_lines

        for line in plain_lines(COLUMNS, rows(story)):
            click.echo(line)
        click.echo()
    for check in story.checks:
        mark = click.style("✓", fg="green") if check.is_true else click.style("✗", fg="red")
        detail = click.style(f" ({check.detail})", dim=True) if check.detail else ""
        click.echo(f"{mark} {check.text}{detail}")
    if trouble:
        click.echo(f"{click.style('✗', fg='red')} {trouble}")
