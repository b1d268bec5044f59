"""A Redis server whose clock can be set, by libfaketime, which stands between it and the system."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.servers.places import NoServerError
from tests.servers.redis import USUAL, RedisServer, eventually

PLACES = ("/usr/lib/*/faketime", "/usr/lib/faketime", "/usr/local/lib/faketime")
ADVICE = "no libfaketime: install your system's package of it (Debian: apt-get install faketime)"


def find_library() -> Path:
    """Return the library, or raise NoServerError."""
    for place in PLACES:
        for found in sorted(Path("/").glob(f"{place[1:]}/libfaketime.so.1")):
            return found
    raise NoServerError(ADVICE)


class JumpingServer(RedisServer):
    """A server that believes it is earlier or later than it is."""

    def __init__(self, settings: Mapping[str, str] = USUAL) -> None:
        self._library = find_library()
        super().__init__(settings)
        self._file = self.folder / "faketime"
        self._write(0.0)
        self.own(self._file)

    def command(self, program: Path) -> list[str | Path]:
        # Only what the clock on the wall says is changed: a server's own timeouts go on.
        given = {
            "LD_PRELOAD": self._library,
            "FAKETIME_TIMESTAMP_FILE": self._file,
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        words = [f"{name}={value}" for name, value in given.items()]
        return ["/usr/bin/env", *words, *super().command(program)]

    def now(self) -> float:
        """Return what the server believes the time to be."""
        seconds, microseconds = self.do("TIME")
        return int(seconds) + int(microseconds) / 1_000_000

    def jump(self, seconds: float) -> None:
        """Put its clock forward or back; return when it has noticed."""
        before = self.now()
        self._write(self._ahead + seconds)
        eventually(lambda: abs(self.now() - before - seconds) < abs(seconds) / 2)

    def _write(self, ahead: float) -> None:
        self._ahead = ahead
        self._file.write_text(f"{ahead:+.6f}s\n")
