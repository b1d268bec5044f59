"""Gives every suite its part of the time, slice by slice, and keeps what each slice said."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lab.torture.suites import Slice, Suite

ROOT = Path(__file__).parent.parent.parent
SLICE_TIMEOUT = 10_800.0
"""Six hundred mutants take an hour or two."""
LAST_WORDS = 2_000
CLEAN, FOUND = 0, 1
"""How a suite ends that has something to report: without findings, or with some."""

Tell = Callable[[str], None]


@dataclass(slots=True)
class Record:
    """What one suite has said so far."""

    suite: Suite
    reports: list[Any] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    """Slices that ended without a report: each is a failure of the run."""
    seconds: float = 0.0
    slices: int = 0


Take = Callable[[Record, float], None]


def run(
    records: Sequence[Record],
    *,
    seconds: float,
    tell: Tell,
    keep: Callable[[Sequence[Record]], object] = lambda _: None,
) -> None:
    """Add to *records* for about *seconds*; a slice that has begun is always finished.

    What hurts real processes has a lane of its own, with the others beside it. After each slice
    *keep* is given all that was said so far, lest hours be lost with a machine.
    """
    mutex = threading.Lock()

    def take(record: Record, seconds: float) -> None:
        _slice(record, seconds, tell)
        with mutex:
            keep(records)

    lanes = [[r for r in records if r.suite.is_timed is is_timed] for is_timed in (True, False)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        for done in [pool.submit(_run_lane, lane, seconds, take) for lane in lanes]:
            done.result()


def _run_lane(records: Sequence[Record], seconds: float, take: Take) -> None:
    end = time.monotonic() + seconds
    for record in records:
        if record.suite.weight is None and not record.reports:
            take(record, seconds)
    recurring = [record for record in records if record.suite.weight is not None]
    total = sum(_weight(record) for record in recurring)
    span = max(end - time.monotonic(), 0.0)
    while recurring:
        # The suite with the smallest share of its time goes next; each runs at least once.
        record = min(recurring, key=lambda each: each.seconds / _weight(each))
        if record.slices and time.monotonic() >= end:
            break
        take(record, max(span * _weight(record) / total - record.seconds, 0.0))


def _weight(record: Record) -> float:
    assert record.suite.weight is not None
    return record.suite.weight


def _slice(record: Record, seconds: float, tell: Tell) -> None:
    suite = record.suite
    command = suite.command(Slice(record.slices, seconds))
    tell(f"{suite.name}: {' '.join(command[2:])}")
    began = time.monotonic()
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, timeout=SLICE_TIMEOUT, check=False
        )
        trouble = _hear(record, done)
    except subprocess.TimeoutExpired:
        trouble = f"was still running after {SLICE_TIMEOUT:,.0f} s"
    record.seconds += time.monotonic() - began
    record.slices += 1
    if trouble is not None:
        record.troubles.append(f"{' '.join(command[2:])} {trouble}")
        tell(record.troubles[-1])


def _hear(record: Record, done: subprocess.CompletedProcess[bytes]) -> str | None:
    """Keep the report; return what is wrong if there is none."""
    if done.returncode in (CLEAN, FOUND):
        try:
            record.reports.append(msgspec.json.decode(done.stdout, type=record.suite.report))
        except msgspec.DecodeError as error:
            return f"printed no report: {error}"
        return None
    return f"ended with {done.returncode}: {done.stderr.decode(errors='replace')[-LAST_WORDS:]}"
