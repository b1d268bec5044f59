"""Series over HTTP: what the leader sampled, drawn as lines."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from tests.http.clocked import app as app
from tests.http.conftest import Caller

from fencepost import App
from fencepost.core.job.timeouts import Retention
from fencepost.core.stats.series import aligned, decode_sample
from fencepost.maintenance import Maintenance
from fencepost.maintenance.series import Sampler
from fencepost.store.interface.records.series import SeriesRow
from fencepost.testing.clock import FakeClock


async def run(api: Caller, count: int, queue: str, *, to: str = "ack") -> None:
    """Submit jobs, and let them end."""
    for _ in range(count):
        await api.submit("work", queue=queue, retry={"max_attempts": 1})
    for job in await api.claim(queues=[queue]):
        lease = {"id": job["id"], "token": job["lease"]["token"]}
        more = {} if to == "ack" else {"message": "no", "category": "temporary"}
        await api.post(f"/v1/leases/{to}", {**lease, **more})


async def sampled(app: App, clock: FakeClock, api: Caller) -> None:
    """Let two queues work for a minute."""
    sampler = Sampler(app.session.store)
    await sampler.step()
    for count in (1, 2, 3):
        await run(api, count, "a")
        clock.advance(10)
        await sampler.step()
    await run(api, 2, "b", to="nack")
    await api.submit("work", queue="b")
    clock.advance(10)
    await sampler.step()


async def values(api: Caller, query: str) -> dict[Any, list[Any]]:
    reply = await api.get(f"/v1/series?window=1m&{query}")
    assert reply["step"] == 10.0
    return {(line["metric"], line["name"]): line["values"] for line in reply["series"]}


async def test_counts_depths_and_times_by_queue(app: App, api: Caller, clock: FakeClock) -> None:
    await sampled(app, clock, api)
    found = await values(api, "metric=completed&metric=dead&metric=depth&by=queue")
    assert found["completed", "a"][-4:] == [1, 2, 3, 0]
    assert found["dead", "b"][-4:] == [0, 0, 0, 2]
    assert found["depth", "b"][-1] == 1
    assert found["depth", "b"][0] is None, "nothing was sampled then"
    total = await values(api, "metric=enqueued&metric=run_p50&metric=oldest_age")
    assert total["enqueued", None][-4:] == [1, 2, 3, 3]
    assert total["run_p50", None][-2] is not None
    assert total["oldest_age", None][-1] == 10.0
    assert list(await values(api, "metric=completed&queue=b&type=work")) == [("completed", None)]


async def test_nothing_sampled_is_nothing_drawn(api: Caller) -> None:
    assert await values(api, "metric=depth") == {("depth", None): [None] * 6}
    assert await values(api, "metric=depth&by=type") == {}


@pytest.mark.parametrize(
    "query",
    [
        "metric=",
        "metric=no",
        "metric=depth&by=tag",
        "metric=depth&window=8d",
        "metric=depth&step=1s",
        "metric=depth&window=x",
    ],
)
async def test_what_cannot_be_drawn_is_refused(api: Caller, query: str) -> None:
    assert (await api.refused("GET", f"/v1/series?{query}"))[0] == 422


async def test_a_token_for_a_queue_sees_its_own_jobs_alone(
    app: App, api: Caller, clock: FakeClock
) -> None:
    await sampled(app, clock, api)
    token = app.tokens.create("a", roles=["read"], queues=["a"]).text
    clock.advance(5)
    api.client.headers["authorization"] = f"Bearer {token}"
    found = await values(api, "metric=enqueued&by=queue")
    assert {name: line[-4:] for name, line in found.items()} == {("enqueued", "a"): [1, 2, 3, 0]}
    total = await values(api, "metric=enqueued&metric=dead&metric=oldest_age")
    assert total["enqueued", None][-1] == total["dead", None][-1] == 0
    assert total["oldest_age", None][-1] == 0
    refused = await api.refused("GET", "/v1/series?metric=depth&queue=b")
    assert refused == (403, "forbidden")


async def test_the_leader_samples_and_merges_as_time_goes_by(
    app: App, api: Caller, clock: FakeClock
) -> None:
    """With all its other chores, and pruning what the counts are of."""
    store = app.session.store
    retention = Retention(completed="20s")
    leader = Maintenance(store, worker="w", retention=retention, counters=app.session.counters)
    for _ in range(70):
        await run(api, 1, "a")
        clock.advance(10)
        await leader.step()
        clock.advance(0.001)
    minutes = await api.get("/v1/series?metric=completed&window=10m&step=1m")
    assert minutes["step"] == 60.0
    known = [each for each in minutes["series"][0]["values"] if each is not None]
    assert len(known) >= 8
    assert all(5 <= each <= 7 for each in known), known
    fine = await api.get("/v1/series?metric=completed&window=10m&step=10s")
    assert sum(fine["series"][0]["values"]) in range(57, 62)


async def test_what_a_leader_has_not_merged_the_next_one_merges(
    app: App, api: Caller, clock: FakeClock
) -> None:
    """A store that is used by day: what was sampled before the evening is not lost."""
    store = app.session.store
    sampler = Sampler(store)
    clock.advance(25)
    start = clock.now() - timedelta(seconds=20)

    async def stored(step: int) -> list[SeriesRow]:
        return await store.run_async(store.series.read(step, start, clock.now()))

    for _ in range(12):
        await run(api, 1, "a")
        clock.advance(7)
        await sampler.step()
    assert await stored(600) == [], "ten minutes have not passed"
    total = decode_sample((await stored(10))[-1].body).lanes[0].completed
    clock.advance("14h")
    assert await Sampler(store).step() > 0
    for step in (600, 5_400):
        (row,) = await stored(step)
        assert row.at == aligned(start, step) + timedelta(seconds=step)
        (lane,) = decode_sample(row.body).lanes
        assert lane.completed == sum(lane.wait.values()) == total
    assert await Sampler(store).step() == 1, "all that is left to write is the sample of now"


async def test_a_sample_that_this_version_cannot_read_holds_up_no_merging(
    app: App, clock: FakeClock
) -> None:
    """Of a newer version, which was rolled back."""
    store = app.session.store
    clock.advance(25)
    now = aligned(clock.now(), 10)
    await store.run_async(store.series.record(10, [SeriesRow(now, b"of the future")], 3_600.0))
    sampler = Sampler(store)
    for _ in range(7):
        clock.advance(10)
        await sampler.step()
    rows = await store.run_async(store.series.read(60, now, clock.now()))
    assert [row.at for row in rows] == [aligned(clock.now(), 60)]
