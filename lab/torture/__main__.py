"""``python -m lab.torture --hours 8``: everything, for so long, and one report."""

from __future__ import annotations

import os
import platform
import sys
import time
from pathlib import Path

import click
import msgspec

from fencepost import __version__
from lab.torture.archive import Archive
from lab.torture.markdown import render
from lab.torture.schedule import ROOT, run
from lab.torture.suites import SUITES
from lab.torture.summary import Summary, summarise


@click.command()
@click.option("--hours", type=float, default=1.0, show_default=True, help="How long, about.")
@click.option("--only", multiple=True, type=click.Choice([suite.name for suite in SUITES]))
@click.option("--skip", multiple=True, type=click.Choice([suite.name for suite in SUITES]))
@click.option(
    "--resume", is_flag=True, help="Go on with the run whose reports are there, with other seeds."
)
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "torture",
    help="Where report.md and report.json go.",
)
def main(
    hours: float, only: tuple[str, ...], skip: tuple[str, ...], resume: bool, to: Path
) -> None:
    """Run every suite of the lab, each for its part of the time. Ends with 1 if anything broke."""
    archive = Archive(to)
    if not resume:
        archive.clear()
    records = archive.load(SUITES)
    names = {suite.name for suite in SUITES if not only or suite.name in only} - set(skip)
    began = time.monotonic() - archive.seconds

    def sum_up(_: object = None) -> Summary:
        seconds = time.monotonic() - began
        archive.save(records, seconds)
        summary = summarise(
            {record.suite.name: record.reports for record in records},
            [trouble for record in records for trouble in record.troubles],
            machine=_machine(),
            version=__version__,
            seconds=seconds,
        )
        _write(summary, to)
        return summary

    run(
        [record for record in records if record.suite.name in names],
        seconds=hours * 3600,
        tell=lambda text: click.echo(text, err=True),
        keep=sum_up,
    )
    summary = sum_up()
    click.echo(f"{to / 'report.md'}: " + ("clean" if summary.is_clean else "NOT clean"))
    for finding in summary.findings:
        click.echo(f"- {finding}")
    sys.exit(0 if summary.is_clean else 1)


def _write(summary: Summary, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    text = msgspec.json.format(msgspec.json.encode(summary))
    (folder / "report.json").write_bytes(text + b"\n")
    (folder / "report.md").write_text(render(summary), encoding="utf-8")


def _machine() -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}"
    )


if __name__ == "__main__":
    main()
