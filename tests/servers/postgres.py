"""Real PostgreSQL servers for tests: `PostgresServer` is one of one's own, to crash and restart.

with PostgresServer("wheel", durable=True) as server:
    server.create_database("jobs")
    server.crash()
    server.start()
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Mapping
from pathlib import Path

import psycopg
from psycopg import conninfo, sql
from tests.servers.account import copy_install
from tests.servers.child import Child, ServerFailedError, Startable, free_port
from tests.servers.places import find_programs

STARTS_TRIED = 5

MODEST = {"shared_buffers": "64MB", "max_connections": "100"}
# What is lost with the machine is no loss here, and waiting for the disk is most of a test's time.
# Commits stay synchronous: they reach the system at once, and so survive a crash of the server.
FORGETFUL = {"fsync": "off", "full_page_writes": "off"}


class Postgres:
    """A server somebody runs: how to reach it, and how to get databases on it."""

    def __init__(self, url: str, source: str) -> None:
        self._url = url
        self.source = source
        self._admin: psycopg.Connection | None = None

    def url(self, database: str = "postgres") -> str:
        """Return the URL of *database* for the superuser."""
        base, _, options = self._url.partition("?")
        head = re.sub(r"(?<=[^/])/[^/]*$", "", base)
        return f"{head}/{database}" + (f"?{options}" if options else "")

    def create_database(self, name: str, template: str | None = None) -> str:
        """Create a database and return its URL. A template must have no connections."""
        # Copying files beats copying through the log: 10 ms against 16 to 50 ms, without fsync.
        can_choose = self._connection().info.server_version >= 150_000
        how = sql.SQL("strategy file_copy" if can_choose else "")
        statement = sql.SQL("create database {} template {} {}")
        source = sql.Identifier(template or "template0")
        self._execute(statement.format(sql.Identifier(name), source, how))
        return self.url(name)

    def drop_database(self, name: str) -> None:
        """Drop a database, whoever is connected to it; do nothing if there is none."""
        self._execute(
            sql.SQL("drop database if exists {} with (force)").format(sql.Identifier(name))
        )

    def disconnect(self) -> None:
        """Close the connection kept for creating and dropping."""
        if self._admin is not None:
            self._admin.close()
            self._admin = None

    def _execute(self, statement: sql.Composed) -> None:
        try:
            self._connection().execute(statement)
        except psycopg.OperationalError:
            self.disconnect()
            raise

    def _connection(self) -> psycopg.Connection:
        if self._admin is None or self._admin.closed:
            self._admin = psycopg.connect(self.url(), autocommit=True)
        return self._admin


class PostgresServer(Startable, Postgres):
    """A server run as a direct child of this process, on a free loopback port.

    `which` is `machine`, `wheel`, or None for the first that is found. A durable one keeps what
    was committed through the loss of the whole machine, and is slower. With a `password`, nobody
    gets in without one, and that is the superuser's. A `copy_of` another server, which must run,
    is a standby that follows it. `settings` may be changed between two starts. Raises
    NoServerError if there is nothing to run.
    """

    def __init__(
        self,
        which: str | None = None,
        *,
        durable: bool = False,
        password: str | None = None,
        copy_of: Postgres | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        origin, programs = find_programs(which)
        self._password = password
        self._original = copy_of
        self.settings = MODEST | ({} if durable else FORGETFUL) | dict(settings or {})
        self._child = Child("postgres", pid_file="data/postmaster.pid")
        self._data = self._child.folder / "data"
        try:
            self._programs, version = self._reachable(programs)
        except BaseException:
            self._child.close()
            raise
        self.port = free_port()
        super().__init__(self._loopback(), f"{origin} {version}")

    @property
    def pid(self) -> int:
        """The pid of the postmaster."""
        return self._child.pid

    @property
    def folder(self) -> Path:
        """Where the data and the log are."""
        return self._child.folder

    def start(self) -> None:
        """Start the server, for the first time or again; return when it takes connections."""
        if self._data.exists():
            self._run()
            return
        self._initialise()
        for _ in range(STARTS_TRIED - 1):
            try:
                self._run()
                return
            except ServerFailedError as error:
                if "could not bind" not in str(error):
                    raise
                self.port = free_port()  # somebody else was quicker to take it
                self._url = self._loopback()
        self._run()

    def stop(self) -> None:
        """Shut down, ending every connection; the data stay."""
        self.disconnect()
        self._child.end(signal.SIGINT)

    def crash(self) -> None:
        """Kill the server as a failing machine would; return when its data are free for a start."""
        self.disconnect()
        self._child.end(signal.SIGKILL)

    def restart(self) -> None:
        self.stop()
        self.start()

    def promote(self) -> None:
        """Make a standby a primary; return when it can be written to."""
        self._connection().execute("select pg_promote(true, 60)")

    def close(self) -> None:
        """Stop for good, and remove all data."""
        self.disconnect()
        try:
            self._child.end(signal.SIGQUIT)  # nothing is worth a checkpoint any more
        finally:
            self._child.close()

    def _loopback(self) -> str:
        secret = "" if self._password is None else f":{self._password}"
        return f"postgresql://postgres{secret}@127.0.0.1:{self.port}/postgres"

    def _reachable(self, programs: Path) -> tuple[Path, str]:
        """Return a folder of programs that the server's user can run, and their version."""
        try:
            return programs, self._version(programs)
        except (OSError, subprocess.CalledProcessError):
            copied = copy_install(programs, self._child.folder / "install")
            return copied, self._version(copied)

    def _version(self, programs: Path) -> str:
        found = re.search(r"\d+", self._output(programs / "postgres", "--version"))
        assert found is not None
        return found.group()

    def _initialise(self) -> None:
        command = self._from_nothing() if self._original is None else self._from(self._original)
        try:
            self._output(*command)
        except subprocess.CalledProcessError as error:
            raise ServerFailedError(f"{command[0]} failed:\n{error.stderr}") from error

    def _from_nothing(self) -> list[str | Path]:
        how = ["--username=postgres", "--encoding=UTF8", "--no-locale", "--no-sync"]
        command: list[str | Path] = [self._programs / "initdb", "--pgdata", self._data, *how]
        if self._password is None:
            return [*command, "--auth=trust"]
        file = self._child.folder / "password"
        file.write_text(self._password)
        self._child.account.own(file)
        return [*command, "--auth=scram-sha-256", f"--pwfile={file}"]

    def _from(self, original: Postgres) -> list[str | Path]:
        how = ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        backup = self._programs / "pg_basebackup"
        return [backup, "--pgdata", self._data, "--dbname", original.url(), *how]

    def _run(self) -> None:
        # By TCP alone: the path of a socket file may be too long for the system.
        fixed = {
            "listen_addresses": "127.0.0.1",
            "port": str(self.port),
            "unix_socket_directories": "",
        }
        options = [f"--{name}={value}" for name, value in (self.settings | fixed).items()]
        self._child.start([self._programs / "postgres", "-D", self._data, *options], self._answers)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=2).close()
        except psycopg.OperationalError:
            return False
        # Somebody else's server on the same port would have answered too.
        return (self._data / "postmaster.pid").exists()

    def _output(self, *command: str | Path) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            check=True,
            capture_output=True,
            text=True,
            timeout=60,
            **self._child.account.popen,
        )
        return str(done.stdout)


def given() -> Postgres | None:
    """Return the server that FENCEPOST_TEST_POSTGRES names, which wins over every other."""
    url = os.environ.get("FENCEPOST_TEST_POSTGRES")
    if not url:
        return None
    if not url.startswith(("postgresql://", "postgres://")) or not conninfo.conninfo_to_dict(url):
        raise ValueError("FENCEPOST_TEST_POSTGRES must be a URL, postgresql://USER@HOST:PORT/NAME")
    return Postgres(url, "given")
