"""Lines of a chart, from the samples of a store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from fencepost.actions.backend import Script
from fencepost.core.bounds import STATS_WINDOW_MIN
from fencepost.core.stats.lines import (
    TIMES,
    Choose,
    Line,
    Samples,
    SeriesMetric,
    Span,
    lines,
    span_of,
)
from fencepost.core.stats.series import (
    FINEST,
    LONGEST,
    STEPS,
    SampleCounts,
    decode_counts,
    decode_sample,
    submitted_since,
)
from fencepost.core.values.times import Duration, parse_duration

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.core.stats.series import LaneTotals
    from fencepost.store.interface.records.series import SeriesRow


def read_span(session: Session, window: Duration, step: Duration | None) -> Span:
    """Return where the points of a chart lie, or raise ConfigurationError."""
    seconds = parse_duration(window, name="window", minimum=STATS_WINDOW_MIN, maximum=LONGEST)
    wanted = None
    if step is not None:
        wanted = parse_duration(step, name="step", minimum=float(FINEST), maximum=LONGEST)
    return span_of(seconds, wanted, session.clock.now())


def read_lines(
    session: Session,
    span: Span,
    metrics: Sequence[SeriesMetric],
    name_of: Choose,
    *,
    is_named: bool,
) -> Script[list[Line]]:
    """Return a line for each metric and name."""
    now = session.clock.now()
    rows: list[SeriesRow] = yield session.store.series.read(span.stored, span.since, now)
    has_times = any(metric in TIMES for metric in metrics)
    decode = decode_sample if has_times else decode_counts
    return lines(Samples(_readable(rows, decode), span), metrics, name_of, is_named=is_named)


def _readable(
    rows: Iterable[SeriesRow], decode: Callable[[bytes], SampleCounts]
) -> list[tuple[datetime, SampleCounts]]:
    """Return the samples that this version can read: a newer one may write others."""
    found = []
    for row in rows:
        with suppress(msgspec.MsgspecError):
            found.append((row.at, decode(row.body)))
    return found


class Submitted(NamedTuple):
    """How many jobs were submitted, and for how many seconds before now that is."""

    jobs: int
    seconds: float


def read_submitted(
    session: Session, queue: str | None, now: datetime, seconds: float
) -> Script[Submitted | None]:
    """Return what was submitted in about so many seconds; None without a sample of their start."""
    step = min(each for each, kept in STEPS.items() if kept >= seconds)
    since = now - timedelta(seconds=seconds)
    rows: list[SeriesRow] = yield session.store.series.read(
        step, since - timedelta(seconds=step), since
    )
    for at, sample in _readable(rows, decode_counts):
        totals: list[LaneTotals] = yield session.store.series.totals()
        count = submitted_since(sample, totals, queue)
        return None if count is None else Submitted(count, (now - at).total_seconds())
    return None
