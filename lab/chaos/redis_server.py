"""Redis under an append-only file that is forced to the disk, and a bad network before it."""

from __future__ import annotations

import os
import signal
import tempfile
from contextlib import suppress
from random import Random

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry
from tests.servers.child import ServerFailedError
from tests.servers.redis import RedisServer

from fencepost.store.redis.engine.address import PREFIX
from lab.chaos.indexes import complaint
from lab.chaos.proxy import Proxy
from lab.chaos.settings import Settings
from lab.chaos.stage import Stage

SETTINGS = {
    "save": "",
    "appendonly": "yes",
    "appendfsync": "always",
    "maxmemory-policy": "noeviction",
    "lua-time-limit": "100",
}
"""Nothing that was acknowledged may be lost under these, whatever becomes of the server."""
STARTS_MAX = 3


class RedisStage(Stage):
    """One server; ``redis_groups.py`` has those that take over from each other."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        if self.disk.is_mounted:
            tempfile.tempdir = str(self.disk.folder)  # where servers put their data
        self.proxy = Proxy(self.clock, Random(f"{settings.seed} proxy"))
        self.url = f"redis://127.0.0.1:{self.proxy.port}/0"
        self.server = RedisServer(SETTINGS)
        self.server.start()
        self.proxy.target = self.server.port
        with self.admin() as admin:
            info = admin.info("server")
        self.source = f"Redis {info['redis_version']}"

    @property
    def own_url(self) -> str:
        return self.server.url

    def admin(self, timeout: float = 5.0) -> redis.Redis:
        """Return a connection of an administrator, past the network."""
        at_once = Retry(NoBackoff(), 0)
        return redis.Redis(port=self.server.port, socket_timeout=timeout, retry=at_once)

    def mend(self) -> None:
        self.proxy.heal()
        self.disk.free()
        self.go_on()
        self.revive()
        with self.admin() as admin:
            admin.config_set("maxmemory", 0)

    def stop(self) -> None:
        """Let the server stand still, in whatever it does."""
        os.kill(self.server.pid, signal.SIGSTOP)

    def go_on(self) -> None:
        with suppress(ProcessLookupError, AssertionError):
            os.kill(self.server.pid, signal.SIGCONT)

    def revive(self) -> None:
        """Start the server again if it has given up."""
        if self._answers():
            return
        self.server.crash()
        for left in reversed(range(STARTS_MAX)):
            try:
                return self.server.start()
            except ServerFailedError:
                if not left:
                    raise

    def _answers(self) -> bool:
        try:
            with self.admin(2.0) as admin:
                return bool(admin.ping())
        except redis.exceptions.RedisError:
            return False

    def integrity(self) -> str:
        """Look for a commit that was written by half: an index that misses a job, or has it yet."""
        with self.admin(30.0) as admin:
            return complaint(admin, PREFIX) or "ok"

    def close(self) -> None:
        self.go_on()
        self.server.__exit__(None, None, None)
        self.proxy.close()
        self.disk.close()
