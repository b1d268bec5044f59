"""Looking: jobs one by one, by filter and page, and how many there are of each."""

from __future__ import annotations

from collections import Counter
from datetime import datetime, timedelta

import pytest

from conformance.harness import (
    DONE,
    NOBODY,
    REACHABLE,
    TROUBLE,
    TTL,
    Harness,
    ids,
    job,
)
from fencepost.core.filter import JobFilter, PageRequest, parse_states
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Failed, Outcome, Settlement, Succeeded, decide
from fencepost.core.job.policy import Priority
from fencepost.core.job.why import explain
from fencepost.store.interface.control import Edit
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.records.overview import QueueView, TypeView
from fencepost.store.interface.settings import Scope

__all__ = ["TestFinding", "TestLooking", "TestSituations", "TestViews"]


class TestLooking:
    def test_jobs_are_got_in_the_order_of_their_ids(self, h: Harness) -> None:
        """S1-3, S1-96: unknown and malformed ids give none; one may be asked for twice."""
        one, two = h.submit_many(2)
        wanted = [two, NOBODY, one, "no id", two, ""]
        found = h.run(h.store.reader.get(wanted))
        assert [each and each.id for each in found] == [two, None, one, None, two, None]
        assert h.run(h.store.reader.get([])) == []

    @pytest.mark.parametrize("state", REACHABLE, ids=str)
    def test_the_coarse_state_follows_from_the_fine_one(self, h: Harness, state: State) -> None:
        """S1-99, S2-1, C5: four words of queue theory, and cancelled."""
        job_id = h.job_in(state)
        coarse = h.state(job_id).coarse
        assert coarse in ("ready", "in_flight", "succeeded", "failed", "cancelled")
        assert ids(h.find(states=parse_states(coarse))) == [job_id]
        others = [each for each in State if each.coarse != coarse]
        assert h.find(states=tuple(others)) == []

    def test_looking_changes_nothing(self, h: Harness) -> None:
        """S0-84: an expired lease, a due job and a lifetime at its end are left to others."""
        h.submit()
        h.take()
        h.submit(delay=5.0)
        h.advance(TTL)
        before = h.snapshot()
        assert h.snapshot() == before
        assert [each.state for each in h.find()] == [State.DELAYED, State.RUNNING]

    def test_a_store_is_up_to_date_and_says_how_it_is(self, h: Harness) -> None:
        """S0-4: migrations are applied once; findings are of four kinds."""
        h.submit()
        h.store.migrate()
        assert h.store.migrate() == []
        assert h.store.pending_migrations() == []
        findings = h.run(h.store.overview.inspect())
        assert {finding.level for finding in findings} <= {"ok", "note", "warn", "fail"}
        assert all(finding.code and finding.text for finding in findings)
        assert len(h.find()) == 1


