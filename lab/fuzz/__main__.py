"""``python -m lab.fuzz``: feed every parser, from the command line."""

from __future__ import annotations

import argparse
import sys

import msgspec

from lab.fuzz.registry import TARGETS
from lab.fuzz.suite import ROUND, Report, run


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a parser did what it should not."""
    options = _parser().parse_args(argv)
    if options.list:
        sys.stdout.writelines(f"{target.name}\n" for target in TARGETS)
        return 0
    unknown = set(options.parser) - {target.name for target in TARGETS}
    if unknown:
        sys.stderr.write(f"no such parser: {', '.join(sorted(unknown))}; try --list\n")
        return 2
    report = run(options.seconds, options.seed, parsers=options.parser, size=options.round)
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _show(report)
    return 1 if report.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.fuzz",
        description="Feed every parser with valid, nearly valid and wild input. It may answer "
        "with a value or with the error that is documented, and with nothing else.",
    )
    parser.add_argument("--seconds", type=float, default=60, help="for how long (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the first round (%(default)s)")
    parser.add_argument("--round", type=int, default=ROUND, help="inputs a parser and round")
    parser.add_argument(
        "--parser", action="append", default=[], metavar="NAME", help="only this (repeatable)"
    )
    parser.add_argument("--list", action="store_true", help="say which parsers there are")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser


def _show(report: Report) -> None:
    for each in report.failures:
        sys.stdout.write(
            f"{each.parser}: {each.given}\n    {each.error} (at {each.place}, seed {each.seed})\n"
        )
    sys.stdout.write(
        f"{report.parsers} parsers, {report.inputs:,} inputs of which {report.accepted:,} valid, "
        f"{len(report.failures)} failures, {report.seconds:.1f} s\n"
    )


if __name__ == "__main__":
    sys.exit(main())
