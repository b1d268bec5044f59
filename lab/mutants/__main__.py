"""``python -m lab.mutants``: plant every bug, and see that it is caught."""

from __future__ import annotations

import argparse
import sys
from typing import TextIO

import msgspec

from lab.mutants.catalogue import MUTANTS
from lab.mutants.suite import Report, Row, Verdict, run
from lab.mutants.suites import NAMES


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a mutant survives."""
    options = _parser().parse_args(argv)
    if options.list:
        for each in MUTANTS:
            sys.stdout.write(f"{each.name:45} {each.about}\n")
        return 0
    unknown = set(options.names) - {each.name for each in MUTANTS}
    if unknown:
        sys.stderr.write(f"no such mutant: {', '.join(sorted(unknown))}; try --list\n")
        return 2
    suites = options.suites.split(",")
    report = run(
        options.names,
        suites=suites,
        is_thorough=options.all,
        is_trusting=options.trust,
        jobs=options.jobs,
        on_row=lambda row: _show(row, options.verbose, sys.stderr if options.json else sys.stdout),
    )
    if options.json:
        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
    else:
        _sum_up(report, suites)
    return 1 if report.survivors else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m lab.mutants",
        description="Plant protocol bugs in the product, one at a time, and run the suites until "
        "one of them notices. Ends with 1 if a bug survives.",
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="only these mutants")
    parser.add_argument("--suites", default=",".join(NAMES), help="in this order (%(default)s)")
    parser.add_argument("--all", action="store_true", help="run every suite for every mutant")
    parser.add_argument(
        "--trust", action="store_true", help="do not see whether the suites pass without a mutant"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at once")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.add_argument("--list", action="store_true", help="say which mutants there are")
    parser.add_argument("-v", "--verbose", action="store_true", help="say what each test said")
    return parser


def _show(row: Row, is_verbose: bool, to: TextIO) -> None:
    trials = ", ".join(f"{t.suite} {t.verdict} {t.seconds:.1f} s" for t in row.trials)
    to.write(f"{row.mutant:45} {trials}\n")
    for trial in row.trials:
        if is_verbose or trial.verdict is Verdict.INVALID:
            to.write(f"    {trial.suite}: {trial.reason}\n")
    to.flush()


def _sum_up(report: Report, suites: list[str]) -> None:
    for suite in suites:
        trials = [t for row in report.rows for t in row.trials if t.suite == suite]
        caught = [t for t in trials if t.verdict is Verdict.CAUGHT]
        if trials:
            seconds = sum(trial.seconds for trial in trials) / len(trials)
            sys.stdout.write(f"{suite}: caught {len(caught)} of {len(trials)}, {seconds:.1f} s\n")
    sys.stdout.write(
        f"{len(report.rows)} mutants, {len(report.survivors)} survive, {report.seconds:.0f} s\n"
    )
    for name in report.survivors:
        sys.stdout.write(f"survives: {name}\n")


if __name__ == "__main__":
    sys.exit(main())
