"""What ``make release`` checks would be found: its checks are tried on what is right and wrong.

The whole of it takes minutes and is no test of the suite; CI runs it.
"""

from __future__ import annotations

import io
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest
from tests.documentation import ROOT

from tools.release.archives import Archives, unpack
from tools.release.contents import (
    SDIST_NEEDS,
    complete_sdist,
    complete_wheel,
    nothing_else,
    small_dashboard,
)
from tools.release.extras import PROBES, PROGRAMS, declared_extras
from tools.release.programs import plain_environment, run
from tools.release.report import FailedError, Report, SkippedError

PAGE = "fencepost/dashboard/static/index.html"


# --- the report -----------------------------------------------------------------------------------


def fail() -> str:
    raise FailedError("it is too large\nby a byte")


def skip() -> str:
    raise SkippedError("no server")


def test_a_report_has_a_line_for_each_check_and_goes_on_after_a_failure() -> None:
    output = io.StringIO()
    report = Report(output)
    report.check("size", fail)
    report.check("server", skip)
    report.check("names", lambda: "3 files")
    assert report.has_failed
    assert report.counts() == "1 ok, 1 FAILED, 1 not run"
    assert output.getvalue().splitlines() == [
        "  FAILED   size: it is too large",
        "           by a byte",
        "  not run  server: no server",
        "  ok       names: 3 files",
    ]


def test_what_was_not_run_is_no_failure() -> None:
    report = Report(io.StringIO())
    report.check("server", skip)
    assert not report.has_failed


def test_a_program_that_fails_is_shown_with_what_it_said() -> None:
    with pytest.raises(FailedError, match=r"sh ended with 3\nno room"):
        run("sh", "-c", "echo no room; exit 3")


def test_a_user_of_a_release_has_none_of_our_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("FENCEPOST_URL", "DATABASE_URL", "PYTHONPATH", "VIRTUAL_ENV", "MAKEFLAGS"):
        monkeypatch.setenv(name, "x")
        assert name not in plain_environment()


# --- contents -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "tests/test_it.py",
        "fencepost/tests/test_it.py",
        "fencepost/test_it.py",
        "conformance/fences.py",
        "lab/__init__.py",
        "bench/__main__.py",
        "fencepost/dashboard/static/assets/index.js.map",
        "fencepost/__pycache__/app.pyc",
        "tools/release/report.py",
    ],
)
def test_what_does_not_belong_into_a_wheel_is_found(name: str) -> None:
    right = ["fencepost/__init__.py", "fencepost/testing/plugin.py", "fencepost-1.dist-info/RECORD"]
    right.append("fencepost/cli/commands/bench.py")
    assert nothing_else(right)
    with pytest.raises(FailedError, match=rf"{name.split('/')[0]}\b"):
        nothing_else([*right, name])


def test_an_sdist_without_the_dashboard_is_refused() -> None:
    assert complete_sdist([*SDIST_NEEDS, f"src/{PAGE}"])
    with pytest.raises(FailedError, match=r"index\.html"):
        complete_sdist([*SDIST_NEEDS])


def test_a_wheel_without_a_file_of_the_package_is_refused() -> None:
    package = ROOT / "src"
    names = [path.relative_to(package).as_posix() for path in package.rglob("*") if path.is_file()]
    assert complete_wheel([*names, PAGE])
    for missing in ("fencepost/py.typed", "fencepost/store/postgres/roles.sql"):
        with pytest.raises(FailedError, match=missing):
            complete_wheel([name for name in [*names, PAGE] if name != missing])


@pytest.mark.parametrize(("size", "is_small"), [(100_000, True), (300_000, False)])
def test_the_size_of_the_dashboard_is_bounded(tmp_path: Path, size: int, is_small: bool) -> None:
    noise = b"".join(i.to_bytes(4, "little") * 1 for i in range(0, size * 7_919, 7_919 * 4))
    wheel = tmp_path / "fencepost-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(PAGE, noise)
    if is_small:
        assert small_dashboard(wheel)
    else:
        with pytest.raises(FailedError, match="200,000 are allowed"):
            small_dashboard(wheel)


def test_an_sdist_is_unpacked_to_its_one_folder(tmp_path: Path) -> None:
    (tmp_path / "page").write_text("text")
    sdist = tmp_path / "fencepost-1.tar.gz"
    with tarfile.open(sdist, "w:gz") as archive:
        archive.add(tmp_path / "page", "fencepost-1/page")
    assert (unpack(sdist, tmp_path / "out") / "page").read_text() == "text"
    made = Archives(sdist=sdist, wheel=tmp_path / "fencepost-1-py3-none-any.whl")
    assert made.sdist_names() == ["page"]
    assert made.version == "1"


# --- extras ---------------------------------------------------------------------------------------


def test_each_extra_is_tried_by_a_program_that_exists() -> None:
    assert PROGRAMS.keys() == declared_extras().keys()
    for programs in PROGRAMS.values():
        assert programs
        assert all((PROBES / f"{program}.py").is_file() for program in programs)


def test_all_is_tried_by_the_programs_of_what_it_brings() -> None:
    [everything] = declared_extras()["all"]
    brought = everything.removeprefix("fencepost[").removesuffix("]").split(",")
    assert sorted(PROGRAMS["all"]) == sorted(p for extra in brought for p in PROGRAMS[extra])


def test_the_sdist_has_every_folder_that_the_suite_reads() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    included = project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"]
    for name in (
        "deploy",
        ".github",
        ".ci",
        "examples",
        "docs",
        "conformance",
        "lab",
        "Dockerfile",
    ):
        assert f"/{name}" in included
