"""`fencepost bench` measures a user's own store and leaves it as it was; no speed is asserted."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from click.testing import CliRunner
from tests.cli.support import Command, end, wait_until

from fencepost import App
from fencepost.cli.commands.bench import FigureLine, WriteWait, judge
from fencepost.cli.commands.bench_run import OURS, TYPE, Measured, bench_task
from fencepost.cli.main import cli
from fencepost.core.filter import JobFilter
from fencepost.store.interface.settings import Scope

ADD = '{"a": 1, "b": 2}'
NAMES = ["submit", "submit-many", "drain", "pickup.p50", "pickup.p99"]
SMALL = ("--jobs", "20")


@pytest.fixture(params=["sqlite", "postgres"])
def command(command: Command, request: pytest.FixtureRequest) -> Command:
    """Give the command on a store in which a user has a job already."""
    if request.param == "postgres":
        command.store = request.getfixturevalue("postgres_url")
        command.ok("migrate")
    command.submit("add", ADD)
    return command


@pytest.fixture
def app(command: Command) -> Iterator[App]:
    with App(command.url) as app:
        yield app


def our_jobs(app: App) -> int:
    return app.store.run(app.store.reader.count(OURS))


def everything(app: App) -> list[object]:
    return [list(app.jobs.find()), app.store.run(app.store.reader.count(JobFilter()))]


def test_every_figure_has_a_verdict_and_no_job_is_left(command: Command, app: App) -> None:
    before = everything(app)
    report = command.json("bench", *SMALL)
    assert [figure["name"] for figure in report["figures"]] == NAMES
    for figure in report["figures"]:
        assert figure["value"] > 0
        start = "as expected" if figure["is_expected"] else "slower than expected"
        assert figure["verdict"].startswith(f"{start}: ")
    assert report["jobs"] == 20
    assert report["wait"]["what"] == ("round trip" if command.store else "disk")
    assert everything(app) == before, "the user's job waits on, and nothing else is there"
    assert app.store.run(app.store.cluster.lead(TYPE, "next", 1.0)), "the next bench need not wait"
    assert not [each for each in command.folder.iterdir() if "bench" in each.name]


def test_a_table_says_the_same_in_words(command: Command) -> None:
    lines = command.ok("bench", "--jobs", "3").splitlines()
    assert lines[0].startswith(("sqlite:///", "postgresql://"))
    assert lines[1].split() == ["MEASURED", "FIGURE", "VERDICT"]
    assert len(lines) == 2 + len(NAMES)
    assert all("expected: " in line for line in lines[2:])


def test_what_a_killed_bench_left_is_removed_by_the_next(command: Command, app: App) -> None:
    bench_task(app).submit_many(range(5))
    before = {job.id for job in app.jobs.find(type="add")}
    command.ok("bench", *SMALL)
    assert {job.id for job in app.jobs.find()} == before


def test_two_benches_do_not_measure_one_store(command: Command, app: App) -> None:
    app.store.run(app.store.cluster.lead(TYPE, "another", 60.0))
    bench_task(app).submit_many(range(5))
    refused = command("bench", *SMALL)
    assert refused.exit_code == 1
    assert "another bench is measuring" in refused.stderr
    assert our_jobs(app) == 5, "it does not remove what the other measures"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_removes_its_jobs(
    command: Command, app: App, number: signal.Signals
) -> None:
    child = command.start("bench", "--jobs", "5000")
    wait_until(lambda: our_jobs(app), "jobs of the bench")
    assert end(child, number) == 1
    assert our_jobs(app) == 0
    assert len(list(app.jobs.find())) == 1
    assert not [each for each in command.folder.iterdir() if "bench" in each.name]


def test_a_store_with_a_limit_is_refused(command: Command, app: App) -> None:
    app.limit(max_running=3)
    refused = command("bench", *SMALL)
    assert refused.exit_code == 1
    assert "runs at most 3 jobs at once" in refused.stderr
    assert our_jobs(app) == 0


@pytest.mark.parametrize("scope", [Scope.QUEUE, Scope.TYPE])
def test_a_paused_queue_or_type_is_refused(command: Command, app: App, scope: Scope) -> None:
    app.store.run(app.store.settings.pause(scope, TYPE))
    refused = command("bench", *SMALL)
    assert refused.exit_code == 1
    assert f"the {scope} {TYPE} is paused" in refused.stderr
    assert our_jobs(app) == 0


def test_a_store_that_was_moved_away_is_refused(command: Command, app: App) -> None:
    app.store.run(app.store.transfer.accept_jobs(False))
    refused = command("bench", *SMALL)
    assert refused.exit_code == 1
    assert "new jobs are refused" in refused.stderr
    assert app.store.run(app.store.cluster.lead(TYPE, "next", 1.0)), "the next bench need not wait"


def test_a_paused_queue_of_the_user_stays_paused(command: Command, app: App) -> None:
    app.queues.pause("default")
    command.ok("bench", "--jobs", "2")
    assert [queue.name for queue in app.queues.list() if queue.is_paused] == ["default"]


class TestWithoutAStore:
    """What no engine changes; on the plain command of SQLite."""

    @pytest.fixture(params=["sqlite"])
    def command(self, command: Command) -> Command:
        return command

    def test_a_temporary_file_is_measured(
        self, command: Command, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        result = CliRunner().invoke(cli, ["bench", "--jobs", "2"])
        assert result.exit_code == 0, result.output
        assert result.stdout.startswith("a temporary SQLite file")
        assert not (command.folder / "fencepost.db").exists()
        assert not [each for each in command.folder.iterdir() if "bench" in each.name]

    def test_memory_is_refused(self, command: Command) -> None:
        command.store = "memory://"
        assert command("bench").exit_code == 2

    def test_a_file_that_does_not_exist_is_not_made(self, command: Command) -> None:
        command.store = f"sqlite:///{command.folder}/none.db"
        refused = command("bench")
        assert refused.exit_code == 1
        assert "there is no database" in refused.stderr
        assert not (command.folder / "none.db").exists()


FAST = Measured(jobs=1_000, submits=[0.001], bulk=50_000, drain=20_000, pickups=[0.002])
SLOW = Measured(jobs=1_000, submits=[0.5], bulk=100, drain=10, pickups=[0.9])


def judged(measured: Measured, wait: WriteWait) -> dict[str, FigureLine]:
    return {line.name: line for line in judge(measured, wait)}


def test_a_fast_store_is_as_expected() -> None:
    for wait in (WriteWait("disk", 0.001), WriteWait("round trip", 0.0002), WriteWait("nothing")):
        assert all(line.is_expected for line in judge(FAST, wait))


def test_a_slow_one_is_not_and_the_reason_is_looked_for() -> None:
    lines = judged(SLOW, WriteWait("disk", 0.001))
    assert not any(line.is_expected for name, line in lines.items() if name != "pickup.p99")
    assert "fencepost doctor" in lines["pickup.p50"].verdict
    tail = judged(FAST._replace(pickups=[0.002] * 98 + [0.9, 0.9]), WriteWait("disk", 0.001))
    assert tail["pickup.p50"].is_expected
    assert not tail["pickup.p99"].is_expected


def test_a_far_server_explains_low_figures() -> None:
    far = FAST._replace(submits=[0.1], drain=150, pickups=[0.2])
    lines = judged(far, WriteWait("round trip", 0.04))
    assert all(line.is_expected for line in lines.values())
    assert "a round trip to the server takes 40.00 ms" in lines["submit"].verdict
    assert "a round trip to the server takes 40.00 ms" in lines["drain"].verdict
