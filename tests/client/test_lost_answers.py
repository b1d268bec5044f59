"""An answer that is lost makes no second job, and is never taken for a refusal."""

from __future__ import annotations

import pytest
from tests.client.breaking import Answer, Proxy, RestlessClock, problem
from tests.http.serving import Served, serving

from fencepost import (
    App,
    Client,
    DuplicateJobError,
    StoreUnavailableError,
    UnknownOutcomeError,
)
from fencepost.client import JobHandle
from fencepost.errors import ForbiddenError, TooManyRequestsError
from fencepost.wire.bounds import CLIENT_RETRY_AFTER_MAX


def count(app: App) -> int:
    return app.jobs.count(type="add")


def posts(proxy: Proxy) -> int:
    return sum(method == "POST" for method, _ in proxy.seen)


@pytest.mark.parametrize("lost", ["swallow", "drop"])
def test_a_submission_whose_answer_was_lost_is_stored_once(
    app: App, far: Client, proxy: Proxy, lost: str
) -> None:
    proxy.plan(lost, lost)
    job = far.submit("add", {"a": 1, "b": 2})
    assert count(app) == 1
    assert app.jobs.get(job.id).id == job.id
    assert not job.duplicate
    assert posts(proxy) == 3


async def test_an_awaited_submission_whose_answer_was_lost_is_stored_once(
    app: App, far: Client, proxy: Proxy
) -> None:
    proxy.plan("swallow")
    job = await far.aio.task("add").submit(a=1, b=2)
    assert count(app) == 1
    assert app.jobs.get(job.id).id == job.id
    assert not job.duplicate
    await far.aio.close()


def test_a_job_is_found_again_by_the_server_that_comes_after_the_one_that_died(
    app: App, server: Served, proxy: Proxy, clock: RestlessClock
) -> None:
    """The process dies after the commit; another, on the same store, is told the same again."""
    with serving(app) as other, Client(proxy.url, clock=clock) as client:

        def die() -> None:
            server.abort()
            proxy.target = other.url

        clock.meanwhile = die
        proxy.plan("swallow")
        job = client.submit("add", {"a": 1, "b": 2})
        assert count(app) == 1
        assert app.jobs.get(job.id).id == job.id


def test_a_key_of_ones_own_is_kept_and_makes_the_repeat_safe(
    app: App, far: Client, proxy: Proxy
) -> None:
    proxy.plan("swallow")
    job = far.task("add", key="mine").submit(a=1, b=2)
    assert count(app) == 1
    assert app.jobs.get(job.id).refresh().key == "mine"


def test_what_a_key_would_not_guard_is_sent_once_and_its_outcome_unknown(
    app: App, far: Client, proxy: Proxy
) -> None:
    """A key that is held while its job is live is free again once that was quick."""
    proxy.plan("swallow")
    with pytest.raises(UnknownOutcomeError, match="may have been applied"):
        far.task("add").submit_idempotent("mine", a=1, b=2)
    assert posts(proxy) == 1
    assert count(app) == 1
    with pytest.raises(DuplicateJobError) as raised:
        far.task("add").submit_idempotent("mine", a=1, b=2)
    assert isinstance(raised.value.existing, JobHandle)
    assert raised.value.key == "mine"


def test_a_key_that_is_held_too_briefly_for_a_repeat_is_not_relied_upon(
    app: App, far: Client, proxy: Proxy
) -> None:
    proxy.plan("swallow")
    with pytest.raises(UnknownOutcomeError):
        far.task("add", key="mine", key_window="5s").submit(a=1, b=2)
    assert posts(proxy) == 1


def test_a_bulk_is_repeated_only_if_every_job_has_a_key(
    app: App, far: Client, proxy: Proxy
) -> None:
    task = far.task("add")
    proxy.plan("swallow")
    with pytest.raises(UnknownOutcomeError):
        far.submit_many([task.using(key="1").prepare(a=1, b=1), task.prepare(a=2, b=2)])
    assert count(app) == 2
    proxy.plan("swallow")
    jobs = far.submit_many([task.using(key=f"k{n}").prepare(a=n, b=n) for n in range(3)])
    assert count(app) == 5
    assert len({job.id for job in jobs}) == 3


def test_a_flow_whose_answer_was_lost_is_stored_once_and_found_again(
    app: App, far: Client, proxy: Proxy
) -> None:
    task = far.task("add")
    proxy.plan("swallow")
    nodes = {"first": task.prepare(a=1, b=2), "then": task.using(after="first").prepare(a=3, b=4)}
    flow = far.flow(nodes).submit()
    assert count(app) == 2
    assert {name: job.id for name, job in app.flows.get(flow.id).jobs.items()} == {
        name: job.id for name, job in flow.jobs.items()
    }


