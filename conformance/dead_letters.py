"""Dead letters: the list, replay and discard."""

from __future__ import annotations

from datetime import timedelta

import pytest

from conformance.harness import (
    DEAD,
    NOBODY,
    REACHABLE,
    TROUBLE,
    Harness,
    ids,
    job,
)
from fencepost.core.filter import PageRequest
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, DeadLetter, Job
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.store.interface.control import Discarded, NotFound, Replayed
from fencepost.store.interface.queue import Duplicate
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestDeadLetters", "TestReplaying"]

ACTIVE = Key("k", window=None)


class TestDeadLetters:
    @pytest.mark.parametrize("state", DEAD, ids=str)
    def test_a_job_that_ended_in_failure_is_listed(self, h: Harness, state: State) -> None:
        """S0-61, S3-22, S3-24, C7: with its reason, category, attempts and the time."""
        h.advance(5.0)
        job_id = h.job_in(state, queue="q")
        failure = h.get(job_id).failure
        assert failure is not None
        assert h.letters() == [
            DeadLetter(
                job_id=job_id,
                type="mail",
                queue="q",
                state=state,
                attempts=1,
                failure=failure,
                completed_at=h.now,
            )
        ]

    def test_no_other_job_is_listed(self, h: Harness) -> None:
        """S3-22."""
        for state in REACHABLE:
            h.job_in(state, type=state.value)
        assert {letter.state for letter in h.letters()} == set(DEAD)
        assert len(h.letters()) == 2

    def test_the_most_recently_dead_come_first_page_by_page(self, h: Harness) -> None:
        """S3-24."""
        h.submit_many(5)
        order = [4, 0, 3, 1, 2]
        claimed = h.claim().jobs
        for position in order:
            h.advance(1.0)
            h.reject(claimed[position])
        expected = [claimed[position].id for position in reversed(order)]
        seen: list[str] = []
        after: int | None = None
        for size in (2, 2, 1):
            page = h.run(h.store.reader.dead_letters(None, PageRequest(2, after)))
            assert len(page.letters) == size
            seen += [letter.job_id for letter in page.letters]
            after = page.next
        assert (seen, after) == (expected, None)

    @pytest.mark.parametrize("fate", ["retried", "replayed", "discarded", "pruned"])
    def test_a_page_goes_on_where_its_last_letter_was(self, h: Harness, fate: str) -> None:
        """S3-24: whatever has become of that letter, those behind it are listed, and once."""
        letters = [h.job_in(State.FAILED)]
        h.advance(1.0)
        letters.append(h.job_in(State.DEAD_LETTER))
        h.advance(1.0)
        letters.append(h.job_in(State.FAILED))
        page = h.run(h.store.reader.dead_letters(None, PageRequest(2)))
        assert [letter.job_id for letter in page.letters] == [letters[2], letters[1]]
        match fate:
            case "retried":
                h.retry(letters[1])
            case "replayed":
                h.replay(letters[1])
            case "discarded":
                h.run(h.store.control.discard([letters[1]]))
            case "pruned":
                prune = PruneRequest(keep={State.DEAD_LETTER: 0.0}, limit=10)
                assert h.run(h.store.upkeep.prune(prune)).count == 1
        assert len(h.letters()) == 2
        rest = h.run(h.store.reader.dead_letters(None, PageRequest(2, page.next)))
        assert [letter.job_id for letter in rest.letters] == letters[:1]
        assert rest.next is None

    @pytest.mark.parametrize("position", [0, 7, 10**18 - 1, 10**37 - 1])
    def test_a_position_that_no_page_gave_out_is_no_error(self, h: Harness, position: int) -> None:
        """S3-24: what it shows is on the list, if it shows anything."""
        h.job_in(State.FAILED)
        page = h.run(h.store.reader.dead_letters(None, PageRequest(1, position)))
        assert page.letters in ([], h.letters())
        assert page.next is None

    def test_the_list_can_be_read_type_by_type(self, h: Harness) -> None:
        """S3-22, S3-24."""
        mail = h.job_in(State.FAILED, type="mail")
        report = h.job_in(State.DEAD_LETTER, type="report")
        assert [letter.job_id for letter in h.letters("mail")] == [mail]
        assert [letter.job_id for letter in h.letters("report")] == [report]
        assert h.letters("other") == []

    def test_a_discarded_letter_is_off_the_list_and_its_job_stays(self, h: Harness) -> None:
        """S3-24, S0-3."""
        job_id = h.job_in(State.FAILED)
        before = h.get(job_id)
        batch = [job_id, job_id, NOBODY, "no id"]
        assert h.run(h.store.control.discard(batch)) == [
            Discarded(job_id),
            NotFound(job_id),
            NotFound(NOBODY),
            NotFound("no id"),
        ]
        assert (h.letters(), h.get(job_id)) == ([], before)
        assert h.replay(job_id) == NotFound(job_id)

    @pytest.mark.parametrize("state", [s for s in REACHABLE if s not in DEAD], ids=str)
    def test_only_a_dead_letter_can_be_discarded_or_replayed(
        self, h: Harness, state: State
    ) -> None:
        """S0-12, S3-25, C37."""
        job_id = h.job_in(state)
        before = h.snapshot()
        assert h.run(h.store.control.discard([job_id])) == [NotFound(job_id)]
        assert h.replay(job_id) == NotFound(job_id)
        assert h.snapshot() == before

    def test_a_discarded_job_can_still_be_retried(self, h: Harness) -> None:
        """S0-61, C36."""
        job_id = h.job_in(State.FAILED)
        h.run(h.store.control.discard([job_id]))
        h.retry(job_id)
        assert h.take().id == job_id