class TestFinding:
    def test_the_newest_come_first_page_by_page(self, h: Harness) -> None:
        """S1-96: whole, without repeats, and stable while jobs are added and change."""
        job_ids = h.submit_many(7)
        expected = job_ids[::-1]
        first = h.run(h.store.reader.find(JobFilter(), PageRequest(3)))
        assert ids(first.jobs) == expected[:3]
        h.submit()
        h.take()
        second = h.run(h.store.reader.find(JobFilter(), PageRequest(3, first.next)))
        assert ids(second.jobs) == expected[3:6]
        third = h.run(h.store.reader.find(JobFilter(), PageRequest(3, second.next)))
        assert (ids(third.jobs), third.next) == (expected[6:], None)
        within = h.run(h.store.reader.find(JobFilter(), PageRequest(3, second.positions[0])))
        assert ids(within.jobs) == expected[4:7]

    def test_a_page_that_just_holds_all_is_the_last(self, h: Harness) -> None:
        """S1-96."""
        h.submit_many(3)
        assert h.run(h.store.reader.find(JobFilter(), PageRequest(3))).next is None
        assert h.run(h.store.reader.find(JobFilter(type="none"), PageRequest(3))).next is None

    @pytest.mark.parametrize(
        "conditions",
        [
            {},
            {"states": (State.SCHEDULED,)},
            {"states": (State.RUNNING, State.COMPLETED)},
            {"type": "mail"},
            {"queue": "bulk"},
            {"tags": {"a": "1"}},
            {"tags": {"a": "1", "b": "2"}},
            {"correlation_id": "c1"},
            {"type": "mail", "queue": "bulk", "states": (State.SCHEDULED,), "tags": {"a": "1"}},
            {"type": "unknown"},
        ],
        ids=str,
    )
    def test_a_filter_finds_and_counts_what_meets_all_conditions(
        self, h: Harness, conditions: dict[str, object]
    ) -> None:
        """S1-99, S1-105, S1-107, S1-108: page by page too, and nothing else."""
        self._populate(h)
        everything = h.find()
        assert len(everything) == 24
        expected = [
            each.id
            for each in everything
            if each.state in conditions.get("states", tuple(State))  # type: ignore[operator]
            and each.type == conditions.get("type", each.type)
            and each.queue == conditions.get("queue", each.queue)
            and dict(conditions.get("tags", {})).items() <= each.tags.items()  # type: ignore[call-overload]
            and each.correlation_id == conditions.get("correlation_id", each.correlation_id)
        ]
        filter = JobFilter(**conditions)  # type: ignore[arg-type]  # the table above is right
        assert ids(h.find(**conditions)) == expected
        assert h.run(h.store.reader.count(filter)) == len(expected)
        paged: list[str] = []
        after: int | None = None
        for _ in range(20):
            page = h.run(h.store.reader.find(filter, PageRequest(2, after)))
            paged += ids(page.jobs)
            after = page.next
            if after is None:
                break
        assert paged == expected

    @pytest.mark.parametrize("length", [1, 2, 7, 8, 31, 32])
    def test_a_job_is_found_by_the_beginning_of_its_id(self, h: Harness, length: int) -> None:
        """The lowest and the highest id with that beginning included."""
        self._populate(h)
        everything = h.find()
        for each in everything[:6]:
            prefix = each.id.replace("-", "")[:length]
            alike = [one for one in everything if one.id.replace("-", "").startswith(prefix)]
            assert ids(h.find(id_prefix=prefix)) == ids(alike)
            assert h.run(h.store.reader.count(JobFilter(id_prefix=prefix))) == len(alike)
            same_state = [one for one in alike if one.state is each.state]
            assert ids(h.find(id_prefix=prefix, states=(each.state,))) == ids(same_state)
        page = h.run(h.store.reader.find(JobFilter(id_prefix="0"), PageRequest(1)))
        rest = h.run(h.store.reader.find(JobFilter(id_prefix="0"), PageRequest(50, page.next)))
        found = ids(page.jobs) if page.next is None else ids([*page.jobs, *rest.jobs])
        assert found == [one.id for one in everything if one.id.startswith("0")]

    def _populate(self, h: Harness) -> None:
        h.enqueue(
            *(
                job(
                    ("mail", "report")[n % 2],
                    queue=("default", "bulk", "slow")[n % 3],
                    tags=({}, {"a": "1"}, {"a": "1", "b": "2"}, {"a": "2"})[n // 6],
                    correlation_id=(None, "c1", "c2")[n // 2 % 3],
                    delay=(0.0, 0.0, 0.0, 60.0)[n % 4],
                )
                for n in range(24)
            )
        )
        for position, claimed in enumerate(h.claim(12).jobs):
            if position % 3 == 0:
                h.succeed(claimed)
            elif position % 3 == 1:
                h.reject(claimed)


class TestViews:
    def test_queues_and_types_are_counted_state_by_state(self, h: Harness) -> None:
        """S1-99, S0-8: sorted by name; a state without jobs is not listed."""
        for state in REACHABLE:
            h.job_in(state, type=f"t-{state}", queue="b")
        h.submit_many(2, "z", queue="a")
        assert h.run(h.store.overview.queues()) == [
            QueueView(name="a", counts={State.SCHEDULED: 2}, claimable={"z": 2}, oldest_at=h.now),
            QueueView(
                name="b",
                counts=dict.fromkeys(REACHABLE, 1),
                claimable={"t-scheduled": 1},
                oldest_at=h.now,
            ),
        ]
        assert h.run(h.store.overview.types()) == [
            *(
                TypeView(name=f"t-{state}", counts={state: 1})
                for state in sorted(REACHABLE, key=str)
            ),
            TypeView(name="z", counts={State.SCHEDULED: 2}),
        ]

    def test_counts_follow_jobs_that_move_together(self, h: Harness) -> None:
        """S1-99, S0-8: claimed, settled and recovered several at a time."""

        def counts() -> dict[State, int]:
            [queue] = h.run(h.store.overview.queues())
            [type_] = h.run(h.store.overview.types())
            assert queue.counts == type_.counts
            return queue.counts

        h.submit_many(9)
        claimed = h.claim(7).jobs
        assert counts() == {State.SCHEDULED: 2, State.RUNNING: 7}
        outcomes: list[Outcome] = [*[Succeeded(DONE)] * 2, *[Failed(TROUBLE)] * 2]
        for batch in (slice(0, 2), slice(2, 4)):
            settlements = [
                Settlement(each.id, each.lease.token, decide(each, outcome, h.clock.rng))
                for each, outcome in zip(claimed[batch], outcomes[batch], strict=True)
            ]
            h.run(h.store.queue.settle(settlements))
        assert counts() == {
            State.SCHEDULED: 2,
            State.RUNNING: 3,
            State.RETRYING: 2,
            State.COMPLETED: 2,
        }
        h.run(h.store.control.cancel([claimed[4].id]))
        h.advance(TTL)
        assert len(h.run(h.store.upkeep.recover(10))) == 2
        assert len(h.run(h.store.upkeep.promote(10))) == 2
        assert counts() == {
            State.SCHEDULED: 4,
            State.RETRYING: 2,
            State.COMPLETED: 2,
            State.CANCELLED: 1,
        }
        assert counts() == Counter(each.state for each in h.find())

    def test_the_oldest_claimable_job_is_none_that_was_moved_and_claimed(self, h: Harness) -> None:
        """S1-99: whatever is left of it in the line that it has left and come back to."""
        _, moved = h.submit_many(2)
        for priority in (Priority.HIGH, Priority.NORMAL):
            h.run(h.store.control.edit([Edit(moved, priority=priority)]))
        for claimed in h.claim(2).jobs:
            h.succeed(claimed)
        assert [queue.oldest_at for queue in h.run(h.store.overview.queues())] == [None]
        h.advance(5.0)
        h.submit()
        assert [queue.oldest_at for queue in h.run(h.store.overview.queues())] == [h.now]

    def test_a_queue_knows_since_when_its_oldest_claimable_job_is_due(self, h: Harness) -> None:
        """S1-99: over all types and priorities, paused ones too; not of what waits or runs."""

        def oldest() -> list[datetime | None]:
            return [queue.oldest_at for queue in h.run(h.store.overview.queues())]

        h.submit(queue="a", delay=5.0)
        assert oldest() == [None]
        h.advance(2.0)
        first = h.now
        h.submit("report", queue="a", priority=Priority.LOW)
        h.advance(1.0)
        h.submit("mail", queue="a", priority=Priority.CRITICAL)
        h.submit("mail", queue="b")
        assert oldest() == [first, h.now]
        h.run(h.store.settings.pause(Scope.TYPE, "report"))
        assert oldest() == [first, h.now]
        h.run(h.store.settings.resume(Scope.TYPE, "report"))
        h.claim(types=frozenset({"report"}))
        assert oldest() == [h.now, h.now]
        second = h.now
        h.advance(60.0)
        h.run(h.store.upkeep.promote(10))
        assert oldest() == [second, second]
        h.claim(10)
        assert oldest() == [None, None]

    def test_an_empty_store_has_neither(self, h: Harness) -> None:
        """S0-8."""
        assert h.run(h.store.overview.queues()) == []
        assert h.run(h.store.overview.types()) == []

    def test_settings_are_seen_beside_the_counts(self, h: Harness) -> None:
        """S3-19, S2-17."""
        h.submit()
        h.run(h.store.settings.pause(Scope.TYPE, "mail"))
        h.run(h.store.settings.limit(Scope.QUEUE, "default", 5))
        counts = {State.SCHEDULED: 1}
        queue = QueueView(
            name="default", max_running=5, counts=counts, claimable={"mail": 1}, oldest_at=h.now
        )
        assert h.run(h.store.overview.queues()) == [queue]
        assert h.run(h.store.overview.types()) == [
            TypeView(name="mail", is_paused=True, counts=counts)
        ]


def ahead(h: Harness, job_id: str) -> int:
    situation = h.run(h.store.reader.situation(job_id))
    assert situation is not None
    return situation.jobs_ahead


class TestSituations:
    def test_a_job_is_seen_in_its_surroundings(self, h: Harness) -> None:
        """S1-87, S2-17, S3-19: pauses, limits, what runs, and who comes first."""
        h.submit_many(2, queue="other")
        h.submit_many(3, "report")
        h.submit_many(4)
        last = h.submit()
        h.claim(2, queues={"other": 1})
        h.claim(1, queues={"default": 1}, types=frozenset({"report"}))
        h.run(h.store.settings.pause(Scope.TYPE, "mail"))
        h.run(h.store.settings.limit(Scope.APP, "", 9))
        h.run(h.store.settings.limit(Scope.QUEUE, "default", 5))
        situation = h.run(h.store.reader.situation(last))
        assert situation is not None
        assert (situation.job, situation.now) == (h.get(last), h.now)
        assert (situation.is_type_paused, situation.is_queue_paused) == (True, False)
        assert (situation.app_limit, situation.app_running) == (9, 3)
        assert (situation.queue_limit, situation.queue_running) == (5, 1)
        assert situation.jobs_ahead == 4
        h.run(h.store.settings.pause(Scope.QUEUE, "default"))
        situation = h.run(h.store.reader.situation(last))
        assert situation is not None
        assert situation.is_queue_paused

    def test_expired_leases_do_not_count_as_running(self, h: Harness) -> None:
        """S2-18."""
        job_id = h.submit_many(2)[1]
        h.take()
        h.advance(TTL)
        situation = h.run(h.store.reader.situation(job_id))
        assert situation is not None
        assert (situation.app_running, situation.queue_running) == (0, 0)

    def test_only_those_are_ahead_that_wait_and_are_due_first(self, h: Harness) -> None:
        """S1-87: not those that left the middle of the line, and none twice."""
        front, gone, moved, put_off, last = h.submit_many(5)
        h.cancel(gone)
        for priority in (Priority.HIGH, Priority.NORMAL):
            h.run(h.store.control.edit([Edit(moved, priority=priority)]))
        h.run(h.store.control.edit([Edit(put_off, run_at=h.now + timedelta(seconds=5))]))
        assert [ahead(h, each) for each in (front, moved, last)] == [0, 1, 2]
        h.advance(5.0)
        h.run(h.store.upkeep.promote(10))
        assert [ahead(h, each) for each in (front, moved, last, put_off)] == [0, 1, 2, 3]
        behind = h.submit()
        assert ahead(h, behind) == 4
        assert ahead(h, h.submit(priority=Priority.HIGH)) == 0
        assert ahead(h, behind) == 5

    def test_the_line_ahead_is_counted_up_to_a_thousand(self, h: Harness) -> None:
        """S0-7."""
        h.submit_many(1100)
        situation = h.run(h.store.reader.situation(h.submit()))
        assert situation is not None
        assert situation.jobs_ahead == 1000

    @pytest.mark.parametrize(
        ("types", "queues", "expected"),
        [
            (("mail",), None, True),
            (("mail", "x"), {"default": 1, "q": 2}, True),
            (("mail",), {"q": 1}, False),
            (("x",), None, False),
        ],
    )
    def test_it_is_known_whether_anybody_serves_the_job(
        self, h: Harness, types: tuple[str, ...], queues: dict[str, int] | None, expected: bool
    ) -> None:
        """S1-87: a type that no worker knows is reported."""
        job_id = h.submit()
        worker = WorkerInfo(
            id="w1",
            host="host",
            pid=1,
            queues=queues,
            types=types,
            concurrency=1,
            started_at=h.now - timedelta(days=1),
        )
        assert _codes(h, job_id) == ["no_worker"]
        h.run(h.store.cluster.announce(worker))
        assert _codes(h, job_id) == (["next"] if expected else ["no_worker"])

    def test_an_unknown_job_has_none(self, h: Harness) -> None:
        """S1-96."""
        assert h.run(h.store.reader.situation(NOBODY)) is None
        assert h.run(h.store.reader.situation("no id")) is None


def _codes(h: Harness, job_id: str) -> list[str]:
    situation = h.run(h.store.reader.situation(job_id))
    assert situation is not None
    return [reason.code for reason in explain(situation)]
