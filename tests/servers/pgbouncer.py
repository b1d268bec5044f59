"""A real PgBouncer in front of a server: what many put between an application and PostgreSQL."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import conninfo
from tests.servers.child import Child, Startable, free_port
from tests.servers.postgres import Postgres

# Few connections to the server, so that clients do share them.
DEFAULTS = {"pool_mode": "transaction", "default_pool_size": "4", "max_client_conn": "200"}


def find_pgbouncer() -> Path | None:
    """Return the program, which Debian keeps outside of an ordinary user's PATH."""
    found = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    return Path(found) if found else None


class PgBouncer(Startable):
    """One PgBouncer, as a child process that ends with this one.

    `settings` are lines of its section `[pgbouncer]`, over the defaults: transaction mode.
    """

    def __init__(self, server: Postgres, settings: Mapping[str, str] | None = None) -> None:
        program = find_pgbouncer()
        assert program is not None, "ask find_pgbouncer first"
        self._program = program
        self._server = server
        self._child = Child("pgbouncer", pid_file="pid")
        self.settings = DEFAULTS | dict(settings or {})
        self.port = free_port()

    def url(self, database: str = "postgres") -> str:
        """Return the URL of the server's *database*, through the pool."""
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        configuration = self._child.folder / "pgbouncer.ini"
        configuration.write_text(self._configuration())
        self._child.account.own(configuration)
        self._child.start([self._program, configuration], self._answers)

    def stop(self) -> None:
        """End at once, and with it every connection through it."""
        self._child.end(signal.SIGTERM)

    def close(self) -> None:
        """Stop for good."""
        try:
            self.stop()
        finally:
            self._child.close()

    def _configuration(self) -> str:
        parts = conninfo.conninfo_to_dict(self._server.url())
        target = " ".join(
            f"{name}={parts[name]}"
            for name in ("host", "port", "user", "password")
            if name in parts
        )
        fixed = {
            "listen_addr": "127.0.0.1",
            "listen_port": str(self.port),
            "unix_socket_dir": "",
            "pidfile": str(self._child.folder / "pid"),
            # Anybody may come in; all arrive at the server as the user named above.
            "auth_type": "any",
        }
        lines = [f"{name} = {value}" for name, value in (self.settings | fixed).items()]
        return "\n".join(["[databases]", f"* = {target}", "[pgbouncer]", *lines, ""])

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        return True
