"""The run of everything: who goes when, what is added up, and what the page says."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lab.chaos.report import Report as ChaosReport
from lab.chaos.violation import Violation
from lab.formal.check import Checked
from lab.formal.check import Report as FormalReport
from lab.fuzz.suite import Report as FuzzReport
from lab.model.run import Report as ModelReport
from lab.mutants.suite import Report as MutantsReport
from lab.mutants.suite import Row, Trial, Verdict
from lab.nth.suite import Report as NthReport
from lab.simulation.report import Failure
from lab.simulation.report import Report as SimulationReport
from lab.torture.archive import Archive
from lab.torture.markdown import PAGE, PLACE, render
from lab.torture.schedule import Record, run
from lab.torture.suites import SUITES, Slice, Suite
from lab.torture.summary import Summary, summarise

ROOT = Path(__file__).parent.parent.parent


class Said(msgspec.Struct, frozen=True):
    """What a suite of these tests reports."""

    text: str


def suite(name: str, program: str, weight: float | None = None) -> Record:
    """Return a suite whose child runs *program*, with the number of the slice as its argument."""

    class Scripted(Suite):
        def command(self, part: Slice) -> list[str]:
            return [sys.executable, "-c", program, str(part.number)]

    return Record(Scripted(name, "", Said, weight=weight))


SAYS = 'import sys; print(\'{"text": "%s"}\' % sys.argv[1])'


def told(records: list[Any]) -> dict[str, list[str]]:
    return {each.suite.name: [report.text for report in each.reports] for each in records}


def test_every_suite_goes_once_however_short_the_time() -> None:
    records = [suite("once", SAYS), suite("a", SAYS, weight=1), suite("b", SAYS, weight=9)]
    run(records, seconds=0.0, tell=lambda _: None)
    assert told(records) == {"once": ["0"], "a": ["0"], "b": ["0"]}
    assert not any(record.troubles for record in records)


def test_what_was_said_is_kept_after_every_slice() -> None:
    kept: list[int] = []
    suites = [suite("once", SAYS), suite("a", SAYS, weight=1)]
    run(
        suites,
        seconds=0.0,
        tell=lambda _: None,
        keep=lambda records: kept.append(sum(len(each.reports) for each in records)),
    )
    assert kept == [1, 2]


def test_who_had_least_of_its_due_goes_next(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    order: list[str] = []
    monkeypatch.setattr("lab.torture.schedule.time.monotonic", lambda: now[0])

    def spend(record: Any, _: float, __: Any) -> None:
        order.append(record.suite.name)
        record.slices += 1
        record.seconds += 10.0
        now[0] += 10.0

    monkeypatch.setattr("lab.torture.schedule._slice", spend)
    suites = [suite("a", SAYS, weight=1), suite("b", SAYS, weight=3)]
    run(suites, seconds=80.0, tell=lambda _: None)
    assert (order.count("a"), order.count("b")) == (2, 6)


@pytest.mark.parametrize(
    ("program", "trouble"),
    [
        ("import sys; sys.exit('broken')", "broken"),
        ("import sys; sys.exit(2)", "ended with 2"),
        ("print('not a report')", "printed no report"),
        ("print('{}')", "printed no report"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with -9"),
    ],
)
def test_a_suite_that_says_nothing_is_trouble(program: str, trouble: str) -> None:
    record = suite("a", program)
    run([record], seconds=0.0, tell=lambda _: None)
    assert not record.reports
    assert trouble in record.troubles[0]
    summary = summarise({}, record.troubles, machine="m", version="1", seconds=1.0)
    assert not summary.is_clean


def test_a_report_of_findings_is_heard() -> None:
    """A suite that found something ends with 1, and its report counts."""
    record = suite("a", SAYS + "; sys.exit(1)")
    run([record], seconds=0.0, tell=lambda _: None)
    assert (record.reports, record.troubles) == ([Said("0")], [])


def test_a_run_is_gone_on_with(tmp_path: Path) -> None:
    """What once was enough is not run again; the others go on with further slices."""
    archive = Archive(tmp_path)
    records = [suite("once", SAYS), suite("a", SAYS, weight=1), suite("a-b", SAYS, weight=1)]
    run(records, seconds=0.0, tell=lambda _: None, keep=lambda each: archive.save(each, 7.5))
    again = Archive(tmp_path)
    resumed = again.load([record.suite for record in records])
    assert again.seconds == 7.5
    assert told(resumed) == {"once": ["0"], "a": ["0"], "a-b": ["0"]}
    run(resumed, seconds=0.2, tell=lambda _: None)
    assert told(resumed)["once"] == ["0"]
    assert told(resumed)["a"][:2] == ["0", "1"]
    again.clear()
    assert told(again.load([records[0].suite])) == {"once": []}
    assert again.seconds == 0.0


def test_the_commands_of_the_suites_name_their_seeds() -> None:
    commands = {each.name: each.command(Slice(2, 100.0)) for each in SUITES}
    seeds = ["--seeds", "41..60", "--scene", "defaults"]
    assert commands["simulation"][1:] == ["-m", "lab.simulation", *seeds, "--json"]
    assert commands["chaos-postgres"][3:] == [
        *("--store", "postgres", "--seconds", "80", "--seed", "2", "--json")
    ]
    assert commands["mutants"][1:] == ["-m", "lab.mutants", "--jobs", "2", "--json"]


def chaos(**changes: Any) -> ChaosReport:
    fields: dict[str, Any] = dict.fromkeys(ChaosReport.__struct_fields__, 0)
    fields |= {
        "store": "sqlite",
        "source": "SQLite 3.40",
        "ttl": 2.0,
        "seconds": 60.0,
        "kinds": ["kill"],
        "injected": {"kill": 3, "stop": 1},
        "skipped": {"full": "no disk to fill"},
        "kills": 3,
        "stops": 1,
        "acknowledged": 100,
        "attempts": 110,
        "duplicates": 10,
        "stale_tried": 50,
        "stale_refused": 50,
        "recoveries": 3,
        "recovery_p50": 2.1,
        "recovery_p99": 2.4,
        "recovery_max": 2.5,
        "violations_by_rule": {},
        "violations": [],
        "ledgers": None,
    }
    return ChaosReport(**(fields | changes))


def simulated(**changes: Any) -> SimulationReport:
    fields: dict[str, Any] = dict.fromkeys(SimulationReport.__struct_fields__, 1)
    fields |= {"faults": {"crash": 7}, "failures": [], "digest": "", "simulated_seconds": 7200.0}
    return SimulationReport(**(fields | {"lost": 0} | changes))


def compared(**changes: Any) -> ModelReport:
    fields: dict[str, Any] = dict.fromkeys(ModelReport.__struct_fields__, 5)
    fields |= {"stores": ("memory", "sqlite"), "differences": []}
    return ModelReport(**(fields | changes))


def caught(name: str, *verdicts: Verdict) -> Row:
    trials = [Trial(f"suite{n}", each, 1.5) for n, each in enumerate(verdicts)]
    return Row(name, f"about {name}", trials)


def everything(**changes: Any) -> Summary:
    reports: dict[str, list[Any]] = {
        "formal": [
            FormalReport(
                [
                    Checked("smallest", "safe", True, 1000, 1.0),
                    Checked("BUG_TOKEN_IGNORED", "safe", False, 9, 1.0),
                ],
                ["BUG_TOKEN_IGNORED"],
            )
        ],
        "nth": [NthReport(stores=["memory"], scenarios=6, calls=50, faults=100)],
        "mutants": [MutantsReport([caught("one", Verdict.MISSED, Verdict.CAUGHT)], [], 3.0)],
        "simulation": [simulated(), simulated(recovery_p99=3)],
        "model": [compared(), compared()],
        "fuzz": [FuzzReport(parsers=9, inputs=10_000)],
        "chaos-sqlite": [chaos(), chaos(recovery_p99=2.9)],
    }
    return summarise(reports | changes, machine="2 cores", version="1.2.3", seconds=600.0)


def test_reports_are_added_up() -> None:
    summary = everything()
    assert summary.is_clean
    found = summary.chaos["sqlite"]
    assert (found.acknowledged, found.injected) == (200, {"kill": 6, "stop": 2})
    assert (found.recovery_p50, found.recovery_p99) == (2.1, 2.9)
    assert summary.simulation is not None
    assert (summary.simulation.hours, summary.simulation.recovery_p99) == (4.0, 3)
    assert summary.model is not None
    assert summary.model.operations == 10
    assert [(each.suite, each.seconds) for each in summary.mutants] == [("suite1", 1.5)]
    assert summary.formal is not None
    assert (summary.formal.states, summary.formal.bugs_found, summary.formal.bugs) == (1000, 1, 1)


@pytest.mark.parametrize(
    ("changes", "finding"),
    [
        (
            {
                "chaos-sqlite": [
                    chaos(
                        violations=[Violation("lost", "j", "job j is gone")],
                        violations_by_rule={"lost": 1},
                    )
                ]
            },
            "job j is gone",
        ),
        (
            {"simulation": [simulated(failures=[Failure(7, ["two leases"], "replay it")])]},
            "seed 7: two leases",
        ),
        ({"model": [compared(differences=["sqlite differs"])]}, "sqlite differs"),
        (
            {"mutants": [MutantsReport([caught("two", Verdict.MISSED)], ["two"], 3.0)]},
            "two survives",
        ),
        ({"formal": [FormalReport(findings=["BUG was not found"])]}, "BUG was not found"),
    ],
)
def test_whatever_a_suite_found_is_on_the_page(changes: dict[str, Any], finding: str) -> None:
    summary = everything(**changes)
    assert not summary.is_clean
    assert finding in summary.findings[0]
    assert finding in render(summary)


def test_the_page_tells_all_and_links_to_what_there_is() -> None:
    page = render(everything())
    assert PLACE not in page
    assert PLACE in PAGE.read_text(encoding="utf-8")
    for told in (
        "**acknowledged and lost**",
        "| 200 |",
        "4.0, at",
        "| one | 1 | 1 | 0 |",
        "1 of 1 bugs",
    ):
        assert told in page
    assert (ROOT / "lab" / "formal" / "README.md").is_file()
    assert (ROOT / "docs" / "internals" / "invariants.md").is_file()


def test_writing_the_page_again_loses_nothing_but_the_tables() -> None:
    """What a person added to the page belongs into its frame, or the next run deletes it."""
    before, after = PAGE.read_text(encoding="utf-8").split(PLACE)
    published = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    assert published.startswith(before)
    assert published.endswith(after)


def test_a_summary_survives_its_file() -> None:
    summary = everything()
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary
