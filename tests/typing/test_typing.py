"""Both type checkers accept what is right and refuse what is wrong, as a user's editor would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
STATED = Path(__file__).parent / "public_types.py"

PREAMBLE = """\
from __future__ import annotations

from fencepost import App, BatchJob, Client, Context, JobHandle

client = Client("http://x")
app = App("memory://")


@app.task
def add(a: int, b: int = 0) -> int:
    return a + b


@app.task
async def fetch(url: str) -> bytes:
    return b""


@app.task(batch=10)
def each(jobs: list[BatchJob[int]]) -> None: ...


@app.task(queue="mail")
def with_context(ctx: Context, a: int) -> str:
    return str(a)


def context() -> Context:
    raise NotImplementedError


async def asynchronous() -> None:
    await add.aio.submit("one")  # wrong: type of an awaited argument
    add.aio.submit(1)  # wrong: never awaited, so never submitted


"""

WRONG = [
    'add.submit("one")',
    'each.submit("one")',
    "app.task(batch_wait='50ms')",
    "app.task(batch=5, isolation='process')",
    "add.submit()",
    "add.submit(1, 2, 3)",
    "add.submit(1, c=3)",
    "add.submit(None)",
    "text: str = add.submit(1).result()",
    "handle: JobHandle[str] = add.submit(1)",
    "raw: str = fetch.submit('u').result()",
    "fetch.submit(1)",
    "with_context.submit(context(), 1)",
    "with_context.submit('one')",
    "with_context.submit()",
    "number: int = with_context.submit(1).result()",
    "add.prepare('one')",
    "add.submit_idempotent(1)",
    "add.submit_idempotent('key', 'one')",
    "add.submit_idempotent('key')",
    "add.using(on_duplicate='replace')",
    "add.using(id='mine')",
    "add.using(tags=['a'])",
    "add('one')",
    "add()",
    "text: str = add(1)",
    "fetch('u').upper()",
    "with_context(1)",
    "add.using(priority='hihg')",
    "app.task(priority='hihg')",
    "app.jobs.edit('id', priority='hihg')",
    "app.jobs.retry('id', priority='hihg')",
    "add.delay(1)",
    "add.apply_async((1,), countdown=60)",
    "add.enqueue(1)",
    "add.send(1)",
    "add.using(countdown=60)",
    "client.task('add').delay(a=1)",
    "app.task(isolation='vm')",
    "app.event('a').on(isolation='vm')",
    "app.event('a').on(event='b')",
    "app.event('a').send(1)",
    "app.event('a').send_idempotent(1)",
    "app.event('a').send_idempotent(key='k')",
    "app.jobs.edit('id', attempt=1)",
    "app.jobs.edit('id', run_at='tomorrow')",
    "client.task('add').submit(1)",
    "client.task('add', conn=object())",
    "client.jobs.edit('id', attempt=1)",
]


@pytest.fixture(scope="module")
def snippet(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[int, str]]:
    """A file of which each line listed is wrong, and those lines by number."""
    lines = [str(line) for line in PREAMBLE.splitlines()]
    wrong = {lines.index(line) + 1: line for line in lines if "# wrong: " in line}
    for line in WRONG:
        lines.append(line)
        wrong[len(lines)] = line
    path = tmp_path_factory.mktemp("typing") / "wrong.py"
    path.write_text("\n".join(lines) + "\n")
    return path, wrong


def environment() -> dict[str, str]:
    return {**os.environ, "MYPYPATH": str(ROOT / "src"), "PYTHONPATH": str(ROOT / "src")}


def mypy(path: Path, cache: Path) -> tuple[int, set[int], str]:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--strict", "--no-error-summary"),
            *("--config-file", str(ROOT / "pyproject.toml")),
            *("--cache-dir", str(cache), str(path)),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=environment(),
        cwd=ROOT,
    )
    errors = [line for line in run.stdout.splitlines() if ": error:" in line]
    numbers = {int(line.split(":")[1]) for line in errors if path.name in line.split(":")[0]}
    return run.returncode, numbers, run.stdout + run.stderr


def basedpyright(path: Path) -> tuple[int, set[int], str]:
    project = path.parent / "pyrightconfig.json"
    project.write_text(
        json.dumps(
            {
                "include": [str(path)],
                "extraPaths": [str(ROOT / "src")],
                "pythonVersion": "3.11",
                "typeCheckingMode": "standard",
            }
        )
    )
    run = subprocess.run(
        [
            *(sys.executable, "-m", "basedpyright", "--outputjson"),
            *("--pythonpath", sys.executable, "--project", str(project)),
        ],
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
        env=environment(),
    )
    found = json.loads(run.stdout)["generalDiagnostics"]
    errors = [each for each in found if each["severity"] == "error"]
    numbers = {each["range"]["start"]["line"] + 1 for each in errors}
    return run.returncode, numbers, run.stdout


def test_mypy_agrees_with_every_stated_type(tmp_path: Path) -> None:
    code, _, output = mypy(STATED, tmp_path)
    assert code == 0, output


def test_basedpyright_agrees_with_every_stated_type(tmp_path: Path) -> None:
    copy = tmp_path / STATED.name
    copy.write_text(STATED.read_text())
    code, _, output = basedpyright(copy)
    assert code == 0, output


def test_mypy_refuses_every_wrong_line(snippet: tuple[Path, dict[int, str]]) -> None:
    path, wrong = snippet
    _, numbers, output = mypy(path, path.parent / "cache")
    assert wrong.keys() - numbers == set(), output
    assert numbers <= wrong.keys(), output


def test_basedpyright_refuses_every_wrong_line(snippet: tuple[Path, dict[int, str]]) -> None:
    path, wrong = snippet
    _, numbers, output = basedpyright(path)
    assert wrong.keys() - numbers == set(), output
    assert numbers <= wrong.keys(), output
