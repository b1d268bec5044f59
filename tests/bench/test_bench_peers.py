"""`make bench-peers`: what it reads, draws and writes; and one run of the smallest size."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner
from tests.servers.places import NoServerError, find_programs

from bench.peers import page, results, table
from bench.peers.catalog import NAMES, PEERS, Engine, Language
from bench.peers.chart import Bar, Panel, chart
from bench.peers.command import QUICK, peers
from bench.peers.environments import BUILD, HERE
from bench.peers.measurements import picked_up, survived
from bench.peers.pictures import pictures
from bench.peers.processes import Answer, descendants, kill_tree
from bench.peers.results import Machine, Reading, Results
from bench.peers.trace import Step, Trace, quarters

OURS, OTHER, LOSER = "fencepost-postgresql", "pg-boss", "huey"


def some_results() -> Results:
    """Return what two queues on PostgreSQL and one on Redis might have done."""
    found = Results(
        sizes=QUICK,
        machine=Machine(
            cores=2,
            system="Linux",
            python="3.11",
            servers=["PostgreSQL 15: fsync on"],
            date="2026-01-01",
            loads=[0.5, 4.0, 5.0],
        ),
        versions={OURS: "0.1.0", OTHER: "12.0", LOSER: "3.5"},
        unavailable={"oban": "it needs Python 3.12"},
    )
    for name, rate in ((OURS, 20_000.0), (OTHER, 30_000.0), (LOSER, 9.25)):
        found.add("drain", name, Reading(rate=rate, is_cut=name == LOSER))
        found.add("backlog", name, Reading(rate=rate / 2, usual=rate))
        found.add("pickup", name, Reading(p50=1.5, p99=400.0, missing=int(name == LOSER)))
    found.add("snapshot", OURS, Reading(rate=5.0, first_quarter=100.0, last_quarter=90.0))
    found.add("snapshot", OTHER, Reading(error="ChildFailedError: a | in it"))
    found.add("killed", OURS, Reading(interrupted=4, again=4, after=30.5))
    found.add("killed", LOSER, Reading(interrupted=8, again=0, stuck=2))
    return found


# The trace.


def test_a_trace_adds_up_what_several_processes_noted(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace")
    trace.read()
    assert (trace.ran, trace.unseen) == (0, 0)
    trace.path.write_text("ran 1 1 100\nran 2 1 110\nran 1 20 200\nbegan 7 300\nend")
    trace.read()
    assert trace.steps == [Step(1, 100), Step(2, 110), Step(21, 200)]
    assert trace.unseen == 40, "either process may have run nineteen more, and the one under way"
    with trace.path.open("a") as file:
        file.write("ed 7 400\nbegan 7 500\n")
    trace.read()
    assert trace.ended == {7: 400}, "a line that was only half there is read when it is whole"
    assert trace.began == {7: [300, 500]}


def test_quarters_are_the_rates_at_both_ends() -> None:
    slow = [Step(number * 10, number * 2_000_000) for number in range(1, 51)]
    fast = [Step(500 + number * 10, 100_000_000 + number * 1_000_000) for number in range(1, 51)]
    found = quarters(slow + fast)
    assert found is not None
    assert found.first == pytest.approx(5.0)
    assert found.last == pytest.approx(10.0)
    assert quarters(slow[:5]) is None, "of so few jobs a quarter says nothing"


# Readings.


def test_a_job_that_was_never_picked_up_counts_as_the_slowest(tmp_path: Path) -> None:
    trace = Trace(tmp_path / "trace", began={1: [2_000], 2: [4_000, 9_000]})
    found = picked_up(Answer(calls=[(1, 1_000), (2, 1_000), (3, 1_000)]), trace)
    assert (found.p50, found.p99, found.missing) == (3.0, 3.0, 1)
    assert picked_up(Answer(calls=[(5, 1)]), trace).error


def test_jobs_of_a_killed_worker_are_lost_or_run_again(tmp_path: Path) -> None:
    began = {0: [1, 31_000_000], 1: [1], 2: [2_000_000]}
    found = survived(Trace(tmp_path / "trace", began=began), [0, 1], 1_000_000)
    assert (found.interrupted, found.again, found.after) == (2, 1, 30.0)
    assert found.stuck == 9, "of twelve jobs two were running, and one of the others began"


def test_rounds_are_reduced_to_medians_and_failures_do_not_count() -> None:
    found = Results(sizes=QUICK)
    assert found.typical("drain", OURS) is None
    found.add("drain", OURS, Reading(error="no"))
    failed = found.typical("drain", OURS)
    assert failed is not None
    assert failed.error == "no"
    for rate in (1.0, 9.0, 2.0):
        found.add("drain", OURS, Reading(rate=rate))
    typical = found.typical("drain", OURS)
    assert typical is not None
    assert typical.rate == 2.0
    found.drop_errors()
    assert len(found.of("drain", OURS)) == 3
    found.add("drain", OTHER, Reading(rate=5.0))
    whole = found.typical("drain", OURS)
    assert whole is not None
    assert whole.rate == 1.0, "the other has one round, and only that was in the same minutes"


def test_results_of_other_sizes_are_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "results.json"
    found = some_results()
    results.save(path, found)
    again = results.load(path, QUICK)
    assert again.of("drain", OURS) == found.of("drain", OURS)
    assert again.of("snapshot", OTHER) == [], "what failed is tried again"
    other = results.Sizes(**{**json.loads(path.read_text())["sizes"], "jobs": 7})
    assert results.load(path, other).readings == {}


# The report.


def test_the_table_shows_losses_as_plainly_as_wins() -> None:
    shown = table.figures(some_results(), Engine.POSTGRESQL).splitlines()
    headings = [cell.strip() for cell in shown[0].split("|")]
    ours, other = ([cell.strip() for cell in line.split("|")] for line in shown[2:4])
    drain = headings.index("drain, 1 process")
    assert (ours[1], ours[drain]) == ("**Fencepost 0.1.0**", "20,000")
    assert (other[1], other[drain]) == ("pg-boss 12.0", "30,000")
    snapshot = next(index for index, text in enumerate(headings) if "snapshot" in text)
    assert ours[snapshot] == "100 → 90 (90%)"
    assert other[snapshot] == "failed: ChildFailedError: a / in it"
    assert len({line.count("|") for line in shown}) == 1
    assert "10,000 (50%)" in ours
    redis = table.figures(some_results(), Engine.REDIS)
    assert "9.2 ¹" in redis
    assert "no such call" in redis
    assert "(1 never)" in redis


def test_the_table_of_killed_workers_says_what_was_lost() -> None:
    ours, loser = table.killed(some_results()).splitlines()[2:]
    assert "| 4 | all | 30.5 s | ran |" in ours
    assert "none, not within 5 s" in loser
    assert "2 did not run" in loser


def test_a_chart_is_valid_and_readable_on_dark_pages() -> None:
    bars = [
        Bar(name="<us>", value=50.0, end=100.0, label="50", is_ours=True),
        Bar(name="them", value=100.0, label="100", is_never=True),
        Bar(name="none", label="no such call"),
    ]
    drawn = chart("A & B", [Panel(title="jobs", bars=bars, note="a note")] * 3)
    root = ElementTree.fromstring(drawn)
    width, height = (float(root.attrib[name]) for name in ("width", "height"))
    space = "{http://www.w3.org/2000/svg}"
    for each in root.iter(f"{space}rect"):
        assert float(each.attrib["x"]) + float(each.attrib["width"]) <= width
        assert float(each.attrib["y"]) + float(each.attrib["height"]) <= height
    widths = [float(each.attrib["width"]) for each in root.iter(f"{space}rect")][1:4]
    assert widths[0] == widths[1] == widths[2] / 2
    assert "prefers-color-scheme: dark" in drawn
    assert "&lt;us&gt;" in drawn


def test_charts_are_drawn_only_of_what_was_measured() -> None:
    drawn = pictures(some_results())
    assert drawn.keys() == page.CAPTIONS.keys()
    for picture in drawn.values():
        ElementTree.fromstring(picture)
    assert "failed" in drawn["peers-wear.svg"]
    assert pictures(Results(sizes=QUICK)) == {}


def test_the_page_is_written_between_its_marks_again_and_again(tmp_path: Path) -> None:
    (tmp_path / page.PAGE).write_text(f"before\n{page.BEGIN}\nold\n{page.END}\nafter\n")
    found = some_results()
    page.write(tmp_path, found)
    once = (tmp_path / page.PAGE).read_text()
    page.write(tmp_path, found)
    assert (tmp_path / page.PAGE).read_text() == once
    assert once.startswith("before\n")
    assert once.endswith("after\n")
    assert "\nold\n" not in once
    assert "Oban for Python could not be installed: it needs Python 3.12." in once
    assert "load average of the machine was 0.5 to 5, 4 in the median: other work" in once
    for name in re.findall(r"\((images/[^)]+)\)", once):
        assert (tmp_path / name).is_file()
    with pytest.raises(ValueError, match="lacks"):
        page.between("a page", "a report")


# The catalogue.


def test_every_peer_has_a_program_and_a_pinned_version() -> None:
    pins = "".join((HERE / name).read_text() for name in ("requirements.txt", "package.json"))
    pins += (HERE / "requirements-oban.txt").read_text()
    assert len(set(NAMES)) == len(NAMES)
    for peer in PEERS:
        suffix = "js" if peer.language is Language.NODE else "py"
        assert (HERE / "programs" / f"{peer.program}.{suffix}").is_file()
        assert peer.is_ours or re.search(rf'{peer.package}(\[\w+\])?(==|": ")\d', pins), peer.name
    assert "://" not in pins, "no registry is named"


# Processes.


def test_a_process_is_killed_with_what_it_started_in_groups_of_their_own() -> None:
    child = "import time; print('up', flush=True); time.sleep(60)"
    code = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"up\n"
        (grandchild,) = descendants(parent.pid)
        kill_tree(parent.pid)
        # Its end comes when the last process that can write to it is gone.
        assert parent.stdout.read() == b""
        assert grandchild not in descendants(1) or parent.wait() == -9


# A run.


CHOSEN = ("drain", "pickup", "killed")
"""One of each kind: a suite has no time for all of them."""


@pytest.mark.timeout(300)
def test_a_run_of_the_smallest_size_measures_and_writes(tmp_path: Path) -> None:
    try:
        find_programs()
    except NoServerError as error:
        pytest.skip(str(error))
    (tmp_path / page.PAGE).write_text(f"{page.BEGIN}\n{page.END}\n")
    chosen = [OURS]
    if (BUILD / "python" / ".stamp").is_file():
        chosen.append("pgqueuer")
    path = tmp_path / "results.json"
    arguments = ["--quick", "--rounds", "1", "--results", str(path), "--page", str(tmp_path)]
    arguments += [word for name in chosen for word in ("--peer", name)]
    arguments += [word for figure in CHOSEN for word in ("--only", figure)]
    done = CliRunner().invoke(peers, arguments)
    assert done.exit_code == 0, done.output
    found = results.load(path, QUICK)
    for name in chosen:
        assert [len(found.of(figure, name)) for figure in CHOSEN] == [1, 1, 1]
    drained = found.typical("drain", OURS)
    assert drained is not None
    assert drained.rate
    assert not drained.is_cut
    killed = found.typical("killed", OURS)
    assert killed is not None
    assert killed.interrupted
    assert not killed.stuck
    assert "**Fencepost" in (tmp_path / page.PAGE).read_text()
    # What is there already is not measured again.
    before = found.readings
    again = CliRunner().invoke(peers, arguments)
    assert again.exit_code == 0, again.output
    assert results.load(path, QUICK).readings == before
