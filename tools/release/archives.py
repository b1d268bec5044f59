"""Builds the sdist and the wheel, each of which has the same bytes whenever it is built."""

from __future__ import annotations

import hashlib
import shutil
import sys
import tarfile
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from tools.release.programs import plain_environment, run
from tools.release.report import FailedError

ROOT = Path(__file__).parents[2]
DIST = ROOT / "dist"

# A program that takes the place of Node.js on the PATH, and fails: the build must not ask for it.
NO_NODE = "#!/bin/sh\necho 'Node.js was called' >&2\nexit 97\n"


@dataclass(frozen=True)
class Archives:
    """The two files of a release."""

    sdist: Path
    wheel: Path

    @property
    def version(self) -> str:
        """The version in their names."""
        return self.wheel.name.split("-")[1]

    def sdist_names(self) -> list[str]:
        """Return the files of the sdist, as paths within its one folder."""
        with tarfile.open(self.sdist) as archive:
            return [each.name.partition("/")[2] for each in archive if each.isfile()]

    def wheel_names(self) -> list[str]:
        """Return the files of the wheel."""
        with zipfile.ZipFile(self.wheel) as archive:
            return [name for name in archive.namelist() if not name.endswith("/")]


def build_archives(folder: Path = DIST) -> Archives:
    """Build an sdist of the tree and a wheel of the sdist into the emptied *folder*.

    Raises FailedError. What fails half-way leaves no file that looks like a release.
    """
    shutil.rmtree(folder, ignore_errors=True)
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        sdist = build_sdist(ROOT, work / "sdist")
        wheel = build_wheel(unpack(sdist, work / "unpacked"), work / "wheel")
        folder.mkdir(parents=True)
        return Archives(
            sdist=Path(shutil.copy(sdist, folder)), wheel=Path(shutil.copy(wheel, folder))
        )


def build_sdist(tree: Path, folder: Path) -> Path:
    """Build an sdist of *tree*, with the dashboard, for which it may need Node.js."""
    hatchling(tree, "sdist", folder)
    return single(folder, "*.tar.gz")


def build_wheel(tree: Path, folder: Path) -> Path:
    """Build a wheel of *tree* where no program of Node.js may run."""
    with tempfile.TemporaryDirectory() as name:
        for program in ("node", "npm", "npx"):
            path = Path(name) / program
            path.write_text(NO_NODE, encoding="utf-8")
            path.chmod(0o755)
        hatchling(tree, "wheel", folder, first_on_path=name)
    return single(folder, "*.whl")


def hatchling(tree: Path, target: str, folder: Path, first_on_path: str | None = None) -> None:
    """Run the build backend by its own command, which fetches nothing."""
    environment = plain_environment()
    if first_on_path:
        environment["PATH"] = f"{first_on_path}:{environment.get('PATH', '')}"
    command = [sys.executable, "-m", "hatchling", "build", "--target", target]
    run(*command, "--directory", folder, cwd=tree, environment=environment)


def unpack(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist, and return the tree that was in it."""
    with tarfile.open(sdist) as archive:
        # Python 3.11.2, which Debian has, knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", lambda member, _: member)
        archive.extractall(folder)
    return single(folder, "*")


def single(folder: Path, pattern: str) -> Path:
    """Return the one file in a folder that fits."""
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = [path.name for path in found]
        raise FailedError(f"one file {pattern} was expected, and there are {names}")
    return found[0]


def sha256(path: Path) -> str:
    """Return the hash of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def rebuilt_alike(archives: Archives) -> str:
    """Check that the sdist and the wheel of this tree come out with the same bytes again."""
    with tempfile.TemporaryDirectory() as name:
        sdist = build_sdist(ROOT, Path(name) / "sdist")
        wheel = build_wheel(ROOT, Path(name) / "wheel")
        for first, second in ((archives.sdist, sdist), (archives.wheel, wheel)):
            if sha256(first) != sha256(second):
                raise FailedError(f"{first.name} has other bytes when it is built again")
    return "of the sdist, and of the wheel when it is built from the tree"
