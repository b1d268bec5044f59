"""New jobs: what is stored of them, and what is answered."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from msgspec.structs import replace

from conformance.harness import DONE, INSTANT, Harness, job
from fencepost.core.events import NewEvent
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Encoding, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Backoff, Policy, Priority
from fencepost.errors import FencepostError, InvalidJobError
from fencepost.store.interface.queue import Enqueued, Spawn

__all__ = ["TestEnqueueing", "TestPayloads"]

CUSTOM = Policy(
    max_attempts=7,
    backoff=Backoff("custom", 2.0, 60.0, 3.0, 0.1, (1.5, 2.25)),
    on_timeout=False,
    on_system=False,
    timeout=12.5,
    lifetime=3600.0,
    lease_ttl=17.0,
)

BODIES = {
    "empty": Body(b"", Encoding.BINARY),
    "every byte": Body(bytes(range(256)), Encoding.BINARY),
    "NUL": Body(b"\0", Encoding.BINARY),
    "not UTF-8": Body(b"\xff\xfe\x80", Encoding.BINARY),
    "emoji": Body('{"text": "🦊 née \\u0000"}'.encode()),
    "NUL in text": Body(b'"a\0b"'),
    "odd spacing": Body(b'{ "b":1,\n"a" : 1.0 }'),
    "no JSON at all": Body(b"{nonsense"),
    "a megabyte": Body(bytes(range(250)) * 4000, Encoding.BINARY),
}


class TestEnqueueing:
    def test_a_new_job_is_claimable_and_has_the_defaults(self, h: Harness) -> None:
        """S0-24, S0-28, S0-36, S1-13, S1-20, S1-32, S1-41, S1-47, S1-96..S1-103, S3-4, C33."""
        [reply] = h.enqueue(job("mail"))
        assert isinstance(reply, Enqueued)
        assert reply == Enqueued(reply.job_id, "mail", State.SCHEDULED)
        assert h.get(reply.job_id) == Job(
            id=reply.job_id,
            type="mail",
            queue="default",
            priority=Priority.NORMAL,
            state=State.SCHEDULED,
            attempt=0,
            max_attempts=3,
            created_at=h.now,
            updated_at=h.now,
            run_at=h.now,
            scheduled_at=h.now,
            expires_at=h.now + timedelta(days=7),
        )
        assert h.take().id == reply.job_id

    def test_every_field_given_is_kept(self, h: Harness) -> None:
        """S1-31, S1-46, S1-105, S1-106, S1-107, S1-108, S1-76."""
        job_id = h.submit(
            "täsk.🦊",
            queue="reports/ü",
            priority=Priority.BULK,
            payload=Body(b"[1]"),
            policy=CUSTOM,
            key=Key("k"),
            tags={"customer": "42", "plan": "größer"},
            correlation_id="trace-1",
        )
        assert h.get(job_id) == Job(
            id=job_id,
            type="täsk.🦊",
            queue="reports/ü",
            priority=Priority.BULK,
            state=State.SCHEDULED,
            attempt=0,
            max_attempts=7,
            created_at=h.now,
            updated_at=h.now,
            run_at=h.now,
            scheduled_at=h.now,
            expires_at=h.now + timedelta(hours=1),
            policy=CUSTOM,
            payload_body=Body(b"[1]"),
            key="k",
            tags={"customer": "42", "plan": "größer"},
            correlation_id="trace-1",
        )

    def test_an_id_is_a_fresh_uuid_4_of_the_stores_choosing(self, h: Harness) -> None:
        """S1-1, S1-2, S1-4, S1-96, C16."""
        job_ids = h.submit_many(100) + [h.submit() for _ in range(5)]
        assert len(set(job_ids)) == 105
        for job_id in job_ids:
            assert uuid.UUID(job_id).version == 4
            assert str(uuid.UUID(job_id)) == job_id

    def test_an_id_that_exists_is_not_given_to_a_second_job(
        self, h: Harness, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """S0-35, S1-4, C16: it fails or draws another id; the first job is untouched."""
        taken = h.clock.new_id()
        drawn = iter([taken, taken])
        fresh = h.clock.new_id
        monkeypatch.setattr(h.clock, "new_id", lambda: next(drawn, None) or fresh())
        first = h.submit("first")
        before = h.get(first)
        try:
            [reply] = h.enqueue(job("second"))
        except FencepostError:
            assert h.find(type="second") == []
        else:
            assert reply.job_id != first
        assert h.get(first) == before
        assert len(h.find(type="first")) == 1

    def test_replies_come_in_the_order_of_the_jobs(self, h: Harness) -> None:
        """S1-20, S1-21: a batch of immediate and delayed jobs of several types."""
        replies = h.enqueue(job("a"), job("b", delay=5.0), job("c"))
        assert [(reply.type, reply.state) for reply in replies] == [
            ("a", State.SCHEDULED),
            ("b", State.DELAYED),
            ("c", State.SCHEDULED),
        ]
        assert [h.get(reply.job_id).type for reply in replies] == ["a", "b", "c"]

    def test_an_empty_batch_stores_nothing(self, h: Harness) -> None:
        """S0-28."""
        assert h.enqueue() == []
        assert h.find() == []

    def test_a_delayed_job_waits_for_its_time(self, h: Harness) -> None:
        """S1-14, S1-21, S1-22, S1-101, S2-25, S3-4, S0-37, C30: claimable at its due time."""
        start = h.now
        job_id = h.submit(delay=90.0)
        due = start + timedelta(seconds=90)
        waiting = h.get(job_id)
        assert (waiting.state, waiting.run_at) == (State.DELAYED, due)
        assert waiting.scheduled_at is None
        h.advance_to(due - INSTANT)
        assert h.claim().jobs == []
        h.advance_to(due)
        claim = h.claim()
        assert [each.id for each in claim.jobs] == [job_id]
        assert claim.promoted == 1
        assert h.get(job_id).scheduled_at == due
        assert h.get(job_id).created_at == start

    def test_a_due_time_wins_over_a_delay(self, h: Harness) -> None:
        """S1-14, S1-21."""
        due = h.now + timedelta(hours=3)
        job_id = h.submit(delay=5.0, run_at=due)
        assert (h.state(job_id), h.get(job_id).run_at) == (State.DELAYED, due)

    @pytest.mark.parametrize("past", [timedelta(0), timedelta(days=30)], ids=["now", "long ago"])
    def test_a_due_time_that_has_come_means_now(self, h: Harness, past: timedelta) -> None:
        """S1-20: nothing gets ahead in line by naming an earlier time."""
        first = h.submit()
        job_id = h.submit(run_at=h.now - past)
        assert (h.state(job_id), h.get(job_id).run_at) == (State.SCHEDULED, h.now)
        assert h.take().id == first

    @pytest.mark.parametrize("priority", list(Priority), ids=lambda each: each.name)
    def test_each_of_the_five_priorities_is_kept(self, h: Harness, priority: Priority) -> None:
        """S1-31."""
        h.submit(priority=priority)
        assert h.take().priority is priority

    def test_a_policy_is_each_jobs_own(self, h: Harness) -> None:
        """S1-46: jobs of one type may have different ones."""
        replies = h.enqueue(job(), job(policy=CUSTOM), job())
        assert [h.get(reply.job_id).policy for reply in replies] == [
            DEFAULT_POLICY,
            CUSTOM,
            DEFAULT_POLICY,
        ]

    @pytest.mark.parametrize("kind", ["plain", "tagged", "of a flow", "waiting", "spawned", "sent"])
    @pytest.mark.parametrize("is_absolute", [False, True])
    def test_a_job_that_falls_due_at_the_end_of_its_lifetime_is_refused(
        self, h: Harness, kind: str, is_absolute: bool
    ) -> None:
        """C48, S1-44: it could never run; an instant earlier it may. Nothing is stored."""
        parent = h.submit("parent")
        running = h.take()

        def store(late: float) -> None:
            due = 60.0 + late
            when = {"run_at": h.now + timedelta(seconds=due)} if is_absolute else {"delay": due}
            new = job("child", policy=Policy(lifetime=60.0), **when)
            match kind:
                case "tagged":
                    h.enqueue(job(), replace(new, tags={"a": "1"}), job())
                case "of a flow":
                    h.enqueue(job(), replace(new, flow="f"))
                case "waiting":
                    h.enqueue(replace(new, after=Dependencies((parent,))))
                case "spawned":
                    spawned = replace(new, key=Key(f"k{late}", None))
                    h.run(h.store.queue.spawn([Spawn(running.id, running.lease.token, (spawned,))]))
                case "sent":
                    h.run(h.store.events.send(NewEvent("e"), [job(), new]))
                case _:
                    h.enqueue(job(), new)

        before = h.snapshot()
        for late in (0.0, 30.0):
            with pytest.raises(InvalidJobError, match="lifetime"):
                store(late)
        assert h.snapshot() == before
        store(-0.000001)
        assert len(h.find(type="child")) == 1

    def test_time_on_the_way_changes_nothing(self, h: Harness) -> None:
        """S0-3: a job that waits is there as long as its lifetime."""
        job_id = h.submit()
        before = h.get(job_id)
        h.advance(timedelta(days=7) - INSTANT)
        assert h.get(job_id) == before
        assert h.take().id == job_id


class TestPayloads:
    @pytest.mark.parametrize("name", list(BODIES))
    def test_a_payload_comes_back_byte_by_byte(self, h: Harness, name: str) -> None:
        """S1-90, S1-92, S1-93, C24: bytes and encoding, uninterpreted, through claim and get."""
        job_id = h.submit(payload=BODIES[name])
        assert h.get(job_id).payload_body == BODIES[name]
        assert h.take().payload == BODIES[name]

    @pytest.mark.parametrize("name", list(BODIES))
    def test_a_result_and_a_checkpoint_come_back_byte_by_byte(self, h: Harness, name: str) -> None:
        """S1-16, S1-58, S1-90."""
        job_id = h.submit()
        claimed = h.take()
        h.save(claimed, checkpoint=BODIES[name])
        h.succeed(claimed, BODIES[name])
        assert h.get(job_id).checkpoint_body == BODIES[name]
        assert h.get(job_id).result_body == BODIES[name]

    def test_a_payload_never_changes(self, h: Harness) -> None:
        """S1-94, S1-3: through failure, loss of the worker, exhaustion and retry by hand."""
        payload = Body(b'{"n": 1}')
        job_id = h.submit(payload=payload)
        assert h.take().payload == payload
        h.advance(30.0)
        h.run(h.store.upkeep.recover(10))
        h.advance(1.0)
        h.reject(h.take())
        h.retry(job_id)
        claimed = h.take()
        assert (claimed.id, claimed.payload) == (job_id, payload)
        h.succeed(claimed)
        assert (h.get(job_id).payload_body, h.get(job_id).result_body) == (payload, DONE)
