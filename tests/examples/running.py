"""Runs the examples as a reader would: in a copy of their folder, as processes, over HTTP."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from tests.servers.child import free_port
from tests.worker.support import LONG

ROOT = Path(__file__).parents[2]


class Example:
    """A folder with a copy of an example, and its processes."""

    def __init__(self, name: str, folder: Path, **environment: str) -> None:
        self.folder = folder / name
        shutil.copytree(ROOT / "examples" / name, self.folder)
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FENCEPOST_")}
        self._environment = {**kept, **environment}
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, *command: str) -> subprocess.Popen[str]:
        """Start ``python -m …``; its output is in ``output``."""
        with (self.folder / "output").open("a") as output:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-m", *command],
                    cwd=self.folder,
                    env=self._environment,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    text=True,
                )
            )
        return self.processes[-1]

    def run(self, *command: str) -> str:
        """Run ``python …`` to its end, and return what it prints."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.folder,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=2 * LONG,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    @property
    def output(self) -> str:
        return (self.folder / "output").read_text()

    @contextmanager
    def serving(self, *command: str, path: str) -> Iterator[httpx.Client]:
        """Start a server with ``--port``, and lend a client once *path* is answered with 200."""
        port = free_port()
        process = self.start(*command, "--port", str(port))
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONG) as client:
            self._wait(client, path, process)
            yield client

    def _wait(self, client: httpx.Client, path: str, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + 2 * LONG
        while True:
            assert process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            try:
                if client.get(path).status_code == 200:
                    return
            except httpx.TransportError:
                pass
            time.sleep(0.05)

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()


@contextmanager
def example(name: str, folder: Path, **environment: str) -> Iterator[Example]:
    """Lend the example of this name in *folder*; end its processes."""
    made = Example(name, folder, **environment)
    try:
        yield made
    finally:
        made.close()


def completed(client: httpx.Client, path: str) -> dict[str, Any]:
    """Return the job at *path* once it is completed."""
    deadline = time.monotonic() + LONG
    while True:
        job: dict[str, Any] = client.get(path).raise_for_status().json()
        if job["state"] == "completed":
            return job
        assert time.monotonic() < deadline, job
        time.sleep(0.05)
