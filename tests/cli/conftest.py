"""A folder with an app in it, and the command."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.cli.support import APP, Command

from fencepost.platform.system import FORCED


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Command]:
    """Give the command in a folder that holds ``app.py``."""
    for name in list(os.environ):
        is_ours = name.startswith("FENCEPOST_") and name != FORCED
        if is_ours or name == "DATABASE_URL":
            monkeypatch.delenv(name)
    monkeypatch.setattr(sys, "path", sys.path[:])
    monkeypatch.chdir(tmp_path)
    (tmp_path / "app.py").write_text(APP)
    made = Command(tmp_path)
    logger = logging.getLogger("fencepost")
    before = (logger.handlers[:], logger.level, logger.propagate)
    yield made
    logger.handlers[:], logger.level, logger.propagate = before
    made.forget_modules()
    for child in made.children:
        if child.poll() is None:
            child.kill()
        with suppress(subprocess.TimeoutExpired):
            child.communicate(timeout=5)
