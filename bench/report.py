"""The report: a table for people, or one JSON object for programs."""

from __future__ import annotations

import sys
from typing import Any, Protocol

import msgspec
from rich.console import Console
from rich.table import Table

from bench.bench import Sizes
from bench.figures import Failed, Figure, Target, Unit

PIPED_WIDTH = 120
"""Columns of a table that goes into a file: folded lines are no use there."""


class Described(Protocol):
    """What was measured: a machine, or a server. A struct, of which JSON shows the fields."""

    @property
    def lines(self) -> list[str]:
        """Say it in a few lines."""
        ...


class BenchReport(msgspec.Struct, frozen=True, kw_only=True):
    """One run on one machine."""

    machine: Described
    durability: str
    sizes: Sizes
    figures: list[Figure]
    failed: list[Failed]


def plain(report: BenchReport) -> dict[str, Any]:
    """Return the report as plain values, with a verdict beside each target."""
    values: dict[str, Any] = msgspec.to_builtins(report)
    for entry, figure in zip(values["figures"], report.figures, strict=True):
        entry["is_met"] = figure.is_met
    return values


def show(report: BenchReport) -> None:
    """Print the report on standard output."""
    console = Console(width=None if sys.stdout.isatty() else PIPED_WIDTH, highlight=False)
    for line in _opening(report):
        console.print(line, style="dim", markup=False)
    console.print(_table(report.figures))
    for figure in report.figures:
        if figure.note:
            console.print(f"{figure.title}: {figure.note}", style="dim")
    for failed in report.failed:
        console.print(
            f"failed: {', '.join(failed.names)}: {failed.error}", style="red", markup=False
        )


def _opening(report: BenchReport) -> list[str]:
    return [
        *report.machine.lines,
        f"durability {report.durability}; rounds: {report.sizes.rounds}; "
        f"a line shows the one with the median ratio",
    ]


def _table(figures: list[Figure]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure")
    for heading in ("Fencepost", "raw", "ratio", "target"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("met?")
    for figure in figures:
        table.add_row(
            figure.title,
            shown(figure.value, figure.unit),
            _beside(figure),
            _ratio(figure),
            "" if figure.target is None else _target(figure.target, figure.unit),
            {None: "", True: "[green]yes[/]", False: "[red]no[/]"}[figure.is_met],
        )
    return table


def shown(value: float, unit: Unit) -> str:
    """Return *value* with its unit."""
    match unit:
        case "jobs/s":
            return f"{value:,.0f}/s"
        case "ms":
            return f"{value:.2f} ms"
        case "MB":
            return f"{value:.1f} MB"
        case "µs":
            return f"{value:.1f} µs"
        case "bytes" | "jobs":
            return f"{value:,.0f} {unit}"


def _beside(figure: Figure) -> str:
    if figure.beside is None:
        return ""
    text = shown(figure.beside, figure.unit)
    return text if figure.beside_what == "raw" else f"{figure.beside_what}: {text}"


def _ratio(figure: Figure) -> str:
    if figure.ratio is None:
        return ""
    if figure.spread is None or figure.spread[0] == figure.spread[1]:
        return f"{figure.ratio:.2f}"
    low, high = figure.spread
    return f"{figure.ratio:.2f} ({low:.2f} to {high:.2f})"


def _target(target: Target, unit: Unit) -> str:
    if target.at_least is not None:
        return f"≥ {target.at_least:g}"
    if target.at_most is not None:
        return f"≤ {target.at_most:g} {unit}"
    assert target.below is not None
    return f"< {target.below:g} {unit}"
