"""Metrics as a Prometheus server reads them: the text format, version 0.0.4."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

import msgspec

from fencepost.observe.counters import Counters
from fencepost.observe.families import COUNTERS, RUN, WAIT, Family
from fencepost.observe.histograms import BOUNDS, Timing, cumulated

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

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
    """Return all that is counted and timed in this process."""
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
    """Return what is there before anything was counted: a rate needs something to rise from."""
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
        below = cumulated(histogram.counts)
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
