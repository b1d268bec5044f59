"""Flows on the command line: drawn, listed, cancelled and run again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.support import Command

from fencepost import App, FlowHandle, PermanentError, State, chain, fan_in, fan_out
from fencepost.cli.commands.queues import STATES
from fencepost.cli.jobs import graph as job_graph
from fencepost.cli.jobs.graph import PLAIN_ARROWS, around, draw, graph_rows
from fencepost.testing import drain


class Rig:
    """An app with one task, and flows of it."""

    def __init__(self, url: str) -> None:
        self.app = App(url)

        @self.app.task
        def step(name: str = "") -> None:
            if name == "bad":
                raise PermanentError("no")

        self.step = step

    def job(self, name: str = "", **options: Any) -> Any:
        return self.step.using(**options).prepare(name)

    def diamond(self, first: str = "") -> FlowHandle:
        return self.app.flow(
            {
                "first": self.job(first),
                "left": self.job(after="first"),
                "right": self.job(after="first"),
                "last": self.job(after=["left", "right"], accept_failures=True),
            }
        ).submit()

    def rows(self, job_id: str) -> list[tuple[str, str, str]]:
        """Return name with indent, state and notes of the graph around a job."""
        store = self.app.store
        (job,) = store.run(store.reader.get([job_id]))
        assert job is not None
        rows = graph_rows(around(store, job), job_id, arrows=PLAIN_ARROWS)
        return [(str(name), str(state), str(notes)) for name, _, state, _, notes in rows]


@pytest.fixture
def rig() -> Rig:
    return Rig("memory://")


def test_a_flow_is_drawn_each_job_below_what_it_waits_for(rig: Rig) -> None:
    handle = rig.diamond()
    assert rig.rows(handle["right"].id) == [
        ("first", "scheduled", ""),
        ("  left", "pending", "`-> waits for first"),
        ("  right", "pending", "`-> waits for first  <- this job"),
        ("    last", "pending", "`-> waits for the end of left, right"),
    ]
    drain(rig.app)
    assert rig.rows(handle["first"].id)[1:3] == [
        ("  left", "completed", "`-> waited for first"),
        ("  right", "completed", "`-> waited for first"),
    ]


def test_jobs_of_no_flow_are_drawn_with_those_they_are_connected_with(rig: Rig) -> None:
    first = rig.step.submit()
    second = rig.step.using(after_any=first).submit()
    rig.step.submit()
    assert rig.rows(second.id) == [
        ("step", "scheduled", ""),
        ("  step-2", "pending", "`-> waits for any of step  <- this job"),
    ] or rig.rows(second.id) == [
        ("step-2", "scheduled", ""),
        ("  step", "pending", "`-> waits for any of step-2  <- this job"),
    ]


def test_a_large_graph_is_cut_to_the_nearest(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_graph, "JOBS_MAX", 5)
    handle = rig.app.flow(chain(*(rig.job() for _ in range(20)))).submit()
    middle = handle["step-10"]
    store = rig.app.store
    found = around(store, middle.refresh())
    assert found.is_cut
    assert len(found.jobs) == 5
    assert middle.id in {job.id for job in found.jobs}
    assert draw(found, middle.refresh())[0] == "around it (the nearest 5 jobs)"


def test_a_deep_graph_does_not_run_off_the_screen(rig: Rig) -> None:
    handle = rig.app.flow(chain(*(rig.job() for _ in range(100)))).submit()
    deepest = max(len(name) - len(name.lstrip()) for name, _, _ in rig.rows(handle["step"].id))
    assert deepest == 2 * job_graph.INDENT_MAX


def test_many_dependencies_are_named_in_short(rig: Rig) -> None:
    handle = rig.app.flow(fan_in([rig.job() for _ in range(20)], ("last", rig.job()))).submit()
    assert rig.rows(handle["last"].id)[-1][2].startswith("`-> waits for step, step-2,")
    assert "and 15 more" in rig.rows(handle["last"].id)[-1][2]


def test_a_terminal_shows_short_ids(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    handle = rig.app.flow(chain(rig.job(), rig.job())).submit()
    job = handle["step"].refresh()
    _, first, _ = draw(around(rig.app.store, job), job)
    assert job.id in first
    monkeypatch.setattr("fencepost.cli.output.is_terminal", lambda: True)
    _, first, _ = draw(around(rig.app.store, job), job)
    assert job.id not in first
    assert job.id[:8] in first


def test_a_lone_job_is_not_drawn(rig: Rig) -> None:
    job = rig.step.submit().refresh()
    assert draw(around(rig.app.store, job), job) == []


# The command.


def test_a_job_is_shown_with_its_flow(command: Command) -> None:
    rig = Rig(command.url)
    handle = rig.diamond()
    text = command.ok("jobs", "show", handle["left"].id)
    assert f"flow            {handle.id}" in text
    assert "node            left" in text
    assert "runs when these have completed: first" in text
    assert f"flow {handle.id} (4 jobs)" in text
    assert "waits for the end of left, right" in text
    assert "this job" in text
    shown = command.json("jobs", "show", handle["left"].id)
    assert shown["dependencies"] == [handle["first"].id]
    assert shown["dependents"] == [handle["last"].id]
    assert (shown["flow"], shown["node"]) == (handle.id, "left")
    lone = rig.step.submit()
    assert "flow" not in command.ok("jobs", "show", lone.id)
    assert command.json("jobs", "show", lone.id)["dependencies"] == []


def test_flows_are_listed_cancelled_and_run_again(command: Command) -> None:
    """S1-73, C36."""
    rig = Rig(command.url)
    handle, other = rig.diamond(), rig.diamond()
    listed = command.json("jobs", "ls", "--flow", handle.id)["jobs"]
    assert [job["node"] for job in listed] == ["last", "right", "left", "first"]
    assert command.json("jobs", "cancel", "--flow", handle.id, "--yes") == {"count": 4}
    assert set(handle.states().values()) == {State.CANCELLED}
    assert State.CANCELLED not in other.states().values()
    assert command.ok("jobs", "retry", "--flow", handle.id) == "reopened 4 jobs\n"
    assert handle.states() == other.states()


def test_a_list_of_flows_says_how_many_jobs_are_in_which_state(command: Command) -> None:
    rig = Rig(command.url)
    older = rig.diamond("bad")
    drain(rig.app)
    newer = rig.diamond()
    listed = command.json("flows", "ls", "--limit", "1")
    assert [flow["id"] for flow in listed["flows"]] == [newer.id]
    rest = command.json("flows", "ls", "--after", listed["next"])
    assert [flow["id"] for flow in rest["flows"]] == [older.id]
    assert rest["next"] is None
    assert [flow["id"] for flow in command.json("flows", "ls", "--live")["flows"]] == [newer.id]
    failed = command.ok("flows", "ls", "--failed")
    assert older.id in failed
    assert newer.id not in failed


def test_a_retry_that_cannot_be_says_what_to_do(command: Command) -> None:
    rig = Rig(command.url)
    handle = rig.diamond("bad")
    drain(rig.app)
    assert handle["last"].refresh().state is State.COMPLETED
    refused = command("jobs", "retry", handle["left"].id)
    assert refused.exit_code == 1
    assert f"app.flows.get('{handle.id}').retry()" in refused.stderr
    assert "never ran: it waited for job" in command.ok("jobs", "why", handle["left"].id)
    assert command.json("jobs", "retry", "--flow", handle.id) == {"count": 3}


@pytest.mark.parametrize(
    "words",
    [
        ["retry"],
        ["retry", "an-id", "--flow", "f"],
        ["retry", "--flow", "f", "--delay", "5s"],
        ["retry", "--flow", "f", "--keep-attempts"],
        ["cancel", "an-id", "--flow", "f"],
    ],
)
def test_a_flow_and_other_words_that_make_no_sense_together(
    command: Command, words: list[str]
) -> None:
    Rig(command.url).step.submit()
    assert command("jobs", *words).exit_code == 2


def test_a_flow_that_nobody_knows_is_refused(command: Command) -> None:
    Rig(command.url).step.submit()
    for words in (["retry"], ["cancel", "--yes"]):
        refused = command("jobs", *words, "--flow", "nobody")
        assert refused.exit_code == 1
        assert "(flow_not_found)" in refused.stderr


def test_fan_outs_are_drawn_side_by_side(rig: Rig) -> None:
    handle = rig.app.flow(fan_out(("a", rig.job()), [("b", rig.job()), ("c", rig.job())])).submit()
    assert [name for name, _, _ in rig.rows(handle["a"].id)] == ["a", "  b", "  c"]


def test_lists_of_queues_and_types_have_a_column_for_every_state() -> None:
    """S1-12: PENDING too."""
    assert set(STATES) == {state.value for state in State}
