"""Fences: nothing is ever written under a lease that is over, taken over, or somebody else's."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from conformance.harness import (
    DONE,
    INSTANT,
    NOBODY,
    TTL,
    Harness,
    with_token,
)
from fencepost.core.job.job import Body, ClaimedJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.store.interface.queue import AlreadySettled, Extended, LeaseLost, Saved, Settled

__all__ = ["TestFencing", "TestZombies"]

WRITES: dict[str, Callable[[Harness, ClaimedJob], Any]] = {
    "succeed": Harness.succeed,
    "fail": Harness.fail,
    "reject": Harness.reject,
    "release": Harness.release,
    "snooze": lambda h, claimed: h.snooze(claimed, 5.0),
    "heartbeat": Harness.heartbeat,
    "checkpoint": lambda h, claimed: h.save(claimed, checkpoint=Body(b"0")),
    "progress": lambda h, claimed: h.save(claimed, progress=Progress(fraction=0.1, message="")),
}
every_write = pytest.mark.parametrize("write", list(WRITES))


def _expire(h: Harness, claimed: ClaimedJob) -> None:
    h.advance_to(claimed.lease.expires_at)


def _expire_long_ago(h: Harness, claimed: ClaimedJob) -> None:
    h.advance_to(claimed.lease.expires_at + INSTANT)


def _recover(h: Harness, claimed: ClaimedJob) -> None:
    _expire(h, claimed)
    h.run(h.store.upkeep.recover(10))


def _recover_by_claim(h: Harness, claimed: ClaimedJob) -> None:
    _expire(h, claimed)
    h.claim(worker="w2")


def _make_claimable(h: Harness, claimed: ClaimedJob) -> None:
    _recover(h, claimed)
    h.advance(1.0)
    h.run(h.store.upkeep.promote(10))


def _take_over(h: Harness, claimed: ClaimedJob) -> None:
    _make_claimable(h, claimed)
    h.take("w2")


def _take_again(h: Harness, claimed: ClaimedJob) -> None:
    _make_claimable(h, claimed)
    h.take("w1")


def _take_over_and_succeed(h: Harness, claimed: ClaimedJob) -> None:
    _make_claimable(h, claimed)
    h.succeed(h.take("w2"))


def _take_over_and_release(h: Harness, claimed: ClaimedJob) -> None:
    _make_claimable(h, claimed)
    h.release(h.take("w2"))


def _cancel(h: Harness, claimed: ClaimedJob) -> None:
    h.cancel(claimed.id)


def _outlive(h: Harness, claimed: ClaimedJob) -> None:
    h.heartbeat(claimed, 3600.0)
    h.advance(600.0)
    h.run(h.store.upkeep.expire(10))


def _cancel_reopen_and_take(h: Harness, claimed: ClaimedJob) -> None:
    h.cancel(claimed.id)
    h.retry(claimed.id)
    h.take("w1")


LOSSES: dict[Callable[[Harness, ClaimedJob], None], State] = {
    _expire: State.RUNNING,
    _expire_long_ago: State.RUNNING,
    _recover: State.RETRYING,
    _recover_by_claim: State.RETRYING,
    _make_claimable: State.SCHEDULED,
    _take_over: State.RUNNING,
    _take_again: State.RUNNING,
    _take_over_and_succeed: State.COMPLETED,
    _take_over_and_release: State.SCHEDULED,
    _cancel: State.CANCELLED,
    _outlive: State.DEAD_LETTER,
    _cancel_reopen_and_take: State.RUNNING,
}


SPELLINGS: dict[str, Callable[[str], str]] = {
    "in-capitals": str.upper,
    "its-secret-in-capitals": lambda token: ".".join(
        part.upper() if len(part) == 32 else part for part in token.split(".")
    ),
    "with-a-letter-that-is-no-digit": lambda token: token.replace("a", "g"),
}


class TestZombies:
    @every_write
    @pytest.mark.parametrize("lose", list(LOSSES), ids=lambda each: each.__name__.strip("_"))
    def test_a_stale_lease_settles_nothing(
        self, h: Harness, write: str, lose: Callable[[Harness, ClaimedJob], None]
    ) -> None:
        """S0-40, S0-42, S0-48, S0-49, S0-52, S0-87, S2-3, S2-10, S2-23, S4-9, S4-26, C10, C17,
        C20: however the lease was lost, each late write is refused and leaves no trace.
        """
        h.submit(policy=Policy(lifetime=600.0))
        zombie = h.take("w1")
        h.save(zombie, checkpoint=Body(b"1"), progress=Progress(fraction=0.5, message=""))
        lose(h, zombie)
        before = h.snapshot()
        assert WRITES[write](h, zombie) == LeaseLost(zombie.id, LOSSES[lose])
        assert h.snapshot() == before

    @every_write
    @pytest.mark.parametrize("worker", ["w1", "w2"])
    def test_the_new_owner_is_not_disturbed(self, h: Harness, write: str, worker: str) -> None:
        """S0-52, S0-86, S0-87, S4-9, S4-26, C17: not even when it is the same worker."""
        h.submit()
        zombie = h.take("w1")
        _make_claimable(h, zombie)
        owner = h.take(worker)
        assert owner.lease.token != zombie.lease.token
        assert owner.lease.version > zombie.lease.version
        WRITES[write](h, zombie)
        assert h.heartbeat(owner) == Extended(owner.id, h.now + timedelta(seconds=TTL))
        assert h.save(owner, checkpoint=Body(b"2")) == Saved(owner.id)
        assert h.succeed(owner) == Settled(owner.id, "mail", State.COMPLETED)
        assert WRITES[write](h, zombie) == LeaseLost(owner.id, State.COMPLETED)
        assert (h.get(owner.id).result_body, h.get(owner.id).checkpoint_body) == (DONE, Body(b"2"))

    @every_write
    def test_the_instant_before_the_end_a_write_still_counts(self, h: Harness, write: str) -> None:
        """S0-40, S0-42, S0-48, C10: the other side of the boundary."""
        h.submit()
        claimed = h.take()
        h.advance_to(claimed.lease.expires_at - INSTANT)
        assert isinstance(WRITES[write](h, claimed), Settled | Extended | Saved)


class TestFencing:
    @every_write
    @pytest.mark.parametrize(
        "token", ["", "x", "0" * 22, "ü🦊", "a\0b", "t" * 10_000, "' or 1=1 --"], ids=ascii
    )
    def test_a_token_that_never_was_owns_nothing(self, h: Harness, write: str, token: str) -> None:
        """S0-40, S0-42, S0-77, S2-23: malformed ones too; the owner is not disturbed."""
        h.submit()
        owner = h.take()
        before = h.snapshot()
        assert WRITES[write](h, with_token(owner, token)) == LeaseLost(owner.id, State.RUNNING)
        assert h.snapshot() == before
        assert h.succeed(owner) == Settled(owner.id, "mail", State.COMPLETED)

    @pytest.mark.parametrize("spell", SPELLINGS.values(), ids=list(SPELLINGS))
    def test_a_token_is_good_only_as_it_was_given(
        self, h: Harness, spell: Callable[[str], str]
    ) -> None:
        """S0-40, S0-77: no other spelling of it is a token, before its end or after."""
        h.submit_many(20)
        for owner in h.claim(20).jobs:
            other = with_token(owner, spell(owner.lease.token))
            if other == owner:  # a token need not have letters
                continue
            for write in WRITES.values():
                assert write(h, other) == LeaseLost(owner.id, State.RUNNING)
            h.succeed(owner)
            for write in WRITES.values():
                assert write(h, other) == LeaseLost(owner.id, State.COMPLETED)
            break

    @every_write
    def test_a_token_owns_no_job_but_its_own(self, h: Harness, write: str) -> None:
        """S0-40, S0-42, S0-48, S0-50: also when both were claimed together by one worker."""
        h.submit_many(2)
        one, two = h.claim().jobs
        before = h.snapshot()
        crossed = with_token(two, one.lease.token)
        assert WRITES[write](h, crossed) == LeaseLost(two.id, State.RUNNING)
        assert h.snapshot() == before

    @every_write
    @pytest.mark.parametrize("job_id", [NOBODY, "", "nonsense", "🦊", "a\0b"], ids=ascii)
    def test_a_job_that_does_not_exist_has_no_lease(
        self, h: Harness, write: str, job_id: str
    ) -> None:
        """S0-48: an id that is none is an answer, not an error."""
        h.submit()
        claimed = msgspec.structs.replace(h.take(), id=job_id)
        assert WRITES[write](h, claimed) == LeaseLost(job_id, None)

    @every_write
    @pytest.mark.parametrize("state", [State.SCHEDULED, State.DELAYED, State.CANCELLED], ids=str)
    def test_a_job_that_was_never_claimed_cannot_be_settled(
        self, h: Harness, write: str, state: State
    ) -> None:
        """S0-34, S1-30, S0-77: whatever the token, and above all with none."""
        h.submit("other")
        other = h.take(types=frozenset({"other"}))
        job_id = h.job_in(state)
        before = h.snapshot()
        for token in ("", other.lease.token):
            forged = with_token(msgspec.structs.replace(other, id=job_id), token)
            assert WRITES[write](h, forged) == LeaseLost(job_id, state)
        assert h.snapshot() == before

    @pytest.mark.parametrize("write", ["heartbeat", "checkpoint", "progress"])
    @pytest.mark.parametrize("settle", ["succeed", "fail", "reject", "release", "snooze"])
    def test_a_settled_lease_is_over(self, h: Harness, settle: str, write: str) -> None:
        """S0-34, S0-48, S2-33, S2-34, S3-7, C23."""
        job_id = h.submit()
        claimed = h.take()
        WRITES[settle](h, claimed)
        before = h.snapshot()
        assert WRITES[write](h, claimed) == LeaseLost(job_id, h.state(job_id))
        assert h.snapshot() == before

    @pytest.mark.parametrize("again", ["succeed", "fail", "reject", "release", "snooze"])
    def test_an_older_settled_lease_says_nothing_of_a_newer_settlement(
        self, h: Harness, again: str
    ) -> None:
        """S0-49, S0-52: the last settlement is known by its token, those before are just stale."""
        job_id = h.submit()
        first = h.take()
        h.release(first)
        second = h.take("w2")
        assert WRITES[again](h, first) == AlreadySettled(job_id, State.RUNNING)
        h.fail(second)
        before = h.snapshot()
        assert WRITES[again](h, first) == LeaseLost(job_id, State.RETRYING)
        assert WRITES[again](h, second) == AlreadySettled(job_id, State.RETRYING)
        assert h.snapshot() == before
