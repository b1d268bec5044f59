"""Every metric that a monitor can read, and their exposition as text.

The table of families is the specification: the exposition is rendered from it, `docs/metrics.md`
repeats it, and dashboards and alert rules may name nothing else. A metric's name never changes its
meaning. Prometheus reads the text format, version 0.0.4.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from itertools import accumulate, chain

import msgspec

from fencepost.observe import names
from fencepost.observe.counters import BOUNDS, Counters, Timing

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Kind(StrEnum):
    """The type of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class Family(msgspec.Struct, frozen=True):
    """One metric, for all values of its labels."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    sources: dict[str, str] = {}
    """Of a counter: the internal counters that it sums, each with the value of its first label."""


def _counter(
    name: str, text: str, *labels: str, of: str | tuple[str, ...] | dict[str, str]
) -> Family:
    """Return the metric that sums the counters *of*; a mapping gives the first label's values."""
    if isinstance(of, str):
        of = (of,)
    sources = of if isinstance(of, dict) else dict.fromkeys(of, "")
    return Family(f"fencepost_{name}_total", Kind.COUNTER, text, labels, sources)


def _gauge(name: str, text: str, *labels: str) -> Family:
    return Family(f"fencepost_{name}", Kind.GAUGE, text, labels)


_TRANSITIONS = (
    names.JOB_ENQUEUED, names.JOB_CLAIMED, names.JOB_SETTLED, names.JOB_FOLLOWED,
    names.JOB_PROMOTED, names.JOB_CANCELLED, names.JOB_REOPENED, names.JOB_EDITED,
    names.JOB_REPLAYED, names.JOB_EXPIRED, names.JOB_CORRUPT, names.LEASE_RECOVERED,
    names.LEASE_EXHAUSTED,
)  # fmt: skip

_STALE = {
    names.STALE_ACK: "ack",
    names.STALE_NACK: "nack",
    names.STALE_RELEASE: "release",
    names.STALE_HEARTBEAT: "heartbeat",
    names.STALE_SAVE: "save",
    names.STALE_SPAWN: "spawn",
}

