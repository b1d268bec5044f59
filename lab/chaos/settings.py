"""The settings of one run of chaos, in a form that all of its processes can read."""

from __future__ import annotations

from pathlib import Path

import msgspec

ROOT = Path(__file__).parent.parent.parent

TTL = 1.5
LAYOUTS = ("one", "sentinel", "cluster", "partitions")
"""One server; a master and a replica, watched by a Sentinel; a cluster of three and three, with the
keys of the app in one slot, or its queues spread over the masters."""
DURABILITIES = ("replica", "process")
ATTEMPTS_MAX = 40
"""Attempts of a job: so many that none but a permanent failure ends for want of them."""


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """A run, from its seed to the number of its processes."""

    store: str
    """``sqlite``, ``postgres`` or ``redis``."""
    layout: str = "one"
    """How many Redis servers there are, and how they stand in for each other; see LAYOUTS."""
    durability: str | None = None
    """What is asked of Redis servers that stand in for each other."""
    folder: str
    """Where the ledgers are, and all that the run leaves behind if it fails."""
    kinds: tuple[str, ...]
    seconds: float = 60.0
    seed: int = 0
    ttl: float = TTL
    rate: float = 240.0
    """Jobs a second, over all callers."""
    fleet: str = "python"
    """The language of the workers; ``node`` has them come by HTTP."""
    mutant: str | None = None
    """The defect that the HTTP API is to have, to show that it is found; see sabotage.py."""
    workers: int = 3
    concurrency: int = 48
    """Slots of a worker: so many that a recovered job never waits for one."""
    pause: float = 1.0
    """Seconds between two faults, about."""
    source: str | None = None
    """Which PostgreSQL: ``machine``, ``wheel``, or the first that there is."""

    @property
    def is_group(self) -> bool:
        """Whether servers take over from each other."""
        return self.layout != LAYOUTS[0]

    @property
    def is_spread(self) -> bool:
        """Whether the queues are in several partitions."""
        return self.layout == "partitions"

    @property
    def place(self) -> Path:
        return Path(self.folder)

    @property
    def path(self) -> Path:
        return self.place / "settings.json"

    def save(self) -> None:
        self.path.write_bytes(msgspec.json.encode(self))

    @classmethod
    def load(cls, path: str) -> Settings:
        return msgspec.json.decode(Path(path).read_bytes(), type=cls)