class TestReplaying:
    @pytest.mark.parametrize("state", DEAD, ids=str)
    def test_a_replay_is_a_fresh_job_in_place_of_the_letter(self, h: Harness, state: State) -> None:
        """S3-25, S3-26, S1-94: new id, no attempts, all else as it was, linked to the original."""
        policy = Policy(max_attempts=1, lifetime=3600.0)
        dead_id = h.job_in(
            state,
            queue="q",
            priority=Priority.LOW,
            payload=Body(b"[1]"),
            policy=policy,
            key=ACTIVE,
            tags={"a": "1"},
            correlation_id="c",
        )
        dead = h.get(dead_id)
        now = h.advance(60.0)
        reply = h.replay(dead_id)
        assert reply == Replayed(dead_id, reply.job_id, "mail", State.SCHEDULED)
        assert reply.job_id != dead_id
        assert h.get(reply.job_id) == Job(
            id=reply.job_id,
            type="mail",
            queue="q",
            priority=Priority.LOW,
            state=State.SCHEDULED,
            attempt=0,
            max_attempts=1,
            created_at=now,
            updated_at=now,
            run_at=now,
            scheduled_at=now,
            expires_at=now + timedelta(hours=1),
            policy=policy,
            payload_body=Body(b"[1]"),
            key="k",
            tags={"a": "1"},
            correlation_id="c",
            replay_of=dead_id,
        )
        assert (h.letters(), h.get(dead_id)) == ([], dead)
        assert ids(h.claim().jobs) == [reply.job_id]

    def test_a_letter_is_replayed_once(self, h: Harness) -> None:
        """S3-27: the record goes with the enqueue, so a repeat finds none."""
        dead_id = h.job_in(State.FAILED)
        first, second = h.run(h.store.control.replay([dead_id, dead_id]))
        assert isinstance(first, Replayed)
        assert second == NotFound(dead_id)
        assert h.replay(dead_id) == NotFound(dead_id)
        assert len(h.find()) == 2
        assert h.run(h.store.control.replay([NOBODY, "no id"])) == [
            NotFound(NOBODY),
            NotFound("no id"),
        ]
        assert h.run(h.store.control.replay([])) == []

    def test_a_key_held_by_another_job_keeps_the_letter(self, h: Harness) -> None:
        """S3-27, C15: no fresh job; the record is removed only after a successful enqueue."""
        dead_id = h.job_in(State.FAILED, key=ACTIVE)
        holder = h.submit(key=ACTIVE)
        before = h.snapshot()
        assert h.replay(dead_id) == Duplicate(holder, "mail", "k", State.SCHEDULED, True)
        assert h.snapshot() == before
        h.cancel(holder)
        assert isinstance(h.replay(dead_id), Replayed)

    def test_a_key_in_the_window_of_another_job_keeps_the_letter(self, h: Harness) -> None:
        """S3-27, C15."""
        dead_id = h.job_in(State.FAILED, key=Key("k", window=10.0))
        h.advance(10.0)
        holder = h.job_in(State.COMPLETED, key=Key("k", window=100.0))
        assert h.replay(dead_id) == Duplicate(holder, "mail", "k", State.COMPLETED, True)
        assert [letter.job_id for letter in h.letters()] == [dead_id]

    def test_a_key_still_held_by_the_dead_job_passes_to_the_fresh_one(self, h: Harness) -> None:
        """S3-25, S3-26: with a window that counts from the replay."""
        dead_id = h.job_in(State.FAILED, key=Key("k", window=100.0))
        h.advance(50.0)
        fresh = h.replay(dead_id).job_id
        assert h.enqueue(job(key=Key("k"))) == [
            Duplicate(fresh, "mail", "k", State.SCHEDULED, False)
        ]
        h.succeed(h.take())
        h.advance(100.0 - 0.000001)
        assert h.enqueue(job(key=Key("k"))) == [
            Duplicate(fresh, "mail", "k", State.COMPLETED, False)
        ]
        h.advance(0.000001)
        assert h.submit(key=Key("k")) != fresh

    def test_a_fresh_job_that_dies_is_a_letter_of_its_own(self, h: Harness) -> None:
        """S3-22, S3-26."""
        dead_id = h.job_in(State.DEAD_LETTER)
        fresh = h.replay(dead_id).job_id
        h.fail(h.take())
        assert [(letter.job_id, letter.failure) for letter in h.letters()] == [(fresh, TROUBLE)]

    def test_a_replayed_job_that_is_retried_by_hand_comes_back_too(self, h: Harness) -> None:
        """C36: a job without a key may run as its copy runs."""
        dead_id = h.job_in(State.FAILED)
        fresh = h.replay(dead_id).job_id
        h.advance(1.0)
        h.retry(dead_id)
        assert ids(h.claim().jobs) == [fresh, dead_id]
