"""What a run of many seeds says at its end."""

from __future__ import annotations

import msgspec


class Failure(msgspec.Struct, frozen=True):
    """A seed under which a promise was broken; it alone replays what happened."""

    seed: int
    violations: list[str]
    replay: str
    """The command that replays it."""


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """Counts over all seeds."""

    seeds: int
    simulated_seconds: float
    real_seconds: float
    cpu_seconds: float
    callbacks: int
    faults: dict[str, int]
    """By kind; what a lossy way swallowed is counted packet by packet."""
    acknowledged: int
    lost: int
    attempts: int
    settled: int
    stale_refused: int
    superseded: int
    """Effects in an unfenced ledger of handlers whose jobs had been given to others: why fencing
    is needed. They are no defect."""
    events: int = 0
    """Sent in the varied scene, as are ticks of crons and webhooks stored."""
    ticks: int = 0
    webhooks: int = 0
    recoveries: int
    recovery_p50: float
    """Seconds from the end of a lease until its job was taken back, some worker being well."""
    recovery_p99: float
    recovery_max: float
    failures: list[Failure]
    digest: str
    """Equal for two runs only if all that happened in them was."""

    @property
    def simulated_hours(self) -> float:
        return self.simulated_seconds / 3600

    @property
    def ratio(self) -> float:
        """How many times faster than real time it was."""
        return self.simulated_seconds / max(self.real_seconds, 1e-9)

    def lines(self) -> list[str]:
        """Return the report for people."""
        cpu_ratio = self.simulated_seconds / max(self.cpu_seconds, 1e-9)
        faults = ", ".join(f"{kind} {count:,}" for kind, count in sorted(self.faults.items()))
        return [
            f"{self.seeds:,} seeds, {self.simulated_hours:.2f} simulated hours in "
            f"{self.real_seconds:.1f} s: {self.ratio:,.0f} times real time "
            f"({cpu_ratio:,.0f} times by processor time), {self.callbacks:,} callbacks",
            f"faults: {faults}",
            f"jobs acknowledged {self.acknowledged:,}, lost {self.lost:,}; "
            f"attempts {self.attempts:,}, settled {self.settled:,}; "
            f"stale writes refused {self.stale_refused:,}; "
            f"superseded effects in the unfenced ledger {self.superseded:,}",
            f"recovery after the end of a lease: p50 {self.recovery_p50:.3f} s, "
            f"p99 {self.recovery_p99:.3f} s, longest {self.recovery_max:.3f} s "
            f"of {self.recoveries:,}",
            f"digest {self.digest[:16]}",
            *(line for failure in self.failures for line in _failure_lines(failure)),
            f"{len(self.failures)} seeds failed" if self.failures else "no promise was broken",
        ]


def _failure_lines(failure: Failure) -> list[str]:
    return [
        f"FAILED seed {failure.seed}; replay: {failure.replay}",
        *(f"  {violation}" for violation in failure.violations[:10]),
    ]
