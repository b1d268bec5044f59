"""Moving to another store: whole jobs out of one, and into another as they were.

The memory store is the other store. What is dumped here and loaded there looks the same there, and
the other way round; both together mean that nothing is lost on the way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

import msgspec
import pytest

from conformance.harness import (
    INSTANT,
    LIVE,
    ONE_ATTEMPT,
    PAGES_MAX,
    REACHABLE,
    TERMINAL,
    TTL,
    Harness,
    ids,
    job,
)
from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.flows.dependencies import Dependencies
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Encoding, JobRecord, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.errors import DuplicateJobError, StateConflictError
from fencepost.store.interface.control import Edit
from fencepost.store.interface.queue import Duplicate, LeaseLost
from fencepost.store.interface.records.transfer import Loaded, LoadReply, Present
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.memory.store import MemoryStore

__all__ = ["TestMoving"]

QUIET = tuple(state for state in REACHABLE if state is not State.RUNNING)
BINARY = Body(bytes(range(256)), Encoding.BINARY)


@contextmanager
def elsewhere(h: Harness) -> Iterator[Harness]:
    """Open another store, in memory, under the same clock."""
    other = Harness(lambda _: MemoryStore(clock=h.clock), colour=h.colour, is_durable=False)
    other.clock = h.clock
    yield other
    other.close()


def dump(h: Harness, limit: int = 1_000) -> list[JobRecord]:
    """Return all that there is, read page by page."""
    records: list[JobRecord] = []
    after = 0
    for _ in range(PAGES_MAX):
        page = h.run(h.store.transfer.dump(after, limit))
        if not page.records:
            assert page.last == after
            return records
        assert page.last > after and len(page.records) <= limit
        records += page.records
        after = page.last
    raise AssertionError("the pages do not come to an end")


def load(h: Harness, records: Sequence[JobRecord]) -> list[LoadReply]:
    return h.run(h.store.transfer.load(records))


def fill(h: Harness) -> None:
    """Make jobs of every kind that can move, no two of which died at the same time."""
    for state in QUIET:
        h.job_in(state, type=f"plain {state}")
        h.advance(1.5)
        h.job_in(
            state,
            type=f"rich {state}",
            queue="other",
            priority=Priority.HIGH,
            payload=BINARY,
            key=Key(f"{state} ключ", window=100_000.5),
            tags={"tenant": "7", "größe": "\U0001f9ed"},
            correlation_id="order-7",
            submitter="0123456789ab",
            policy=Policy(max_attempts=2 if state is not State.DEAD_LETTER else 1, lease_ttl=40.0),
        )
        h.advance(0.000001)
    _fill_attempts(h)
    h.advance(1.0)
    _fill_by_hand(h)
    # Those from before have fallen due meanwhile.
    h.submit("later", delay=3600.0)
    h.submit("again")
    h.fail(h.take(types=frozenset({"again"})), retry_after=3600.0)
    assert {each.state for each in h.find()} == set(QUIET)


def _fill_attempts(h: Harness) -> None:
    """Leave jobs with a past: released, snoozed, recovered, with what their handlers kept."""
    h.submit("often", policy=Policy(max_attempts=9), key=Key("k", window=None))
    only = frozenset({"often"})
    h.release(h.take("w1", types=only))
    h.fail(h.take("w2", types=only), retry_after=1.0)
    h.advance(1.0)
    held = h.take("w3", types=only)
    h.save(held, checkpoint=BINARY, progress=Progress(fraction=0.25, message="a quarter"))
    h.snooze(held, 3600.0)
    h.submit("lost", policy=Policy(max_attempts=9))
    held = h.take("w4", types=frozenset({"lost"}))
    h.save(held, checkpoint=Body(b'{"page":[1,2]}'))
    h.advance(TTL)
    assert len(h.run(h.store.upkeep.recover(10))) == 1
    h.job_in(State.COMPLETED, type="free", key=Key("lapsed", window=None))
    h.submit("binary")
    h.succeed(h.take(types=frozenset({"binary"})), BINARY)


def _fill_by_hand(h: Harness) -> None:
    """Leave jobs that an operator has touched."""
    for delay in (0.0, 300.0):
        reopened = h.job_in(State.FAILED, type=f"reopened {delay:g}")
        h.advance(1.0)
        h.retry(reopened, delay=delay, priority=Priority.LOW)
    h.run(h.store.control.discard([h.job_in(State.FAILED, type="discarded")]))
    h.advance(1.0)
    h.replay(h.job_in(State.DEAD_LETTER, type="replayed", key=Key("passed on"), payload=BINARY))
    h.advance(1.0)
    h.cancel(h.submit("never", delay=60.0))
    edited = h.submit("edited", tags={"a": "b"})
    h.run(h.store.control.edit([Edit(edited, priority=Priority.BULK, tags={"c": "d"})]))
    h.submit("promoted", delay=1.0)
    h.advance(2.0)
    h.run(h.store.upkeep.promote(100))


def raise_marks(h: Harness) -> None:
    """Let a store that keeps marks believe that nothing old is to come."""
    for _ in range(3):
        h.submit()
        h.succeed(h.take())
        h.advance(10.0)
        if h.store.tidy_interval is not None:
            h.run(h.store.upkeep.tidy())


class TestMoving:
    def test_what_is_dumped_is_all_there_is_to_know(self, h: Harness) -> None:
        """S1-3: another store that loads it shows the same."""
        fill(h)
        records = dump(h)
        with elsewhere(h) as other:
            assert load(other, records) == [Loaded(each.job.id) for each in records]
            assert other.snapshot() == h.snapshot()
            assert dump(other) == records

    def test_what_is_loaded_is_as_it_was(self, h: Harness) -> None:
        """S1-3: ids, times, attempts, results, keys and dead letters."""
        with elsewhere(h) as other:
            fill(other)
            records = dump(other)
            assert load(h, records) == [Loaded(each.job.id) for each in records]
            assert h.snapshot() == other.snapshot()
            assert dump(h) == records

    def test_what_is_loaded_survives(self, h: Harness) -> None:
        """S0-3."""
        with elsewhere(h) as other:
            fill(other)
            load(h, dump(other))
            before = h.snapshot()
            h.reopen()
            if h.is_durable:
                assert h.snapshot() == before

    def test_to_load_again_changes_nothing(self, h: Harness) -> None:
        """A move that broke off is repeated."""
        with elsewhere(h) as other:
            fill(other)
            records = dump(other)
        load(h, records[: len(records) // 2])
        load(h, records)
        before = (h.snapshot(), dump(h))
        assert load(h, records) == [Present(each.job.id) for each in records]
        assert (h.snapshot(), dump(h)) == before
        assert [each.job.id for each in dump(h)] == [each.job.id for each in records]

    def test_a_job_that_has_gone_on_is_left_alone(self, h: Harness) -> None:
        job_id = h.submit()
        records = dump(h)
        h.succeed(h.take())
        assert load(h, records) == [Present(job_id)]
        assert h.state(job_id) is State.COMPLETED

    def test_a_job_is_loaded_once(self, h: Harness) -> None:
        with elsewhere(h) as other:
            job_id = other.job_in(State.RETRYING)
            records = dump(other)
        assert load(h, records * 2) == [Loaded(job_id), Present(job_id)]
        assert len(h.find()) == 1
        assert len(h.attempts(job_id)) == 1
        assert load(h, []) == []

    def test_pages_follow_the_order_of_submission(self, h: Harness) -> None:
        submitted = [h.submit(delay=float(10 - n), key=Key(f"{n}")) for n in range(7)]
        assert [each.job.id for each in dump(h, 3)] == submitted
        assert [each.job.id for each in dump(h, 7)] == submitted

    def test_a_page_has_a_bounded_size(self, h: Harness) -> None:
        """Many large payloads must not fill the memory; a single larger one must get through."""
        large = Body(b'"' + b"x" * (DUMP_BYTES // 3) + b'"')
        submitted = [h.submit(payload=large) for _ in range(4)]
        first = h.run(h.store.transfer.dump(0, 10))
        assert [each.job.id for each in first.records] == submitted[:2]
        with elsewhere(h) as other:
            load(other, dump(h))
            assert other.find() == h.find()

    def test_jobs_are_claimed_in_the_order_they_had(self, h: Harness) -> None:
        """S0-7, S1-34, C14: by priority, by due time, and in the order of submission."""
        with elsewhere(h) as other:
            for priority in (Priority.LOW, Priority.NORMAL, Priority.LOW):
                other.submit_many(3, priority=priority)
                other.submit("other", priority=priority)
                other.advance(1.0)
            back = other.take()
            other.advance(1.0)
            other.release(back)
            raise_marks(h)
            load(h, dump(other))
            later = h.submit()
            expected = ids(other.claim(100).jobs)
        claimed = ids(h.claim(100).jobs)
        assert [each for each in claimed if each != later] == expected
        assert h.claim(100).jobs == []

    def test_the_lease_version_goes_on(self, h: Harness) -> None:
        """S0-40, S0-51: what was a token there is none here, now and later."""
        with elsewhere(h) as other:
            job_id = other.submit(policy=Policy(max_attempts=9))
            held = other.take()
            other.save(held, checkpoint=BINARY)
            other.fail(held, retry_after=5.0)
            load(h, dump(other))
        h.advance(5.0)
        claimed = h.take("w2")
        versions = [held.lease.version, claimed.lease.version]
        assert (claimed.id, claimed.attempt, claimed.last_version) == (job_id, 2, versions[0])
        assert versions[0] < versions[1]
        assert claimed.checkpoint == BINARY
        assert isinstance(h.succeed(held), LeaseLost)
        assert isinstance(h.heartbeat(held), LeaseLost)
        h.succeed(claimed)
        assert isinstance(h.succeed(held), LeaseLost)
        assert [each.lease_version for each in h.attempts(job_id)] == versions
        assert (h.get(job_id).failure, h.get(job_id).checkpoint_body) == (None, BINARY)

    def test_a_job_whose_time_passed_on_the_way_is_claimable(self, h: Harness) -> None:
        """S1-22: however old it is."""
        with elsewhere(h) as other:
            delayed = other.job_in(State.DELAYED, delay=1.0)
            retrying = other.job_in(State.RETRYING)
            ready = other.submit()
            records = dump(other)
        h.advance(60.0)
        raise_marks(h)
        load(h, records)
        assert sorted(ids(h.claim().jobs)) == sorted([delayed, retrying, ready])

    @pytest.mark.parametrize("state", [s for s in LIVE if s is not State.RUNNING], ids=str)
    def test_a_lifetime_that_ended_on_the_way_is_over(self, h: Harness, state: State) -> None:
        """S1-44, C22."""
        with elsewhere(h) as other:
            job_id = other.job_in(state, policy=Policy(lifetime=120.0))
            records = dump(other)
        h.advance(120.0)
        raise_marks(h)
        load(h, records)
        assert h.claim().jobs == []
        assert h.state(job_id) is State.DEAD_LETTER

    def test_keys_are_still_held(self, h: Harness) -> None:
        """S1-9, S1-10, S3-12, C15: by live jobs, and until their windows end."""
        with elsewhere(h) as other:
            live = other.submit(key=Key("live", window=None))
            done = other.job_in(State.COMPLETED, type="done", key=Key("done", window=60.0))
            other.job_in(State.COMPLETED, type="free", key=Key("free", window=None))
            load(h, dump(other))
        replies = h.enqueue(job(key=Key("live")), job("done", key=Key("done")))
        assert all(isinstance(reply, Duplicate) for reply in replies)
        assert [reply.job_id for reply in replies] == [live, done]
        h.submit("free", key=Key("free"))
        h.advance(timedelta(seconds=60) - INSTANT)
        assert isinstance(h.enqueue(job("done", key=Key("done")))[0], Duplicate)
        h.advance(INSTANT)
        h.submit("done", key=Key("done"))

    @pytest.mark.parametrize("window", [None, 60.0])
    def test_a_key_that_is_held_here_refuses_all(self, h: Harness, window: float | None) -> None:
        """S1-9, C15: nothing of the batch is stored."""
        mine = h.submit(key=Key("k", window))
        before = h.snapshot()
        with elsewhere(h) as other:
            other.submit("first")
            other.submit(key=Key("k"))
            records = dump(other)
        with pytest.raises(DuplicateJobError) as caught:
            load(h, records)
        assert caught.value.existing_id == mine
        assert h.snapshot()["jobs"] == before["jobs"]

    @pytest.mark.parametrize("window", [None, 60.0])
    def test_a_key_passes_to_who_needs_it(self, h: Harness, window: float | None) -> None:
        """C15: what has ended here gives a lapsed key up; what has ended there does without."""
        h.job_in(State.COMPLETED, key=Key("theirs", window=None))
        mine = h.submit("mine", key=Key("mine", window))
        with elsewhere(h) as other:
            theirs = other.submit(key=Key("theirs", window))
            other.job_in(State.COMPLETED, type="mine", key=Key("mine", window))
            assert all(isinstance(reply, Loaded) for reply in load(h, dump(other)))
        replies = h.enqueue(job(key=Key("theirs")), job("mine", key=Key("mine")))
        assert all(isinstance(reply, Duplicate) for reply in replies)
        assert [reply.job_id for reply in replies] == [theirs, mine]

    def test_a_running_job_is_not_loaded(self, h: Harness) -> None:
        """A lease is valid where it was given; nothing of the batch is stored."""
        with elsewhere(h) as other:
            other.submit("first")
            job_id = other.job_in(State.RUNNING)
            records = dump(other)
        assert records[1].job.state is State.RUNNING
        with pytest.raises(StateConflictError) as caught:
            load(h, records)
        assert caught.value.job_id == job_id
        assert h.find() == []

    def test_a_job_that_waits_for_others_is_dumped_when_one_of_them_has_succeeded(
        self, h: Harness
    ) -> None:
        """S1-60: and what each waits for, in whichever queues they are."""
        first, second, last = h.submit_all(
            job(queue="a"), job(queue="b"), job(queue="c", after=Dependencies((0, 1)))
        )
        h.succeed(h.take(queues={"a": 1}))
        found = {record.job.id: record for record in dump(h)}
        assert {each: record.job.state for each, record in found.items()} == {
            first: State.COMPLETED,
            second: State.SCHEDULED,
            last: State.PENDING,
        }
        assert found[last].dependencies == (first, second)

    def test_a_running_job_is_dumped_as_such(self, h: Harness) -> None:
        h.job_in(State.RUNNING)
        [record] = dump(h)
        assert record.job == h.get(record.job.id)
        assert list(record.attempts) == h.attempts(record.job.id)

    def test_dead_letters_can_be_dealt_with(self, h: Harness) -> None:
        """S3-26, C36."""
        with elsewhere(h) as other:
            replayed = other.job_in(State.DEAD_LETTER, type="a", key=Key("k"), payload=BINARY)
            other.advance(1.0)
            reopened = other.job_in(State.FAILED, type="b", key=Key("k"))
            load(h, dump(other))
        assert [each.job_id for each in h.letters()] == [reopened, replayed]
        h.replay(replayed)
        h.retry(reopened)
        assert h.letters() == []
        claimed = {each.type: each for each in h.claim().jobs}
        assert claimed["a"].payload == BINARY
        assert (claimed["b"].id, claimed["b"].attempt) == (reopened, 1)
        assert claimed["b"].lease.version > claimed["b"].last_version > 0

    @pytest.mark.parametrize("state", QUIET, ids=str)
    def test_a_job_can_end_and_be_pruned(self, h: Harness, state: State) -> None:
        """S1-5: it is a job like any other, and nothing is left of it."""
        with elsewhere(h) as other:
            job_id = other.job_in(state, key=Key("k", window=None), tags={"a": "b"})
            load(h, dump(other))
        if not state.is_terminal:
            h.cancel(job_id)
        assert h.state(job_id) in TERMINAL
        request = PruneRequest(keep=dict.fromkeys(TERMINAL, 0.0), limit=10)
        assert h.run(h.store.upkeep.prune(request)).count == 1
        assert (h.find(), h.letters(), dump(h)) == ([], [], [])
        assert all(not view.counts for view in h.run(h.store.overview.queues()))

    def test_a_policy_arrives_with_its_job(self, h: Harness) -> None:
        """S1-46: even if no job here ever had it."""
        with elsewhere(h) as other:
            other.submit(policy=msgspec.structs.replace(ONE_ATTEMPT, lease_ttl=77.0))
            load(h, dump(other))
        claimed = h.take()
        assert (claimed.max_attempts, claimed.lease_ttl) == (1, 77.0)
        assert claimed.lease.expires_at == h.now + timedelta(seconds=77)
