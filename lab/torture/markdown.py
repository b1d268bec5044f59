"""The summary as a page of the documentation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from lab.torture.summary import Caught, Chaos, Formal, Simulated, Summary

PAGE = Path(__file__).with_name("page.md")
PLACE = "<!-- what was seen -->\n"

Row = Sequence[str]


def render(summary: Summary) -> str:
    """Return the whole page."""
    parts = [_run(summary), *_chaos(summary.chaos)]
    if summary.simulation is not None:
        parts.append(_simulation(summary.simulation))
    parts += [_stores(summary), _mutants(summary.mutants)]
    seen = "\n".join(part for part in parts if part)
    return PAGE.read_text(encoding="utf-8").replace(PLACE, seen)


def _run(summary: Summary) -> str:
    minutes = summary.seconds / 60
    lines = [
        "## The run\n",
        f"Fencepost {summary.version}, {minutes:,.0f} minutes on {summary.machine}.",
    ]
    if summary.is_clean:
        lines.append(
            "**Nothing acknowledged was lost, nothing stale was accepted, nothing broke.**"
        )
    else:
        lines.append(f"**{len(summary.findings)} findings:**\n")
        lines += [f"- {finding}" for finding in summary.findings]
    return "\n".join(lines) + "\n"


def _chaos(found: dict[str, Chaos]) -> Iterable[str]:
    if not found:
        return
    yield (
        "## Chaos: real processes, real servers\n\n"
        "Callers, workers and a nemesis are separate processes. Callers and handlers keep ledgers "
        "outside the store,\nwhich a checker reads at the end.\n"
    )
    rows: list[tuple[str, ...]] = [
        ("store", *(each.source for each in found.values())),
        ("kinds of fault", *(f"{len(each.injected)}" for each in found.values())),
        ("faults injected", *(f"{sum(each.injected.values()):,}" for each in found.values())),
        ("processes killed / stopped", *(f"{e.kills:,} / {e.stops:,}" for e in found.values())),
        ("jobs acknowledged", *(f"{each.acknowledged:,}" for each in found.values())),
        ("**acknowledged and lost**", *(f"**{each.lost:,}**" for each in found.values())),
        ("… as the durability allows", *(f"{each.taken_back:,}" for each in found.values())),
        ("never ended", *(f"{each.unfinished:,}" for each in found.values())),
        ("attempts / beyond the first", *(_attempts(each) for each in found.values())),
        ("… explained by no fault or failure", *(f"{e.unexplained:,}" for e in found.values())),
        ("stale writes tried", *(f"{each.stale_tried:,}" for each in found.values())),
        ("… refused", *(f"{each.stale_refused:,}" for each in found.values())),
        (
            "… repeats of a recorded settlement",
            *(f"{e.stale_repeated:,}" for e in found.values()),
        ),
        ("**… accepted**", *(f"**{each.stale_accepted:,}**" for each in found.values())),
        ("unknown outcomes, repeated", *(f"{each.unknown_outcomes:,}" for each in found.values())),
        ("lease TTL", *(f"{each.ttl:g} s" for each in found.values())),
        ("kill -9 to next attempt, p50 / p99", *(_recovery(each) for each in found.values())),
        ("violations", *(f"{each.violations:,}" for each in found.values())),
    ]
    yield table(("", *found), rows)
    kinds = sorted({kind for each in found.values() for kind in each.injected})
    yield table(
        ("fault injected", *found),
        [(kind, *(_count(each, kind) for each in found.values())) for kind in kinds],
    )


def _attempts(chaos: Chaos) -> str:
    return f"{chaos.attempts:,} / {chaos.duplicates:,}"


def _recovery(chaos: Chaos) -> str:
    if chaos.recovery_p50 is None or chaos.recovery_p99 is None:
        return "-"
    return f"{chaos.recovery_p50:.2f} / {chaos.recovery_p99:.2f} s of {chaos.recoveries:,}"


def _count(chaos: Chaos, kind: str) -> str:
    if kind in chaos.injected:
        return f"{chaos.injected[kind]:,}"
    return f"skipped: {chaos.skipped[kind]}" if kind in chaos.skipped else ""


def _simulation(found: Simulated) -> str:
    rows = [
        ("seeds", f"{found.seeds:,}"),
        ("simulated hours", f"{found.hours:,.1f}, at {found.ratio:,.0f} times real time"),
        ("faults", ", ".join(f"{kind} {count:,}" for kind, count in found.faults.items())),
        ("jobs acknowledged / lost", f"{found.acknowledged:,} / {found.lost:,}"),
        ("stale writes refused", f"{found.stale_refused:,}"),
        ("end of a lease to recovery, p99", f"{found.recovery_p99:.2f} s"),
        ("seeds that failed", ", ".join(map(str, found.failed_seeds)) or "none"),
    ]
    return (
        "## Simulation: the product's own code in simulated time\n\n"
        "App, worker, heartbeat, maintenance and the memory store on a loop whose time jumps; "
        "every await is a place to crash.\n\n" + table(("", "seen"), rows)
    )


def _stores(summary: Summary) -> str:
    rows: list[Row] = []
    if summary.model is not None:
        model = summary.model
        rows.append(
            (
                "reference model",
                f"{model.operations:,} operations compared on the model and {_and(model.stores)}, "
                f"in {model.sequences:,} sequences with {model.zombies:,} zombies and "
                f"{model.faults:,} cuts",
                f"{model.differences} differences",
            )
        )
    if summary.nth is not None:
        nth = summary.nth
        rows.append(
            (
                "fault at the N-th call",
                f"{nth.faults:,} runs of {nth.scenarios} scenarios, those of {_and(nth.stores)} "
                "together, each with one store call that fails before or after it took effect",
                f"{nth.failures} broken",
            )
        )
    if summary.fuzz is not None:
        fuzz = summary.fuzz
        rows.append(
            (
                "fuzz",
                f"{fuzz.inputs:,} inputs to {fuzz.parsers} parsers",
                f"{fuzz.failures} wrong answers",
            )
        )
    if summary.formal is not None:
        rows.append(_formal(summary.formal))
    if not rows:
        return ""
    return "## Stores, parsers and the protocol\n\n" + table(("suite", "done", "found"), rows)


def _formal(formal: Formal) -> Row:
    if formal.missing:
        return ("formal model", f"not checked: {formal.missing}", "-")
    return (
        "formal model",
        f"{formal.properties} properties in {formal.states:,} states; {formal.bugs} planted bugs",
        f"{formal.bugs_found} of {formal.bugs} bugs found",
    )


def _mutants(found: Sequence[Caught]) -> str:
    if not found:
        return ""
    survivors = [each for each in found if each.suite is None]
    suites = list(dict.fromkeys(each.suite for each in found if each.suite is not None))
    by_place = Counter((each.mutant.partition("-")[0], each.suite) for each in found)
    places = dict.fromkeys(place for place, _ in by_place)
    rows = [
        (
            place,
            f"{sum(count for (each, _), count in by_place.items() if each == place)}",
            *(f"{by_place[place, suite] or ''}" for suite in suites),
            f"{by_place[place, None]}",
        )
        for place in places
    ]
    head = ("planted in", "bugs", *(f"caught by {suite}" for suite in suites), "survive")
    return (
        "## Mutants: bugs planted on purpose\n\n"
        f"{len(found) - len(survivors)} of {len(found)} were caught. One that survives fails the "
        "build. Each counts for the first suite\nthat noticed it; `python -m lab.mutants --list` "
        "says what each of them is.\n\n"
        + table(head, rows)
        + "".join(f"\n- survives: {each.about}" for each in survivors)
    )


def table(head: Row, rows: Iterable[Row]) -> str:
    """Return a Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return (
        "\n".join(
            "| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines
        )
        + "\n"
    )


def _and(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
