"""The repository keeps its own promises: it names no machine, and its parts agree."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest
from hatchling.builders.wheel import WheelBuilder

import fencepost

ROOT = Path(__file__).parent.parent

# Put together here, so that this file does not name them either.
REGISTRIES = [
    ".".join(parts)
    for parts in (("pypi", "org"), ("pythonhosted", "org"), ("npmjs", "org"), ("npmjs", "com"))
]
MACHINE_PATH = re.compile(r"(?<![\w.~>)}-])/(?:home|root|opt|Users)/\w|\bfile:///(?!\.)\w")

HEAVY = ["rich", "click", "sqlite3", "starlette", "uvicorn", "psycopg", "redis"]
HEAVY += ["asyncpg", "fastapi", "flask", "pydantic", "sqlalchemy", "django"]


def tracked_files() -> list[Path]:
    """Return the files git knows, or would add; without git, every file but what tools left."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, timeout=30)
        paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        left = re.compile(r"\.git|\.venv.*|\.[a-z]+_cache|\.hypothesis|\.coverage.*|__pycache__")
        paths = [
            path
            for path in ROOT.rglob("*")
            if not any(left.fullmatch(part) for part in path.relative_to(ROOT).parts)
        ]
    return [path for path in paths if path.is_file()]


def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def make(*arguments: str) -> str:
    """Run make as a person would, not as a child of the make that may have started the tests."""
    env = {k: v for k, v in os.environ.items() if k not in {"MAKEFLAGS", "MAKELEVEL", "MFLAGS"}}
    command = ["make", "--no-print-directory", *arguments]
    done = subprocess.run(
        command, cwd=ROOT, env=env, check=True, capture_output=True, text=True, timeout=60
    )
    return done.stdout


def test_no_file_names_a_registry_or_a_machine() -> None:
    found: list[str] = []
    own = [str(path) for path in (ROOT, Path.home()) if len(path.parts) > 2]
    for path in tracked_files():
        text = path.read_bytes().decode("utf-8", errors="replace")
        for number, line in enumerate(text.splitlines(), start=1):
            named = any(word in line for word in (*REGISTRIES, *own))
            if named or MACHINE_PATH.search(line):
                found.append(f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}")
    assert not found, "\n" + "\n".join(found)


def test_the_wheel_holds_the_package_alone() -> None:
    """Neither the conformance suite nor the benchmarks: a user installs what runs jobs."""
    builder = WheelBuilder(str(ROOT))
    paths = [Path(each.distribution_path) for each in builder.recurse_included_files()]
    assert len(paths) > 100
    assert {path.parts[0] for path in paths} == {"fencepost"}
    assert not [path for path in paths if "conformance" in path.parts]
    imported = re.compile(r"^\s*(?:from|import) (?:conformance|bench|lab|tests)\b", re.MULTILINE)
    sources = [ROOT / "src" / path for path in paths if path.suffix == ".py"]
    assert not [path for path in sources if imported.search(path.read_text(encoding="utf-8"))]


PACKAGE = ROOT / "src/fencepost"
SOURCES = sorted(path for path in PACKAGE.rglob("*") if path.suffix in {".py", ".sql", ".lua"})


