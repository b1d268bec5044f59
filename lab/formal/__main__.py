"""``python -m lab.formal``: check the model, print what holds, fail if something does not."""

from __future__ import annotations

import sys

import click
import msgspec

from lab.formal.check import CONFIGURATIONS, SMALLEST, run


@click.command()
@click.option("--smallest", is_flag=True, help="Only the smallest configuration, and all bugs.")
@click.option("--json", "as_json", is_flag=True, help="Print the report as JSON.")
def main(smallest: bool, as_json: bool) -> None:
    """Check the lease protocol with spin, and that spin finds every planted bug."""
    report = run([SMALLEST] if smallest else CONFIGURATIONS)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report)).decode())
    else:
        click.echo("\n".join(report.lines()))
    sys.exit(1 if report.findings else 0)


if __name__ == "__main__":
    main()