COUNTERS = (
    _counter(
        "jobs",
        "Transitions of jobs, by what happened, the state it led to, and type.",
        "event",
        "state",
        "type",
        of=_TRANSITIONS,
    ),
    _counter("duplicates", "Submissions whose key was held: no job.", of=names.JOB_DUPLICATE),
    _counter(
        "leases_recovered",
        "Leases that ran out and whose job is tried again.",
        "type",
        of=names.LEASE_RECOVERED,
    ),
    _counter(
        "leases_exhausted",
        "Leases that ran out in a job's last attempt.",
        "type",
        of=names.LEASE_EXHAUSTED,
    ),
    _counter("leases_lost", "Leases lost while the job ran.", "reason", of=names.LEASE_LOST),
    _counter("stale_writes", "Writes refused: the lease was not valid.", "kind", of=_STALE),
    _counter(
        "settlements_repeated", "Settlements that were already recorded.", of=names.REPEATED_SETTLE
    ),
    _counter("settlements_failed", "Settlements the store cannot take.", of=names.SETTLE_FAILED),
    _counter("attempts", "Attempts that ended, by outcome.", "outcome", of=names.ATTEMPT_ENDED),
    _counter(
        "attempts_interrupted",
        "Attempts that ended with nothing to write.",
        "reason",
        of=names.ATTEMPT_INTERRUPTED,
    ),
    _counter("attempts_late", "Jobs given back: the loop was blocked.", of=names.ATTEMPT_LATE),
    _counter(
        "attempts_left_open",
        "Handlers that ended before their transaction did.",
        of=names.ATTEMPT_LEFT_OPEN,
    ),
    _counter(
        "payloads_unreadable",
        "Jobs given back or failed because this version cannot read them.",
        "type",
        of=names.PAYLOAD_UNREADABLE,
    ),
    _counter("slots_leaked", "Handlers that did not stop when interrupted.", of=names.SLOT_LEAKED),
    _counter("slots_regained", "Such handlers that came back.", of=names.SLOT_REGAINED),
    _counter("loop_lag_seconds", "By how much the event loop overslept.", of=names.LOOP_LAG),
    _counter("children_started", "Child processes started.", of=names.CHILD_STARTED),
    _counter("children_died", "Child processes that died.", of=names.CHILD_DIED),
    _counter("dead_letters_replayed", "Dead letters replayed.", of=names.JOB_REPLAYED),
    _counter("dead_letters_discarded", "Dead letters discarded.", of=names.JOB_DISCARDED),
    _counter("jobs_corrupt", "Jobs that could not be read.", of=names.JOB_CORRUPT),
    _counter("jobs_pruned", "Jobs that retention ended.", of=names.JOB_PRUNED),
    _counter("events_sent", "Events sent.", of=names.EVENT_SENT),
    _counter("events_unhandled", "Events sent without a handler.", of=names.EVENT_UNHANDLED),
    _counter("events_pruned", "Records of events deleted.", of=names.EVENT_PRUNED),
    _counter("crons_fired", "Jobs made by crons.", "cron", of=names.CRON_FIRED),
    _counter("crons_missed", "Times that a cron was late.", "cron", of=names.CRON_MISSED),
    _counter("crons_failed", "Ticks put off by a failure.", of=names.CRON_FAILED),
    _counter(
        "terms",
        "Terms as leader, begun and ended.",
        "change",
        of={names.LEADER_ELECTED: "elected", names.LEADER_RESIGNED: "resigned"},
    ),
    _counter("store_operations", "Operations done.", "operation", of=names.STORE_OPERATION),
    _counter(
        "store_operation_seconds",
        "Time spent in operations.",
        "operation",
        of=names.STORE_OPERATION_SECONDS,
    ),
    _counter(
        "store_operations_failed",
        "Operations that raised, by error code.",
        "operation",
        "code",
        of=names.STORE_OPERATION_FAILED,
    ),
    _counter(
        "store_unavailable",
        "Times a worker's service had to wait for the store.",
        "during",
        of=names.STORE_UNAVAILABLE,
    ),
    _counter(
        "http_requests",
        "Requests answered by the HTTP API.",
        "route",
        "status",
        of=names.HTTP_REQUEST,
    ),
    _counter("http_request_seconds", "Time spent on them.", "route", of=names.HTTP_REQUEST_SECONDS),
    _counter("access_refused", "Requests refused to a caller.", "code", of=names.ACCESS_REFUSED),
    _counter("audits_pruned", "Records of the audit log deleted.", of=names.AUDIT_PRUNED),
    _counter("audits_failed", "Actions missing from the audit log.", of=names.AUDIT_FAILED),
)

WAIT = Family(
    "fencepost_job_wait_seconds",
    Kind.HISTOGRAM,
    "For how long jobs had been claimable when they were claimed.",
    ("type", "queue"),
)
RUN = Family(
    "fencepost_job_run_seconds",
    Kind.HISTOGRAM,
    "For how long attempts ran in this process.",
    ("type", "queue"),
)

QUEUE_JOBS = _gauge("queue_jobs", "Jobs stored.", "queue", "state")
QUEUE_OLDEST_AGE = _gauge(
    "queue_oldest_age_seconds", "Age of the oldest claimable job; 0 when there is none.", "queue"
)
QUEUE_PAUSED = _gauge("queue_paused", "1 while the queue is paused.", "queue")
QUEUE_MAX_RUNNING = _gauge("queue_max_running", "The queue's limit, if it has one.", "queue")
TYPE_JOBS = _gauge("type_jobs", "Jobs stored.", "type", "state")
TYPE_PAUSED = _gauge("type_paused", "1 while the type is paused.", "type")
DEAD_LETTERS = _gauge("dead_letters", "Jobs kept that failed or were exhausted.", "type")
WORKERS = _gauge("workers", "Workers heard from.")
WORKER_SLOTS = _gauge("worker_slots", "Jobs that they can run at once.")
WORKER_SLOTS_BUSY = _gauge("worker_slots_busy", "Jobs that they ran when last heard from.")
STORE_UP = _gauge("store_up", "1 if the store answered when it was asked for these.")
LIVE = _gauge("live", "1 if the event loop has turned lately.")
READY = _gauge("ready", "1 if this process can do its work.")

