"""``python -m lab.torture --hours 8``: everything, for so long, and one report."""

from __future__ import annotations

import os
import platform
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import click
import msgspec

from fencepost import __version__
from lab.torture.markdown import render
from lab.torture.running import ROOT, Record, run
from lab.torture.suites import SUITES
from lab.torture.summary import Summary, summarise


@click.command()
@click.option("--hours", type=float, default=1.0, show_default=True, help="How long, about.")
@click.option("--only", multiple=True, type=click.Choice([suite.name for suite in SUITES]))
@click.option("--skip", multiple=True, type=click.Choice([suite.name for suite in SUITES]))
@click.option(
    "--to",
    type=click.Path(path_type=Path, file_okay=False),
    default=ROOT / "build" / "torture",
    help="Where report.md and report.json go.",
)
def main(hours: float, only: tuple[str, ...], skip: tuple[str, ...], to: Path) -> None:
    """Run every suite of the lab, each for its part of the time. Ends with 1 if anything broke."""
    chosen = [s for s in SUITES if (not only or s.name in only) and s.name not in skip]
    began = time.monotonic()

    def sum_up(records: Sequence[Record]) -> Summary:
        summary = summarise(
            {record.suite.name: record.reports for record in records},
            [trouble for record in records for trouble in record.troubles],
            machine=_machine(),
            version=__version__,
            seconds=time.monotonic() - began,
        )
        _write(summary, to)
        return summary

    def tell(text: str) -> None:
        click.echo(text, err=True)

    summary = sum_up(run(chosen, seconds=hours * 3600, tell=tell, keep=sum_up))
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
