"""The servers that some programs need: started when the first one asks, ended with the release."""

from __future__ import annotations

from contextlib import ExitStack

from tests.servers.places import NoServerError
from tests.servers.postgres import PostgresServer
from tests.servers.redis import RedisServer

from tools.release.report import SkippedError


class Servers:
    """A PostgreSQL and a Redis on loopback, for as long as *stack* is open."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self._urls: dict[str, str] = {}
        self._made = 0

    def url(self, program: str) -> str | None:
        """Return the URL of an empty store for a program; None if it needs no server.

        Raises SkippedError if there is no such server on this machine.
        """
        try:
            match program:
                case "postgres":
                    return self._postgres()
                case "redis":
                    return self._redis()
        except NoServerError as error:
            raise SkippedError(str(error)) from error
        return None

    def _postgres(self) -> str:
        if not hasattr(self, "_server"):
            self._server = self._stack.enter_context(PostgresServer())
        self._made += 1
        return self._server.create_database(f"release_{self._made}")

    def _redis(self) -> str:
        if not hasattr(self, "_redis_server"):
            self._redis_server = self._stack.enter_context(RedisServer())
        self._made += 1
        return f"{self._redis_server.url}?prefix=release-{self._made}:"
