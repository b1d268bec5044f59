"""Rates: how often jobs of one type may start."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from conformance.harness import INSTANT, TTL, Harness, ids
from fencepost.core.bounds import EXECUTION_TIMEOUT_DEFAULT, RATE_MOMENTS_MAX
from fencepost.core.job.policy import Priority
from fencepost.core.job.why import Situation, explain
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import NO_USAGE, TypeLimits
from fencepost.errors import InvalidRateError
from fencepost.store.interface.queue import ClaimRequest
from fencepost.store.interface.records.overview import TypeView
from fencepost.store.interface.settings import Scope

__all__ = ["TestRates", "TestRatesOfMany", "TestRatesRacing"]

MINUTE = timedelta(minutes=1)
CROWD = 8
LONG = EXECUTION_TIMEOUT_DEFAULT
"""Leases that outlast a test: what runs out is no part of it."""


def rate(h: Harness, **rates: Rate | None) -> None:
    limits = {type: TypeLimits(rate=rate) for type, rate in rates.items()}
    h.run(h.store.settings.limit_types(limits))


def started(h: Harness, limit: int = 100, **fields: Any) -> list[str]:
    """Claim, and return the ids of what started."""
    return ids(h.claim(limit, **{"lease_ttl": LONG, **fields}).jobs)


def situation(h: Harness, job_id: str) -> Situation:
    found = h.run(h.store.reader.situation(job_id))
    assert found is not None
    return found


class TestRates:
    def test_no_more_jobs_of_a_type_start_than_its_rate_allows(self, h: Harness) -> None:
        """In one claim, in several, and for every worker."""
        mails = h.submit_many(9)
        rate(h, mail=Rate(5, 60.0))
        assert started(h, 3) == mails[:3]
        assert started(h, worker="w2") == mails[3:5]
        assert started(h) == []

    def test_a_start_counts_until_it_is_as_old_as_the_window(self, h: Harness) -> None:
        """At that instant its place is free, and not the instant before."""
        mails = h.submit_many(5)
        rate(h, mail=Rate(2, 60.0))
        assert started(h) == mails[:2]
        h.clock.advance(MINUTE - INSTANT)
        assert started(h) == []
        h.clock.advance(INSTANT)
        assert started(h) == mails[2:4]
        assert started(h) == []

    def test_the_window_slides(self, h: Harness) -> None:
        """Not two windows' worth around the turn of a minute: each start ages by itself."""
        mails = h.submit_many(9)
        rate(h, mail=Rate(3, 60.0))
        assert started(h, 1) == mails[:1]
        h.advance(59)
        assert started(h) == mails[1:3]
        h.advance(1)
        assert started(h) == mails[3:4]
        h.advance(58)
        assert started(h) == []
        h.advance(1)
        assert started(h) == mails[4:6]
        h.advance(1)
        assert started(h) == mails[6:7]

    def test_a_clock_that_is_set_back_does_not_stop_a_type(self, h: Harness) -> None:
        """Starts that lie ahead of it have happened: they count as if the last one were now."""
        mails = h.submit_many(6)
        rate(h, mail=Rate(2, 60.0))
        assert started(h, 1) == mails[:1]
        h.advance(40)
        assert started(h) == mails[1:2]
        h.clock.set_back("1h")
        assert situation(h, mails[2]).usage.rate_opens_at == h.now + timedelta(seconds=20)
        assert started(h) == [], "the rate holds all the same"
        h.advance(20)
        assert started(h) == mails[2:3]
        h.clock.advance(timedelta(seconds=40) - INSTANT)
        assert started(h) == []
        assert situation(h, mails[3]).usage.rate_opens_at == h.now + INSTANT
        h.clock.advance(INSTANT)
        assert started(h) == mails[3:4]
        h.advance(3600)
        assert started(h) == mails[4:6]

    def test_uses_of_one_instant_add_up(self, h: Harness) -> None:
        mails = h.submit_many(6)
        rate(h, mail=Rate(4, 10.0))
        for number in range(4):
            assert started(h, 1) == mails[number : number + 1]
        assert started(h) == []
        h.advance(10)
        assert started(h) == mails[4:]

    def test_queues_and_priorities_share_the_rate_of_a_type(self, h: Harness) -> None:
        a = h.submit_many(4, queue="a")
        b = h.submit_many(4, queue="b", priority=Priority.BULK)
        urgent = h.submit(queue="b", priority=Priority.CRITICAL)
        rate(h, mail=Rate(4, 60.0))
        assert started(h, 4) == [*a[:2], urgent, b[0]]
        assert started(h) == []
        h.advance(60)
        assert started(h, queues={"b": 1}) == b[1:]
        assert started(h, queues={"a": 1}) == a[2:3]

    def test_the_first_in_line_start_first(self, h: Harness) -> None:
        """Over all priorities of the type."""
        late = h.submit(priority=Priority.LOW)
        normal = h.submit_many(2)
        urgent = h.submit(priority=Priority.HIGH)
        rate(h, mail=Rate(2, 60.0))
        assert started(h) == [urgent, normal[0]]
        h.advance(60)
        assert started(h) == [normal[1], late]

    def test_what_a_rate_leaves_over_goes_to_other_types_of_the_queue(self, h: Harness) -> None:
        mails = h.submit_many(3)
        texts = h.submit_many(3, "text")
        more = h.submit_many(3)
        rate(h, mail=Rate(2, 60.0))
        assert started(h, 4) == [*mails[:2], *texts[:2]]
        assert started(h, 4) == texts[2:]
        rate(h, mail=None)
        assert started(h) == [mails[2], *more]

    def test_what_a_rate_leaves_over_goes_to_other_queues(self, h: Harness) -> None:
        a = h.submit_many(5, queue="a")
        b = h.submit_many(5, "text", queue="b")
        rate(h, mail=Rate(1, 60.0))
        queues = {"a": 3, "b": 1}
        assert started(h, 4, queues=queues) == [a[0], *b[:3]]
        assert started(h, 4, queues=queues) == b[3:]

    def test_one_queue_may_use_up_the_rate_of_another(self, h: Harness) -> None:
        """In the order of the turns; the other's turns go to queues that have jobs."""
        a = h.submit_many(5, queue="a")
        h.submit_many(5, queue="b")
        texts = h.submit_many(5, "text", queue="b")
        rate(h, mail=Rate(3, 60.0))
        assert started(h, 6, queues={"a": 1, "b": 1}) == [*a[:3], *texts[:3]]

    def test_a_queue_whose_types_have_used_up_their_rates_has_no_turn(self, h: Harness) -> None:
        """C14: as if it had nothing to give."""
        a = h.submit_many(3, queue="a")
        b = h.submit_many(4, "text", queue="b")
        c = h.submit_many(4, "text", queue="c")
        rate(h, mail=Rate(1, 60.0))
        assert started(h, 1, queues={"a": 1}) == a[:1]
        assert started(h, 2) == [b[0], c[0]]
        assert started(h, 3, turn=3) == [c[1], c[2], b[1]]

    def test_other_types_are_not_held_up(self, h: Harness) -> None:
        """However many jobs stand before theirs."""
        h.submit_many(500)
        rate(h, mail=Rate(1, 60.0))
        assert len(started(h, 1)) == 1
        text = h.submit("text")
        assert started(h, 1) == [text]

    def test_each_type_has_a_rate_of_its_own(self, h: Harness) -> None:
        mails = h.submit_many(3)
        texts = h.submit_many(3, "text")
        rate(h, mail=Rate(1, 60.0), text=Rate(2, 10.0))
        assert started(h) == [mails[0], *texts[:2]]
        h.advance(10)
        assert started(h) == texts[2:]

    @pytest.mark.parametrize("how", ["released", "failed", "lost", "cancelled", "completed"])
    def test_however_an_attempt_ends_it_has_started(self, h: Harness, how: str) -> None:
        h.submit_many(3)
        rate(h, mail=Rate(1, 3600.0))
        job = h.take()
        match how:
            case "released":
                h.release(job)
            case "failed":
                h.fail(job)
            case "lost":
                h.advance(TTL)
            case "cancelled":
                h.cancel(job.id)
            case _:
                h.succeed(job)
        assert started(h) == []
        h.advance(3600)
        assert len(started(h)) == 1

    def test_what_started_before_there_was_a_rate_does_not_count(self, h: Harness) -> None:
        mails = h.submit_many(5)
        assert started(h, 2) == mails[:2]
        rate(h, mail=Rate(2, 60.0))
        assert started(h) == mails[2:4]

    def test_a_claim_that_is_asked_for_nothing_uses_nothing(self, h: Harness) -> None:
        mails = h.submit_many(3)
        rate(h, mail=Rate(2, 60.0))
        assert started(h, 0) == []
        assert started(h, types=frozenset({"text"})) == []
        assert started(h, queues={"other": 1}) == []
        assert started(h) == mails[:2]

    def test_limits_and_rates_hold_together(self, h: Harness) -> None:
        """S2-17: what a limit keeps from starting does not count."""
        mails = h.submit_many(6)
        rate(h, mail=Rate(3, 60.0))
        h.run(h.store.settings.limit(Scope.QUEUE, "default", 2))
        assert started(h) == mails[:2]
        h.run(h.store.settings.limit(Scope.QUEUE, "default", 9))
        assert started(h) == mails[2:3]
        assert started(h) == []
        h.run(h.store.settings.limit(Scope.APP, "", 4))
        h.advance(60)
        assert started(h) == mails[3:4]

    def test_a_paused_type_uses_nothing(self, h: Harness) -> None:
        """S3-19."""
        mails = h.submit_many(3)
        rate(h, mail=Rate(1, 60.0))
        h.run(h.store.settings.pause(Scope.TYPE, "mail"))
        claim = h.claim()
        assert (claim.jobs, claim.wait) == ([], None)
        h.run(h.store.settings.resume(Scope.TYPE, "mail"))
        assert started(h) == mails[:1]

    def test_a_rate_that_is_set_again_changes_nothing(self, h: Harness) -> None:
        """Every worker that starts says its rates."""
        mails = h.submit_many(5)
        rate(h, mail=Rate(2, 60.0))
        assert started(h, 1) == mails[:1]
        rate(h, mail=Rate(2, 60.0))
        assert started(h) == mails[1:2]
        rate(h, mail=Rate(2, 60.0), text=None)
        assert started(h) == []

    def test_a_changed_rate_counts_what_the_old_one_counted(self, h: Harness) -> None:
        mails = h.submit_many(9)
        rate(h, mail=Rate(4, 60.0))
        assert started(h, 3) == mails[:3]
        rate(h, mail=Rate(5, 60.0))
        assert started(h) == mails[3:5]
        h.advance(30)
        rate(h, mail=Rate(2, 60.0))
        assert started(h) == []
        h.advance(30)
        assert started(h) == mails[5:7]

    def test_a_longer_window_knows_no_more_than_the_shorter_one_did(self, h: Harness) -> None:
        h.submit_many(9)
        rate(h, mail=Rate(2, 10.0))
        assert len(started(h)) == 2
        h.advance(10)
        assert len(started(h)) == 2
        h.advance(5)
        rate(h, mail=Rate(5, 60.0))
        assert len(started(h)) == 3
        h.advance(55)
        assert len(started(h)) == 2

    def test_a_cleared_rate_is_forgotten(self, h: Harness) -> None:
        mails = h.submit_many(9)
        rate(h, mail=Rate(1, 60.0))
        assert started(h) == mails[:1]
        rate(h, mail=None)
        assert started(h, 2) == mails[1:3]
        rate(h, mail=Rate(1, 60.0))
        assert started(h) == mails[3:4]
        rate(h, mail=None)
        rate(h, mail=None)
        assert started(h) == mails[4:]

    def test_the_wait_of_a_claim_ends_when_the_next_job_can_start(self, h: Harness) -> None:
        h.submit_many(3)
        rate(h, mail=Rate(2, 60.0))
        started(h, 1)
        h.advance(20)
        assert h.claim(lease_ttl=LONG).wait == 40.0
        h.clock.advance(15.5)
        assert h.claim().wait == 24.5
        assert h.claim(0).wait == 24.5

    def test_nobody_waits_for_the_rate_of_jobs_that_are_not_there(self, h: Harness) -> None:
        """Nor for one of another worker's types, nor for one that has room."""
        h.submit_many(2)
        rate(h, mail=Rate(2, 60.0))
        assert h.claim(lease_ttl=LONG).wait == LONG
        h.submit()
        assert h.claim(types=frozenset({"text"})).wait == LONG
        assert h.claim(queues={"other": 1}).wait == LONG
        h.advance(60)
        assert h.claim(0).wait == LONG - 60

    def test_a_lowered_rate_says_when_enough_starts_are_old_enough(self, h: Harness) -> None:
        h.submit_many(9)
        rate(h, mail=Rate(4, 60.0))
        for _ in range(4):
            started(h, 1)
            h.advance(5)
        rate(h, mail=Rate(2, 60.0))
        assert h.claim().wait == 60 + 10 - 20
        h.advance(50)
        assert len(started(h)) == 1

    def test_a_type_is_listed_with_its_rate(self, h: Harness) -> None:
        """Also before its first job."""
        rate(h, mail=Rate(100, 60.0))
        assert h.run(h.store.overview.types()) == [TypeView(name="mail", rate=Rate(100, 60.0))]
        rate(h, mail=Rate(3, 30.0))
        h.run(h.store.settings.pause(Scope.TYPE, "mail"))
        [view] = h.run(h.store.overview.types())
        assert (view.rate, view.is_paused) == (Rate(3, 30.0), True)
        h.run(h.store.settings.resume(Scope.TYPE, "mail"))
        rate(h, mail=None)
        assert h.run(h.store.overview.types()) == []

    def test_a_situation_tells_when_the_next_can_start(self, h: Harness) -> None:
        _, second = h.submit_many(2)
        rate(h, mail=Rate(1, 60.0))
        assert situation(h, second).limits == TypeLimits(rate=Rate(1, 60.0))
        assert situation(h, second).usage == NO_USAGE
        opens_at = h.now + MINUTE
        started(h, 1)
        h.advance(48)
        found = situation(h, second)
        assert found.usage.rate_opens_at == opens_at
        assert "rate_limited" in [reason.code for reason in explain(found)]
        h.advance(12)
        assert situation(h, second).usage.rate_opens_at is None
        rate(h, mail=None)
        assert situation(h, second).limits == TypeLimits()

    @pytest.mark.parametrize("bad", [Rate(0, 60.0), Rate(1, 0.0), Rate(1, 86_401.0)])
    def test_a_rate_that_makes_no_sense_is_refused(self, h: Harness, bad: Rate) -> None:
        """And nothing is set, not even what does make sense."""
        with pytest.raises(InvalidRateError):
            rate(h, text=Rate(1, 60.0), mail=bad)
        assert h.run(h.store.overview.types()) == []

    def test_rates_and_what_was_used_are_kept(self, h: Harness) -> None:
        if not h.is_durable:
            pytest.skip("this store keeps nothing")
        mails = h.submit_many(4)
        rate(h, mail=Rate(3, 60.0))
        assert started(h, 2) == mails[:2]
        h.reopen(is_clean=False)
        assert started(h) == mails[2:3]
        assert started(h) == []


