"""Which charts there are, and what is drawn in them."""

from __future__ import annotations

from collections.abc import Callable

from bench.peers import table
from bench.peers.catalog import Engine, Peer
from bench.peers.chart import Bar, Panel, chart
from bench.peers.results import Name, Reading, Results

RATES: dict[Name, str] = {
    "submit": "one by one",
    "bulk": "in bulk",
    "drain": "drained by 1 process",
    "drain-2": "drained by 2 processes",
}
PICKUPS: dict[Name, str] = {"pickup": "idle worker", "pickup-busy": "300 jobs a second"}
TOO_LONG_MS = 250.0
"""A longer wait is written, and not drawn: beside it, all others would be none."""

Draw = Callable[[str, Reading, bool], Bar]


def pictures(results: Results) -> dict[str, str]:
    """Return the charts by the name of their file; only those that have something to show."""
    drawn = {
        "peers-postgresql.svg": _rates(results, Engine.POSTGRESQL),
        "peers-redis.svg": _rates(results, Engine.REDIS),
        "peers-pickup.svg": _pickups(results),
        "peers-killed.svg": _killed(results),
        "peers-wear.svg": _wear(results),
    }
    return {name: picture for name, picture in drawn.items() if picture}


def _rates(results: Results, engine: Engine) -> str:
    panels = [
        _panel(results, figure, engine, f"Jobs a second, {title}", _rate)
        for figure, title in RATES.items()
    ]
    return _chart(f"Submitting and draining on {table.TITLES[engine]}: longer is better", panels)


def _pickups(results: Results) -> str:
    panels = [
        _panel(results, figure, engine, f"{table.TITLES[engine]}, {title}, ms", _wait)
        for engine in Engine
        for figure, title in PICKUPS.items()
    ]
    return _chart(
        "From the call that submits to the start of the job: p50, and paler p99; shorter is better",
        panels,
    )


def _killed(results: Results) -> str:
    bound = results.sizes.killed_seconds
    panels = [
        _panel(
            results,
            "killed",
            engine,
            f"{table.TITLES[engine]}, seconds",
            lambda name, reading, is_ours: _fate(name, reading, is_ours, bound),
        )
        for engine in Engine
    ]
    return _chart("A worker is killed: until its jobs run again (dashed: they did not)", panels)


def _wear(results: Results) -> str:
    engine = Engine.POSTGRESQL
    panels = [
        _panel(
            results, "snapshot", engine, "Under an old snapshot: last quarter, of the first", _worn
        ),
        *(
            Panel(
                title=f"{table.TITLES[each]}: drain of {results.sizes.backlog:,}, of the usual",
                bars=_backlogs(results, each),
            )
            for each in Engine
        ),
    ]
    return _chart("Does the rate last? 100% is no loss", panels)


def _backlogs(results: Results, engine: Engine) -> list[Bar]:
    bars = []
    for peer in table.measured(results, engine):
        found = results.typical("backlog", peer.name)
        if found is not None and found.rate and found.usual:
            bars.append(_share(peer.title, found.rate / found.usual, peer.is_ours))
    return bars


def _panel(results: Results, figure: Name, engine: Engine, title: str, draw: Draw) -> Panel:
    bars = [
        bar
        for peer in table.measured(results, engine)
        if (bar := _bar(results, figure, peer, draw)) is not None
    ]
    return Panel(title=title, bars=bars)


def _bar(results: Results, figure: Name, peer: Peer, draw: Draw) -> Bar | None:
    reading = results.typical(figure, peer.name)
    if reading is None:
        missing = figure == "bulk" and not peer.has_bulk
        return Bar(name=peer.title, label="no such call") if missing else None
    if reading.error:
        return Bar(name=peer.title, label="failed", is_ours=peer.is_ours)
    return draw(peer.title, reading, peer.is_ours)


def _rate(name: str, reading: Reading, is_ours: bool) -> Bar:
    assert reading.rate is not None
    label = table.rate(reading).removesuffix(table.CUT)
    return Bar(name=name, value=reading.rate, label=label, is_ours=is_ours)


def _wait(name: str, reading: Reading, is_ours: bool) -> Bar:
    label = table.wait(reading)
    assert reading.p50 is not None and reading.p99 is not None
    if reading.p50 > TOO_LONG_MS:
        return Bar(name=name, label=f"off the scale: {label}", is_ours=is_ours)
    end = min(reading.p99, TOO_LONG_MS)
    return Bar(name=name, value=reading.p50, end=end, label=label, is_ours=is_ours)


def _fate(name: str, reading: Reading, is_ours: bool, bound: float) -> Bar:
    if reading.after is None or reading.again != reading.interrupted:
        part = f"{reading.again} of {reading.interrupted}" if reading.again else "none"
        label = f"{part} in {bound:g} s"
        return Bar(name=name, value=bound, label=label, is_ours=is_ours, is_never=True)
    return Bar(name=name, value=reading.after, label=f"{reading.after:.1f} s", is_ours=is_ours)


def _worn(name: str, reading: Reading, is_ours: bool) -> Bar:
    assert reading.first_quarter is not None and reading.last_quarter is not None
    return _share(name, reading.last_quarter / reading.first_quarter, is_ours)


def _share(name: str, share: float, is_ours: bool) -> Bar:
    return Bar(name=name, value=share, label=f"{share:.0%}", is_ours=is_ours)


def _chart(title: str, panels: list[Panel]) -> str:
    """Return a chart of those panels that have bars; nothing if none has."""
    full = [panel for panel in panels if panel.bars]
    return chart(title, full) if full else ""
