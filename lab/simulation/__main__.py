"""``python -m lab.simulation``: run seeds, print what they say, fail if a promise was broken."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Iterable

import click
import msgspec

from lab.simulation.run import live, run
from lab.simulation.scenes import Scene
from lab.simulation.world import Plan


def parse_seeds(text: str) -> Iterable[int]:
    """Return the seeds that *text* names: ``7``, ``1..200``, ``3,5,8``."""
    first, dots, last = text.partition("..")
    if dots:
        return range(int(first), int(last) + 1)
    return [int(seed) for seed in text.split(",")]


@click.command()
@click.option("--seeds", default="1..20", show_default=True, help="One, 1..200, or 3,5,8.")
@click.option("--hours", type=float, help="From the first seed on, until so much was simulated.")
@click.option("--seconds", type=float, default=300.0, show_default=True, help="Of faults a seed.")
@click.option("--workers", type=int, default=3, show_default=True)
@click.option(
    "--scene",
    type=click.Choice([scene.value for scene in Scene]),
    default=Scene.PLAIN.value,
    show_default=True,
    help="What the world is full of.",
)
@click.option("--jobs", type=int, default=os.cpu_count() or 1, help="Seeds at once.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
@click.option("--trace", is_flag=True, help="Print all that happens under each seed.")
def main(
    seeds: str,
    hours: float | None,
    seconds: float,
    workers: int,
    scene: str,
    jobs: int,
    as_json: bool,
    trace: bool,
) -> None:
    """Simulate callers, workers and maintenance, with everything going wrong."""
    plan = Plan(seconds=seconds, workers=workers, scene=Scene(scene))
    chosen = parse_seeds(seeds)
    if trace:
        for seed in chosen:
            lived = live(seed, plan)
            for event in lived.history:
                click.echo(event)
            for violation in lived.verdict.violations:
                click.echo(violation)
            click.echo(f"seed {seed}, digest {lived.digest}")
        return
    if hours is not None:
        chosen = itertools.count(next(iter(chosen)))
    report = run(chosen, plan=plan, hours=hours, jobs=jobs)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo("\n".join(report.lines()))
    sys.exit(1 if report.failures else 0)


if __name__ == "__main__":
    main()
