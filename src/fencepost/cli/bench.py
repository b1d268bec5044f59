"""``fencepost bench``: this machine's figures beside its raw limit."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
import msgspec

from fencepost.cli.benchmarks import machine, report, suite
from fencepost.cli.benchmarks.bench import Bench, Sizes
from fencepost.cli.benchmarks.progress import StatusLine
from fencepost.cli.options import json_option, option
from fencepost.cli.output import echo_json
from fencepost.clock import SystemClock
from fencepost.core.limits import BULK_MAX
from fencepost.store.sqlite.database import DURABILITIES

ROUNDS_MAX = 100

NAMES = [name for group in suite.GROUPS for name in group.names]

FULL = Sizes(
    jobs=20_000,
    backlog=1_000_000,
    singles=2_000,
    samples=300,
    stored=100_000,
    starts=7,
    rounds=3,
)
QUICK = Sizes(
    jobs=5_000,
    backlog=50_000,
    singles=300,
    samples=50,
    stored=20_000,
    starts=3,
    rounds=1,
)


@click.command()
@option("--only", multiple=True, type=click.Choice(NAMES), help="Measure this (repeatable).")
@option("--quick", is_flag=True, help="Smaller sizes, one round: seconds instead of minutes.")
@option(
    "--jobs",
    type=click.IntRange(1, BULK_MAX),
    help="Jobs of a drain and of a bulk; a small number makes all else small as well.",
)
@option("--backlog", type=click.IntRange(1), help="Jobs in line in the big drain.")
@option("--repeat", type=click.IntRange(1, ROUNDS_MAX), help="Rounds; the median is shown.")
@option(
    "--path",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=".",
    help="Where the databases are made and removed again; a disk, not tmpfs.",
)
@option(
    "--durability",
    type=click.Choice(DURABILITIES),
    default="power",
    show_default=True,
    help="What an acknowledged write survives.",
)
@json_option
def bench(
    only: tuple[str, ...],
    quick: bool,
    jobs: int | None,
    backlog: int | None,
    repeat: int | None,
    path: Path,
    durability: str,
    as_json: bool,
) -> None:
    """Measure this machine: Fencepost beside the raw limit, in one run.

    The raw limit is the same statements on the same tables with the same promise to the disk,
    without Fencepost. Targets are reported, not enforced: the exit code is 1 only if a
    measurement failed.
    """
    sizes = _sizes(QUICK if quick else FULL, jobs=jobs, backlog=backlog, rounds=repeat)
    if (not only or "backlog" in only) and sizes.backlog < sizes.jobs * sizes.rounds:
        raise click.UsageError(
            f"a backlog of {sizes.backlog:,} is not enough for {sizes.rounds} rounds of "
            f"{sizes.jobs:,} jobs; give a larger --backlog or fewer --jobs"
        )
    with (
        tempfile.TemporaryDirectory(prefix=".fencepost-bench-", dir=path.resolve()) as folder,
        StatusLine() as progress,
    ):
        clock = SystemClock()
        workbench = Bench(
            Path(folder), sizes=sizes, durability=durability, clock=clock, progress=progress
        )
        found = machine.look(workbench.folder, clock)
        figures, failed = suite.run(workbench, only)
    result = report.BenchReport(
        machine=found, durability=durability, sizes=sizes, figures=figures, failed=failed
    )
    if as_json:
        echo_json(report.plain(result))
    else:
        report.show(result)
    if failed:
        sys.exit(1)


def _sizes(preset: Sizes, *, jobs: int | None, backlog: int | None, rounds: int | None) -> Sizes:
    """Return *preset* with what was asked for."""
    jobs = jobs or preset.jobs
    return msgspec.structs.replace(
        preset,
        jobs=jobs,
        singles=min(preset.singles, jobs),
        samples=min(preset.samples, jobs),
        stored=min(preset.stored, jobs * 5),
        backlog=backlog or preset.backlog,
        rounds=rounds or preset.rounds,
    )