def functions_of(path: Path) -> list[tuple[str, int]]:
    """Return the functions of a file, and how many lines each has."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)]
        return [(node.name, (node.end_lineno or 0) - node.lineno + 1) for node in nodes]
    whole = r"^create or replace function (\S+?)\(.*?\$\$;$"
    if path.suffix == ".lua":
        whole = r"^(?:local )?function (\w+)\(.*?^end$"
    found = re.finditer(whole, text, re.MULTILINE | re.DOTALL)
    return [(match[1], match[0].count("\n") + 1) for match in found]


def test_no_file_of_the_package_is_longer_than_400_lines() -> None:
    lines = {path: path.read_text(encoding="utf-8").count("\n") for path in SOURCES}
    assert len(lines) > 400
    assert {str(path): count for path, count in lines.items() if count > 400} == {}


def test_no_function_of_the_package_is_longer_than_60_lines() -> None:
    found = [(path, *each) for path in SOURCES for each in functions_of(path)]
    assert {path.suffix for path, _, _ in found} == {".py", ".sql", ".lua"}
    assert [f"{path}: {name}" for path, name, count in found if count > 60] == []


def test_a_folder_of_the_package_has_at_most_15_files() -> None:
    counts = Counter(path.parent for path in SOURCES)
    assert {str(folder): count for folder, count in counts.items() if count > 15} == {}


TERMS = {"framing", "listing", "monitoring", "observed", "paging", "testing", "tracing"}
"""Names of files that look like participles, and are words of the field or of our own."""


def test_a_file_is_named_by_a_noun() -> None:
    """`fetcher.py` says what is in it; `fetching.py` or `fetched.py` would not."""
    beside = [
        path for name in ("bench", "conformance", "lab") for path in (ROOT / name).rglob("*.py")
    ]
    participles = {
        path.name for path in [*SOURCES, *beside] if re.search(r"(?:ing|ed|eld|ept)$", path.stem)
    }
    assert participles - {f"{term}.py" for term in TERMS} == set()


def test_comments_name_files_that_exist() -> None:
    """A comment that sends its reader to a file which was renamed helps nobody."""
    places = ("src", "tests", "conformance", "lab", "bench", "tools", "docs")
    paths = [path for path in tracked_files() if path.relative_to(ROOT).parts[0] in places]
    known = [f"/{path.relative_to(ROOT)}" for path in paths] + ["/manage.py"]
    named = {
        (str(path.relative_to(ROOT)), name)
        for path in SOURCES
        for name in re.findall(r"``([\w/]+\.(?:py|sql|lua))``", path.read_text(encoding="utf-8"))
    }
    assert len(named) > 50
    missing = [each for each in named if not any(path.endswith(f"/{each[1]}") for path in known)]
    assert missing == []


ENGINES = ("store/sqlite/", "store/postgres/", "store/redis/")


def test_a_class_name_stands_for_one_thing() -> None:
    """The counterparts of the engines are one thing, and what is private to a module is its own."""
    found: dict[str, set[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        where = path.relative_to(PACKAGE).as_posix()
        room = "an engine" if where.startswith(ENGINES) else where
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, set()).add(room)
    shared = {name: rooms for name, rooms in found.items() if len(rooms) > 1}
    assert shared == {}


def test_an_engine_has_a_class_of_a_name_once() -> None:
    for engine in ENGINES:
        names = [
            node.name
            for path in sorted((PACKAGE / engine).rglob("*.py"))
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
        ]
        assert {name for name in names if names.count(name) > 1} == set()


LOCKED = [f"requirements{part}.txt" for part in ("", "-dev", "-docs", "-release")]


@pytest.mark.parametrize("name", LOCKED)
def test_locked_requirements_are_pinned_hashed_and_name_no_source(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8").replace("\\\n", " ")
    for line in text.splitlines():
        if line.strip() and not line.lstrip().startswith("#"):
            assert re.match(r"[a-z0-9._-]+==\S+( ;.*?)?( +--hash=sha256:[0-9a-f]{64})+ *$", line)


def test_the_lock_holds_every_dependency_of_the_package() -> None:
    locked = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    for dependency in project()["project"]["dependencies"]:
        name = re.split(r"[^a-z0-9-]", dependency)[0]
        assert re.search(rf"^{name}==", locked, re.MULTILINE), f"run `make lock`: {name} is missing"


def test_the_suite_tests_this_checkout() -> None:
    """An environment copied from elsewhere would run the tests on somebody else's code."""
    assert fencepost.__file__
    assert Path(fencepost.__file__).is_relative_to(ROOT / "src"), "run `make clean`, then again"


def test_no_placeholder_of_sqlite_is_numbered() -> None:
    """Python 3.14 takes none of them with a sequence; 3.11, where most tests run, is silent."""
    sources = (ROOT / "src/fencepost/store/sqlite").rglob("*.*")
    texts = {path: path.read_text() for path in sources if path.suffix in (".py", ".sql")}
    assert texts
    assert [path.name for path, text in texts.items() if re.search(r"\?\d", text)] == []


def test_the_version_is_written_once() -> None:
    declared = project()
    assert declared["project"]["dynamic"] == ["version"]
    source = (ROOT / declared["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    assert f'__version__ = "{fencepost.__version__}"' in source
    assert metadata.version("fencepost") == fencepost.__version__


def test_make_help_lists_every_target() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert {"setup", "check", "test", "test-matrix", "demo", "bench"} <= set(targets)
    listed = re.findall(r"^  ([a-z-]+) +\S", make("help"), re.MULTILINE)
    assert listed == targets


def test_make_alone_changes_nothing_and_shows_help() -> None:
    assert make() == make("help")


def test_importing_fencepost_loads_nothing_heavy() -> None:
    """`import fencepost` stays quick because each of these waits until it is needed."""
    code = (
        "import json, sys; before = set(sys.modules); import fencepost; "
        "print(json.dumps(sorted(set(sys.modules) - before)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = {name.split(".")[0] for name in json.loads(done.stdout)}
    assert "fencepost" in loaded
    assert not loaded & set(HEAVY)
