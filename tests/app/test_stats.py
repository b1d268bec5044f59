"""How things went of late, through the app."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from fencepost import App, State
from fencepost.actions.local import queues as module
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.stats.series import FINEST
from fencepost.core.stats.statistics import Percentiles
from fencepost.core.values.payload import NULL
from fencepost.errors import FencepostError
from fencepost.handles.task import TaskHandle
from fencepost.maintenance.series import Sampler
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.series import SeriesRow
from fencepost.testing import FakeClock


@pytest.fixture
def timed(url: str, clock: FakeClock) -> Iterator[App]:
    with App(url, clock=clock) as app:
        yield app


def task(app: App, queue: str = "default") -> TaskHandle[[], None]:
    @app.task(name="mail", queue=queue)
    def mail() -> None: ...

    return mail


def work(app: App, clock: FakeClock, seconds: float) -> None:
    """Run whatever is claimable, each for so long."""
    store = app.store
    for job in store.run(store.queue.claim(ClaimRequest(worker="w", limit=100))).jobs:
        clock.advance(seconds)
        decision = decide(job, Succeeded(NULL), clock.rng)
        store.run(store.queue.settle([Settlement(job.id, job.lease.token, decision)]))


def test_counts_rates_and_times_are_those_of_the_window(timed: App, clock: FakeClock) -> None:
    mail = task(timed, queue="post")
    mail.submit()
    work(timed, clock, 100.0)
    clock.advance("10m")
    mail.submit()
    mail.submit()
    clock.advance(3.0)
    work(timed, clock, 5.0)
    mail.using(delay="1h").submit()
    found = timed.stats(window="1m")
    assert found.counts == {State.DELAYED: 1, State.COMPLETED: 3}
    assert (found.sample, found.is_sampled, found.window) == (2, False, 60.0)
    assert found.submitted_rate == 3 / 60
    assert found.ended_rate == 2 / 60
    assert found.wait == Percentiles(3.0, 3.0, 3.0)
    assert found.run == Percentiles(5.0, 10.0, 10.0)
    [queue], [type_] = found.queues, found.types
    assert (queue.name, type_.name) == ("post", "mail")
    assert queue.counts == type_.counts == found.counts
    assert timed.stats(window="1h").sample == 3


def test_of_many_that_ended_the_newest_are_looked_at(
    timed: App, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STATS_SAMPLE_MAX", 3)
    mail = task(timed)
    for _ in range(5):
        mail.submit()
        work(timed, clock, 2.0)
    found = timed.stats()
    assert (found.sample, found.is_sampled, found.window) == (3, True, 4.0)
    assert found.ended_rate == 3 / 4
    # In the last second none was submitted, in the last eight four.
    assert found.submitted_rate == 4 / 8


async def test_what_was_submitted_in_minutes_is_not_counted_job_by_job(
    timed: App, clock: FakeClock
) -> None:
    mail, post = task(timed), task(timed, queue="post")
    clock.advance(FINEST - clock.now().timestamp() % FINEST)
    # Only a count would find these two: the sample of their time has them already.
    mail.submit_many([()] * 2)
    assert await Sampler(timed.store).step() == 1
    mail.submit_many([()] * 3)
    post.submit()
    clock.advance(60.0)
    assert timed.stats(window="1m").submitted_rate == 4 / 60
    # The sample lies some seconds before the window, and its time is what the rate is taken over.
    clock.advance(5.0)
    assert timed.stats(window="1m").submitted_rate == 4 / 65
    # There is none for the start of this one.
    clock.advance(10.0)
    assert timed.stats(window="1m").submitted_rate == 0.0
    assert timed.stats(window="76s").submitted_rate == 6 / 76


def test_a_sample_that_nobody_can_read_is_passed_over(timed: App, clock: FakeClock) -> None:
    clock.advance(FINEST - clock.now().timestamp() % FINEST)
    store = timed.store
    store.run(store.series.record(FINEST, [SeriesRow(clock.now(), b"of the future")], 3_600.0))
    task(timed).submit()
    clock.advance(60.0)
    assert timed.stats(window="1m").submitted_rate == 1 / 60


async def test_the_async_face_says_the_same(timed: App, clock: FakeClock) -> None:
    task(timed).submit()
    work(timed, clock, 2.0)
    assert await timed.aio.stats() == timed.stats()
    assert await timed.aio.queues.scale("default") == timed.queues.scale("default")


@pytest.mark.parametrize("window", [0, -1, "2d", "soon", None])
def test_a_window_that_makes_no_sense_is_refused(timed: App, window: object) -> None:
    with pytest.raises(FencepostError, match="window"):
        timed.stats(window=window)  # type: ignore[arg-type]  # that is the point


def test_a_queue_says_how_many_slots_it_could_use(timed: App, clock: FakeClock) -> None:
    mail = task(timed, queue="post")
    mail.submit()
    work(timed, clock, 10.0)
    clock.advance("1h")
    mail.submit_many([()] * 60)
    timed.store.run(timed.store.cluster.announce(worker("w1", queues={"post": 1}, concurrency=3)))
    timed.store.run(timed.store.cluster.announce(worker("w2", queues=None, concurrency=4)))
    timed.store.run(timed.store.cluster.announce(worker("w3", queues={"other": 1}, concurrency=9)))
    clock.advance(30.0)
    found = timed.queues.scale("post", target="60s")
    assert (found.queue, found.depth, found.running, found.slots) == ("post", 60, 0, 7)
    assert found.oldest_age == 30.0
    # Nothing has completed within five minutes: a second each, and 60 arrived within them.
    assert found.wanted_slots == 2
    timed.queues.pause("post")
    assert timed.queues.scale("post").wanted_slots == 0


def worker(id: str, *, queues: dict[str, int] | None, concurrency: int) -> WorkerInfo:
    return WorkerInfo(
        id=id,
        host="h",
        pid=1,
        queues=queues,
        types=("mail",),
        concurrency=concurrency,
        started_at=FakeClock().now(),
    )


def test_an_unknown_queue_wants_nothing(timed: App) -> None:
    found = timed.queues.scale("nobody")
    assert (found.depth, found.wanted_slots, found.drain_seconds) == (0, 0, 0.0)
    with pytest.raises(FencepostError):
        timed.queues.scale("")
    with pytest.raises(FencepostError, match="target"):
        timed.queues.scale("q", target=0)
