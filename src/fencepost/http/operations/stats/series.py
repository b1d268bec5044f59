"""``GET /v1/series``: counts and times over time."""

from __future__ import annotations

from fencepost.actions.local.series import read_lines, read_span
from fencepost.core.filter import make_filter
from fencepost.core.stats.lines import SeriesMetric, choice
from fencepost.core.values.names import check_choice
from fencepost.http.operations.jobs import duration_of
from fencepost.http.request.call import Call, Nothing, Reply
from fencepost.http.request.route import route
from fencepost.http.scope import check_queue_allowed
from fencepost.wire.series import Series, SeriesQuery

USUAL = (SeriesMetric.COMPLETED, SeriesMetric.FAILED, SeriesMetric.DEAD)


@route("GET /v1/series", "See counts and times over time", Series, "invalid_job invalid_duration")
async def get_series(call: Call[Nothing, SeriesQuery]) -> Reply:
    """Return lines of a chart; a token for some queues sees the jobs of these."""
    query, session = call.query, call.session
    make_filter(type=query.type, queue=query.queue)  # checks the names
    wanted = dict.fromkeys(query.metric or USUAL)
    metrics = [SeriesMetric(check_choice(each, "a metric", SeriesMetric)) for each in wanted]
    if query.queue is not None:
        check_queue_allowed(call.principal, query.queue)
    step = None if query.step is None else duration_of(query.step)
    span = read_span(session, duration_of(query.window), step)
    chosen = choice(query.by, queue=query.queue, type=query.type, within=call.principal.queues)
    # A week of many queues takes a while to add up.
    found = await call.run_apart(
        read_lines(session, span, metrics, chosen, is_named=query.by is not None)
    )
    reply = Series(at=session.clock.now(), start=span.start, step=float(span.step), series=found)
    return Reply(reply)
