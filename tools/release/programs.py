"""Running other programs: their output is shown only if they fail."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tools.release.report import FailedError

TIMEOUT = 600
# Nothing that this shell is set up for may reach what a user runs.
OURS = ("FENCEPOST_", "DATABASE_URL", "PYTHON", "VIRTUAL_ENV", "DJANGO_", "OTEL_", "MAKE")


def plain_environment() -> dict[str, str]:
    """Return the environment of this process, as on a machine that was set up for nothing."""
    return {name: value for name, value in os.environ.items() if not name.startswith(OURS)}


def run(
    *command: str | Path, cwd: Path | None = None, environment: Mapping[str, str] | None = None
) -> str:
    """Run a program, and return what it wrote; raise FailedError with that if it fails."""
    try:
        done = subprocess.run(
            [str(word) for word in command],
            cwd=cwd,
            env=plain_environment() if environment is None else dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired as error:
        raise FailedError(f"{Path(command[0]).name} did not end in {TIMEOUT} s") from error
    if done.returncode:
        raise FailedError(f"{Path(command[0]).name} ended with {done.returncode}\n{done.stdout}")
    return done.stdout
