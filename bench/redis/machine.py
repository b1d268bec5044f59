"""The server that was measured, and the machine that measured it."""

from __future__ import annotations

import platform
from statistics import median

import msgspec
import redis

from bench.machine import cores
from bench.redis.bench import RedisBench

PROBES = 200
SETTINGS = ("appendonly", "appendfsync", "save", "maxmemory-policy")


class RedisMachine(msgspec.Struct, frozen=True):
    """What decides how fast a queue on Redis can be."""

    cores: int
    python: str
    system: str
    driver: str
    redis: str
    settings: dict[str, str]
    round_trip_ms: float

    @property
    def durability(self) -> str:
        """What an acknowledged write survives."""
        if self.settings.get("appendonly") != "yes":
            return "none: no append-only file"
        return f"append-only file, fsync {self.settings.get('appendfsync', 'unknown')}"

    @property
    def lines(self) -> list[str]:
        settings = ", ".join(f"{name} {value or 'none'}" for name, value in self.settings.items())
        return [
            f"{self.cores} cores, {self.system}, Python {self.python}, redis-py {self.driver}",
            f"Redis {self.redis}: {settings}",
            f"round trip {self.round_trip_ms:.3f} ms",
        ]


def look(bench: RedisBench) -> RedisMachine:
    """Return the server behind *bench*."""
    settings: dict[str, str] = {}
    try:
        for name in SETTINGS:
            settings[name] = bench.admin.config_get(name).get(name, "")
    except redis.ResponseError:
        settings = {}  # only an administrator may read them
    return RedisMachine(
        cores=cores(),
        python=platform.python_version(),
        system=f"{platform.system()} {platform.machine()}",
        driver=redis.__version__,
        redis=bench.admin.info("server")["redis_version"],
        settings=settings,
        round_trip_ms=median(bench.seconds(bench.admin.ping) for _ in range(PROBES)) * 1e3,
    )
