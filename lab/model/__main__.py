"""The command: ``python -m lab.model --operations 100000 --seed 1``."""

from __future__ import annotations

import sys

import click
import msgspec

from lab.model.action import Ledger
from lab.model.run import Report, run
from lab.model.subjects import SUBJECTS


@click.command()
@click.option("--operations", default=10_000, show_default=True, help="How many to compare.")
@click.option("--seed", default=0, show_default=True, help="The same seed, the same sequences.")
@click.option("--stores", default=",".join(SUBJECTS), show_default=True, help="Which to compare.")
@click.option("--postgres", help="URL of a database that may be emptied; else one is started.")
@click.option("--redis", help="URL of a server for keys under a prefix; else one is started.")
@click.option("--json", "is_json", is_flag=True, help="Print the report as JSON.")
def main(
    operations: int,
    seed: int,
    stores: str,
    postgres: str | None,
    redis: str | None,
    is_json: bool,
) -> None:
    """Run one and the same sequences on the reference model and on every store."""
    report = run(
        operations=operations,
        seed=seed,
        stores=tuple(stores.split(",")),
        postgres_url=postgres,
        redis_url=redis,
        progress=_tell,
    )
    click.echo(msgspec.json.encode(report).decode() if is_json else _told(report))
    sys.exit(1 if report.differences else 0)


def _tell(ledger: Ledger, seconds: float) -> None:
    rate = ledger.operations / seconds
    click.echo(f"{ledger.operations:,} operations, {rate:.0f} a second", err=True)


def _told(report: Report) -> str:
    lines = [
        f"seed {report.seed}, stores {', '.join(report.stores)}",
        f"{report.operations:,} operations compared in {report.sequences:,} sequences, "
        f"{report.looks:,} looks at everything",
        f"{report.faults:,} faults, {report.zombies:,} zombies, {report.seconds:,.1f} s",
        f"{len(report.differences)} differences",
        *report.differences,
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
