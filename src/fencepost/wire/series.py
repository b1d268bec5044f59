"""Series: counts and times over time, for charts."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, field

from fencepost.core.stats.lines import Line, SeriesMetric
from fencepost.wire.terms import QueryDuration, QueueName, Strict, TypeName

MetricName = Annotated[str, Meta(extra_json_schema={"enum": list(SeriesMetric)})]


class SeriesQuery(Strict, frozen=True, kw_only=True):
    """What to show, of which jobs, how far back, and how finely."""

    metric: list[MetricName] = field(default_factory=list)
    """Several may be given; none means completed, failed and dead. Counts are jobs in each step,
    ``depth`` and ``running`` the most at once, the others seconds."""
    by: Literal["queue", "type"] | None = None
    """A line for each queue or type; otherwise one for all jobs."""
    queue: QueueName | None = None
    type: TypeName | None = None
    window: QueryDuration = "1h"
    """At most a week."""
    step: QueryDuration | None = None
    """Rounded up to what is stored: 10 s for the last hour, 1 min for 12 h, 10 min for a week. By
    default there are about 120 steps."""


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Lines of a chart; the value at place i is of ``start + i * step`` to the next."""

    at: datetime
    start: datetime
    step: float
    series: list[Line]
    """Those of the 50 largest queues or types."""
