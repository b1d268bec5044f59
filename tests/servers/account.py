"""PostgreSQL and PgBouncer refuse to run as root; then they are run as somebody who owns nothing.

`Account` also makes the folder such a server lives in, where that user can reach it.
"""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

CANDIDATES = ("postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """Who runs the servers: ourselves when `user` is None."""

    user: pwd.struct_passwd | None = None

    @classmethod
    def unprivileged(cls) -> Account:
        if os.geteuid() != 0:
            return cls()
        known = {entry.pw_name: entry for entry in pwd.getpwall()}
        for name in CANDIDATES:
            if name in known:
                return cls(known[name])
        raise RuntimeError(f"run the tests as another user than root, or add one of {CANDIDATES}")

    @property
    def popen(self) -> Mapping[str, Any]:
        """What `subprocess` needs to start a program as this user."""
        # The current folder may be one that the user cannot enter.
        if self.user is None:
            return {"cwd": "/"}
        return {
            "cwd": "/",
            "user": self.user.pw_uid,
            "group": self.user.pw_gid,
            "extra_groups": [],
        }

    def make_folder(self, prefix: str) -> Path:
        """Make a temporary folder that belongs to this user."""
        # Not pytest's own: that is below a folder which only its owner may enter.
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=self._temporary()))
        self.own(folder)
        return folder

    def own(self, path: Path) -> None:
        if self.user is not None:
            os.chown(path, self.user.pw_uid, self.user.pw_gid)

    def _temporary(self) -> str:
        usual = Path(tempfile.gettempdir()).resolve()
        if self.user is None or all(p.stat().st_mode & 0o001 for p in (usual, *usual.parents)):
            return str(usual)
        return "/tmp"


def copy_install(programs: Path, into: Path) -> Path:
    """Copy the install tree around the folder *programs*; return the copy of that folder.

    For a virtual environment that only its owner can read. The libraries of a wheel are in a
    folder beside its package, which the programs find by a relative path: that path is kept.
    """
    root = programs.parent
    package = root.parent
    copied = into / package.name / root.name
    shutil.copytree(root, copied, symlinks=True, ignore=shutil.ignore_patterns("*.a", "include"))
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, into / libraries.name, symlinks=True)
    return copied / programs.name
