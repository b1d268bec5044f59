"""The figures of SQLite, by the name that ``--only`` takes, and the modules that measure them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from typing import Generic, NamedTuple, TypeVar

from bench import (
    drain,
    flows,
    footprint,
    keys,
    memory,
    pickup,
    rates,
    slots,
    startup,
    submit,
)
from bench.bench import Bench
from bench.figures import Failed, Figure
from bench.sqlite_bench import SqliteBench

B = TypeVar("B", bound=Bench)


class Group(NamedTuple, Generic[B]):
    """Figures that are measured together, on one ground."""

    names: tuple[str, ...]
    measure: Callable[[B, AbstractSet[str]], list[Figure]]


GROUPS: tuple[Group[SqliteBench], ...] = (
    Group(("submit", "submit-async", "submit-many"), submit.measure),
    Group(("drain", "drain-4", "backlog"), drain.measure),
    Group(("slots",), slots.measure),
    Group(("keyed",), keys.measure),
    Group(("pickup",), pickup.measure),
    Group(("chains", "fan", "diamonds", "chain"), flows.measure),
    Group(("rate",), rates.measure),
    Group(("memory",), memory.measure),
    Group(("footprint",), footprint.measure),
    Group(("import", "help"), startup.measure),
)


def run(
    bench: B, groups: Sequence[Group[B]], only: Sequence[str] = ()
) -> tuple[list[Figure], list[Failed]]:
    """Measure the figures named in *only*, or all; one that fails does not cost the others."""
    figures: list[Figure] = []
    failed: list[Failed] = []
    for group in groups:
        wanted = tuple(name for name in group.names if not only or name in only)
        if not wanted:
            continue
        try:
            figures += group.measure(bench, frozenset(wanted))
        except Exception as error:  # noqa: BLE001 - the loop's edge: shown in the report
            failed.append(Failed(wanted, f"{type(error).__name__}: {error}"))
    return figures, failed
