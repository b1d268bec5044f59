"""All reports of a run, added up. Pure: equal reports give an equal summary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, TypeVar

import msgspec

from lab.chaos.report import Report as ChaosReport
from lab.formal.check import BUGS
from lab.formal.check import Report as FormalReport
from lab.fuzz.suite import Report as FuzzReport
from lab.model.run import Report as ModelReport
from lab.mutants.suite import Report as MutantsReport
from lab.mutants.suite import Row, Verdict
from lab.nth.suite import Report as NthReport
from lab.simulation.report import Report as SimulationReport
from lab.torture.suites import SUITES

T = TypeVar("T")

FINDINGS_MAX = 50
CHAOS = tuple(each.name.removeprefix("chaos-") for each in SUITES if each.name.startswith("chaos-"))
"""The runs of chaos: on which store, on how many servers, and with workers in which language."""
MODELS = ("model", "model-partitions")


class Chaos(msgspec.Struct, frozen=True, kw_only=True):
    """Real processes on one kind of store."""

    source: str
    runs: int
    seconds: float
    ttl: float
    injected: dict[str, int]
    skipped: dict[str, str]
    kills: int
    stops: int
    acknowledged: int
    lost: int
    taken_back: int
    """Lost in a failover, as the durability that was asked for allows."""
    unfinished: int
    attempts: int
    duplicates: int
    unexplained: int
    stale_tried: int
    stale_refused: int
    stale_repeated: int
    stale_accepted: int
    unknown_outcomes: int
    recoveries: int
    recovery_p50: float | None
    """The median of the runs' medians."""
    recovery_p99: float | None
    """That of the worst run."""
    violations: int


