"""Checks the model with spin: it holds as it is, and fails with each planted bug.

``python -m lab.formal`` runs the configurations; where spin or a C compiler is missing it says so.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

import msgspec

from fencepost.clock import SystemClock

MODEL = Path(__file__).with_name("lease.pml")
CHECK_TIMEOUT = 900.0
"""Seconds after which one check is given up: a machine may be busy, a state space too large."""
DEPTH_MAX = 1_000_000

SAFETY = "safe"
LIVENESS = "ends"


class Configuration(msgspec.Struct, frozen=True):
    """A size of the model, and the properties to check in it."""

    name: str
    defines: dict[str, int] = {}
    properties: tuple[str, ...] = (SAFETY, LIVENESS)
    is_small: bool = False
    """So small that an optimised checker takes longer to compile than it saves."""


SMALLEST = Configuration("smallest", {"FAULTS": 1, "RELEASES": 0}, is_small=True)
CONFIGURATIONS = (
    SMALLEST,
    Configuration("no leader", {"FAULTS": 1, "RELEASES": 0, "NO_LEADER": 1}),
    Configuration("two faults, a release", {"FAULTS": 2}),
    Configuration("three attempts", {"FAULTS": 1, "ATTEMPTS": 3}),
    Configuration("three workers", {"FAULTS": 1, "RELEASES": 0, "WORKERS": 3}),
    Configuration("three faults", {"FAULTS": 3, "RELEASES": 0}, (SAFETY,)),
    Configuration("two jobs", {"FAULTS": 1, "RELEASES": 0, "JOBS": 2}, (SAFETY,)),
)

BUGS: dict[str, str] = {
    "BUG_TOKEN_IGNORED": SAFETY,
    "BUG_EXPIRY_IGNORED": SAFETY,
    "BUG_CANCEL_KEEPS_LEASE": SAFETY,
    "BUG_REPEAT_COUNTS": SAFETY,
    "BUG_HEARTBEAT_REVIVES": SAFETY,
    "BUG_RECOVERY_UNCOUNTED": SAFETY,
    "BUG_RECOVERS_TOO_EARLY": SAFETY,
    "BUG_TOKEN_NOT_RENEWED": SAFETY,
    "BUG_ACKNOWLEDGED_EARLY": SAFETY,
    "BUG_NOBODY_RECOVERS": LIVENESS,
}
"""The planted bugs, and the property that each must break."""


class Checked(msgspec.Struct, frozen=True):
    """One property of one model."""

    name: str
    property: str
    holds: bool
    states: int
    seconds: float
    evidence: str = ""
    """What spin said was violated."""


class Report(msgspec.Struct, frozen=True):
    """What was checked, and what was wrong; *missing* says why nothing was."""

    checks: list[Checked] = []
    bugs_found: list[str] = []
    findings: list[str] = []
    missing: str = ""

    def lines(self) -> list[str]:
        """Return the report for people."""
        if self.missing:
            return [f"skipped: {self.missing}"]
        return [
            *(
                f"{each.name}, {each.property}: {'holds' if each.holds else 'violated'}, "
                f"{each.states:,} states, {each.seconds:.1f} s {each.evidence}".rstrip()
                for each in self.checks
            ),
            f"planted bugs found: {len(self.bugs_found)} of "
            f"{sum(each.name in BUGS for each in self.checks)}",
            *self.findings,
        ]


def missing_tool() -> str:
    """Return what has to be installed before anything can be checked; empty if nothing."""
    for tool, package in (("spin", "spin"), ("cc", "gcc")):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: apt-get install {package})"
    return ""


def run(
    configurations: Sequence[Configuration] = CONFIGURATIONS, bugs: Sequence[str] = tuple(BUGS)
) -> Report:
    """Check that the model holds in each configuration and that each of *bugs* is found."""
    missing = missing_tool()
    if missing:
        return Report(missing=missing)
    checks: list[Checked] = []
    findings: list[str] = []
    for configuration in configurations:
        for checked in _check_all(configuration):
            checks.append(checked)
            if not checked.holds:
                findings.append(f"{checked.name} violates {checked.property}: {checked.evidence}")
    found: list[str] = []
    for bug in bugs:
        planted = Configuration(bug, {**SMALLEST.defines, bug: 1}, (BUGS[bug],), is_small=True)
        for checked in _check_all(planted):
            checks.append(checked)
            if checked.holds:
                findings.append(f"{bug} was not found")
            else:
                found.append(bug)
    return Report(checks, found, findings)


def _check_all(configuration: Configuration) -> list[Checked]:
    """Compile the model once, and check each property with it."""
    with tempfile.TemporaryDirectory(prefix="fencepost-spin-") as folder:
        defines = [f"-D{name}={value}" for name, value in configuration.defines.items()]
        _execute(["spin", *defines, "-a", str(MODEL)], folder)
        # NFAIR: how many processes fairness can follow. COLLAPSE: a quarter of the memory.
        level = "-O0" if configuration.is_small else "-O2"
        flags = [level, "-w", "-DCOLLAPSE", "-DNFAIR=4"]
        _execute(["cc", *flags, "-o", "pan", "pan.c"], folder)
        return [_check(configuration.name, each, folder) for each in configuration.properties]


def _check(name: str, claim: str, folder: str) -> Checked:
    clock = SystemClock()
    started_at = clock.monotonic()
    # Liveness is promised to those who get their turn: weak fairness.
    fair = ["-f"] if claim == LIVENESS else []
    output = _execute(["./pan", "-a", *fair, "-N", claim, f"-m{DEPTH_MAX}"], folder)
    errors = re.search(r"errors: (\d+)", output)
    states = re.search(r"([\d.e+]+) states, stored", output)
    if errors is None or states is None or "max search depth too small" in output:
        raise RuntimeError(f"spin did not finish {name}, {claim}:\n{output[-2000:]}")
    evidence = re.search(r"assertion violated.*|acceptance cycle.*", output)
    return Checked(
        name,
        claim,
        errors[1] == "0",
        int(float(states[1])),
        clock.monotonic() - started_at,
        "" if evidence is None else evidence[0],
    )


def _execute(command: list[str], folder: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=CHECK_TIMEOUT,
        check=False,
    )
    if done.returncode and command[0] != "./pan":
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr
