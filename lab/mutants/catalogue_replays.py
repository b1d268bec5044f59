"""Mutants of replays at a rate: in the decisions, the stores, and the leader."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

CORE = "fencepost.core.job.replays"
SQL = "fencepost.store.sql.control"
PARTITIONS = "fencepost.store.redis.partitions.control"
EXAM = "TestReplays"
DEATHS = "TestReplaysThatBreak"


def _mutant(place: Place, name: str, about: str, patch: Patch, *tests: str) -> Mutant:
    return Mutant(f"{place}-{name}", about, place, (patch,), tests)


MUTANTS = (
    _mutant(
        Place.SQLITE, "replay-ignores-its-version", "a leader that slept goes on after a stop",
        Patch(SQL, "if not rows or decode_replay(bytes(rows[0][0])).version != replay.version - 1:",
              "if not rows:"),
        EXAM,
    ),
    _mutant(
        Place.SQLITE, "replay-takes-its-own-failures", "what failed again is replayed for ever",
        Patch(CORE, "            at <= started_at\n", "            at <= at\n"),
        EXAM,
    ),
    _mutant(
        Place.SQLITE, "replay-makes-up-for-a-pause", "after an hour away, all is replayed at once",
        Patch(CORE, "    return max(replay.paid_until, now - window)\n",
              "    return replay.paid_until\n"),
        EXAM,
    ),
    _mutant(
        Place.SQLITE, "replay-does-not-stop", "the share of failures is never looked at",
        Patch(CORE, "ended >= self.after and failed > self.share * ended",
              "ended >= self.after and failed > ended"),
        EXAM,
    ),
    _mutant(
        Place.REDIS, "replay-is-not-noted", "who dies between two partitions loses the count",
        Patch(PARTITIONS, "replace(replay, pending=pending)", "replace(replay, pending=())"),
        f"tests/store/redis/partitions/test_conformance.py::{DEATHS}",
    ),
)  # fmt: skip
