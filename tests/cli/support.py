"""The command in a folder of its own: in this process, or as a real one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from fencepost import App
from fencepost.cli.main import cli
from fencepost.platform.system import FORCED

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 30.0

APP = """
import os
import time

from fencepost import App, Context, PermanentError, Retry

app = App()
kept = []


@app.task
def add(a: int, b: int) -> int:
    return a + b


@app.task(queue="mail")
def shout(text: bytes) -> bytes:
    return text.upper()


@app.task
def bad(reason: str) -> None:
    raise PermanentError(reason, code="bad")


@app.task
def stuck(ctx: Context) -> None:
    ctx.progress(0.5, "stuck")
    time.sleep(600)


@app.task
def leak(megabytes: int) -> int:
    kept.append(bytearray(b"x" * (megabytes * 1_000_000)))
    return os.getpid()


@app.task(isolation="process")
def leak_in_child(megabytes: int) -> int:
    return leak(megabytes)


@app.task(timeout=0.2, retry=Retry.none())
def overdue() -> None:
    time.sleep(600)
"""


def wait_until(is_so: Callable[[], Any], what: str) -> Any:
    """Return what *is_so* returns as soon as it is true; fail after PATIENCE."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if found := is_so():
            return found
        time.sleep(0.02)
    raise AssertionError(f"waited {PATIENCE:g} s in vain: {what}")


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that has ended and is not yet reaped does not."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@dataclass
class Command:
    """``fencepost`` in a folder of its own, on a database of its own."""

    folder: Path
    store: str | None = None
    """The URL of the store, if it is not a file in the folder."""
    children: list[subprocess.Popen[str]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return self.store or f"sqlite:///{self.folder}/jobs.db"

    def __call__(self, *words: str, **options: Any) -> Result:
        """Run the command in this process, which has not seen the folder's modules before."""
        self.forget_modules()
        return CliRunner().invoke(cli, ["--url", self.url, *words], **options)

    def forget_modules(self) -> None:
        for name, module in list(sys.modules.items()):
            if str(getattr(module, "__file__", None)).startswith(str(self.folder)):
                del sys.modules[name]

    def ok(self, *words: str, **options: Any) -> str:
        """Run the command, which must succeed; return what it wrote to standard output."""
        result = self(*words, **options)
        assert result.exit_code == 0, result.output
        return result.stdout

    def json(self, *words: str) -> Any:
        """Run the command with --json; return its answer."""
        return json.loads(self.ok(*words, "--json"))

    def submit(self, type: str, payload: str = "{}", *words: str) -> str:
        """Submit a job; return its id."""
        return self.ok("submit", type, payload, *words).strip()

    def start(self, *words: str) -> subprocess.Popen[str]:
        """Start the command as a process of its own, its log going to ``log``."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if name == FORCED or not name.startswith("FENCEPOST_")
        }
        paths = [str(ROOT / "src"), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        with (self.folder / "log").open("ab") as log:
            child = subprocess.Popen(
                [sys.executable, "-m", "fencepost", "--url", self.url, *words],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.children.append(child)
        return child

    @property
    def log(self) -> str:
        return (self.folder / "log").read_text()

    def worker_pids(self) -> set[int]:
        """Return the processes of the workers that are listed and still there."""
        if not (self.folder / "jobs.db").exists():
            return set()
        with App(self.url) as app:
            return {info.pid for info in app.workers.list() if is_running(info.pid)}


def end(child: subprocess.Popen[str], number: int = signal.SIGTERM) -> int:
    """Send a signal and return the exit code."""
    child.send_signal(number)
    return child.wait(PATIENCE)
