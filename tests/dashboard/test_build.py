"""The build of the dashboard: what it holds, and what happens where there is no Node.js."""

from __future__ import annotations

import gzip
import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from fencepost.dashboard.files import STATIC, read_build

ROOT = Path(__file__).parent.parent.parent
COMPRESSED_MAX = 200_000


def load(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def hook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The hook in a tree without a build, on a machine without Node.js."""
    module = load("hatch_build", ROOT / "hatch_build.py")
    monkeypatch.setattr(module, "STATIC", tmp_path / "static")
    monkeypatch.setattr(module, "node_folders", lambda: iter(()))
    return module


def test_the_types_of_the_page_are_those_of_the_api() -> None:
    types = load("api_types", ROOT / "tools" / "api_types.py")
    written = types.TARGET.read_text(encoding="utf-8")
    assert types.types_text() == written, "run `make ui-types`"


def test_without_node_tests_go_on_and_are_told_the_command(
    hook: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert hook.main(["--if-possible"]) == 0
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "make ui" in said
    assert hook.main([]) == 1
    assert "Node.js 20.19" in capsys.readouterr().err


def made(hook: Any, target: str, warnings: list[str]) -> Any:
    """Return the hook as hatchling makes one, for *target*."""
    built = hook.DashboardHook.__new__(hook.DashboardHook)
    app = type("App", (), {"display_warning": lambda _, text: warnings.append(text)})()
    built.__dict__["_BuildHookInterface__target_name"] = target
    built.__dict__["_BuildHookInterface__app"] = app
    return built


def test_without_node_a_wheel_is_built_with_a_warning_and_an_sdist_is_not(hook: Any) -> None:
    warnings: list[str] = []
    made(hook, "wheel", warnings).initialize("standard", {})
    assert len(warnings) == 1
    with pytest.raises(hook.BuildError):
        made(hook, "sdist", warnings).initialize("standard", {})
    made(hook, "sdist", warnings).initialize("editable", {})
    assert made(hook, "wheel", warnings).dependencies() == [hook.NODE_WHEEL]


def test_an_sdist_needs_no_node(hook: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It has the result, and may even lack the sources."""
    hook.STATIC.mkdir()
    (hook.STATIC / "index.html").write_text("built")
    monkeypatch.setattr(hook, "UI", tmp_path / "none")
    assert made(hook, "wheel", []).dependencies() == []
    assert hook.build() is False


def test_the_build_is_small_and_has_nothing_that_the_policy_forbids() -> None:
    build = read_build()
    if build is None:
        pytest.skip("the dashboard is not built: run `make ui`")
    assert "<style" not in build.page
    assert re.findall(r"<script(?![^>]*\ssrc=)", build.page) == []
    assert " style=" not in build.page
    names = [path.name for path in STATIC.rglob("*") if path.is_file()]
    assert not [name for name in names if name.endswith(".map")]
    for name, file in build.assets.items():
        assert re.search(r"-[\w-]{8}\.\w+$", name), f"{name} has no hash in it"
        assert b"sourceMappingURL" not in file.data
        assert b"url(data:" not in file.data
        assert b"eval(" not in file.data
    packed = sum(len(file.packed) for file in build.assets.values())
    assert packed + len(gzip.compress(build.page.encode())) <= COMPRESSED_MAX


def test_the_command_finds_its_way(tmp_path: Path) -> None:
    """Run as `make test` runs it, from another folder: it says nothing, or one line."""
    command = [sys.executable, str(ROOT / "hatch_build.py"), "--if-possible"]
    if read_build() is None:
        pytest.skip("it would build: run `make ui`")
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0
    assert len((done.stdout + done.stderr).splitlines()) <= 1
