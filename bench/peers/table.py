"""The report as tables of Markdown: one for each server, and one of workers that are killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from bench.peers.catalog import PEERS, Engine, Peer
from bench.peers.results import Name, Reading, Results, Sizes

NOTHING = "-"
CUT = " ¹"
TITLES = {Engine.POSTGRESQL: "PostgreSQL", Engine.REDIS: "Redis"}


class Column(NamedTuple):
    """One figure in a table of queues."""

    figure: Name
    heading: str
    show: Callable[[Reading], str]


def rate(reading: Reading) -> str:
    """Return jobs a second, with as many digits as mean something."""
    assert reading.rate is not None
    digits = 0 if reading.rate >= 10 else 1
    return f"{reading.rate:,.{digits}f}" + (CUT if reading.is_cut else "")


def of_usual(reading: Reading) -> str:
    """Return the rate, and which part of the usual one that is."""
    assert reading.rate is not None
    part = f" ({reading.rate / reading.usual:.0%})" if reading.usual else ""
    return rate(reading).replace(CUT, "") + part + (CUT if reading.is_cut else "")


def wait(reading: Reading) -> str:
    assert reading.p50 is not None and reading.p99 is not None
    shown = f"{_ms(reading.p50)} / {_ms(reading.p99)}"
    return f"{shown} ({reading.missing} never)" if reading.missing else shown


def worn(reading: Reading) -> str:
    assert reading.first_quarter is not None and reading.last_quarter is not None
    share = reading.last_quarter / reading.first_quarter
    shown = f"{reading.first_quarter:,.0f} → {reading.last_quarter:,.0f} ({share:.0%})"
    return f"{shown}{CUT}" if reading.is_cut else shown


def columns(engine: Engine, sizes: Sizes) -> list[Column]:
    """Return the figures of one server's table."""
    found = [
        Column("submit", "submit one by one", rate),
        Column("bulk", f"submit {sizes.jobs:,} in bulk", rate),
        Column("drain", "drain, 1 process", rate),
        Column("drain-2", "drain, 2 processes", rate),
        Column("backlog", f"drain, backlog of {sizes.backlog:,}", of_usual),
        Column("pickup", "pickup, idle", wait),
        Column("pickup-busy", "pickup at 300/s", wait),
    ]
    if engine is Engine.POSTGRESQL:
        found.append(Column("snapshot", "old snapshot: first → last quarter", worn))
    return found


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table of Markdown."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def figures(results: Results, engine: Engine) -> str:
    """Return what the queues of one server did."""
    shown = columns(engine, results.sizes)
    headings = ["queue", *(column.heading for column in shown)]
    rows = [
        [_name(results, peer), *(_cell(results, column, peer) for column in shown)]
        for peer in measured(results, engine)
    ]
    return table(headings, rows)


def killed(results: Results) -> str:
    """Return what became of jobs whose worker was killed."""
    rows = []
    for engine in Engine:
        for peer in measured(results, engine):
            reading = results.typical("killed", peer.name)
            if reading is not None:
                what = _fate(reading, results.sizes)
                rows.append([f"{_name(results, peer)}, {TITLES[engine]}", *what, peer.recovery])
    headings = ["queue", "running at the kill", "ran again", "after", "waiting jobs"]
    return table([*headings, "what brings jobs back"], rows)


def _fate(reading: Reading, sizes: Sizes) -> list[str]:
    if reading.error:
        return [f"failed: {_plain(reading.error)}", "", "", ""]
    assert reading.interrupted is not None
    bound = f"not within {sizes.killed_seconds:g} s"
    return [
        str(reading.interrupted),
        "all" if reading.again == reading.interrupted else f"{reading.again or 'none'}, {bound}",
        NOTHING if reading.after is None else f"{reading.after:.1f} s",
        f"{reading.stuck} did not run, {bound}" if reading.stuck else "ran",
    ]


def settings(results: Results) -> str:
    """Return how each queue was set up."""
    rows = [
        [
            f"{_name(results, peer)}, {TITLES[peer.engine]}",
            peer.settings,
            peer.submitted,
            peer.done,
        ]
        for engine in Engine
        for peer in measured(results, engine)
    ]
    headings = ["queue", "settings", "a submission returns after", "a job that has run is"]
    return table(headings, rows)


def measured(results: Results, engine: Engine) -> list[Peer]:
    """Return the queues of a server that were run."""
    able = {name for by_peer in results.readings.values() for name in by_peer}
    return [peer for peer in PEERS if peer.engine is engine and peer.name in able]


def _name(results: Results, peer: Peer) -> str:
    shown = f"{peer.title} {results.versions.get(peer.name, '')}".strip()
    return f"**{shown}**" if peer.is_ours else shown


def _cell(results: Results, column: Column, peer: Peer) -> str:
    reading = results.typical(column.figure, peer.name)
    if reading is None:
        return "no such call" if column.figure == "bulk" and not peer.has_bulk else NOTHING
    return f"failed: {_plain(reading.error)}" if reading.error else column.show(reading)


def _ms(value: float) -> str:
    return f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _plain(text: str) -> str:
    """Return *text* without what would end a cell."""
    return text.replace("|", "/").replace("\n", " ")[:100]
