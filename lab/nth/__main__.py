"""``python -m lab.nth``: the fault at the N-th store call, from the command line."""

from __future__ import annotations

import argparse
import sys

import msgspec

from lab.nth.faults import Fault, Kind
from lab.nth.scenarios import SCENARIOS
from lab.nth.stores import KINDS, shelf
from lab.nth.suite import Report, play, run


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a promise did not hold."""
    options = _parser().parse_args(argv)
    if options.call is not None:
        return _repeat(options)
    report = run(
        stores=options.store or KINDS,
        scenarios=options.scenario or (),
        stride=options.stride,
        offset=options.offset,
        postgres_url=options.postgres_url,
        redis_url=options.redis_url,
    )
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _show(report)
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.nth",
        description="Let the N-th store call of a scenario fail, for every N, before and after it "
        "took effect, and check that every promise holds.",
        epilog="Scenarios: " + "; ".join(f"{each.name}: {each.about}" for each in SCENARIOS),
    )
    parser.add_argument("--store", action="append", choices=KINDS, help="only this (repeatable)")
    parser.add_argument(
        "--scenario", action="append", choices=[each.name for each in SCENARIOS], help="likewise"
    )
    parser.add_argument("--stride", type=int, default=1, help="only each so manieth call")
    parser.add_argument("--offset", type=int, default=0, help="of the first of them")
    parser.add_argument("--postgres-url", help="an empty database; without it one is started")
    parser.add_argument("--redis-url", help="a server for keys under a prefix; else one is started")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--call", type=int, help="repeat one run: the call that fails (0: none)")
    parser.add_argument("--kind", choices=[each.value for each in Kind], default="before")
    return parser


def _repeat(options: argparse.Namespace) -> int:
    """Run one scenario with one fault, and print its calls."""
    (kind,) = options.store or ["memory"]
    (name,) = options.scenario or ["keyed"]
    (scenario,) = [each for each in SCENARIOS if each.name == name]
    fault = Fault(options.call, Kind(options.kind)) if options.call else None
    with shelf(kind, options.redis_url if kind == "redis" else options.postgres_url) as opened:
        outcome = play(opened, scenario, fault)
    for number, call in enumerate(outcome.calls, 1):
        mark = f"  <- fails {options.kind}" if number == options.call else ""
        sys.stdout.write(f"{number:5} {call}{mark}\n")
    for complaint in outcome.broken:
        sys.stdout.write(f"broken: {complaint}\n")
    return 1 if outcome.broken else 0


def _show(report: Report) -> None:
    for each in report.failures:
        sys.stdout.write(
            f"{each.store} {each.scenario}: call {each.number} ({each.call}) fails {each.kind}\n"
        )
        for complaint in each.broken:
            sys.stdout.write(f"    {complaint}\n")
    sys.stdout.write(
        f"{report.scenarios} scenarios on {', '.join(report.stores)}: {report.calls} calls, "
        f"{report.faults} faults, {report.stale_writes_refused} stale writes refused, "
        f"{len(report.failures)} failures, {report.seconds:.1f} s\n"
    )


if __name__ == "__main__":
    sys.exit(main())
