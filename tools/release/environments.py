"""Virtual environments in which a release is tried: empty, and each for one purpose."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from tools.release.programs import plain_environment, run


class Environment:
    """A new virtual environment, which has nothing but what is installed into it.

    *packages* come from whatever index pip is set up to use, in the newest versions that fit: it is
    what a user gets today, and not what is locked.
    """

    def __init__(self, folder: Path, packages: str) -> None:
        self._folder = folder / "environment"
        self.work = folder / "work"
        """Where its programs run: a folder that was empty."""
        self.work.mkdir(parents=True)
        run(sys.executable, "-m", "venv", "--without-pip", self._folder)
        self.install(packages)

    def install(self, *packages: str) -> None:
        """Install packages with our pip, and check that all requirements are met."""
        pip = [sys.executable, "-m", "pip", "--python", str(self.program("python"))]
        quietly = ("--disable-pip-version-check", "--no-input", "--quiet")
        run(*pip, "install", *quietly, "--no-compile", *packages)
        run(*pip, "check", *quietly)

    def empty(self) -> None:
        """Remove what programs left in the work folder."""
        shutil.rmtree(self.work)
        self.work.mkdir()

    def program(self, name: str) -> Path:
        """Return the path of a program in it."""
        return self._folder / "bin" / name

    def variables(self, **more: str) -> dict[str, str]:
        """Return what its programs see: the environment as after activation, and *more*."""
        plain = plain_environment()
        path = os.pathsep.join([str(self._folder / "bin"), plain.get("PATH", "")])
        return plain | {"PATH": path, "VIRTUAL_ENV": str(self._folder)} | more

    def run(self, name: str, *words: str | Path, **more: str) -> str:
        """Run one of its programs in the work folder, and return what it writes."""
        return run(self.program(name), *words, cwd=self.work, environment=self.variables(**more))

    def write(self, name: str, text: str) -> Path:
        """Write a file in the work folder."""
        path = self.work / name
        path.write_text(text, encoding="utf-8")
        return path
