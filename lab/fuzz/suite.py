"""Feeds every parser for as long as it is given, and reports what came of it."""

from __future__ import annotations

import time
import traceback
from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Flaky, HypothesisException

from fencepost.core.display import shown
from lab.fuzz.registry import TARGETS
from lab.fuzz.target import Target

ROUND = 200
"""Inputs for each parser before the next one has its turn."""


class Finding(msgspec.Struct, frozen=True):
    """An input, as small as could be found, that a parser did not take as it should."""

    parser: str
    given: str
    error: str
    place: str
    """Where it was raised: file and line."""
    seed: int | None


class Report(msgspec.Struct):
    """What was fed and what was found."""

    parsers: int = 0
    inputs: int = 0
    accepted: int = 0
    """Inputs that were valid; the rest were refused as they should be."""
    seconds: float = 0.0
    failures: list[Finding] = []


class Sample:
    """An input that can always be shown, which not every value can."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        return shown(self.value)


def run(
    seconds: float, seed: int | None = None, *, parsers: Sequence[str] = (), size: int = ROUND
) -> Report:
    """Feed all parsers, or those named, in rounds, until the time is over; one round at least.

    With a *seed* every round is another, and the same seed gives the same inputs. Without one, the
    inputs are those that each version of Hypothesis always begins with.
    """
    start = time.perf_counter()
    chosen = [target for target in TARGETS if not parsers or target.name in parsers]
    report = Report(parsers=len(chosen))
    broken: set[str] = set()
    number = 0
    while number == 0 or time.perf_counter() - start < seconds:
        for target in chosen:
            if target.name not in broken and (number == 0 or time.perf_counter() - start < seconds):
                finding = feed(target, report, None if seed is None else seed + number, size)
                if finding is not None:
                    report.failures.append(finding)
                    broken.add(target.name)  # it would only be found again
        number += 1
        if seed is None:
            break
    report.seconds = time.perf_counter() - start
    return report


def feed(target: Target, report: Report, number: int | None, size: int) -> Finding | None:
    """Feed one parser *size* inputs; return the smallest that it did not take as it should."""
    last: list[Sample] = []

    def examine(sample: Sample) -> None:
        last[:] = [sample]
        report.inputs += 1
        report.accepted += target.examine(sample.value)

    test = given(target.inputs.map(Sample))(examine)
    if number is not None:
        test = seed(number)(test)
    configured = settings(
        max_examples=size,
        derandomize=number is None,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
    )(test)
    try:
        configured()
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a parser lets through is a finding
        if isinstance(error, HypothesisException) and not isinstance(error, Flaky):
            raise  # the target itself is wrong
        return _finding(target, last[0], error, number)
    return None


def _finding(target: Target, sample: Sample, error: BaseException, number: int | None) -> Finding:
    frames = traceback.extract_tb(error.__traceback__)
    inner = [f for f in frames if "fencepost" in f.filename or "lab" in f.filename] or frames
    place = f"{inner[-1].filename.rpartition('/')[2]}:{inner[-1].lineno}"
    text = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    return Finding(target.name, repr(sample), text[:300], place, number)
