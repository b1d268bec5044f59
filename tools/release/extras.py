"""What each extra is for, as small programs that are run where it alone is installed."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import time
import tomllib
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from tests.documentation import README, blocks_of

from tools.release.archives import ROOT, Archives
from tools.release.environments import Environment
from tools.release.report import FailedError, Report
from tools.release.servers import Servers

PROBES = Path(__file__).parent / "probes"
SECONDS_MAX = 60.0

# The programs that show what an extra does, in the folder `probes`.
PROGRAMS: dict[str, tuple[str, ...]] = {
    "postgres": ("postgres",),
    "redis": ("redis",),
    "encryption": ("encryption",),
    "client": ("client",),
    "fast": ("fast",),
    "otel": ("otel",),
    "fastapi": ("fastapi",),
    "flask": ("flask",),
    "django": ("django",),
    "testing": ("testing",),
    "all": (
        *("postgres", "redis", "encryption", "client", "fast", "otel"),
        *("fastapi", "flask", "testing"),
    ),
}


def declared_extras() -> dict[str, list[str]]:
    """Return the extras of the package, and what each requires."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def check_extras(report: Report, archives: Archives, folder: Path) -> None:
    """Install the wheel without extras, and with each of them, and use it."""
    bare(report, archives, folder / "bare")
    with ExitStack() as stack:
        servers = Servers(stack)
        for extra in declared_extras():
            with_extra(report, archives, extra, folder / extra, servers)


def with_extra(
    report: Report, archives: Archives, extra: str, folder: Path, servers: Servers
) -> None:
    """Check what one extra adds, in an environment that has no other."""
    made: list[Environment] = []

    def install() -> str:
        made.append(Environment(folder, f"{archives.wheel}[{extra}]"))
        return ""

    report.check(f"[{extra}] installs", install)
    if not made:
        return
    for program in PROGRAMS[extra]:
        report.check(f"[{extra}] {program}", partial(probe, made[0], program, servers))
    shutil.rmtree(folder)


def probe(environment: Environment, program: str, servers: Servers) -> str:
    """Run a program of the folder ``probes``, as ``app.py`` in a folder of its own."""
    url = servers.url(program)
    source = (PROBES / f"{program}.py").read_text(encoding="utf-8")
    environment.empty()
    path = environment.write("app.py", source)
    said = environment.run("python", path.name, **({"PROBE_URL": url} if url else {}))
    return said.strip().splitlines()[-1]


# --- without extras -------------------------------------------------------------------------------


def bare(report: Report, archives: Archives, folder: Path) -> None:
    """Check what works for those who install the package alone."""
    made: list[Environment] = []

    def install() -> str:
        made.append(Environment(folder, str(archives.wheel)))
        return ""

    report.check("no extras: installs", install)
    if made:
        [environment] = made
        report.check("no extras: --version", lambda: version(environment, archives))
        report.check("no extras: the README on SQLite", lambda: six_lines(environment))
        report.check("no extras: says which one is missing", lambda: missing(environment))


def version(environment: Environment, archives: Archives) -> str:
    """Check that the command is there, and of the version in the names of the files."""
    said = environment.run("fencepost", "--version").strip()
    if archives.version not in said.split():
        raise FailedError(f"`fencepost --version` says {said!r}, and it is {archives.version}")
    return said


def six_lines(environment: Environment) -> str:
    """Run the README's first program, and a worker beside it, until the job is completed."""
    program = next(block for block in blocks_of(README) if block.is_run)
    environment.write("app.py", program.source)
    id = environment.run("python", "app.py").strip()
    with (environment.work / "log").open("w", encoding="utf-8") as log:
        worker = subprocess.Popen(
            [environment.program("fencepost"), "worker"],
            cwd=environment.work,
            env=environment.variables(),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        job = _ended(environment, id, worker)
        worker.send_signal(signal.SIGTERM)
        code = worker.wait(SECONDS_MAX)
    finally:
        worker.kill()
        worker.wait()
    if code:
        raise FailedError(f"the worker ended with {code}\n{_log(environment)}")
    if (job["state"], job["result"]) != ("completed", 3):
        raise FailedError(f"the job is {job['state']}, with the result {job['result']!r}")
    return "submitted, run by a worker, completed with 3"


def _ended(environment: Environment, id: str, worker: subprocess.Popen[bytes]) -> dict[str, Any]:
    deadline = time.monotonic() + SECONDS_MAX
    while True:
        job: dict[str, Any] = json.loads(environment.run("fencepost", "jobs", "show", id, "--json"))
        if job["state"] in ("completed", "failed", "dead"):
            return job
        if worker.poll() is not None or time.monotonic() > deadline:
            raise FailedError(f"the job is {job['state']}\n{_log(environment)}")
        time.sleep(0.1)


def _log(environment: Environment) -> str:
    return (environment.work / "log").read_text(encoding="utf-8")


def missing(environment: Environment) -> str:
    """Check that what needs an extra names it, where that is not installed."""
    environment.write("app.py", (PROBES / "missing.py").read_text(encoding="utf-8"))
    said: dict[str, str] = json.loads(environment.run("python", "app.py"))
    for extra, text in said.items():
        if not re.search(rf"pip install .fencepost\[{extra}\]", text):
            raise FailedError(f"without [{extra}], the error is {text!r}")
    return f"{len(said)} errors name the extra to install"
