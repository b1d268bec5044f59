"""Metrics as a monitor reads them, read back by the parser that monitors use."""

from __future__ import annotations

import ast
import re
import threading
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import Metric as Parsed
from prometheus_client.parser import text_string_to_metric_families

from fencepost import App, NewJob
from fencepost.actions.health import metrics_text, read_metrics
from fencepost.core.bounds import METRIC_LABELS_MAX
from fencepost.errors import StoreUnavailableError
from fencepost.observe import metrics, names
from fencepost.observe.counters import Counters
from fencepost.observe.metrics import COUNTERS, FAMILIES, Kind, exposition, gauge, of_counters
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope
from fencepost.store.memory.store import MemoryStore
from fencepost.store.wrappers.gauges import Gauges
from fencepost.testing.clock import FakeClock

SOURCE = Path(names.__file__).parent.parent


def parse(text: bytes) -> dict[str, Parsed]:
    return {each.name: each for each in text_string_to_metric_families(text.decode())}


def value(found: dict[str, Parsed], name: str, suffix: str = "", **labels: str) -> float:
    family = found[name.removesuffix("_total")]
    values = [
        sample.value
        for sample in family.samples
        if sample.name == name + suffix and labels.items() <= sample.labels.items()
    ]
    assert values, f"no {name}{suffix}{labels}"
    return sum(values)


# The table.


def test_every_metric_is_named_as_monitors_expect() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"fencepost_[a-z_]+", family.name)
        assert family.name.endswith("_total") == (family.kind is Kind.COUNTER)
        assert family.help.endswith(".")


