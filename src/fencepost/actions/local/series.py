"""Lines of a chart, from the samples of a store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from fencepost.actions.backend import Script
from fencepost.core.bounds import STATS_WINDOW_MIN
from fencepost.core.stats.series import (
    FINEST,
    LONGEST,
    Choose,
    Line,
    Samples,
    SeriesMetric,
    Span,
    decode_sample,
    lines,
    span_of,
)
from fencepost.core.values.times import Duration, parse_duration

if TYPE_CHECKING:
    from fencepost.actions.session import Session
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
    decoded = [(row.at, decode_sample(row.body)) for row in rows if _is_readable(row)]
    return lines(Samples(decoded, span), metrics, name_of, is_named=is_named)


def _is_readable(row: SeriesRow) -> bool:
    """Return whether this version can read a row: a newer one may write others."""
    try:
        decode_sample(row.body)
    except msgspec.MsgspecError:
        return False
    return True
