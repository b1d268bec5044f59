"""What is in the archives of a release, and what must not be."""

from __future__ import annotations

import gzip
import re
import sys
import zipfile
from pathlib import Path

from tools.release.archives import ROOT, Archives, rebuilt_alike
from tools.release.programs import run
from tools.release.report import FailedError, Report

STATIC = "fencepost/dashboard/static/"
COMPRESSED_MAX = 200_000
"""What a browser loads to show the dashboard, at most."""

UNWANTED = re.compile(
    r"\.map$|\.pyc$|\.db$|(?:^|/)(?:tests?|bench|lab|conformance|node_modules|__pycache__)/"
    r"|(?:^|/)(?:test_[^/]*|conftest)\.py$|\.tsx?$"
)
SDIST_NEEDS = (
    "src/fencepost/__init__.py",
    "src/fencepost/py.typed",
    "ui/package-lock.json",
    "hatch_build.py",
    "pyproject.toml",
    "README.md",
    "LICENSE",
    "CHANGELOG.md",
    "SECURITY.md",
    "Makefile",
    "tests/test_repository.py",
)
WHEEL_NEEDS = ("fencepost/__init__.py", "fencepost/py.typed")


def check_contents(report: Report, archives: Archives) -> None:
    """Run every check of the two files."""
    sdist, wheel = archives.sdist_names(), archives.wheel_names()
    report.check("built again: the same bytes", lambda: rebuilt_alike(archives))
    report.check("sdist: complete, with the dashboard", lambda: complete_sdist(sdist))
    report.check("wheel: complete, with the dashboard", lambda: complete_wheel(wheel))
    report.check("wheel: nothing but the package", lambda: nothing_else(wheel))
    report.check("wheel: size of the dashboard", lambda: small_dashboard(archives.wheel))
    report.check("twine check --strict", lambda: twine(archives))
    report.check("check-wheel-contents", lambda: check_wheel(archives.wheel))


def complete_sdist(names: list[str]) -> str:
    """Check that a wheel can be built of it without Node.js, and that the suite is in it."""
    missing = [name for name in SDIST_NEEDS if name not in names]
    return _complete(names, missing, f"src/{STATIC}")


def complete_wheel(names: list[str]) -> str:
    """Check that every file of the package is there."""
    package = ROOT / "src"
    sources = [
        path.relative_to(package).as_posix()
        for path in (package / "fencepost").rglob("*")
        if path.is_file() and path.suffix in (".py", ".sql", ".lua", ".typed")
    ]
    return _complete(
        names, [name for name in (*WHEEL_NEEDS, *sources) if name not in names], STATIC
    )


def _complete(names: list[str], missing: list[str], static: str) -> str:
    page = [name for name in names if name.startswith(static)]
    if f"{static}index.html" not in page:
        missing = [*missing, f"{static}index.html"]
    if missing:
        raise FailedError(f"these are missing: {', '.join(missing)}")
    return f"{len(names)} files, {len(page)} of the dashboard"


def nothing_else(names: list[str]) -> str:
    """Check that there are no tests, no source maps and no tools of development."""
    folders = {name.partition("/")[0] for name in names}
    other = sorted(
        each for each in folders if not re.fullmatch(r"fencepost(-.+\.dist-info)?", each)
    )
    unwanted = [name for name in names if UNWANTED.search(name)]
    if other or unwanted:
        raise FailedError(f"these should not be in it: {', '.join([*other, *unwanted])}")
    return "no tests, source maps, conformance, bench or lab"


def small_dashboard(wheel: Path) -> str:
    """Check how much a browser loads."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.startswith(STATIC)]
        shown = [name for name in names if not name.endswith(("/sources", "/"))]
        packed = sum(len(gzip.compress(archive.read(name), 9, mtime=0)) for name in shown)
    if packed > COMPRESSED_MAX:
        raise FailedError(f"{packed:,} bytes compressed, and {COMPRESSED_MAX:,} are allowed")
    return f"{packed:,} bytes compressed, of {COMPRESSED_MAX:,}"


def twine(archives: Archives) -> str:
    """Let twine check the metadata and the page that an index would show."""
    files = (archives.sdist, archives.wheel)
    run(sys.executable, "-m", "twine", "--no-color", "check", "--strict", *files)
    return "metadata and README are accepted"


def check_wheel(wheel: Path) -> str:
    """Let check-wheel-contents look for the usual mistakes."""
    # Not W002, equal files: packages of two engines begin with the same docstring.
    settings = ("--toplevel", "fencepost", "--no-config", "--ignore", "W002")
    return (
        run(sys.executable, "-m", "check_wheel_contents", *settings, wheel).split(": ")[-1].strip()
    )
