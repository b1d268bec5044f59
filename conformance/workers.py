"""Workers that say that they are there, and terms of leadership."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from conformance.harness import TTL, Harness
from fencepost.core.bounds import WORKER_GONE, WORKER_SILENCE, WORKERS_GONE_MAX
from fencepost.store.interface.queue import Settled
from fencepost.store.interface.records.cluster import CHORES_TERM, Term, WorkerInfo

__all__ = ["TestLeading", "TestWorkers"]


def worker(h: Harness, id: str, **fields: Any) -> WorkerInfo:
    defaults: dict[str, Any] = {
        "host": "höst",
        "pid": 4711,
        "queues": {"mail": 3, "bulk": 1},
        "types": ("a", "b"),
        "concurrency": 20,
        "started_at": h.now,
        "running": 2,
    }
    return WorkerInfo(id=id, **{**defaults, **fields})


class TestWorkers:
    def test_a_worker_that_says_so_is_listed(self, h: Harness) -> None:
        """S2-16: sorted by id, with the store's time of the word."""
        two, one = worker(h, "w2"), worker(h, "w1", queues=None, types=(), running=0)
        now = h.advance(5.0)
        h.run(h.store.cluster.announce(two))
        h.run(h.store.cluster.announce(one))
        assert h.run(h.store.cluster.workers()) == [
            msgspec.structs.replace(one, seen_at=now),
            msgspec.structs.replace(two, seen_at=now),
        ]

    def test_its_last_word_counts(self, h: Harness) -> None:
        """S2-16."""
        h.run(h.store.cluster.announce(worker(h, "w1", running=1)))
        now = h.advance(5.0)
        last = worker(h, "w1", running=7, types=("c",))
        h.run(h.store.cluster.announce(last))
        assert h.run(h.store.cluster.workers()) == [msgspec.structs.replace(last, seen_at=now)]

    def test_a_silent_worker_is_no_longer_listed(self, h: Harness) -> None:
        """S2-16, S2-15."""
        h.run(h.store.cluster.announce(worker(h, "w1")))
        h.advance(WORKER_SILENCE - 1.0)
        assert len(h.run(h.store.cluster.workers())) == 1
        h.advance(2.0)
        assert h.run(h.store.cluster.workers()) == []

    def test_a_worker_that_stops_is_forgotten_and_its_leases_are_not(self, h: Harness) -> None:
        """S2-16: nothing depends on the list."""
        h.submit()
        h.run(h.store.cluster.announce(worker(h, "w1")))
        claimed = h.take("w1")
        h.run(h.store.cluster.retire("w1"))
        h.run(h.store.cluster.retire("nobody"))
        assert h.run(h.store.cluster.workers()) == []
        h.advance(TTL - 1.0)
        assert isinstance(h.succeed(claimed), Settled)

    def test_one_that_stopped_or_fell_silent_is_gone_for_an_hour(self, h: Harness) -> None:
        silent, stopped = worker(h, "silent", version="7", lag=0.25), worker(h, "stopped")
        seen = h.now
        h.run(h.store.cluster.announce(silent))
        h.run(h.store.cluster.announce(stopped))
        assert h.run(h.store.cluster.gone()) == []
        left = h.advance(1.0)
        h.run(h.store.cluster.retire("stopped"))
        gone = msgspec.structs.replace(stopped, seen_at=left, has_stopped=True)
        assert h.run(h.store.cluster.gone()) == [gone]
        h.advance(WORKER_SILENCE)
        lost = msgspec.structs.replace(silent, seen_at=seen)
        assert h.run(h.store.cluster.gone()) == [gone, lost]
        h.run(h.store.cluster.announce(stopped))
        assert h.run(h.store.cluster.gone()) == [lost]
        [back] = h.run(h.store.cluster.workers())
        assert back == msgspec.structs.replace(stopped, seen_at=h.now)
        h.advance(WORKER_GONE - WORKER_SILENCE)
        assert [each.id for each in h.run(h.store.cluster.gone())] == ["stopped"]
        h.run(h.store.cluster.announce(worker(h, "other")))
        h.advance(WORKER_SILENCE)
        assert [each.id for each in h.run(h.store.cluster.gone())] == ["other"]

    def test_of_many_that_are_gone_the_last_are_listed(self, h: Harness) -> None:
        for number in range(WORKERS_GONE_MAX + 5):
            h.run(h.store.cluster.announce(worker(h, f"w{number:03}")))
            h.advance(0.001)
            h.run(h.store.cluster.retire(f"w{number:03}"))
        found = [each.id for each in h.run(h.store.cluster.gone())]
        assert found == [f"w{number:03}" for number in range(WORKERS_GONE_MAX + 4, 4, -1)]

    def test_the_holder_of_the_term_of_chores_is_the_leader_until_it_ends(self, h: Harness) -> None:
        for name in ("w1", "w2"):
            h.run(h.store.cluster.announce(worker(h, name)))
        h.run(h.store.cluster.lead("another", "w1", 60.0))
        h.run(h.store.cluster.lead(CHORES_TERM, "w2", 5.0))

        def leaders() -> list[str]:
            return [each.id for each in h.run(h.store.cluster.workers()) if each.is_leader]

        assert leaders() == ["w2"]
        h.advance(5.0)
        assert leaders() == []
        h.run(h.store.cluster.lead(CHORES_TERM, "w1", 5.0))
        assert leaders() == ["w1"]


class TestLeading:
    def test_one_worker_leads_for_a_while(self, h: Harness) -> None:
        """S4-20: nobody else does, until the term is over to the instant."""
        end = h.now + timedelta(seconds=5)
        assert h.run(h.store.cluster.lead("chores", "w1", 5.0)) == Term("chores", "w1", end)
        h.advance(5.0 - 0.000001)
        assert h.run(h.store.cluster.lead("chores", "w2", 5.0)) is None
        h.advance(0.000001)
        later = h.now + timedelta(seconds=5)
        assert h.run(h.store.cluster.lead("chores", "w2", 5.0)) == Term("chores", "w2", later)
        assert h.run(h.store.cluster.lead("chores", "w1", 5.0)) is None

    def test_a_leader_stays_as_long_as_it_says_so(self, h: Harness) -> None:
        """S4-20."""
        for _ in range(5):
            term = h.run(h.store.cluster.lead("chores", "w1", 5.0))
            assert term == Term("chores", "w1", h.now + timedelta(seconds=5))
            h.advance(4.0)
            assert h.run(h.store.cluster.lead("chores", "w2", 5.0)) is None

    def test_a_leader_that_resigns_makes_room_at_once(self, h: Harness) -> None:
        """S4-20: nobody can resign for another."""
        h.run(h.store.cluster.lead("chores", "w1", 5.0))
        h.run(h.store.cluster.resign("chores", "w2"))
        assert h.run(h.store.cluster.lead("chores", "w2", 5.0)) is None
        h.run(h.store.cluster.resign("chores", "w1"))
        assert h.run(h.store.cluster.lead("chores", "w2", 5.0)) is not None
        h.run(h.store.cluster.resign("other", "w1"))

    def test_terms_are_known_by_name(self, h: Harness) -> None:
        """S4-20."""
        assert h.run(h.store.cluster.lead("chores", "w1", 5.0)) is not None
        assert h.run(h.store.cluster.lead("cron", "w2", 5.0)) is not None
        assert h.run(h.store.cluster.lead("cron", "w1", 5.0)) is None
