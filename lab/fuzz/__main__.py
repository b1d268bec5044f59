"""``python -m lab.fuzz``: feed every parser, from the command line."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from lab.fuzz.registry import TARGETS
from lab.fuzz.suite import ROUND, Finding, Report, run


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
    if options.http:
        _fuzz_api(report, options.http, options.seed)
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _show(report)
    return 1 if report.failures else 0


def _fuzz_api(report: Report, seconds: float, seed: int) -> None:
    """Let schemathesis at a server for *seconds*, and add what it finds to *report*."""
    # Its servers and their dependencies are not loaded for parsers alone.
    from lab.fuzz.http_fuzz import fuzz, fuzzed_server

    with TemporaryDirectory() as folder, fuzzed_server(f"sqlite:///{folder}/jobs.db") as target:
        findings = fuzz(target, seed=seed, examples=50, seconds=seconds, folder=Path(folder))
    report.parsers += 1
    report.inputs += findings.requests
    report.seconds += seconds
    if not findings.is_clean:
        sys.stderr.write(findings.text)
        report.failures.append(
            Finding("HTTP API", f"{seconds:g} s", findings.headline, "schemathesis", seed)
        )


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
    parser.add_argument(
        "--http", type=float, default=0, metavar="SECONDS", help="then ask a real server, so long"
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
