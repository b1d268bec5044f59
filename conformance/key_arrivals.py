"""Concurrency keys where jobs come from elsewhere than a submission, or end with others."""

from __future__ import annotations

from msgspec.structs import replace

from conformance.concurrency_keys import entered, keyed, states
from conformance.crons import HOUR, declare, definition, fire, firing
from conformance.graphs import after, claim_of, ended
from conformance.harness import Harness, ids, job
from conformance.transfer import dump, elsewhere, load
from fencepost.core.events import NewEvent
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.lifecycle import State
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from fencepost.store.interface.queue import Moved, Settled, Spawn, Spawned
from fencepost.store.interface.records.crons import Fired

__all__ = ["TestKeyedArrivals"]

URL = "https://example.com/hook"


def gathering(*on: str) -> Dependencies:
    return after(*on, gathers=True)


class TestKeyedArrivals:
    """Whatever brings a job into line asks its key, and whatever ends it frees its slot."""

    def test_the_jobs_of_an_event_wait_for_a_slot(self, h: Harness) -> None:
        reply = h.run(
            h.store.events.send(NewEvent("user.created"), [keyed(), keyed(), job("index")])
        )
        assert [each.state for each in reply.jobs] == [
            State.SCHEDULED,
            State.PENDING,
            State.SCHEDULED,
        ]
        h.succeed(claim_of(h, "mail"))
        assert claim_of(h, "mail").id == reply.jobs[1].job_id

    def test_the_jobs_of_a_cron_wait_for_a_slot(self, h: Harness) -> None:
        template = keyed("report")
        declare(h, definition(h, template=template))
        tick = h.advance(HOUR)
        h.advance(HOUR)
        jobs = tuple(replace(template, key=Key(f"cron:{n}")) for n in range(2))
        [reply] = fire(h, firing(tick, count=2, jobs=jobs))
        assert isinstance(reply, Fired)
        first, second = (each.job_id for each in reply.jobs)
        assert [each.state for each in reply.jobs] == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == second != first

    def test_a_slot_and_a_webhook_are_told_in_one_breath(self, h: Harness) -> None:
        first, second = h.submit_all(keyed(callback_url=URL), keyed())
        reply = h.succeed(h.take())
        assert isinstance(reply, Settled)
        [delivery] = h.find(type=DELIVERY_TYPE)
        delivered = Moved(delivery.id, DELIVERY_TYPE, State.SCHEDULED, State.PENDING)
        assert sorted(reply.followed, key=str) == sorted((delivered, entered(second)), key=str)
        assert (reply.job_id, delivery.concurrency_key) == (first, None)

    def test_one_that_ends_while_it_is_held_up_is_told_by_its_webhook(self, h: Harness) -> None:
        _, held = h.submit_all(keyed(), keyed(callback_url=URL))
        h.cancel(held)
        assert len(h.find(type=DELIVERY_TYPE)) == 1
        h.succeed(claim_of(h, "mail"))
        assert h.claim(types=frozenset({"mail"})).jobs == []

    def test_one_that_gathers_waits_for_a_slot_at_the_end(self, h: Harness) -> None:
        first = h.submit("parent")
        [last] = h.submit_all(keyed("last", after=gathering(first)))
        [holder] = h.submit_all(keyed("last"))
        parent = claim_of(h, "parent")
        child = job("child", key=Key("spawn:1"))
        [reply] = h.run(h.store.queue.spawn([Spawn(parent.id, parent.lease.token, (child,))]))
        assert isinstance(reply, Spawned)
        h.succeed(parent)
        h.succeed(claim_of(h, "child"))
        assert states(h, [last, holder]) == [State.PENDING, State.SCHEDULED]
        h.succeed(claim_of(h, "last"))
        assert claim_of(h, "last").id == last

    def test_one_that_is_held_up_gathers_no_more(self, h: Harness) -> None:
        """It was let go: what is spawned by a parent that runs again is no more of its concern."""
        h.submit_all(keyed("last"))
        parent = h.submit("parent")
        [last] = h.submit_all(keyed("last", after=replace(ended(parent), gathers=True)))
        h.reject(claim_of(h, "parent"))
        h.retry(parent)
        again = claim_of(h, "parent")
        child = job("child", key=Key("spawn:1"))
        h.run(h.store.queue.spawn([Spawn(again.id, again.lease.token, (child,))]))
        h.succeed(claim_of(h, "last"))
        assert claim_of(h, "last").id == last

    def test_a_flow_that_fails_frees_the_slot_and_runs_again_with_one(self, h: Harness) -> None:
        first, second = (
            each.job_id for each in h.enqueue(keyed(flow="f"), keyed(flow="f", after=after(0)))
        )
        [other] = h.submit_all(keyed())
        reply = h.reject(h.take())
        assert isinstance(reply, Settled)
        assert states(h, [first, second, other]) == [State.FAILED, State.FAILED, State.SCHEDULED]
        assert entered(other) in reply.followed
        assert h.retry(first) == Moved(first, "mail", State.PENDING, State.FAILED)
        assert h.retry(second) == Moved(second, "mail", State.PENDING, State.FAILED)
        order = []
        for _ in range(3):
            order.append(h.take())
            h.succeed(order[-1])
        assert ids(order) == [other, first, second]

    def test_jobs_cancelled_with_what_they_wait_for_leave_the_slot_to_others(
        self, h: Harness
    ) -> None:
        first, second, third = (
            each.job_id for each in h.enqueue(keyed(), keyed(after=after(0)), keyed(after=after(1)))
        )
        [other] = h.submit_all(keyed())
        h.run(h.store.control.cancel([third, first, second]))
        assert set(states(h, [first, second, third])) == {State.CANCELLED}
        assert h.take().id == other

    def test_one_whose_parents_have_ended_there_waits_for_a_slot_there(self, h: Harness) -> None:
        with elsewhere(h) as other:
            parent = other.submit("parent")
            [child] = other.submit_all(keyed(after=after(parent)))
            before = dump(other)
            load(h, [each for each in before if each.job.id == parent])
            h.succeed(claim_of(h, "parent"))
            [holder] = h.submit_all(keyed())
            load(h, [each for each in before if each.job.id == child])
        assert states(h, [holder, child]) == [State.SCHEDULED, State.PENDING]
        h.succeed(h.take())
        assert h.take().id == child

    def test_a_rate_and_a_key_hold_both(self, h: Harness) -> None:
        h.run(h.store.settings.limit_types({"mail": TypeLimits(rate=Rate(2, 60.0))}))
        job_ids = h.submit_all(*[keyed()] * 3, keyed(key="tenant:8"))
        started = h.claim(10).jobs
        assert ids(started) == [job_ids[0], job_ids[3]]
        h.succeed_all(started)
        assert states(h, job_ids[1:3]) == [State.SCHEDULED, State.PENDING]
        assert h.claim(10).jobs == []
        h.advance(60.0)
        assert ids(h.claim(10).jobs) == [job_ids[1]]
