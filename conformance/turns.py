"""Turns between queues: weights, shares and back-fill."""

from __future__ import annotations

import pytest

from conformance.harness import TTL, Harness, ids
from fencepost.core.job.policy import Priority
from fencepost.store.interface.settings import Scope

__all__ = ["TestTurns"]

WEIGHTS = {"mail": 3, "bulk": 1}


class TestTurns:
    def test_queues_get_their_share_of_a_batch(self, h: Harness) -> None:
        """S4-3, C14: grouped by queue, in line order within each."""
        bulk = h.submit_many(10, queue="bulk")
        mail = h.submit_many(10, queue="mail")
        assert ids(h.claim(4, queues=WEIGHTS).jobs) == mail[:3] + bulk[:1]
        assert ids(h.claim(8, queues=WEIGHTS, turn=4).jobs) == mail[3:9] + bulk[1:3]

    def test_single_claims_take_turns(self, h: Harness) -> None:
        """S4-3, C14: over a row, each queue gets exactly its weight."""
        h.submit_many(10, queue="bulk", priority=Priority.CRITICAL)
        h.submit_many(10, queue="mail", priority=Priority.BULK)
        taken = [h.take(queues=WEIGHTS, turn=turn).queue for turn in range(8)]
        assert taken == ["mail", "mail", "bulk", "mail"] * 2

    def test_a_batch_begins_where_the_turns_stand(self, h: Harness) -> None:
        """S4-3: turn two of mail, mail, bulk, mail is bulk's."""
        h.submit_many(4, queue="bulk")
        h.submit_many(4, queue="mail")
        assert [each.queue for each in h.claim(2, queues=WEIGHTS, turn=2).jobs] == ["bulk", "mail"]

    def test_what_a_queue_cannot_fill_goes_to_the_others(self, h: Harness) -> None:
        """S4-3, C14."""
        mail = h.submit_many(1, queue="mail")
        bulk = h.submit_many(5, queue="bulk")
        assert ids(h.claim(4, queues=WEIGHTS).jobs) == mail + bulk[:3]
        assert ids(h.claim(4, queues=WEIGHTS).jobs) == bulk[3:]

    def test_left_over_turns_are_offered_in_the_order_of_the_queues(self, h: Harness) -> None:
        """S4-3: the first in the row is filled first."""
        b = h.submit_many(5, queue="b")
        c = h.submit_many(5, queue="c")
        queues = {"a": 2, "b": 1, "c": 1}
        assert ids(h.claim(4, queues=queues).jobs) == b[:3] + c[:1]

    def test_without_names_all_queues_take_equal_turns(self, h: Harness) -> None:
        """C14: a fair round robin in the order of their names."""
        b = h.submit_many(3, queue="b")
        a = h.submit_many(3, queue="a")
        c = h.submit_many(1, queue="c")
        assert ids(h.claim(3).jobs) == [a[0], b[0], c[0]]
        assert ids(h.claim(4).jobs) == a[1:] + b[1:]

    @pytest.mark.parametrize("why", ["empty", "paused", "foreign", "delayed"])
    def test_without_names_a_queue_with_nothing_to_give_has_no_turn(
        self, h: Harness, why: str
    ) -> None:
        """C14: the turns fall to the queues that have claimable jobs, wherever they stand."""
        a = h.submit("foreign" if why == "foreign" else "mail", queue="a")
        b = h.submit_many(4, queue="b")
        c = h.submit_many(4, queue="c")
        types = frozenset({"mail"}) if why == "foreign" else None
        match why:
            case "empty":
                assert h.take(queues={"a": 1}).id == a
            case "paused":
                h.run(h.store.settings.pause(Scope.QUEUE, "a"))
            case "delayed":
                h.snooze(h.take(queues={"a": 1}), 60.0)
        assert ids(h.claim(2, types=types).jobs) == [b[0], c[0]]
        assert ids(h.claim(3, types=types, turn=3).jobs) == [c[1], c[2], b[1]]
        assert ids(h.claim(9, types=types, turn=4).jobs) == [*b[2:], c[3]]

    @pytest.mark.parametrize("weights", [None, {"a": 1, "b": 1, "c": 1}], ids=["all", "named"])
    def test_turns_are_dealt_for_the_room_under_the_limit_of_the_app(
        self, h: Harness, weights: dict[str, int] | None
    ) -> None:
        """S4-3, S2-17: not for what was asked for, or the first in the row would take it all."""
        a = h.submit_many(4, queue="a")
        b = h.submit_many(4, queue="b")
        c = h.submit_many(4, queue="c")
        h.run(h.store.settings.limit(Scope.APP, "", 3))
        first = h.claim(10, queues=weights, turn=1).jobs
        assert ids(first) == [b[0], c[0], a[0]]
        for claimed in first[:2]:
            h.succeed(claimed)
        assert ids(h.claim(10, queues=weights, turn=2).jobs) == [c[1], a[1]]

    def test_weights_hold_for_the_room_under_the_limit_of_the_app(self, h: Harness) -> None:
        """S4-3, S2-17: also when it is less than one row, or more."""
        mail = h.submit_many(9, queue="mail")
        bulk = h.submit_many(9, queue="bulk")
        h.run(h.store.settings.limit(Scope.APP, "", 6))
        first = h.claim(100, queues=WEIGHTS).jobs
        assert ids(first) == mail[:5] + bulk[:1]
        for claimed in first[:2]:
            h.succeed(claimed)
        assert ids(h.claim(3, queues=WEIGHTS, turn=2).jobs) == [bulk[1], mail[5]]

    def test_a_paused_queue_leaves_its_turns_to_the_others(self, h: Harness) -> None:
        """S4-3, S3-19."""
        h.submit_many(5, queue="mail")
        bulk = h.submit_many(5, queue="bulk")
        h.run(h.store.settings.pause(Scope.QUEUE, "mail"))
        assert ids(h.claim(4, queues=WEIGHTS).jobs) == bulk[:4]

    def test_a_full_queue_leaves_its_turns_to_the_others(self, h: Harness) -> None:
        """S4-3, S2-17."""
        mail = h.submit_many(5, queue="mail")
        bulk = h.submit_many(5, queue="bulk")
        h.run(h.store.settings.limit(Scope.QUEUE, "mail", 2))
        assert ids(h.claim(4, queues=WEIGHTS).jobs) == mail[:2] + bulk[:2]

    def test_types_are_chosen_within_each_queue(self, h: Harness) -> None:
        """S1-87, S4-3: a foreign type takes nobody's turn."""
        h.submit_many(5, "foreign", queue="mail")
        mail = h.submit_many(1, "mine", queue="mail")
        bulk = h.submit_many(5, "mine", queue="bulk")
        taken = h.claim(4, queues=WEIGHTS, types=frozenset({"mine"})).jobs
        assert ids(taken) == mail + bulk[:3]

    def test_recovery_does_not_look_at_the_claimers_queues(self, h: Harness) -> None:
        """S4-3: weighted fetch and recovery are independent."""
        lost = h.submit(queue="elsewhere")
        h.take()
        h.advance(TTL)
        claim = h.claim(1, queues=WEIGHTS, types=frozenset({"other"}))
        assert [moved.job_id for moved in claim.recovered] == [lost]