class TestRatesOfMany:
    """Rates of more starts than are counted one by one."""

    COUNT = RATE_MOMENTS_MAX + 10

    def test_a_clock_that_is_set_back_holds_many_up_for_a_window_at_the_most(
        self, h: Harness
    ) -> None:
        h.submit_many(30)
        rate(h, mail=Rate(10 * RATE_MOMENTS_MAX, 60.0))
        assert len(started(h, 10)) == 10
        h.clock.set_back(0.01)
        rate(h, mail=Rate(10, 60.0))
        h.clock.set_back("1d")
        assert started(h) == []
        h.advance(60)
        assert len(started(h)) == 10

    def test_a_start_is_counted_by_the_thousandth_of_the_window(self, h: Harness) -> None:
        """A place is free a thousandth of the window late at the most, and never too soon."""
        h.submit_many(self.COUNT + 20)
        many = Rate(self.COUNT, 1000.0)
        rate(h, mail=many)
        # The clock of the test stands between two whole seconds, which are the thousandths here.
        h.clock.advance(timedelta(microseconds=many.moment(h.clock.now_us()) - h.clock.now_us()))
        h.advance(0.25)
        assert len(started(h, 10)) == 10
        h.advance(0.5)
        assert len(started(h, 1000)) == 1000
        assert started(h) == []
        h.advance(999.25)
        assert started(h) == []
        assert h.claim().wait == 1.0
        h.clock.advance(timedelta(seconds=1) - INSTANT)
        assert started(h) == []
        h.clock.advance(INSTANT)
        assert len(started(h, 1000)) == 20

    def test_so_many_claims_leave_no_more_uses_than_moments(self, h: Harness) -> None:
        """Every start is counted, also when many are counted together."""
        h.submit_many(60)
        rate(h, mail=Rate(self.COUNT, 86_400.0))
        for _ in range(30):
            assert len(started(h, 2)) == 2
            h.advance(0.01)
        rate(h, mail=Rate(60, 86_400.0))
        h.submit_many(5)
        assert started(h) == []


