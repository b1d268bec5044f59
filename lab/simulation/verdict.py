"""What the checker found: broken promises, and figures of those that were kept."""

from __future__ import annotations

import msgspec


class Violation(msgspec.Struct, frozen=True):
    """A promise that was broken, when, and by what."""

    rule: str
    at: float
    text: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.6f} s: {self.text}"


class Verdict:
    """Filled while a history is read."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []
        self.acknowledged = 0
        self.lost = 0
        self.stale_refused = 0
        """Writes under a lease that was over, each of which was refused."""
        self.settled = 0
        self.events = 0
        self.ticks = 0
        self.webhooks = 0
        """Deliveries that were stored, each with the end that it tells of."""
        self.attempts = 0
        self.superseded = 0
        """Effects outside, unfenced, of a handler whose job had been given to another."""
        self.recoveries: list[float] = []
        """Seconds from the end of each lease that ran out until its job was taken back, while at
        least one worker was well: the promise is one second."""
        self.other_recoveries: list[float] = []
        """The same while no worker was."""

    def accuse(self, rule: str, at: float, text: str) -> None:
        self.violations.append(Violation(rule, at, text))