GAUGES = (
    QUEUE_JOBS, QUEUE_OLDEST_AGE, QUEUE_PAUSED, QUEUE_MAX_RUNNING, TYPE_JOBS, TYPE_PAUSED,
    DEAD_LETTERS, WORKERS, WORKER_SLOTS, WORKER_SLOTS_BUSY, STORE_UP, LIVE, READY,
)  # fmt: skip

FAMILIES = (*COUNTERS, WAIT, RUN, *GAUGES)

Values = tuple[str, ...]
"""Of a family's labels, in their order."""


class Metric(msgspec.Struct, frozen=True):
    """A family, and its lines: suffix, labels, value."""

    family: Family
    samples: Sequence[tuple[str, Mapping[str, str], float]]


def gauge(family: Family, values: Mapping[Values, float]) -> Metric:
    """Return a gauge's values by those of its labels."""
    return Metric(family, [("", _named(family, of), value) for of, value in values.items()])


def of_counters(counters: Counters) -> list[Metric]:
    """Return all counters and timings of this process."""
    sums: dict[str, defaultdict[Values, float]] = {
        family.name: defaultdict(float, _zeros(family)) for family in COUNTERS
    }
    for name, labels, total in counters.read():
        for family in _BY_SOURCE.get(name, ()):
            sums[family.name][_values(family, name, dict(labels))] += total
    metrics = [gauge(family, sums[family.name]) for family in COUNTERS]
    return [*metrics, _histogram(WAIT, counters.waits), _histogram(RUN, counters.runs)]


def exposition(metrics: Iterable[Metric]) -> bytes:
    """Return *metrics* as text; a family without values is left out."""
    lines = chain.from_iterable(_lines(metric) for metric in metrics if metric.samples)
    return "".join(f"{line}\n" for line in lines).encode()


def _by_source() -> dict[str, list[Family]]:
    found: defaultdict[str, list[Family]] = defaultdict(list)
    for family in COUNTERS:
        for source in family.sources:
            found[source].append(family)
    return dict(found)


_BY_SOURCE = _by_source()


def _zeros(family: Family) -> dict[Values, float]:
    """Return the values before anything was counted: a rate needs a first value."""
    if not family.labels:
        return {(): 0.0}
    named = [value for value in family.sources.values() if value]
    return {(value,): 0.0 for value in named}


def _values(family: Family, source: str, labels: Mapping[str, str]) -> Values:
    fixed = family.sources[source]
    rest = family.labels[1:] if fixed else family.labels
    return (*([fixed] if fixed else []), *(labels.get(label, "") for label in rest))


def _named(family: Family, values: Values) -> dict[str, str]:
    return dict(zip(family.labels, values, strict=True))


def _histogram(family: Family, timing: Timing) -> Metric:
    samples: list[tuple[str, Mapping[str, str], float]] = []
    for lane, histogram in timing.read():
        labels = _named(family, lane)
        below = list(accumulate(histogram.counts))
        for bound, count in zip((*map(_number, BOUNDS), "+Inf"), below, strict=True):
            samples.append(("_bucket", {**labels, "le": bound}, count))
        samples.append(("_sum", labels, histogram.sum))
        samples.append(("_count", labels, below[-1]))
    return Metric(family, samples)


def _lines(metric: Metric) -> Iterable[str]:
    family = metric.family
    yield f"# HELP {family.name} {_escaped(family.help)}"
    yield f"# TYPE {family.name} {family.kind}"
    for suffix, labels, value in metric.samples:
        pairs = ",".join(f'{name}="{_quoted(text)}"' for name, text in labels.items())
        shown = f"{{{pairs}}}" if pairs else ""
        yield f"{family.name}{suffix}{shown} {_number(value)}"


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', '\\"')
