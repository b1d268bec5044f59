"""Where a run takes place: a store that can be hurt, and mended again."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path

from fencepost.clock import SystemClock
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store
from lab.chaos.disk import Disk
from lab.chaos.settings import Settings


class Stage(ABC):
    """A store, from its making to its end."""

    url: str
    """What callers and workers are given."""
    source: str
    """What it is, in which version."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.clock = SystemClock()
        self.disk = Disk(settings.place)

    @property
    def own_url(self) -> str:
        """The way of the run itself, past every bad network."""
        return self.url

    def open(self) -> Store:
        return open_store(self.own_url)

    @abstractmethod
    def mend(self) -> None:
        """Undo every fault."""

    @abstractmethod
    def integrity(self) -> str:
        """Return ``ok``, or what is wrong with the data."""

    @abstractmethod
    def close(self) -> None: ...


class SqliteStage(Stage):
    """A file."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.path = self.disk.folder / "jobs.db"
        self.url = f"sqlite:///{self.path}"
        self.source = f"SQLite {sqlite3.sqlite_version}"
        self.open().close()

    @property
    def lock(self) -> Path:
        """The file that every process locks before it writes."""
        return Path(f"{self.path}-lock")

    def holder(self) -> int | None:
        """Return which process writes now, as the system tells; None if nobody does."""
        inode = str(self.lock.stat().st_ino)
        locks = Path("/proc/locks")
        for line in locks.read_text().splitlines() if locks.exists() else ():
            fields = line.split()
            if fields[1] == "FLOCK" and fields[5].rpartition(":")[2] == inode:
                return int(fields[4])
        return None

    def mend(self) -> None:
        self.disk.free()

    def integrity(self) -> str:
        with closing(sqlite3.connect(self.path)) as connection:
            lines = connection.execute("pragma integrity_check").fetchall()
        return "; ".join(str(line) for (line,) in lines)

    def close(self) -> None:
        self.disk.close()
