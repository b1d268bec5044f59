"""A way to a Redis server that can be cut at what an operation writes."""

from __future__ import annotations

from urllib.parse import urlsplit

from tests.store.postgres.cutting import Proxy

from fencepost.store.redis.engine.scripts import PARTS, script

HARMLESS = frozenset({"read"})
"""Scripts that write nothing, or nothing that matters."""


def writing_scripts() -> list[str]:
    """Return the hashes of the scripts that may write."""
    return [script(name).sha.decode() for name in sorted(PARTS.keys() - HARMLESS)]


class RedisProxy(Proxy):
    """Passes bytes on until told to swallow the next script that writes, or its answer."""

    def _place(self, url: str) -> tuple[str, int]:
        parts = urlsplit(url)
        self._path = parts.path
        return parts.hostname or "127.0.0.1", parts.port or 6379

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}{self._path}"

    def cut_next_write(self, *, is_heard: bool) -> None:
        """Cut at the next script that writes: before the server hears it, or its answer."""
        self.cut_request_with(*writing_scripts(), is_heard=is_heard)
