"""Webhooks: a delivery is stored in the transaction in which its job ends, and only then."""

from __future__ import annotations

import msgspec
import pytest

from conformance.graphs import after, bring, claim_of
from conformance.harness import ONE_ATTEMPT, TERMINAL, TTL, Harness, job
from conformance.transfer import dump, elsewhere, load
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.webhooks.delivery import (
    DELIVERY_POLICY,
    DELIVERY_QUEUE,
    DELIVERY_TYPE,
    Delivery,
)
from fencepost.store.interface.control import Replay, Replayed
from fencepost.store.interface.queue import Moved, Settled, Spawn
from fencepost.store.interface.records.transfer import Loaded
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestCallbacks"]

URL = "https://example.com/hook?größe=\U0001f9ed"


def deliveries(h: Harness) -> list[Job]:
    """Return the deliveries that are stored, oldest first."""
    return h.find(type=DELIVERY_TYPE)[::-1]


def delivery_of(job: Job) -> Delivery:
    return msgspec.json.decode(job.payload_body.data, type=Delivery)


class TestCallbacks:
    @pytest.mark.parametrize("state", TERMINAL, ids=str)
    def test_every_terminal_state_stores_a_delivery(self, h: Harness, state: State) -> None:
        """S1-109: a webhook on every terminal state."""
        policy = ONE_ATTEMPT if state is State.DEAD_LETTER else Policy()
        job_id = h.submit("a", callback_url=URL, correlation_id="order-7", policy=policy)
        assert h.get(job_id).callback_url == URL
        assert deliveries(h) == []
        h.advance(1.5)
        reply = bring(h, job_id, state)
        [delivery] = deliveries(h)
        assert reply.followed == (
            Moved(delivery.id, DELIVERY_TYPE, State.SCHEDULED, State.PENDING),
        )
        assert delivery_of(delivery) == Delivery(
            job_id=job_id,
            url=URL,
            state=state,
            completed_at=h.now,
            attempt=h.get(job_id).attempt,
        )
        assert h.get(job_id).completed_at == h.now
        assert delivery.state is State.SCHEDULED
        assert delivery.queue == DELIVERY_QUEUE
        assert delivery.policy == DELIVERY_POLICY
        assert delivery.max_attempts == DELIVERY_POLICY.max_attempts
        assert delivery.expires_at - h.now == delivery.expires_at - delivery.created_at
        assert (delivery.expires_at - h.now).total_seconds() == DELIVERY_POLICY.lifetime
        assert delivery.correlation_id == "order-7"
        assert delivery.callback_url is None
        assert claim_of(h, DELIVERY_TYPE).id == delivery.id

    def test_what_is_not_the_end_stores_none(self, h: Harness) -> None:
        job_id = h.submit("a", callback_url=URL)
        h.release(claim_of(h, "a"))
        h.fail(claim_of(h, "a"), retry_after=1.0)
        h.advance(10)
        stale = claim_of(h, "a")
        h.advance(TTL)
        assert not isinstance(h.succeed(stale), Settled)
        h.claim(0)
        assert deliveries(h) == []
        h.advance(60)
        h.succeed(claim_of(h, "a"))
        assert len(deliveries(h)) == 1
        assert h.state(job_id) is State.COMPLETED

    def test_a_repeated_settlement_stores_no_second(self, h: Harness) -> None:
        h.submit("a", callback_url=URL)
        claimed = claim_of(h, "a")
        h.succeed(claimed)
        h.succeed(claimed)
        assert len(deliveries(h)) == 1

    def test_a_repeated_submission_stores_no_second(self, h: Harness) -> None:
        """S1-109: a duplicate of a job that has ended sends no second webhook."""
        asked = job("a", key=Key("k", 60.0), callback_url=URL)
        [job_id] = h.submit_all(asked)
        bring(h, job_id, State.COMPLETED)
        assert h.enqueue(asked, job("b", flow="f"))[0].job_id == job_id
        h.submit("c")
        parent = claim_of(h, "c")
        h.run(h.store.queue.spawn([Spawn(parent.id, parent.lease.token, (asked,))]))
        assert [delivery_of(each).job_id for each in deliveries(h)] == [job_id]

    def test_a_batch_stores_one_for_each_that_asked(self, h: Harness) -> None:
        wanted = [h.submit("a", callback_url=f"{URL}&n={n}") for n in range(3)]
        h.submit_many(5, "a")
        h.succeed_all(h.claim(8).jobs)
        assert sorted(delivery_of(each).job_id for each in deliveries(h)) == sorted(wanted)
        counts = {view.name: view.counts for view in h.run(h.store.overview.types())}
        assert counts[DELIVERY_TYPE] == {State.SCHEDULED: 3}

    def test_leases_and_lifetimes_that_run_out_are_told_of(self, h: Harness) -> None:
        lost = h.submit("a", callback_url=URL, policy=ONE_ATTEMPT)
        claim_of(h, "a")
        h.advance(TTL)
        h.claim(0)
        outlived = h.submit("b", callback_url=URL, policy=Policy(lifetime=5.0))
        h.advance(5)
        h.run(h.store.upkeep.expire(10))
        assert [delivery_of(each).job_id for each in deliveries(h)] == [lost, outlived]
        assert {delivery_of(each).state for each in deliveries(h)} == {State.DEAD_LETTER}

    def test_a_job_that_ends_with_another_is_told_of(self, h: Harness) -> None:
        """S1-71: and one that ends at its submission too."""
        a = h.submit("a")
        b = h.submit("b", after=after(a), callback_url=URL)
        bring(h, a, State.FAILED)
        [c] = h.submit_all(job("c", after=after(a), callback_url=URL))
        assert [(delivery_of(each).job_id, delivery_of(each).state) for each in deliveries(h)] == [
            (b, State.FAILED),
            (c, State.FAILED),
        ]

    def test_a_job_that_is_run_again_is_told_of_again(self, h: Harness) -> None:
        job_id = h.submit("a", callback_url=URL)
        bring(h, job_id, State.FAILED)
        h.advance(1)
        h.retry(job_id)
        assert len(deliveries(h)) == 1
        bring(h, job_id, State.COMPLETED)
        states = [delivery_of(each).state for each in deliveries(h)]
        assert states == [State.FAILED, State.COMPLETED]

    def test_a_fresh_copy_is_told_of_too(self, h: Harness) -> None:
        dead = h.submit("a", callback_url=URL)
        bring(h, dead, State.FAILED)
        reply = h.replay(dead)
        assert isinstance(reply, Replayed)
        assert h.get(reply.job_id).callback_url == URL
        bring(h, reply.job_id, State.COMPLETED)
        assert [delivery_of(each).job_id for each in deliveries(h)] == [dead, reply.job_id]

    def test_jobs_of_any_kind_can_ask_for_one(self, h: Harness) -> None:
        keyed = h.submit("a", callback_url=URL, key=Key("k"), tags={"x": "y"})
        first, second = h.submit_all(
            job("b", flow="f", callback_url=URL), job("c", after=after(0), callback_url=URL)
        )
        parent = claim_of(h, "b")
        new = (job("d", key=Key("s"), callback_url=URL),)
        [spawned] = h.run(h.store.queue.spawn([Spawn(parent.id, parent.lease.token, new)]))
        h.succeed(parent)
        for type_ in "acd":
            h.succeed(claim_of(h, type_))
        asked = {delivery_of(each).job_id for each in deliveries(h)}
        assert asked == {keyed, first, second, spawned.replies[0].job_id}  # type: ignore[union-attr]

    def test_the_wish_moves_with_the_job(self, h: Harness) -> None:
        with elsewhere(h) as other:
            ids = [each.submit("a", callback_url=URL) for each in (other, h)]
            assert load(h, dump(other)) == [Loaded(ids[0])]
            assert load(other, dump(h)[:1]) == [Loaded(ids[1])]
            for each in (h, other):
                for _ in range(2):
                    each.succeed(claim_of(each, "a"))
                assert {delivery_of(one).job_id for one in deliveries(each)} == set(ids)

    def test_a_job_that_ends_as_it_arrives_is_told_of(self, h: Harness) -> None:
        """S1-71: what it waited for there has failed here, and so has what waits for it."""
        with elsewhere(h) as other:
            a = other.submit("a")
            assert load(h, dump(other)) == [Loaded(a)]
            b, c, _ = other.submit_all(
                job("b", after=after(a), callback_url=URL, correlation_id="order-7"),
                job("c", after=after(0), callback_url=URL),
                job("d", after=after(1)),
            )
            bring(h, a, State.FAILED)
            h.advance(1)
            load(h, dump(other))
            assert {delivery_of(each).job_id: delivery_of(each) for each in deliveries(h)} == {
                job_id: Delivery(
                    job_id=job_id, url=URL, state=State.FAILED, completed_at=h.now, attempt=0
                )
                for job_id in (b, c)
            }
            assert {each.correlation_id for each in deliveries(h)} == {"order-7", None}
            load(h, dump(other))
            assert len(deliveries(h)) == 2

    def test_a_job_that_has_ended_is_not_told_of_where_it_arrives(self, h: Harness) -> None:
        with elsewhere(h) as other:
            ended = other.submit("a", callback_url=URL)
            bring(other, ended, State.FAILED)
            records = [each for each in dump(other) if each.job.id == ended]
            assert load(h, records) == [Loaded(ended)]
            assert deliveries(h) == []

    def test_nothing_is_left_of_a_pruned_job(self, h: Harness) -> None:
        job_id = h.submit("a", callback_url=URL)
        bring(h, job_id, State.COMPLETED)
        h.succeed(claim_of(h, DELIVERY_TYPE))
        h.advance(10)
        keep = {state: 1.0 for state in State if state.is_terminal}
        assert h.run(h.store.upkeep.prune(PruneRequest(keep=keep, limit=10))).count == 2
        assert h.find() == []

    @pytest.mark.parametrize("given", [None, "https://example.com/other"])
    def test_a_replay_keeps_the_address_unless_it_is_given_another(
        self, h: Harness, given: str | None
    ) -> None:
        """One that is encrypted belongs to its job, and is given again to the fresh one."""
        dead = h.submit("a", callback_url=URL)
        bring(h, dead, State.FAILED)
        payload = h.get(dead).payload_body
        [reply] = h.run(h.store.control.replay([Replay(dead, payload=payload, callback_url=given)]))
        assert isinstance(reply, Replayed)
        assert h.get(reply.job_id).callback_url == (given or URL)
        assert h.get(dead).callback_url == URL
        before = {each.id for each in deliveries(h)}
        bring(h, reply.job_id, State.COMPLETED)
        [fresh] = [each for each in deliveries(h) if each.id not in before]
        assert delivery_of(fresh).url == (given or URL)