class TestRatesRacing:
    def test_claimers_at_once_never_start_too_many(self, h: Harness) -> None:
        """S2-24: eight of them, over stores of their own, again and again."""
        h.submit_many(150)
        h.submit_many(50, queue="b")
        rate(h, mail=Rate(20, 60.0))
        peers = h.peers(CROWD)
        for round_ in range(4):
            asks = [
                lambda store, w=f"w{number}": store.queue.claim(
                    ClaimRequest(worker=w, limit=7, lease_ttl=LONG)
                )
                for number in range(CROWD)
            ]
            claims = h.race(asks, peers)
            assert sum(len(claim.jobs) for claim in claims) == 20, round_
            h.advance(60)

    def test_racing_claims_of_two_rated_types_both_end(self, h: Harness) -> None:
        """Claims that need two rates lock them in one order: no deadlock."""
        h.submit_many(100)
        h.submit_many(100, "text")
        rate(h, mail=Rate(13, 60.0), text=Rate(11, 60.0))
        asks = [
            lambda store, w=f"w{number}": store.queue.claim(
                ClaimRequest(worker=w, limit=9, lease_ttl=LONG)
            )
            for number in range(CROWD)
        ]
        claims = h.race(asks, h.peers(CROWD))
        types = [job.type for claim in claims for job in claim.jobs]
        assert (types.count("mail"), types.count("text")) == (13, 11)

    def test_rates_set_at_once_leave_one(self, h: Harness) -> None:
        """Workers that start together say the same."""
        h.race(
            [
                lambda store: store.settings.limit_types(
                    {"mail": TypeLimits(rate=Rate(3, 60.0)), "text": TypeLimits()}
                )
            ]
            * CROWD
        )
        assert h.run(h.store.overview.types()) == [TypeView(name="mail", rate=Rate(3, 60.0))]
