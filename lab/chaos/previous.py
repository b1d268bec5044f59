"""An earlier version of Fencepost, from the history: the oldest that shares today's schema."""

from __future__ import annotations

import io
import subprocess
import tarfile
from pathlib import Path

from lab.chaos.settings import ROOT

MIGRATIONS = ("src/fencepost/store/sqlite/schema", "src/fencepost/store/postgres/schema")


class NoVersionError(RuntimeError):
    """There is no earlier version here; the message says why."""


def unpack(into: Path) -> Path:
    """Put the source of that version below *into*; return the folder to import it from."""
    commit = _git("log", "-1", "--format=%H", "--", *MIGRATIONS).decode().strip()
    if not commit:
        raise NoVersionError("the history does not say when the schema was last changed")
    if _git("status", "--porcelain", "--", *MIGRATIONS).strip():
        raise NoVersionError("the schema has changes that are in no version yet")
    if commit == _git("rev-parse", "HEAD").decode().strip():
        raise NoVersionError("no earlier version shares the schema of this one")
    into.mkdir()
    with tarfile.open(fileobj=io.BytesIO(_git("archive", commit, "src"))) as archive:
        archive.extractall(into, filter="data")
    return into / "src"


def _git(*arguments: str) -> bytes:
    try:
        command = ["git", "-C", str(ROOT), *arguments]
        done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError) as error:
        raise NoVersionError(f"there is no history to ask: {error}") from error
    return done.stdout
