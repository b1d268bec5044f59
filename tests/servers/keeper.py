"""Run one server for all processes of a test run, until the last of them is gone.

pytest-xdist runs tests in several processes, and any of them may be the first to need a server,
the last to use it, or the one that crashes. So the server belongs to none of them but to this
program, which the first one starts. Each user holds a shared lock on a file; the keeper waits for
the exclusive one, which the system grants when all users have ended, however they ended.
"""

from __future__ import annotations

import fcntl
import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.places import NoServerError
from tests.servers.postgres import Postgres, PostgresServer

ROOT = Path(__file__).parent.parent.parent


@contextmanager
def shared_server(which: str, folder: Path) -> Iterator[Postgres]:
    """Use the server of *which* that all who name the same *folder* share; start it if need be.

    Raises NoServerError, which says what to install, if there is none.
    """
    address = folder / f"postgres-{which}.json"
    with (folder / f"postgres-{which}.users").open("w") as users:
        with (folder / f"postgres-{which}.starting").open("w") as starting:
            fcntl.flock(starting, fcntl.LOCK_EX)
            # A keeper that is about to stop holds this exclusively until it is done.
            fcntl.flock(users, fcntl.LOCK_SH)
            if not address.exists():
                _start(which, folder)
            found = json.loads(address.read_text())
        server = Postgres(found["url"], found["source"])
        try:
            yield server
        finally:
            server.disconnect()


def _start(which: str, folder: Path) -> None:
    log = folder / f"postgres-{which}.log"
    with log.open("w") as file:
        keeper = subprocess.Popen(
            [sys.executable, "-m", "tests.servers.keeper", which, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
            start_new_session=True,
        )
    assert keeper.stdout is not None
    with keeper.stdout:
        ready = keeper.stdout.readline()
    if not ready:
        keeper.wait()
        raise NoServerError(f"PostgreSQL ({which}) did not start: {log.read_text()[-2_000:]}")
    keeper.returncode = 0  # it is not waited for, and is not to be warned of: others may use it


def main(which: str, folder: Path) -> None:
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    address = folder / f"postgres-{which}.json"
    with (folder / f"postgres-{which}.users").open("w") as users, PostgresServer(which) as server:
        address.write_text(json.dumps({"url": server.url(), "source": server.source}))
        sys.stdout.write("ready\n")
        sys.stdout.close()
        fcntl.flock(users, fcntl.LOCK_EX)  # and held until the server has ended
        address.unlink(missing_ok=True)


if __name__ == "__main__":
    try:
        main(sys.argv[1], Path(sys.argv[2]))
    except Exception as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
