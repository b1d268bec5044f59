"""The ground of Redis: prefixes of their own on somebody's server, whose other keys stay.

A store is a prefix of keys. Every prefix made here begins alike, so that what a bench left behind
when it was killed is known from a store that belongs to somebody, and is removed by the next one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

import redis

from bench.bench import Bench, Progress, Sizes
from bench.noop import BenchApp
from bench.redis.raw import RawScripts
from fencepost.cli.errors import Refusal
from fencepost.clock import Clock
from fencepost.core.bounds import BULK_MAX

MARK = "fencepost-bench-"
BULK = min(20_000, BULK_MAX)
PORTION = 5_000


class RedisSizes(Sizes, frozen=True, kw_only=True):
    """How much is measured on a Redis server."""

    steady: int
    """Pickups under a steady load."""


class RedisBench(Bench):
    """Makes stores under prefixes of its own; a context, which ends with all removed."""

    sizes: RedisSizes

    def __init__(
        self, folder: Path, *, url: str, sizes: RedisSizes, clock: Clock, progress: Progress
    ) -> None:
        super().__init__(folder, sizes=sizes, clock=clock, progress=progress)
        self.url = url
        self._made = 0
        self.admin: Any = redis.Redis.from_url(url)
        try:
            self.admin.ping()
        except redis.RedisError as error:
            raise Refusal(f"cannot connect: {error}", "store_unavailable") from error

    def __enter__(self) -> Self:
        self.remove(f"{{{MARK}*")  # what a bench that was killed left behind
        self.raw = RawScripts(redis.Redis.from_url(self.url), f"{{{MARK}raw}}:", self.clock)
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.raw.close()
            self.remove(f"{{{MARK}*")
        finally:
            self.admin.close()

    def remove(self, pattern: str) -> None:
        """Remove all keys that match *pattern*."""
        found: list[bytes] = []
        for key in self.admin.scan_iter(match=pattern, count=PORTION):
            found.append(key)
            if len(found) == PORTION:
                self.admin.unlink(*found)
                found.clear()
        if found:
            self.admin.unlink(*found)

    @contextmanager
    def new_store(self) -> Iterator[str]:
        self._made += 1
        prefix = f"{{{MARK}{self._made}}}:"
        joint = "&" if "?" in self.url else "?"
        try:
            yield f"{self.url}{joint}prefix={quote(prefix)}"
        finally:
            self.remove(f"{prefix}*")

    def have_loaded(self, url: str) -> None:
        """Do nothing: jobs that were loaded stand in line like any other."""

    def fill(self, url: str, count: int) -> None:
        """Submit *count* jobs of the noop task."""
        with BenchApp(url) as app:
            for start in range(0, count, BULK):
                if count > BULK:
                    self.tell(f"storing {count:,} jobs: {start:,}")
                app.noop.submit_many(range(start, min(start + BULK, count)))

    def memory(self) -> int:
        """Return the bytes that the server's data take."""
        return int(self.admin.info("memory")["used_memory"])
