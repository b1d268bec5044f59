"""``make bench-peers``: Fencepost beside other queues."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import click
import msgspec

from bench.children import ROOT
from bench.peers import page, results
from bench.peers.catalog import NAMES, PEERS
from bench.peers.environments import BUILD
from bench.peers.results import FIGURES, Sizes
from bench.peers.run import Run
from bench.progress import StatusLine
from fencepost.cli.options import option
from fencepost.clock import SystemClock

FULL = Sizes(
    jobs=20_000,
    singles=500,
    samples=150,
    steady=600,
    passing=50_000,
    backlog=100_000,
    drain_seconds=10.0,
    killed_seconds=120.0,
)
QUICK = Sizes(
    jobs=200,
    singles=20,
    samples=10,
    steady=30,
    passing=500,
    backlog=1_000,
    drain_seconds=5.0,
    killed_seconds=5.0,
)
ROUNDS = 3


@click.command()
@option("--only", multiple=True, type=click.Choice(FIGURES), help="Measure this (repeatable).")
@option("--peer", multiple=True, type=click.Choice(NAMES), help="Measure this one (repeatable).")
@option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=ROUNDS,
    show_default=True,
    help="Each figure is the median of so many.",
)
@option("--backlog", type=click.IntRange(1), help="Jobs in line in the big drain.")
@option("--quick", is_flag=True, help="Sizes that show whether everything works, and no more.")
@option("--fresh", is_flag=True, help="Forget what earlier runs of the same sizes have measured.")
@option(
    "--results",
    "path",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where readings are kept, and from where a run goes on that was interrupted. In "
    "build/peers unless given, a file for each size.",
)
@option(
    "--page",
    "root",
    type=click.Path(file_okay=False, exists=True, path_type=Path),
    help="The folder of performance.md and images, into which the report is written: docs, and "
    "none with --quick, unless given.",
)
@option("--no-page", is_flag=True, help="Only measure.")
def peers(
    only: tuple[results.Name, ...],
    peer: tuple[str, ...],
    rounds: int,
    backlog: int | None,
    quick: bool,
    fresh: bool,
    path: Path | None,
    root: Path | None,
    no_page: bool,
) -> None:
    """Measure Fencepost beside other queues, and write the report into docs/performance.md.

    Other queues are installed into build/peers the first time. Both servers are started for the
    run and removed after it. What is there already is not measured again, so that an interrupted
    run can be repeated, and more rounds be added to one that ended.
    """
    sizes = QUICK if quick else FULL
    if backlog:
        sizes = msgspec.structs.replace(sizes, backlog=backlog)
    path = path or BUILD / f"{'quick' if quick else 'results'}-{sizes.backlog}.json"
    found = results.Results(sizes=sizes) if fresh else results.load(path, sizes)
    with tempfile.TemporaryDirectory(prefix="fencepost-peers-") as folder, StatusLine() as progress:
        run = Run(found, path, folder=Path(folder), clock=SystemClock(), progress=progress)
        able = run.install([each for each in PEERS if not peer or each.name in peer])
        run.measure(able, only or FIGURES, rounds)
    if root is None and not quick:
        root = ROOT / "docs"
    if root is not None and not no_page:
        page.write(root, found)
    failed = [
        f"{figure} of {name}: {reading.error}"
        for figure, by_peer in found.readings.items()
        for name, readings in by_peer.items()
        for reading in readings
        if reading.error
    ]
    for line in failed:
        click.echo(f"failed: {line}", err=True)
    if failed:
        sys.exit(1)
