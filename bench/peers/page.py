"""The report in ``docs/performance.md``, between two marks: what stands there is replaced."""

from __future__ import annotations

from pathlib import Path

from bench.peers import table
from bench.peers.catalog import PEERS, Engine
from bench.peers.pictures import pictures
from bench.peers.results import Results

PAGE = "performance.md"
IMAGES = "images"
BEGIN = "<!-- begin of what `make bench-peers` writes -->"
END = "<!-- end of what `make bench-peers` writes -->"

CAPTIONS = {
    "peers-postgresql.svg": "Jobs a second that queues on PostgreSQL submit and drain",
    "peers-redis.svg": "Jobs a second that queues on Redis submit and drain",
    "peers-pickup.svg": "How long jobs wait for their start",
    "peers-killed.svg": "When the jobs of a killed worker run again",
    "peers-wear.svg": "What is left of the rate under an old snapshot and with a long backlog",
}


def write(docs: Path, results: Results) -> None:
    """Put the report into the page, and its charts beside it."""
    drawn = pictures(results)
    images = docs / IMAGES
    images.mkdir(exist_ok=True)
    for name, picture in drawn.items():
        (images / name).write_text(picture, "utf-8")
    page = docs / PAGE
    page.write_text(between(page.read_text("utf-8"), report(results, list(drawn))), "utf-8")


def between(page: str, report: str) -> str:
    """Return *page* with *report* between the marks; raise ValueError if it has none."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page lacks {BEGIN if not begin else END}")
    return f"{before}{BEGIN}\n\n{report}\n{END}{after}"


def report(results: Results, names: list[str]) -> str:
    """Return everything between the marks, with the pictures of these names."""
    parts = [_machine(results)]
    for engine in Engine:
        if table.measured(results, engine):
            parts += [
                f"#### On {table.TITLES[engine]}",
                *_shown(names, f"peers-{engine}.svg"),
                "Rates are jobs a second, waits are ms, p50 / p99.",
                table.figures(results, engine),
            ]
    parts += [
        _legend(results, "\n".join(parts)),
        *_shown(names, "peers-pickup.svg", "peers-wear.svg"),
    ]
    parts += [
        "#### A worker is killed",
        *_shown(names, "peers-killed.svg"),
        table.killed(results),
        "#### How each was run",
        table.settings(results),
        *_unavailable(results),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _shown(names: list[str], *wanted: str) -> list[str]:
    return [f"![{CAPTIONS[name]}]({IMAGES}/{name})" for name in wanted if name in names]


def _machine(results: Results) -> str:
    machine = results.machine
    counts = sorted({results.rounds(figure) for figure in results.readings if figure != "killed"})
    rounds = " to ".join(str(count) for count in dict.fromkeys([*counts[:1], *counts[-1:]]))
    loads = sorted(machine.loads) or [0.0]
    return (
        f"Measured on {machine.date}: {machine.cores} cores, {machine.system}, Python "
        f"{machine.python}; {'; '.join(machine.servers)}. "
        f"{'One round' if rounds == '1' else f'Medians of {rounds} rounds'}. "
        f"The load average of the machine was {loads[0]:g} to {loads[-1]:g}, "
        f"{loads[len(loads) // 2]:g} in the median: "
        + (
            "other work took the larger part of it. Rates are a fraction of what a quiet machine "
            "gives, waits a multiple; only figures of one column may be compared, and small "
            "differences say nothing."
            if loads[len(loads) // 2] > machine.cores
            else "hardly more than the measured queue itself."
        )
    )


def _legend(results: Results, tables: str) -> str:
    """Explain the signs that are in *tables*."""
    lines = []
    if table.CUT in tables:
        seconds = results.sizes.drain_seconds
        lines.append(f"¹ cut after {seconds:g} s; the rate is that of the jobs done by then.")
    if f"| {table.NOTHING} |" in tables:
        lines.append("A dash: not measured in this run.")
    return " ".join(lines)


def _unavailable(results: Results) -> list[str]:
    titles = {peer.name: peer.title for peer in PEERS}
    lines = [
        f"- {titles[name]} could not be installed: {why}."
        for name, why in results.unavailable.items()
    ]
    return ["\n".join(lines)] if lines else []
