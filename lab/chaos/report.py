"""What one run of chaos amounts to."""

from __future__ import annotations

import msgspec

from lab.chaos.checker import check, taken_back
from lab.chaos.dump import Closing
from lab.chaos.evidence import Evidence
from lab.chaos.recovery import percentile, recoveries
from lab.chaos.settings import Settings
from lab.chaos.violation import Violation

VIOLATIONS_SHOWN = 50


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Counts, times and violations of one run."""

    store: str
    source: str
    seed: int
    seconds: float
    """How long the whole run took."""
    ttl: float
    kinds: list[str]
    """The kinds of fault that were injected at least once."""
    injected: dict[str, int]
    skipped: dict[str, str]
    """Kinds that were asked for and could not be injected, and why."""
    kills: int
    stops: int
    jobs: int
    acknowledged: int
    lost: int
    taken_back: int
    """Lost in a failover, as the durability that was asked for allows."""
    unfinished: int
    attempts: int
    duplicates: int
    """Attempts beyond the first of their job."""
    unexplained: int
    """Those of them that no fault and no failure explains."""
    stale_tried: int
    stale_refused: int
    stale_repeated: int
    """Answered with what had been settled before, and nothing changed."""
    stale_accepted: int
    unknown_outcomes: int
    unavailable: int
    recoveries: int
    """Jobs of killed workers whose way back was measured."""
    recovery_p50: float | None
    recovery_p99: float | None
    recovery_max: float | None
    drained_after: float
    versions: int
    """Versions of the code that ran side by side."""
    violations_by_rule: dict[str, int]
    violations: list[Violation]
    """The first of them."""
    ledgers: str | None
    """Where the evidence is, if it was kept."""

    @property
    def is_clean(self) -> bool:
        return not self.violations_by_rule


def report(
    settings: Settings, closing: Closing, evidence: Evidence, *, seconds: float, ledgers: str | None
) -> Report:
    """Check the evidence and sum it up."""
    violations = check(evidence)
    by_rule: dict[str, int] = {}
    for violation in violations:
        by_rule[violation.rule] = by_rule.get(violation.rule, 0) + 1
    attempts = sum(len(record.runs) for record in evidence.records)
    first = sum(1 for record in evidence.records if record.runs)
    times = recoveries(evidence)
    return Report(
        store=settings.store,
        source=closing.source,
        seed=settings.seed,
        seconds=seconds,
        ttl=settings.ttl,
        kinds=sorted(closing.injected),
        injected=closing.injected,
        skipped=closing.skipped,
        kills=evidence.counted["killed"],
        stops=evidence.counted["stopped"],
        jobs=len(evidence.records),
        acknowledged=len(evidence.acknowledged),
        lost=by_rule.get("lost", 0),
        taken_back=len(taken_back(evidence)),
        unfinished=by_rule.get("unfinished", 0),
        attempts=attempts,
        duplicates=attempts - first,
        unexplained=by_rule.get("unexplained", 0),
        stale_tried=sum(each.count for each in evidence.tried),
        stale_refused=sum(each.refused for each in evidence.tried),
        stale_repeated=sum(each.repeated for each in evidence.tried),
        stale_accepted=sum(
            len(each.accepted) for each in evidence.tried if not evidence.taken_back(each)
        ),
        unknown_outcomes=evidence.unknown,
        unavailable=evidence.unavailable,
        recoveries=len(times),
        recovery_p50=percentile(times, 0.5),
        recovery_p99=percentile(times, 0.99),
        recovery_max=percentile(times, 1.0),
        drained_after=closing.drained_after,
        versions=len(evidence.codes),
        violations_by_rule=by_rule,
        violations=violations[:VIOLATIONS_SHOWN],
        ledgers=ledgers,
    )


def render(found: Report) -> str:
    """Return the report for a person to read."""
    times = [_seconds(t) for t in (found.recovery_p50, found.recovery_p99, found.recovery_max)]
    lines = [
        f"chaos on {found.source}: {found.seconds:.0f} s, seed {found.seed}, ttl {found.ttl:g} s",
        f"faults     {sum(found.injected.values())} of {len(found.injected)} kinds: "
        + ", ".join(f"{kind} {count}" for kind, count in sorted(found.injected.items())),
        *(f"skipped    {kind}: {reason}" for kind, reason in found.skipped.items()),
        f"hurt       {found.kills} kills, {found.stops} stops; {found.versions} versions at once",
        f"jobs       {found.acknowledged} acknowledged of {found.jobs}; "
        f"{found.unknown_outcomes} unknown outcomes, {found.unavailable} refusals",
        f"lost       {found.lost}, {found.taken_back} more as the durability allows; "
        f"unfinished {found.unfinished}",
        f"attempts   {found.attempts}, {found.duplicates} beyond the first, "
        f"{found.unexplained} unexplained",
        f"stale      {found.stale_tried} writes tried, {found.stale_refused} refused, "
        f"{found.stale_repeated} repeats, {found.stale_accepted} accepted",
        f"recovery   {found.recoveries} measured: p50 {times[0]}, p99 {times[1]}, max {times[2]}",
        f"drained    {found.drained_after:.1f} s after the last caller",
        f"violations {found.violations_by_rule or 'none'}",
        *(f"  {each.rule}: {each.subject}: {each.detail}" for each in found.violations),
    ]
    if found.ledgers is not None:
        lines.append(f"ledgers    {found.ledgers}")
    return "\n".join(lines)


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f} s"
