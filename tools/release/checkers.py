"""Type checkers see a release as users' editors do: by the installed wheel and its py.typed."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from tools.release.archives import ROOT, Archives
from tools.release.environments import Environment
from tools.release.programs import plain_environment, run
from tools.release.report import FailedError, Report

# What the examples use besides the extras; Django's has no types, and its example declares none.
BESIDE = ("sqlalchemy[asyncio]", "asyncpg", "asyncpg-stubs")
UNTYPED = ("django", "node-worker")
STATED = ROOT / "tests" / "typing" / "public_types.py"

Checker = Callable[[Environment, list[Path]], str]

WRONG = """\
from fencepost import App

app = App()


@app.task
def add(a: int, b: int = 0) -> int:
    return a + b


add.submit("one")
"""


def check_types(report: Report, archives: Archives, folder: Path) -> None:
    """Run mypy and basedpyright on the examples, and on the file that states the public types."""
    made: list[Environment] = []

    def install() -> str:
        made.append(Environment(folder, f"{archives.wheel}[all]"))
        made[0].install(*BESIDE)
        return ""

    report.check("types: the wheel and what the examples use install", install)
    if not made:
        return
    files = typed_files(made[0].work)
    wrong = made[0].write("wrong.py", WRONG)
    report.check("types: mypy --strict on the examples", lambda: mypy(made[0], files))
    report.check("types: mypy refuses what is wrong", lambda: refuses(mypy, made[0], wrong))
    report.check("types: basedpyright on the examples", lambda: basedpyright(made[0], files))
    report.check(
        "types: basedpyright refuses what is wrong", lambda: refuses(basedpyright, made[0], wrong)
    )


def typed_files(folder: Path) -> list[Path]:
    """Copy what is checked to where no source of the package is near; return the copies."""
    copies = [Path(shutil.copy(STATED, folder))]
    for example in sorted((ROOT / "examples").iterdir()):
        if example.name not in UNTYPED:
            for source in sorted(example.glob("*.py")):
                name = f"{example.name}_{source.name}"
                copies.append(Path(shutil.copy(source, folder / name)))
    return copies


def mypy(environment: Environment, files: list[Path]) -> str:
    """Run mypy, which takes the package from the environment."""
    python = ("--python-executable", str(environment.program("python")))
    where = ("--config-file=", "--cache-dir", str(environment.work / "cache"))
    words = ("--strict", *where, *python, *(str(path) for path in files))
    run(sys.executable, "-m", "mypy", *words, cwd=environment.work)
    return f"{len(files)} files"


def basedpyright(environment: Environment, files: list[Path]) -> str:
    """Run basedpyright, with the rules that pyright has for itself."""
    settings = {"include": [str(path) for path in files], "typeCheckingMode": "standard"}
    project = environment.write("pyrightconfig.json", json.dumps(settings))
    python = ("--pythonpath", environment.program("python"))
    run(
        *(sys.executable, "-m", "basedpyright", "--project", project, *python),
        cwd=environment.work,
        environment=plain_environment(),
    )
    return f"{len(files)} files"


def refuses(checker: Checker, environment: Environment, wrong: Path) -> str:
    """Check that a checker finds the mistake in *wrong*: it sees types, and not Any."""
    try:
        checker(environment, [wrong])
    except FailedError as error:
        if "submit" in str(error) or "int" in str(error):
            return "it sees the types of the wheel"
        raise
    raise FailedError("it accepts a text for a whole number")
