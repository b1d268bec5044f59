"""Series: totals that never fall when jobs are pruned, and rows that are kept by step and time."""

from __future__ import annotations

from datetime import timedelta

from conformance.harness import TERMINAL, Harness
from conformance.lanes import let_unused_lanes_go
from fencepost.core.job.lifecycle import State
from fencepost.core.stats.series import LaneTotals
from fencepost.store.interface.records.series import SeriesRow
from fencepost.store.interface.upkeep import PruneRequest

__all__ = ["TestSeries"]

SECOND = timedelta(seconds=1)


def totals(h: Harness) -> dict[tuple[str, str], LaneTotals]:
    return {(each.queue, each.type): each for each in h.run(h.store.series.totals())}


def prune(h: Harness, limit: int = 100) -> int:
    keep: dict[State, float] = dict.fromkeys(TERMINAL, 0.0)
    request = PruneRequest(keep=keep, limit=limit)
    return h.run(h.store.upkeep.prune(request)).count


def record(h: Harness, step: int, *rows: SeriesRow, keep: float = 60.0) -> None:
    h.run(h.store.series.record(step, rows, keep))


def read(h: Harness, step: int, since: float = 1e6, until: float = 0.0) -> list[SeriesRow]:
    return h.run(h.store.series.read(step, h.now - since * SECOND, h.now - until * SECOND))


class TestSeries:
    def test_totals_are_counts_by_queue_type_and_state(self, h: Harness) -> None:
        assert totals(h) == {}
        h.submit("mail", queue="a")
        h.submit("mail", queue="b")
        done = h.take(queues={"a": 1})
        h.submit("report", queue="a")
        h.succeed(done)
        found = totals(h)
        assert {name: each.counts for name, each in found.items()} == {
            ("a", "mail"): {State.COMPLETED: 1},
            ("a", "report"): {State.SCHEDULED: 1},
            ("b", "mail"): {State.SCHEDULED: 1},
        }
        assert all(each.pruned == {} for each in found.values())

    def test_pruning_moves_counts_and_changes_no_total(self, h: Harness) -> None:
        """A count is the difference of two totals, whatever was deleted in between."""
        for state in TERMINAL:
            h.job_in(state)
        h.job_in(State.COMPLETED)
        h.submit()
        (before,) = totals(h).values()
        h.advance(1.0)
        assert prune(h, limit=2) == 2
        assert prune(h) == 3
        (after,) = totals(h).values()
        assert after.counts == {State.SCHEDULED: 1}
        assert {state: after.total(state) for state in TERMINAL} == {
            state: before.total(state) for state in TERMINAL
        }
        assert after.pruned[State.COMPLETED] == 2

    def test_what_was_pruned_is_forgotten_with_its_lane(self, h: Harness) -> None:
        """So that names which come and go do not fill the store."""
        h.job_in(State.COMPLETED)
        h.advance(1.0)
        assert prune(h) == 1
        let_unused_lanes_go(h, [])
        assert totals(h) == {}
        h.submit()
        (again,) = totals(h).values()
        assert (again.counts, again.pruned) == ({State.SCHEDULED: 1}, {})

    def test_rows_are_read_by_step_and_time_the_oldest_first(self, h: Harness) -> None:
        rows = [SeriesRow(h.now - n * SECOND, b"\0\xff%d" % n) for n in (30, 20, 10, 0)]
        record(h, 10, *rows)
        other = SeriesRow(h.now, b"other")
        record(h, 60, other)
        assert read(h, 10) == rows
        assert read(h, 60) == [other]
        assert read(h, 600) == []
        assert read(h, 10, since=30, until=10) == rows[1:3], "after the first, up to the second"

    def test_a_row_takes_the_place_of_one_of_the_same_time(self, h: Harness) -> None:
        """Two leaders may overlap for a moment."""
        record(h, 10, SeriesRow(h.now, b"one"))
        record(h, 10, SeriesRow(h.now, b"one"))
        record(h, 10, SeriesRow(h.now, b"two"))
        assert read(h, 10) == [SeriesRow(h.now, b"two")]

    def test_old_rows_of_the_step_are_forgotten(self, h: Harness) -> None:
        rows = [SeriesRow(h.now - n * SECOND, b"x") for n in (61, 60, 59)]
        record(h, 10, *rows)
        record(h, 60, *rows, keep=3600.0)
        record(h, 10, SeriesRow(h.now, b"x"))
        assert [row.at for row in read(h, 10)] == [h.now - 59 * SECOND, h.now]
        assert len(read(h, 60)) == 3
        record(h, 10)
        assert len(read(h, 10)) == 2