def test_a_flow_that_meets_a_key_of_somebody_else_is_refused(app: App, far: Client) -> None:
    task = far.task("add")
    taken = task.using(key="taken").submit(a=1, b=1)
    nodes = {
        "a": task.prepare(a=1, b=2),
        "b": task.using(key="taken", on_duplicate="reject").prepare(a=3, b=4),
    }
    with pytest.raises(DuplicateJobError) as raised:
        far.flow(nodes).submit()
    assert raised.value.existing == taken
    assert count(app) == 1


def test_looking_is_repeated_and_steering_is_not(app: App, far: Client, proxy: Proxy) -> None:
    job = far.submit("add", {"a": 1, "b": 2})
    proxy.plan("drop")
    assert far.jobs.get(job.id) == job
    proxy.plan("swallow")
    with pytest.raises(UnknownOutcomeError):
        job.cancel()
    assert job.refresh().state == "cancelled"


def test_an_event_whose_answer_was_lost_is_not_sent_again(
    app: App, far: Client, proxy: Proxy
) -> None:
    proxy.plan("swallow")
    with pytest.raises(UnknownOutcomeError):
        far.event("user.created").send(name="Ada")
    assert len(app.events.find()) == 1


def test_pausing_is_repeated_for_it_comes_to_the_same(app: App, far: Client, proxy: Proxy) -> None:
    far.submit("add", {"a": 1, "b": 2})
    proxy.plan("swallow")
    far.queues.pause("default")
    assert app.queues.list()[0].is_paused


def test_nobody_there_means_surely_not_done(clock: RestlessClock) -> None:
    client = Client("http://127.0.0.1:9", retries=2, clock=clock)
    with client, pytest.raises(StoreUnavailableError, match="cannot be reached"):
        client.submit("add", {"a": 1, "b": 2})
    assert len(clock.rests) == 2


def test_what_was_lost_once_stays_unknown_though_nobody_is_there_later(
    app: App, server: Served, proxy: Proxy, clock: RestlessClock
) -> None:
    """A last try that surely did nothing says nothing of the first."""
    with Client(proxy.url, retries=2, clock=clock) as client:
        proxy.plan("swallow", problem(503, "store_unavailable"), problem(503, "store_unavailable"))
        with pytest.raises(UnknownOutcomeError, match="an answer was lost"):
            client.submit("add", {"a": 1, "b": 2})
        proxy.plan("swallow", problem(403, "forbidden"))
        with pytest.raises(UnknownOutcomeError) as raised:
            client.submit("add", {"a": 1, "b": 2})
        assert isinstance(raised.value.__cause__, ForbiddenError)
    assert count(app) == 2


def test_the_server_is_given_the_time_that_it_asks_for(
    app: App, far: Client, proxy: Proxy, clock: RestlessClock
) -> None:
    proxy.plan(
        problem(429, "rate_limited", retry_after=2.5),
        Answer(429, b"slow down", retry_after="7"),
        problem(503, "store_unavailable", retry_after=1.0),
    )
    far.submit_many([far.task("add").prepare(a=1, b=2)])
    assert [int(rest) for rest in clock.rests] == [2, 7, 1]
    assert count(app) == 1


def test_too_many_requests_reach_the_caller_in_the_end(
    far: Client, proxy: Proxy, clock: RestlessClock
) -> None:
    proxy.plan(*[problem(429, "rate_limited", retry_after=0.5)] * 4)
    with pytest.raises(TooManyRequestsError) as raised:
        far.submit("add", {"a": 1, "b": 2})
    assert raised.value.retry_after == 0.5
    assert raised.value.__notes__ == ["request id r-1"]
    assert len(clock.rests) == 3


def test_nobody_waits_longer_than_a_minute_because_a_server_says_so(
    far: Client, proxy: Proxy, clock: RestlessClock
) -> None:
    proxy.plan(problem(429, "rate_limited", retry_after=CLIENT_RETRY_AFTER_MAX + 1))
    with pytest.raises(TooManyRequestsError):
        far.jobs.find()
    assert not clock.rests


@pytest.mark.parametrize("status", [500, 502, 503, 504])
def test_an_error_of_something_in_between_leaves_the_outcome_unknown(
    app: App, far: Client, proxy: Proxy, status: int
) -> None:
    proxy.plan(Answer(status, b"<html>no</html>"))
    with pytest.raises(UnknownOutcomeError, match=str(status)):
        far.event("user.created").send(name="Ada")
    proxy.plan(Answer(status, b"<html>no</html>"))
    assert far.submit("add", {"a": 1, "b": 2}).type == "add"


def test_repeats_are_spread_and_bounded(far: Client, proxy: Proxy, clock: RestlessClock) -> None:
    proxy.plan(*["drop"] * 4)
    with pytest.raises(UnknownOutcomeError):
        far.jobs.find()
    assert len(clock.rests) == 3
    assert all(0 <= rest <= 0.1 * 2**n for n, rest in enumerate(clock.rests))
