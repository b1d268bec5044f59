"""What the figures of a bench mean: whether one should expect them, and what limits them.

The bounds are a half to a fifth of what two shared cores of a cloud machine do
(``docs/performance.md``), plus what waiting for the disk or the network costs on this one.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from fencepost.cli.bench.run import Measured
from fencepost.core.bounds import CONCURRENCY_DEFAULT, POLL_INTERVAL

SUBMIT_SECONDS = 0.002
"""For one submission, beside what it waits for."""
SUBMIT_WAITS = 4
"""So many flushes, or round trips, may a submission take."""
BULK_RATE = 10_000
DRAIN_RATE = 3_000
DRAIN_WAITS = 4
"""Round trips, or flushes, for as many jobs as there are slots: a claim, a settlement, slack."""
PICKUP_SECONDS = 0.010
PICKUP_WAITS = 6
TAIL = 5
"""So many times the median may the slowest of a hundred pickups take."""
POLLED = POLL_INTERVAL / 4
"""A median above this is that of a worker that is not notified."""


class WriteWait(msgspec.Struct, frozen=True):
    """What a write to this store waits for."""

    what: Literal["disk", "round trip", "nothing"]
    seconds: float = 0.0

    def __str__(self) -> str:
        named = {"disk": "a flush of this disk", "round trip": "a round trip to the server"}
        return f"{named[self.what]} takes {_ms(self.seconds)}" if self.what in named else ""


class FigureLine(msgspec.Struct, frozen=True):
    """One figure, and what it means."""

    name: str
    title: str
    value: float
    unit: Literal["jobs/s", "ms"]
    is_expected: bool
    verdict: str


def judge(measured: Measured, wait: WriteWait) -> list[FigureLine]:
    """Return the lines of the report."""
    pickup = percentile(measured.pickups, 0.5)
    tail = percentile(measured.pickups, 0.99)
    return [
        _submit(measured, wait),
        _bulk(measured, wait),
        _drain(measured, wait),
        _pickup(pickup, median(measured.submits), wait),
        _tail(tail, pickup),
    ]


def percentile(samples: Sequence[float], fraction: float) -> float:
    """Return the sample below which *fraction* of all samples lie."""
    return sorted(samples)[min(int(len(samples) * fraction), len(samples) - 1)]


def _line(
    name: str, title: str, value: float, unit: str, is_expected: bool, why: str
) -> FigureLine:
    start = "as expected" if is_expected else "slower than expected"
    return msgspec.convert(
        {
            "name": name,
            "title": title,
            "value": round(value, 1 if unit == "jobs/s" else 3),
            "unit": unit,
            "is_expected": is_expected,
            "verdict": f"{start}: {why}",
        },
        FigureLine,
    )


def _submit(measured: Measured, wait: WriteWait) -> FigureLine:
    seconds = median(measured.submits)
    is_expected = seconds <= SUBMIT_SECONDS + SUBMIT_WAITS * wait.seconds
    why = {
        "disk": f"each submission waits until the disk has it, and {wait}; callers at once share "
        "one flush",
        "round trip": f"each submission waits for the server's commit, and {wait}; callers at "
        "once share one commit",
        "nothing": "limited by the processor; nothing waits for the disk (durability=process)",
    }[wait.what]
    if not is_expected:
        why += "; the rest is processor time here or the disk of the server: is it busy?"
    rate = len(measured.submits) / sum(measured.submits)
    return _line("submit", "submit, one by one", rate, "jobs/s", is_expected, why)


def _bulk(measured: Measured, wait: WriteWait) -> FigureLine:
    seconds = measured.jobs / measured.bulk
    is_expected = seconds <= measured.jobs / BULK_RATE + 0.05 + SUBMIT_WAITS * wait.seconds
    why = f"one transaction of {measured.jobs:,} jobs, limited by the processor"
    if not is_expected:
        why += f"; {BULK_RATE:,} jobs/s and more are usual: is the machine or the server busy?"
    return _line("submit-many", "submit, in bulk", measured.bulk, "jobs/s", is_expected, why)


def _drain(measured: Measured, wait: WriteWait) -> FigureLine:
    slots = CONCURRENCY_DEFAULT
    expected = 1 / (1 / DRAIN_RATE + DRAIN_WAITS * wait.seconds / slots)
    is_expected = measured.drain >= expected
    if DRAIN_WAITS * wait.seconds / slots > 1 / DRAIN_RATE:
        why = f"a batch of {slots} waits for its claim and its settlement, and {wait}; more slots "
        why += "or processes drain more"
    else:
        why = f"one process with {slots} slots, limited by the processor; more processes drain more"
    if not is_expected:
        why += f"; {expected:,.0f} jobs/s and more are usual here: is the machine busy?"
    return _line("drain", "drain, one process", measured.drain, "jobs/s", is_expected, why)


def _pickup(seconds: float, submit: float, wait: WriteWait) -> FigureLine:
    is_expected = seconds <= PICKUP_SECONDS + PICKUP_WAITS * wait.seconds
    why = f"from the call of submit, which itself takes {_ms(submit)}, to the start of the handler"
    if seconds > POLLED:
        why += "; the worker polls: notifications do not reach it, see `fencepost doctor`"
    elif not is_expected:
        why += "; is the machine busy?"
    return _line("pickup.p50", "pickup, p50", seconds * 1e3, "ms", is_expected, why)


def _tail(seconds: float, usual: float) -> FigureLine:
    is_expected = seconds <= max(TAIL * usual, TAIL * PICKUP_SECONDS)
    why = "one pickup in a hundred takes longer"
    if not is_expected:
        why += "; other work on the machine, or a disk with pauses, is the usual cause"
    return _line("pickup.p99", "pickup, p99", seconds * 1e3, "ms", is_expected, why)


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.2f} ms"