class Simulated(msgspec.Struct, frozen=True, kw_only=True):
    """The product's own code in simulated time."""

    seeds: int
    hours: float
    ratio: float
    faults: dict[str, int]
    acknowledged: int
    lost: int
    stale_refused: int
    recovery_p99: float
    failed_seeds: list[int]


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One sequence of operations on the model and on every store."""

    stores: list[str]
    operations: int
    looks: int
    sequences: int
    faults: int
    zombies: int
    differences: int


class Nth(msgspec.Struct, frozen=True, kw_only=True):
    """A fault at every store call."""

    stores: list[str]
    scenarios: int
    calls: int
    faults: int
    failures: int


class Caught(msgspec.Struct, frozen=True, kw_only=True):
    """One planted bug."""

    mutant: str
    about: str
    suite: str | None
    """Which noticed it first; None if it survived."""
    seconds: float


class Fuzzed(msgspec.Struct, frozen=True, kw_only=True):
    """Parsers and what they were fed."""

    parsers: int
    inputs: int
    failures: int


class Formal(msgspec.Struct, frozen=True, kw_only=True):
    """The model of the protocol, all of whose states were looked at."""

    missing: str
    """Why it was not checked; empty if it was."""
    properties: int
    states: int
    bugs_found: int
    bugs: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """One run of everything."""

    machine: str
    version: str
    seconds: float
    chaos: dict[str, Chaos] = {}
    simulation: Simulated | None = None
    model: Compared | None = None
    nth: Nth | None = None
    mutants: list[Caught] = []
    fuzz: Fuzzed | None = None
    formal: Formal | None = None
    findings: list[str] = []
    """Everything that was wrong, the first of it."""

    @property
    def is_clean(self) -> bool:
        return not self.findings


def summarise(
    reports: Mapping[str, Sequence[Any]],
    troubles: Sequence[str] = (),
    *,
    machine: str,
    version: str,
    seconds: float,
) -> Summary:
    """Add up *reports*, by the name of their suite."""
    mutants = [_caught(row) for each in reports.get("mutants", ()) for row in each.rows]
    compared = [each for name in MODELS for each in reports.get(name, ())]
    return Summary(
        machine=machine,
        version=version,
        seconds=seconds,
        chaos={
            name: _chaos(reports[f"chaos-{name}"]) for name in CHAOS if reports.get(f"chaos-{name}")
        },
        simulation=_simulated(reports["simulation"]) if reports.get("simulation") else None,
        model=_compared(compared) if compared else None,
        nth=_nth(reports["nth"]) if reports.get("nth") else None,
        mutants=mutants,
        fuzz=_fuzzed(reports["fuzz"]) if reports.get("fuzz") else None,
        formal=_formal(reports["formal"][-1]) if reports.get("formal") else None,
        findings=[*troubles, *_findings(reports)][:FINDINGS_MAX],
    )


def _chaos(runs: Sequence[ChaosReport]) -> Chaos:
    medians = [run.recovery_p50 for run in runs if run.recovery_p50 is not None]
    tails = [run.recovery_p99 for run in runs if run.recovery_p99 is not None]
    return Chaos(
        source=runs[0].source,
        runs=len(runs),
        seconds=sum(run.seconds for run in runs),
        ttl=runs[0].ttl,
        injected=_added(run.injected for run in runs),
        skipped={kind: why for run in runs for kind, why in run.skipped.items()},
        kills=sum(run.kills for run in runs),
        stops=sum(run.stops for run in runs),
        acknowledged=sum(run.acknowledged for run in runs),
        lost=sum(run.lost for run in runs),
        taken_back=sum(run.taken_back for run in runs),
        unfinished=sum(run.unfinished for run in runs),
        attempts=sum(run.attempts for run in runs),
        duplicates=sum(run.duplicates for run in runs),
        unexplained=sum(run.unexplained for run in runs),
        stale_tried=sum(run.stale_tried for run in runs),
        stale_refused=sum(run.stale_refused for run in runs),
        stale_repeated=sum(run.stale_repeated for run in runs),
        stale_accepted=sum(run.stale_accepted for run in runs),
        unknown_outcomes=sum(run.unknown_outcomes for run in runs),
        recoveries=sum(run.recoveries for run in runs),
        recovery_p50=median(medians) if medians else None,
        recovery_p99=max(tails, default=None),
        violations=sum(sum(run.violations_by_rule.values()) for run in runs),
    )


def _simulated(runs: Sequence[SimulationReport]) -> Simulated:
    simulated = sum(run.simulated_seconds for run in runs)
    return Simulated(
        seeds=sum(run.seeds for run in runs),
        hours=simulated / 3600,
        ratio=simulated / max(sum(run.real_seconds for run in runs), 1e-9),
        faults=_added(run.faults for run in runs),
        acknowledged=sum(run.acknowledged for run in runs),
        lost=sum(run.lost for run in runs),
        stale_refused=sum(run.stale_refused for run in runs),
        recovery_p99=max(run.recovery_p99 for run in runs),
        failed_seeds=[failure.seed for run in runs for failure in run.failures],
    )


def _compared(runs: Sequence[ModelReport]) -> Compared:
    return Compared(
        stores=list(dict.fromkeys(store for run in runs for store in run.stores)),
        operations=sum(run.operations for run in runs),
        looks=sum(run.looks for run in runs),
        sequences=sum(run.sequences for run in runs),
        faults=sum(run.faults for run in runs),
        zombies=sum(run.zombies for run in runs),
        differences=sum(len(run.differences) for run in runs),
    )


def _nth(runs: Sequence[NthReport]) -> Nth:
    return Nth(
        stores=list(runs[0].stores),
        scenarios=max(run.scenarios for run in runs),
        calls=sum(run.calls for run in runs),
        faults=sum(run.faults for run in runs),
        failures=sum(len(run.failures) for run in runs),
    )


def _caught(row: Row) -> Caught:
    trial = next((each for each in row.trials if each.verdict is Verdict.CAUGHT), None)
    return Caught(
        mutant=row.mutant,
        about=row.about,
        suite=None if trial is None else trial.suite,
        seconds=sum(each.seconds for each in row.trials) if trial is None else trial.seconds,
    )


def _fuzzed(runs: Sequence[FuzzReport]) -> Fuzzed:
    return Fuzzed(
        parsers=max(run.parsers for run in runs),
        inputs=sum(run.inputs for run in runs),
        failures=sum(len(run.failures) for run in runs),
    )


def _formal(found: FormalReport) -> Formal:
    sound = [check for check in found.checks if check.name not in BUGS]
    return Formal(
        missing=found.missing,
        properties=len(sound),
        states=sum(check.states for check in sound),
        bugs_found=len(found.bugs_found),
        bugs=len(found.checks) - len(sound),
    )


def _findings(reports: Mapping[str, Sequence[Any]]) -> list[str]:
    """Return what every suite found wrong, as one line each."""
    found: list[str] = []
    for name in [f"chaos-{each}" for each in CHAOS]:
        for run in _typed(reports, name, ChaosReport):
            found += [f"{name}, seed {run.seed}: {v.rule}: {v.detail}" for v in run.violations]
    for simulated in _typed(reports, "simulation", SimulationReport):
        found += [f"simulation, seed {f.seed}: {f.violations[0]}" for f in simulated.failures]
    for compared in [each for name in MODELS for each in _typed(reports, name, ModelReport)]:
        found += [f"model, seed {compared.seed}: {text}" for text in compared.differences]
    for nth in _typed(reports, "nth", NthReport):
        found += [
            f"nth: {f.store} {f.scenario}, call {f.number} {f.kind}: {f.broken[0]}"
            for f in nth.failures
        ]
    for mutants in _typed(reports, "mutants", MutantsReport):
        found += [f"mutants: {name} survives" for name in mutants.survivors]
    for formal in _typed(reports, "formal", FormalReport):
        found += [f"formal: {finding}" for finding in formal.findings]
    for fuzzed in _typed(reports, "fuzz", FuzzReport):
        found += [f"fuzz: {f.parser}: {f.error}" for f in fuzzed.failures]
    return found


def _typed(reports: Mapping[str, Sequence[Any]], name: str, report: type[T]) -> Iterator[T]:
    for each in reports.get(name, ()):
        assert isinstance(each, report)
        yield each


def _added(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total: Counter[str] = Counter()
    for each in counts:
        total.update(each)
    return dict(sorted(total.items()))
