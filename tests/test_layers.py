"""Imports point one way only, so that each folder can be read, and tested, without those below it.

The rules are those of CONTRIBUTING.md. Every import counts: relative ones, ones inside a function,
and ones for type checkers only, because a reader follows those just the same.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "src" / "fencepost"

FACADE = "fencepost"  # the package's own __init__: importing from it means importing everything
EVERYWHERE = {"errors"}
EVERYWHERE_BUT_CORE = EVERYWHERE | {"clock", "generators", "observe", "platform"}
PIPELINE = {"app", "worker", "maintenance", "delivery"}
FRAMEWORKS = {"starlette", "fastapi", "flask", "django"}
VIEWS = {"http", "dashboard", "cli", "testing", *FRAMEWORKS}
STORED = EVERYWHERE_BUT_CORE | {"core", "store"}
ALL = STORED | PIPELINE | VIEWS | {"actions", "handles", "webhooks", "wire", "client", FACADE}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "generators": set(),
    "platform": set(),
    "clock": EVERYWHERE,
    "core": EVERYWHERE,
    "observe": EVERYWHERE | {"clock", "core"},
    "store": EVERYWHERE_BUT_CORE | {"core"},
    "actions": STORED,
    "handles": EVERYWHERE_BUT_CORE | {"core", "actions", "worker"},
    **dict.fromkeys(PIPELINE, STORED | PIPELINE | {"actions", "handles"}),
    "webhooks": EVERYWHERE_BUT_CORE | {"core"},
    "wire": EVERYWHERE | {"core"},
    "client": EVERYWHERE_BUT_CORE | {"core", "wire", "actions", "handles"},
    **dict.fromkeys(VIEWS, ALL),
    FACADE: ALL - VIEWS,
    "__main__": ALL,
}

# `app.asgi()` hands out the app as a server sees it; nothing of the app depends on that.
ALLOWED = {("fencepost.app.app", "fencepost.http")}

# Of `actions`, what a client shares with an app: nothing in it knows of a store.
SHARED_ACTIONS = {
    f"fencepost.actions.{name}" for name in ("backend", "options", "replies", "synonyms")
}

# What `core` may use besides itself: values and arithmetic. No I/O, clock, threads or logging.
IMPURE = {
    "asyncio", "concurrent", "io", "logging", "multiprocessing", "os", "pathlib", "queue",
    "secrets", "select", "shutil", "signal", "socket", "sqlite3", "subprocess", "tempfile",
    "threading", "time", "urllib",
}  # fmt: skip

PURE = {"msgspec", "cronsim"}
"""Libraries that only compute."""


def module_name(path: Path) -> str:
    """Return the dotted name under which Python knows the file at *path*."""
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_module(name: str) -> bool:
    """Tell whether *name* is a file or folder of the package, rather than something within one."""
    path = PACKAGE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def imports(source: str, module: str, *, is_package: bool) -> Iterator[str]:
    """Yield the absolute name of every module that *source*, the text of *module*, imports."""
    package = module.split(".") if is_package else module.split(".")[:-1]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{base}.{alias.name}"
                ours = inner.split(".")[0] == FACADE
                yield inner if ours and is_module(inner) else base


def layer_of(module: str) -> str:
    """Return the layer of one of our modules: the folder or file right under the package."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else FACADE


def complaint(module: str, imported: str) -> str | None:
    """Say what is wrong with *module* importing *imported*, or return None."""
    top = imported.split(".")[0]
    own = layer_of(module)
    if top != FACADE:
        if own == "core" and (top in IMPURE or top not in {*sys.stdlib_module_names, *PURE}):
            return f"{module} imports {imported}: core is pure"
        return None
    other = layer_of(imported)
    if own == other:
        return None
    if other not in MAY_IMPORT[own] and (module, imported) not in ALLOWED:
        return f"{module} imports {imported}: {own} may not import {other}"
    if own == "client" and other == "actions" and imported not in SHARED_ACTIONS:
        return f"{module} imports {imported}: a client has no store"
    if own in PIPELINE and other in PIPELINE and imported.count(".") > 1:
        return f"{module} imports {imported}: import it from fencepost.{other} itself"
    return None


def complaints(source: str, module: str, *, is_package: bool = False) -> list[str]:
    """Return everything that is wrong with the imports of *module*."""
    found = (complaint(module, name) for name in imports(source, module, is_package=is_package))
    return sorted({text for text in found if text})


FILES = sorted(PACKAGE.rglob("*.py"))


def test_every_module_belongs_to_a_layer_with_a_rule() -> None:
    unknown = {layer_of(module_name(path)) for path in FILES} - set(MAY_IMPORT)
    assert not unknown, f"give {sorted(unknown)} a place in MAY_IMPORT and in CONTRIBUTING.md"


def test_imports_point_up_only() -> None:
    assert FILES
    wrong: list[str] = []
    for path in FILES:
        source = path.read_text(encoding="utf-8")
        is_package = path.name == "__init__.py"
        wrong += complaints(source, module_name(path), is_package=is_package)
    assert not wrong, "\n" + "\n".join(wrong)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fencepost.core.job.why", "from fencepost.store import Store"),
        ("fencepost.core.job.why", "from ...store import Store"),
        ("fencepost.core.job.why", "from ... import store"),
        ("fencepost.core.job.why", "def f():\n    import fencepost.clock"),
        ("fencepost.core.job.why", "from fencepost.observe import names"),
        ("fencepost.core.job.why", "import logging"),
        ("fencepost.core.job.why", "import rich"),
        ("fencepost.store.plan", "if TYPE_CHECKING:\n    from fencepost.app import App"),
        ("fencepost.store.plan", "from fencepost import App"),
        ("fencepost.app.app", "from fencepost.cli import main"),
        ("fencepost.app.app", "from fencepost.http.api import Api"),
        ("fencepost.handles.job", "from fencepost.http import asgi"),
        ("fencepost.handles.job", "from fencepost.store.interface.store import Store"),
        ("fencepost.client.jobs", "from fencepost.actions.local.jobs import LocalJobs"),
        ("fencepost.app.app", "from fencepost.testing import clock"),
        ("fencepost.worker.run.executor", "from fencepost.app.tasks import TaskHandle"),
        ("fencepost.platform.locks", "from fencepost.errors import StoreError"),
        ("fencepost.errors", "from fencepost.core.job.job.lifecycle import State"),
    ],
)
def test_a_planted_import_is_caught(module: str, source: str) -> None:
    """The check is worth nothing if it lets these through."""
    assert complaints(source, module)


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("fencepost.core.job.why", "from datetime import timedelta\nfrom random import Random"),
        ("fencepost.core.job.why", "from fencepost.errors import FencepostError\nimport msgspec"),
        ("fencepost.core.job.why", "from .limits import EXPONENT_MAX"),
        (
            "fencepost.store.plan",
            "from fencepost.core.job.job import Job\nimport fencepost.clock",
        ),
        ("fencepost.app.app", "def worker():\n    from fencepost.worker import Worker"),
        ("fencepost.cli.main", "from fencepost import App\nfrom fencepost.store.plan import run"),
    ],
)
def test_a_rightful_import_passes(module: str, source: str) -> None:
    assert complaints(source, module) == []
