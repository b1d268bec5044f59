"""`make bench` reports what it should. How fast this machine is, no test may ask."""

from __future__ import annotations

import json
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner, Result

from bench import suite
from bench.bench import Bench
from bench.child import Stopwatch
from bench.command import NAMES, bench
from bench.figures import Figure, Target, pair, percentile
from bench.machine import file_system
from bench.noop import BenchApp
from bench.raw import RawDatabase
from fencepost import App, State
from fencepost.clock import SystemClock
from fencepost.store.interface.store import Store
from fencepost.store.open import open_store

TINY = ["--quick", "--jobs", "10", "--backlog", "20"]

ROWS = {
    "submit",
    "submit-async",
    "submit-async.gain",
    "submit-many",
    "drain",
    "drain-4",
    "backlog",
    "slots.20",
    "slots.100",
    "keyed",
    "pickup.p50",
    "pickup.call.p50",
    "pickup.p99",
    "chains",
    "chains.whole",
    "fan",
    "fan.whole",
    "diamonds",
    "diamonds.whole",
    "chain",
    "memory.disk",
    "memory.worker",
    "footprint.idle",
    "footprint.busy",
    "rate",
    "import",
    "help",
}
ALONE = {
    "pickup.p50",
    "pickup.call.p50",
    "pickup.p99",
    "chain",
    "memory.disk",
    "memory.worker",
    "footprint.idle",
    "footprint.busy",
}
"""Rows that stand beside nothing."""


def run(folder: Path, *arguments: str) -> Result:
    return CliRunner().invoke(bench, [*TINY, "--path", str(folder), *arguments])


@pytest.mark.timeout(300)
def test_a_run_reports_every_figure_beside_its_limit_and_names_the_machine(tmp_path: Path) -> None:
    done = run(tmp_path, "--json")
    assert done.exit_code == 0, done.output
    report: dict[str, Any] = json.loads(done.stdout)
    assert report["failed"] == []
    assert report["sizes"]["backlog"] == 20
    figures = {figure["name"]: figure for figure in report["figures"]}
    assert figures.keys() == ROWS
    for name, figure in figures.items():
        assert figure["value"] > 0 or name == "memory.worker"
        assert (figure["beside"] is None) == (name in ALONE)
        assert (figure["ratio"] is None) == (name in ALONE)
        assert (figure["is_met"] is None) == (figure["target"] is None)
    machine = report["machine"]
    assert machine.keys() >= {"cores", "python", "sqlite", "file_system", "fdatasync_ms"}
    assert list(tmp_path.iterdir()) == [], "a bench leaves nothing behind"


def test_only_what_was_named_is_measured_and_shown_as_a_table(tmp_path: Path) -> None:
    done = run(tmp_path, "--only", "drain", "--only", "submit-many", "--durability", "process")
    assert done.exit_code == 0, done.output
    assert "drain, 1 process" in done.stdout
    assert "submit 10 in bulk" in done.stdout
    assert "durability process" in done.stdout
    assert "pickup" not in done.stdout


def test_a_measurement_that_fails_is_told_and_does_not_cost_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: Bench, names: AbstractSet[str]) -> list[Figure]:
        raise RuntimeError("[no] disk")

    def succeed(_: Bench, names: AbstractSet[str]) -> list[Figure]:
        return [Figure(name="memory", title="memory", unit="MB", value=1.0)]

    groups = (suite.Group(("pickup",), fail), suite.Group(("memory",), succeed))
    monkeypatch.setattr(suite, "GROUPS", groups)
    table, as_json = run(tmp_path), run(tmp_path, "--json")
    assert table.exit_code == as_json.exit_code == 1
    assert "failed: pickup: RuntimeError: [no] disk" in table.stdout
    report = json.loads(as_json.stdout)
    assert [figure["name"] for figure in report["figures"]] == ["memory"]
    assert report["failed"] == [{"names": ["pickup"], "error": "RuntimeError: [no] disk"}]


def test_a_missed_target_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(_: Bench, names: AbstractSet[str]) -> list[Figure]:
        target = Target("value", below=1.0)
        return [Figure(name="pickup", title="pickup", unit="ms", value=9.0, target=target)]

    monkeypatch.setattr(suite, "GROUPS", (suite.Group(("pickup",), slow),))
    done = run(tmp_path)
    assert done.exit_code == 0
    assert any(line.split()[-1:] == ["no"] for line in done.stdout.splitlines())


def test_a_backlog_that_the_rounds_would_empty_is_refused(tmp_path: Path) -> None:
    done = run(tmp_path, "--repeat", "3")
    assert done.exit_code == 2
    assert "a backlog of 20 is not enough" in done.output
    assert run(tmp_path, "--repeat", "3", "--only", "import").exit_code == 0


def test_the_names_are_each_measured_by_one_module() -> None:
    assert len(NAMES) == len(set(NAMES))
    assert {name.partition(".")[0] for name in ROWS} == set(NAMES)


def test_the_raw_limit_does_the_same_work_as_the_product(tmp_path: Path) -> None:
    """What raw statements left behind is, to the product, a queue of completed jobs."""
    path = tmp_path / "raw.db"
    raw = RawDatabase(path, durability="power", clock=SystemClock())
    raw.submit(raw.rows(300))
    raw.drain(250)
    raw.close()
    with App(f"sqlite:///{path}") as app:
        assert app.jobs.count(state=State.COMPLETED) == 250
        assert app.jobs.count(state=State.SCHEDULED) == 50
        assert [f for f in app.store.run(app.store.overview.inspect()) if f.level == "fail"] == []
        job = next(iter(app.jobs.find(state=State.COMPLETED)))
        assert job.attempt == 1
        assert job.result_body is not None
        assert job.result_body.data == b"null"


@pytest.mark.parametrize(
    ("target", "is_met"),
    [
        (Target("ratio", at_least=0.5), True),
        (Target("ratio", at_least=0.51), False),
        (Target("value", below=10.0), False),
        (Target("value", below=10.1), True),
    ],
)
def test_a_target_bounds_a_value_or_a_ratio(target: Target, is_met: bool) -> None:
    figure = Figure(name="x", title="x", unit="ms", value=10.0, ratio=0.5, target=target)
    assert figure.is_met is is_met


def test_a_pair_is_the_round_with_the_median_ratio() -> None:
    found = pair([1.0, 20.0, 30.0], [4.0, 10.0, 60.0])
    assert (found.value, found.beside, found.ratio) == (30.0, 60.0, 0.5)
    assert found.spread == (0.25, 2.0)


def test_percentiles_are_samples() -> None:
    samples = [float(number) for number in range(200, 0, -1)]
    assert percentile(samples, 0.5) == 101.0
    assert percentile(samples, 0.99) == 199.0
    assert percentile([7.0], 0.99) == 7.0


def test_the_file_system_is_that_of_the_deepest_mount() -> None:
    known = Path("/proc/self/mounts").exists()
    assert file_system(Path("/proc")) == ("proc" if known else "unknown")


def test_a_drain_of_a_part_leaves_the_rest(tmp_path: Path) -> None:
    """Also for a worker, which wraps the store: the line seems to end at the limit."""
    url = f"sqlite:///{tmp_path / 'jobs.db'}"
    store = cast(Store, Stopwatch(open_store(url), 2))
    with BenchApp(url, store=store) as made:
        made.noop.submit_many(range(5))
        made.app.worker().run(until_idle=True)
        assert made.app.jobs.count(state="completed") == 2
