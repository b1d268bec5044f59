"""One suite in a process of its own, with the mutant that ``FENCEPOST_MUTANT`` names planted in it.

Started by the runner as ``python -m lab.mutants.child RESULT SUITE ARGUMENT…``. What came of it is
written to the file RESULT; without that file, the process broke down and has caught nothing.
"""

from __future__ import annotations

import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import msgspec

from lab.mutants.catalogue import mutant
from lab.mutants.injection import Plant

VARIABLE = "FENCEPOST_MUTANT"
WHY_LENGTH = 400


class Failure(msgspec.Struct, frozen=True):
    """What noticed, and what it said."""

    where: str
    why: str


class Result(msgspec.Struct, frozen=True):
    """What a suite made of the product, mutant or not."""

    is_whole: bool
    """Whether every patch of the mutant was made; true if there is none."""
    checked: int
    """How many tests or runs there were."""
    failures: list[Failure]
    errors: list[Failure]
    """What went wrong outside of a check: a mutant that cannot even start is none."""


class Recorder:
    """A pytest plugin that notes how tests end."""

    def __init__(self) -> None:
        self.checked = 0
        self.failures: list[Failure] = []
        self.errors: list[Failure] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.checked += report.when == "call"
        if report.failed:
            failure = Failure(report.nodeid, _why(report))
            (self.failures if report.when == "call" else self.errors).append(failure)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.errors.append(Failure(report.nodeid, str(report.longrepr)[-400:]))


def _why(report: Any) -> str:
    """Return the line that failed and what it said."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is None:
        return str(report.longrepr)[:WHY_LENGTH]
    lines = [line.strip() for line in str(report.longrepr).splitlines()]
    asserted = next((line for line in reversed(lines) if line.startswith("assert ")), "")
    return f"{asserted} {crash.message}".strip()[:WHY_LENGTH]


def _pytest(arguments: list[str]) -> tuple[int, list[Failure], list[Failure]]:
    import pytest

    recorder = Recorder()
    # Plain: pytest rewrites the assertions of whatever brings a plugin for it, by a loader of its
    # own in place of the one that plants the mutant.
    options = ["-x", "-q", "--tb=short", "--assert=plain"]
    code = pytest.main([*arguments, *options], plugins=[recorder])
    if code not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED):
        recorder.errors.append(Failure("pytest", f"ended with {code!r}"))
    return recorder.checked, recorder.failures, recorder.errors


def _nth(arguments: list[str]) -> tuple[int, list[Failure], list[Failure]]:
    from lab.nth.suite import run

    store, stride = arguments
    report = run(stores=[store], stride=int(stride), failures_max=1)
    failures = [
        Failure(f"{each.scenario}, call {each.number} {each.kind}", "; ".join(each.broken)[:400])
        for each in report.failures
    ]
    return report.faults, failures, []


def _model(arguments: list[str]) -> tuple[int, list[Failure], list[Failure]]:
    from lab.model.run import run
    from lab.nth.stores import database

    store, operations = arguments
    with ExitStack() as stack:
        url = database(stack) if store == "postgres" else None
        report = run(operations=int(operations), stores=(store,), postgres_url=url)
    failures = [
        Failure(f"{report.operations} operations", each[:400]) for each in report.differences
    ]
    return report.operations, failures, []


def _simulation(arguments: list[str]) -> tuple[int, list[Failure], list[Failure]]:
    from lab.simulation.run import run

    (seeds,) = arguments
    for seed in range(1, int(seeds) + 1):
        report = run([seed])
        if report.failures:
            failures = [
                Failure(f"seed {f.seed}", "; ".join(f.violations)[:400]) for f in report.failures
            ]
            return seed, failures, []
    return int(seeds), [], []


SUITES = {"conformance": _pytest, "nth": _nth, "model": _model, "simulation": _simulation}


def main(result: str, suite: str, arguments: list[str]) -> None:
    name = os.environ.get(VARIABLE)
    plant = None
    if name:
        plant = Plant(mutant(name))
        plant.install()
    checked, failures, errors = SUITES[suite](arguments)
    is_whole = plant is None or plant.is_whole
    outcome = Result(is_whole, checked, failures, errors)
    Path(result).write_bytes(msgspec.json.encode(outcome))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
