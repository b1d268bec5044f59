"""The ground of SQLite: databases are files, and a filled one can be copied."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.bench import Bench, Progress, Sizes
from fencepost.clock import Clock


class SqliteBench(Bench):
    """Makes databases under ``folder``."""

    def __init__(
        self, folder: Path, *, sizes: Sizes, durability: str, clock: Clock, progress: Progress
    ) -> None:
        super().__init__(folder, sizes=sizes, clock=clock, progress=progress)
        self.durability = durability
        self._made = 0
        self._stores: dict[str, Path] = {}

    @contextmanager
    def new_store(self) -> Iterator[str]:
        path = self.new_path()
        url = self.url(path)
        self._stores[url] = path
        try:
            yield url
        finally:
            self.remove(self._stores.pop(url))

    def have_loaded(self, url: str) -> None:
        connection = sqlite3.connect(self._stores[url], isolation_level=None)
        try:
            connection.execute("delete from disorder")
            connection.execute("pragma wal_checkpoint(truncate)")
        finally:
            connection.close()

    def new_path(self) -> Path:
        """Return a path where no database has been yet."""
        self._made += 1
        return self.folder / f"bench-{self._made}.db"

    def url(self, path: Path) -> str:
        return f"sqlite:///{path}?durability={self.durability}"

    def copy_of(self, path: Path) -> Path:
        """Return a copy of a closed database, on the disk, so that no flush of it disturbs."""
        copy = self.new_path()
        shutil.copyfile(path, copy)
        with copy.open("rb+") as file:
            os.fsync(file.fileno())
        return copy

    def remove(self, path: Path) -> None:
        """Remove a database and everything beside it."""
        for suffix in ("", "-wal", "-shm", "-lock"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
        shutil.rmtree(f"{path}.d", ignore_errors=True)
