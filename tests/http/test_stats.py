"""``/v1/stats``, ``/v1/scale/{queue}`` and ``/metrics``: what whoever watches and scales reads."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.http.conftest import Caller

from fencepost import App
from fencepost.testing import drain


async def test_counts_rates_and_times_are_told_in_all_and_by_queue_and_type(
    api: Caller, app: App
) -> None:
    for number in range(4):
        await api.submit("add", {"a": number})
    await api.submit("fail", {"message": "no"})
    await asyncio.to_thread(drain, app)
    await api.submit("add", {"a": 9})
    stats = await api.get("/v1/stats?window=1h")
    assert stats["counts"] == {"completed": 4, "failed": 1, "scheduled": 1}
    assert (stats["sample"], stats["is_sampled"], stats["window"]) == (5, False, 3600.0)
    assert stats["submitted_rate"] > 0
    queues = {queue["name"]: queue for queue in stats["queues"]}
    types = {each["name"]: each for each in stats["types"]}
    assert queues["sums"]["ended"] == types["add"]["ended"] == {"completed": 4}
    assert types["fail"]["ended"] == {"failed": 1}
    for times in (stats["run"], stats["wait"], types["add"]["run"], types["add"]["wait"]):
        assert 0 <= times["p50"] <= times["p90"] <= times["p99"] < 60
    assert types["fail"]["run"] is None


@pytest.mark.parametrize("window", ["0", "-1", "soon", "nan", "100d"])
async def test_a_window_that_makes_no_sense_is_refused(api: Caller, window: str) -> None:
    status, _ = await api.refused("GET", f"/v1/stats?window={window}")
    assert status == 422


async def test_a_queue_says_how_many_workers_it_could_use(api: Caller) -> None:
    for number in range(50):
        await api.submit("add", {"a": number})
    hint = await api.get("/v1/scale/sums?target=10s&concurrency=2")
    assert (hint["queue"], hint["depth"], hint["running"], hint["slots"]) == ("sums", 50, 0, 0)
    assert hint["wanted_slots"] >= 1
    assert hint["wanted_workers"] == -(-hint["wanted_slots"] // 2)
    assert hint["drain_seconds"] is None
    assert hint["oldest_age"] >= 0
    await api.post("/v1/queues/sums/pause")
    assert (await api.get("/v1/scale/sums"))["wanted_workers"] == 0
    assert (await api.get("/v1/scale/nobody"))["wanted_workers"] == 0
    for query in ("target=0", "target=x", "concurrency=0", "concurrency=x"):
        assert (await api.refused("GET", f"/v1/scale/sums?{query}"))[0] == 422


async def test_metrics_are_text_that_a_monitor_reads(api: Caller) -> None:
    await api.submit("add", {"a": 1})
    response = await api.ask("GET", "/metrics")
    assert response.headers["content-type"].startswith("text/plain; version=0.0.4")
    families = {each.name: each for each in text_string_to_metric_families(response.text)}
    depths = [each for each in families["fencepost_queue_jobs"].samples if each.value]
    assert [(each.labels["queue"], each.labels["state"], each.value) for each in depths] == [
        ("sums", "scheduled", 1.0)
    ]


async def test_figures_over_many_names_are_computed_off_the_event_loop(
    api: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With thousands of queues it takes a tenth of a second, in which nobody would be answered."""
    from fencepost.actions.local import queues
    from fencepost.core.stats import statistics

    began, may_end = threading.Event(), threading.Event()
    compute = statistics.statistics

    def slowly(*args: Any, **kwargs: Any) -> Any:
        began.set()
        assert may_end.wait(20)
        return compute(*args, **kwargs)

    monkeypatch.setattr(queues, "statistics", slowly)
    asked = asyncio.create_task(api.get("/v1/stats"))
    try:
        assert await asyncio.to_thread(began.wait, 20)
        assert (await api.get("/health/live"))["status"] == "live"
        assert not asked.done()
    finally:
        may_end.set()
    assert (await asked)["sample"] == 0
