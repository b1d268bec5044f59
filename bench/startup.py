"""How long a fresh interpreter takes to import Fencepost, and to print its help."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Set as AbstractSet
from functools import partial
from statistics import median

from bench.bench import Bench
from bench.figures import Figure, Target

TIMEOUT = 60.0
IMPORT_TARGET = Target("value", below=150.0)
HELP_TARGET = Target("value", below=250.0)

BARE = ("-c", "pass")
IMPORT = ("-c", "import fencepost")
# What the installed script does.
HELP = ("-c", "from fencepost.cli.main import main; main()", "--help")


def measure(bench: Bench, names: AbstractSet[str]) -> list[Figure]:
    """Return whole-process times, beside those of an interpreter that does nothing."""
    commands: dict[str, tuple[str, ...]] = {"bare": BARE}
    if "import" in names:
        commands["import"] = IMPORT
    if "help" in names:
        commands["help"] = HELP
    found: dict[str, list[float]] = {name: [] for name in commands}
    for number in range(1, bench.sizes.starts + 1):
        bench.tell(f"start: interpreter {number} of {bench.sizes.starts}")
        for name, arguments in commands.items():
            found[name].append(bench.seconds(partial(_run, arguments)) * 1e3)
    bare = median(found.pop("bare"))
    return [_figure(name, median(times), bare) for name, times in found.items()]


def _run(arguments: tuple[str, ...]) -> None:
    command = [sys.executable, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=TIMEOUT)


def _figure(name: str, value: float, bare: float) -> Figure:
    return Figure(
        name=name,
        title="import fencepost" if name == "import" else "fencepost --help",
        unit="ms",
        value=value,
        beside=bare,
        beside_what="python -c pass",
        ratio=value / bare,
        target=IMPORT_TARGET if name == "import" else HELP_TARGET,
    )