def test_every_counter_of_ours_is_exposed() -> None:
    """A name that somewhere is added to, and that no metric is made of, would never be seen."""
    trees = [ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    arguments = [each for call in calls if _adds(call) for each in call.args[:2]]
    texts = [ast.unparse(argument) for argument in arguments]
    counted = {
        getattr(names, text.removeprefix("names."))
        for text in texts
        if re.fullmatch(r"names\.[A-Z_]+", text)
    }
    exposed = {source for family in COUNTERS for source in family.sources}
    assert counted
    assert counted - exposed == set()


def _adds(call: ast.Call) -> bool:
    """Tell whether a call counts: ``counters.add(…)``, or one of the functions around it."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr == "add"
    return isinstance(call.func, ast.Name) and call.func.id in {
        "count", "count_moves", "_note_moves", "_note_lost", "_note_done", "_note_pruned",
    }  # fmt: skip


# The text.


def test_counters_are_summed_into_their_families() -> None:
    counters = Counters()
    counters.add(names.JOB_PROMOTED, 2, event="ready", state="scheduled", type="t")
    counters.add(names.JOB_FOLLOWED, 3, event="ready", state="scheduled", type="t")
    counters.add(names.LEASE_RECOVERED, event="retry", state="retrying", type="t")
    counters.add(names.STALE_ACK)
    found = parse(exposition(of_counters(counters)))
    assert value(found, "fencepost_jobs_total", event="ready", type="t") == 5
    assert value(found, "fencepost_jobs_total", event="retry", state="retrying") == 1
    assert value(found, "fencepost_leases_recovered_total", type="t") == 1
    assert value(found, "fencepost_stale_writes_total", kind="ack") == 1
    assert value(found, "fencepost_stale_writes_total", kind="heartbeat") == 0
    assert value(found, "fencepost_duplicates_total") == 0


def test_histograms_are_cumulative_and_complete() -> None:
    counters = Counters()
    counters.runs.note(("t", "q"), [0.3, 4_000.0, 0.0005])
    found = parse(exposition(of_counters(counters)))
    name = "fencepost_job_run_seconds"
    assert found[name].type == "histogram"
    assert value(found, name, "_bucket", le="0.001", type="t", queue="q") == 1
    assert value(found, name, "_bucket", le="0.5") == 2
    assert value(found, name, "_bucket", le="1800") == 2
    assert value(found, name, "_bucket", le="+Inf") == 3
    assert value(found, name, "_count") == 3
    assert value(found, name, "_sum") == pytest.approx(4_000.3005)


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb", "ü{},=", "", 'x\\"\\n'])
def test_whatever_a_queue_is_called_the_text_can_be_read(text: str) -> None:
    made = exposition([gauge(metrics.QUEUE_PAUSED, {(text,): 1})])
    assert value(parse(made), "fencepost_queue_paused", queue=text) == 1


def test_numbers_are_exact() -> None:
    for number in (0, 1, 2**53, 0.1, 1e-9, 123456.789):
        made = exposition([gauge(metrics.WORKERS, {(): number})])
        assert value(parse(made), "fencepost_workers") == number


# The store's gauges.


class Rig:
    """An app on a memory store with a clock that stands."""

    def __init__(self) -> None:
        self.clock = FakeClock()
        self.inner = MemoryStore(clock=self.clock)
        self.app = App("memory://", store=self.inner)
        self.store = self.app.store

    def enqueue(self, type: str = "t", **fields: Any) -> None:
        self.store.run(self.store.queue.enqueue([NewJob(type=type, **fields)]))

    def read(self) -> dict[str, Parsed]:
        return parse(read_metrics(self.app.session))


def test_gauges_tell_what_the_store_holds() -> None:
    rig = Rig()
    rig.enqueue(queue="mail")
    rig.enqueue(queue="mail", delay=60.0)
    rig.enqueue("u", queue="bulk")
    store = rig.store
    store.run(store.settings.pause(Scope.QUEUE, "bulk"))
    store.run(store.settings.limit(Scope.QUEUE, "mail", 7))
    info = WorkerInfo(
        id="w", host="h", pid=1, queues=None, types=("t",), concurrency=4,
        started_at=rig.clock.now(), running=3,
    )  # fmt: skip
    store.run(store.cluster.announce(info))
    found = rig.read()
    assert value(found, "fencepost_queue_jobs", queue="mail", state="scheduled") == 1
    assert value(found, "fencepost_queue_jobs", queue="mail", state="delayed") == 1
    assert value(found, "fencepost_queue_jobs", queue="mail", state="running") == 0
    assert value(found, "fencepost_type_jobs", type="u", state="scheduled") == 1
    assert value(found, "fencepost_queue_paused", queue="bulk") == 1
    assert value(found, "fencepost_queue_paused", queue="mail") == 0
    assert value(found, "fencepost_queue_max_running", queue="mail") == 7
    assert value(found, "fencepost_workers") == 1
    assert value(found, "fencepost_worker_slots") == 4
    assert value(found, "fencepost_worker_slots_busy") == 3
    assert value(found, "fencepost_store_up") == 1
    assert value(found, "fencepost_dead_letters", type="t") == 0
    assert value(found, "fencepost_queue_oldest_age_seconds", queue="mail") >= 0


def test_every_line_belongs_to_the_table() -> None:
    rig = Rig()
    rig.enqueue()
    rig.store.run(rig.store.queue.claim(ClaimRequest(worker="w", limit=1)))
    by_name = {family.name: family for family in FAMILIES}
    for line in read_metrics(rig.app.session).decode().splitlines():
        if line.startswith("#"):
            assert line.split()[2] in by_name
            continue
        name, _, labels = re.fullmatch(r"(\w+)(\{(.*)\})? \S+", line).groups()  # type: ignore[union-attr]  # or the test fails
        family = by_name[re.sub(r"_(bucket|sum|count)$", "", name)]
        used = set(re.findall(r'(\w+)="', labels or ""))
        assert used - {"le"} == set(family.labels)


def test_the_store_is_asked_once_a_while_however_often_we_are() -> None:
    """S2-38: a monitor, or many, must not become load."""
    rig = Rig()
    counters = rig.app.session.counters
    for _ in range(5):
        rig.read()
    assert counters.get("store.operation", operation="queues") == 1
    rig.clock.advance(1.0)
    rig.read()
    assert counters.get("store.operation", operation="queues") == 2


def test_many_readers_at_once_share_one_look(monkeypatch: pytest.MonkeyPatch) -> None:
    rig = Rig()
    gate = threading.Event()
    asked: list[str] = []

    def slow(operation: Any) -> Any:
        asked.append(operation.name)
        assert gate.wait(30)
        return MemoryStore.run(rig.inner, operation)

    monkeypatch.setattr(rig.inner, "run", slow)
    texts: list[bytes] = []
    readers = [
        threading.Thread(target=lambda: texts.append(read_metrics(rig.app.session)))
        for _ in range(4)
    ]
    for reader in readers:
        reader.start()
    gate.set()
    for reader in readers:
        reader.join(30)
    assert asked == ["queues", "types", "workers"]
    assert [value(parse(text), "fencepost_store_up") for text in texts] == [1] * 4


def test_a_store_that_is_away_is_told_of_and_the_counters_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """S4-12: metrics are needed most when something is wrong."""
    rig = Rig()

    def away(operation: Any) -> Any:
        raise StoreUnavailableError("away")

    monkeypatch.setattr(rig.inner, "run", away)
    found = rig.read()
    assert value(found, "fencepost_store_up") == 0
    assert "fencepost_queue_jobs" not in found
    assert value(found, "fencepost_duplicates_total") == 0


def test_a_store_that_hangs_is_waited_for_a_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fencepost.store.wrappers.gauges.METRICS_TIMEOUT", 0.05)
    gate = threading.Event()
    gauges = Gauges(FakeClock())

    def opened() -> Any:
        assert gate.wait(30)
        raise StoreUnavailableError("late")

    found = parse(exposition(gauges.read(opened)))
    gate.set()
    assert value(found, "fencepost_store_up") == 0


def test_queues_and_types_beyond_the_bound_share_a_label() -> None:
    """S2-38."""
    rig = Rig()
    count = METRIC_LABELS_MAX + 5
    jobs = [NewJob(type=f"t{n:03}", queue=f"q{n:03}") for n in range(count)]
    rig.store.run(rig.store.queue.enqueue(jobs))
    found = rig.read()
    name = "fencepost_queue_jobs"
    assert value(found, name, queue="other", state="scheduled") == 5
    assert value(found, name, state="scheduled") == count
    assert value(found, "fencepost_type_jobs", type="other", state="scheduled") == 5


def test_the_largest_have_labels_of_their_own() -> None:
    """S2-38: whoever makes up new names does not take the labels from those that have jobs."""
    rig = Rig()
    jobs = [NewJob(type=f"a{n:03}", queue=f"a{n:03}") for n in range(METRIC_LABELS_MAX)]
    rig.store.run(rig.store.queue.enqueue([*jobs, *[NewJob(type="z", queue="z")] * 3]))
    found = rig.read()
    assert value(found, "fencepost_queue_jobs", queue="z", state="scheduled") == 3
    assert value(found, "fencepost_type_jobs", type="z", state="scheduled") == 3
    assert value(found, "fencepost_queue_jobs", queue="other", state="scheduled") == 1


async def test_the_awaited_text_is_the_same() -> None:
    rig = Rig()
    rig.enqueue()
    assert set(parse(await metrics_text(rig.app.session))) == set(rig.read())
