"""Replays of many dead letters: each letter once, each count right, whoever dies or is too many."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from conformance.harness import ONE_ATTEMPT, Harness
from fencepost.core.bounds import REPLAY_OPEN_MAX, REPLAYS_KEPT_MAX, REPLAYS_MAX
from fencepost.core.fingerprints import mark_of
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Category, Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.replays import (
    BulkReplay,
    LetterChoice,
    ReplayState,
    StopRule,
    moved_on,
    steered,
)
from fencepost.core.values.names import id_text
from fencepost.errors import StateConflictError, StoreUnavailableError
from fencepost.maintenance.replays import Replayer
from fencepost.store.interface.control import Replay, Replayed
from fencepost.store.interface.store import Store
from fencepost.store.plan import Operation, Plan

__all__ = ["TestReplays", "TestReplaysThatBreak"]

FAST = 1_000.0


def dead_letters(h: Harness, count: int, **fields: Any) -> list[str]:
    """Make jobs that die one after the other; return their ids, the newest first."""
    found = []
    for _ in range(count):
        found.append(h.job_in(State.DEAD_LETTER, **fields))
        h.advance(0.001)
    return found[::-1]


def start(h: Harness, total: int = 5, **fields: Any) -> BulkReplay:
    """Start a replay of everything, as fast as can be."""
    given: dict[str, Any] = {"choice": LetterChoice(), "rate": FAST, "total": total, **fields}
    id_ = id_text(h.clock.new_id())
    return h.run(h.store.replays.start(BulkReplay(id=id_, started_by="ann", **given)))


def kept(h: Harness, id_: str | None = None) -> BulkReplay:
    """Return the replay with this id, or the only one."""
    found = h.run(h.store.replays.list()).replays
    [one] = [each for each in found if id_ in (None, each.id)]
    return one


def step(h: Harness, store: Store | None = None, seconds: float = 1.0) -> int:
    """Let time pass, and a leader go on."""
    h.advance(seconds)
    return h.wait(Replayer(store or h.store).step())


def finish(h: Harness, id_: str | None = None) -> BulkReplay:
    """Let a leader go on until it is over."""
    for _ in range(100):
        if not kept(h, id_).state.is_under_way:
            return kept(h, id_)
        step(h)
    raise AssertionError("it does not come to an end")


def made(h: Harness) -> dict[str, list[str]]:
    """Return the jobs that were made of each dead letter."""
    found: dict[str, list[str]] = {}
    for each in h.find():
        if each.replay_of is not None:
            found.setdefault(each.replay_of, []).append(each.id)
    return found


class TestReplays:
    def test_all_are_replayed_once_and_counted(self, h: Harness) -> None:
        """S3-26, S3-27: a fresh job stands in the place of each letter."""
        dead = dead_letters(h, 5)
        assert start(h).started_at == h.now
        over = finish(h)
        assert (over.state, over.replayed, over.skipped, over.left) == ("done", 5, {}, 0)
        assert {len(each) for each in made(h).values()} == {1}
        assert (set(made(h)), h.letters()) == (set(dead), [])
        assert set(over.open) == {id_ for each in made(h).values() for id_ in each}
        assert over.ended_at is not None

    def test_a_rate_is_kept(self, h: Harness) -> None:
        dead_letters(h, 9)
        start(h, 9, rate=2.0)
        assert [step(h) for _ in range(4)] == [2, 2, 2, 2]
        assert step(h, seconds=0.0) == 0
        assert kept(h).left == 1
        assert step(h, seconds=3600.0) == 1

    def test_a_slow_rate_is_kept_too(self, h: Harness) -> None:
        dead_letters(h, 3)
        start(h, 3, rate=0.25)
        assert [step(h) for _ in range(9)] == [1, 0, 0, 0, 1, 0, 0, 0, 1]

    def test_what_was_not_used_for_long_is_lost(self, h: Harness) -> None:
        """A leader that was away, or a replay that was held, does not make up for it at once."""
        dead_letters(h, 12)
        start(h, 12, rate=2.0)
        assert [step(h), step(h, seconds=3600.0)] == [2, 4]

    def test_it_is_held_resumed_and_stopped(self, h: Harness) -> None:
        dead_letters(h, 6)
        first = start(h, 6, rate=2.0)
        step(h)
        for order, count in (("hold", 0), ("resume", 2), ("stop", 0)):
            steer(h, order)
            assert step(h) == count
        assert (kept(h).state, kept(h).replayed, len(h.letters())) == ("stopped", 4, 2)
        with pytest.raises(StateConflictError):
            steered(kept(h), "resume", h.now)
        assert steered(kept(h), "stop", h.now) == kept(h)
        assert kept(h).id == first.id

    def test_conditions_choose(self, h: Harness) -> None:
        dead_letters(h, 1)
        since = h.now
        wanted = dead_letters(h, 2, type="a", queue="q")
        until = h.now
        dead_letters(h, 2, type="a")
        dead_letters(h, 2, type="b", queue="q")
        dead_letters(h, 2, type="a", queue="q")
        choice = LetterChoice(type="a", queue="q", since=since, until=until)
        start(h, choice=choice)
        over = finish(h)
        assert (over.state, over.replayed) == (ReplayState.DONE, 2)
        assert set(made(h)) == set(wanted)

    def test_a_group_is_what_died_of_the_same(self, h: Harness) -> None:
        dead_letters(h, 2)
        for _ in range(2):
            h.submit(policy=ONE_ATTEMPT)
            h.fail(h.take(), Failure(Category.TEMPORARY, "x", code="7", exception="pkg.Other"))
            h.advance(0.001)
        group = mark_of(h.letters()[0]).group
        wanted = [each.job_id for each in h.letters() if mark_of(each).group == group]
        start(h, choice=LetterChoice(group=group), rate=1.0)
        finish(h)
        assert (set(made(h)), len(wanted)) == (set(wanted), 2)

    def test_queues_out_of_reach_are_left_alone(self, h: Harness) -> None:
        dead_letters(h, 2)
        wanted = dead_letters(h, 2, queue="q")
        start(h, choice=LetterChoice(queues=("q", "r")))
        finish(h)
        assert set(made(h)) == set(wanted)
        other = start(h, choice=LetterChoice(queue="default", queues=("q", "r")))
        assert (finish(h, other.id).replayed, len(h.letters())) == (0, 2)

    def test_a_sample_is_the_newest(self, h: Harness) -> None:
        dead = dead_letters(h, 5)
        start(h, sample=2)
        assert (finish(h).replayed, set(made(h))) == (2, set(dead[:2]))

    def test_a_patch_is_applied_where_it_can_be(self, h: Harness) -> None:
        [plain] = dead_letters(h, 1, payload=Body(b'{"a":1,"b":20000000000000000001}'))
        [other] = dead_letters(h, 1, payload=Body(b"[1]"))
        start(h, 2, patch=Body(b'{"a":2}'))
        over = finish(h)
        assert (over.replayed, over.skipped) == (1, {"payload": 1})
        [[fresh]] = made(h).values()
        assert h.get(fresh).payload_body == Body(b'{"a":2,"b":20000000000000000001}')
        assert (h.get(fresh).replay_of, h.letters()[0].job_id) == (plain, other)
        assert over.patch == Body(b'{"a":2}')

    def test_a_held_key_keeps_its_letter_and_the_reason_is_counted(self, h: Harness) -> None:
        """S3-27: the record is removed only after a successful enqueue."""
        [held] = dead_letters(h, 1, key=Key("k", window=None))
        h.submit(key=Key("k", window=None))
        dead_letters(h, 1, type="other")
        start(h, 2)
        over = finish(h)
        assert (over.state, over.replayed, over.skipped) == ("done", 1, {"duplicate": 1})
        assert [each.job_id for each in h.letters()] == [held]

    def test_what_fails_again_is_counted_once_and_not_replayed_again(self, h: Harness) -> None:
        dead_letters(h, 3)
        start(h, 3, rate=1.0)
        for _ in range(6):
            step(h)
            for claimed in h.claim().jobs:
                h.fail(claimed)
        over = kept(h)
        assert (over.replayed, over.failed, over.completed, over.open) == (3, 3, 0, ())
        assert (len(h.letters()), len(made(h))) == (3, 3)

    def test_what_dies_after_the_start_is_left_alone(self, h: Harness) -> None:
        dead = dead_letters(h, 2)
        start(h, 2)
        h.advance(0.001)
        [later] = dead_letters(h, 1)
        assert (finish(h).replayed, set(made(h))) == (2, set(dead))
        assert [each.job_id for each in h.letters()] == [later]

    def test_a_share_of_failures_stops_it(self, h: Harness) -> None:
        dead_letters(h, 20)
        start(h, 20, rate=1.0, stop=StopRule(share=0.5, after=4))
        for number in range(12):
            step(h)
            for claimed in h.claim().jobs:
                h.fail(claimed) if number > 1 else h.succeed(claimed)
        over = kept(h)
        assert (over.state, over.completed, over.failed) == ("stopped_by_rule", 2, 3)
        assert (over.replayed, over.ended_at is not None) == (5, True)

    def test_a_number_of_failures_stops_it(self, h: Harness) -> None:
        dead_letters(h, 9)
        start(h, 9, rate=1.0, stop=StopRule(failures=2))
        for _ in range(5):
            step(h)
            for claimed in h.claim().jobs:
                h.reject(claimed)
        assert (kept(h).state, kept(h).failed) == ("stopped_by_rule", 2)

    def test_jobs_are_counted_after_it_is_over(self, h: Harness) -> None:
        dead_letters(h, 2)
        start(h, 2)
        finish(h)
        first, second = h.claim().jobs
        h.succeed(first)
        h.cancel(second.id)
        step(h)
        assert (kept(h).completed, kept(h).failed, kept(h).open) == (1, 0, ())

    def test_it_does_not_run_ahead_of_its_jobs(self, h: Harness) -> None:
        dead_letters(h, 2)
        replay = start(h, 2)
        crowd = tuple(h.submit_many(1)) * REPLAY_OPEN_MAX
        full = replace(replay, version=1, open=crowd)
        assert h.run(h.store.replays.advance(full)) is not None
        assert (step(h), kept(h).state) == (0, ReplayState.RUNNING)

    def test_a_start_can_be_repeated(self, h: Harness) -> None:
        """If the answer was lost: one replay, as it is by now."""
        dead_letters(h, 2)
        replay = start(h, 2)
        finish(h)
        again = replace(replay, started_at=None)
        assert h.run(h.store.replays.start(again)) == kept(h)

    def test_few_are_under_way_and_few_are_kept(self, h: Harness) -> None:
        for _ in range(REPLAYS_MAX):
            start(h)
        with pytest.raises(StateConflictError, match="under way"):
            start(h)
        for _ in range(REPLAYS_KEPT_MAX):
            step(h)
            newest = start(h)
        found = h.run(h.store.replays.list())
        assert (len(found.replays), found.replays[0], found.now) == (
            REPLAYS_KEPT_MAX,
            newest,
            h.now,
        )

    def test_too_many_cannot_start_at_once(self, h: Harness) -> None:
        def one(store: Store) -> Operation[BulkReplay]:
            id_ = id_text(h.clock.new_id())
            fields: Any = {"choice": LetterChoice(), "rate": 1.0, "total": 0}
            return store.replays.start(BulkReplay(id=id_, started_by="ann", **fields))

        for _ in range(REPLAYS_MAX - 1):
            start(h)

        async def attempt(store: Store, run: Any) -> bool:
            try:
                await run(one(store))
            except StateConflictError:
                return False
            return True

        assert sorted(h.race_scripts([attempt] * 4, h.peers(4))) == [False, False, False, True]

    def test_it_survives_a_restart(self, h: Harness) -> None:
        if not h.is_durable:
            pytest.skip("keeps nothing")
        dead_letters(h, 4)
        start(h, 4, rate=2.0)
        step(h)
        before = kept(h)
        h.reopen(is_clean=False)
        assert kept(h) == before
        assert (finish(h).replayed, len(made(h))) == (4, 4)

    def test_of_two_changes_one_is_refused(self, h: Harness) -> None:
        """Nothing is replayed by a leader that has not seen the last change."""
        dead = dead_letters(h, 2)
        replay = start(h, 2)
        moved = moved_on(replay, 2, h.now, position=None, is_end=True)
        steer(h, "hold")
        requests = [Replay(each) for each in dead]
        assert h.run(h.store.replays.advance(moved, requests)) is None
        assert (len(h.letters()), kept(h).state) == (2, ReplayState.HELD)
        nobody = replace(moved, id="7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11")
        assert h.run(h.store.replays.advance(nobody, requests)) is None
        assert len(h.letters()) == 2

    def test_two_leaders_at_once_replay_each_letter_once(self, h: Harness) -> None:
        dead = dead_letters(h, 12)
        start(h, 12)
        h.advance(1.0)

        async def lead(store: Store, run: Any) -> int:
            return await Replayer(_Asking(store, run)).step()  # type: ignore[arg-type]  # as far as it is asked

        for _ in range(4):
            h.race_scripts([lead] * 3, h.peers(3))
            h.advance(1.0)
        over = finish(h)
        assert (over.replayed, over.skipped, set(made(h))) == (12, {}, set(dead))
        assert {len(each) for each in made(h).values()} == {1}

    def test_the_reply_says_what_became_of_each(self, h: Harness) -> None:
        [dead] = dead_letters(h, 1)
        replay = start(h, 1)
        moved = moved_on(replay, 1, h.now, position=None, is_end=True)
        reply = h.run(h.store.replays.advance(moved, [Replay(dead)]))
        assert reply is not None
        [one] = reply.replies
        assert isinstance(one, Replayed) and (one.dead_id, one.state) == (dead, State.SCHEDULED)
        assert reply.replay == kept(h)


def steer(h: Harness, order: Any) -> None:
    changed = steered(kept(h), order, h.now)
    assert h.run(h.store.replays.advance(changed)) is not None


class _Asking:
    """A store whose awaited operations are run as a test says."""

    def __init__(self, store: Store, run: Any) -> None:
        self._store = store
        self.run_async = run

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _Dying:
    """A store at whose *number*-th statement the process dies, or before the answer to a call."""

    def __init__(self, store: Store, number: int, *, loses_answers: bool) -> None:
        self._store = store
        self._left = number
        self._loses_answers = loses_answers

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def run_async(self, operation: Operation[Any]) -> Any:
        if not self._loses_answers:
            return await self._store.run_async(replace(operation, start=self._cut(operation)))
        reply = await self._store.run_async(operation)
        self._count()
        return reply

    def _cut(self, operation: Operation[Any]) -> Any:
        def start() -> Plan[Any]:
            plan = operation.start()
            reply: Any = None
            while True:
                self._count()
                try:
                    statement = plan.send(reply)
                except StopIteration as stop:
                    return stop.value
                reply = yield statement

        return start

    def _count(self) -> None:
        self._left -= 1
        if self._left < 0:
            raise StoreUnavailableError("the process is dead")


def deaths(h: Harness, *, loses_answers: bool) -> Iterator[None]:
    """Let leaders die, each one statement later than the one before, until one survives."""
    for number in range(200):
        h.advance(1.0)
        try:
            h.wait(Replayer(_Dying(h.store, number, loses_answers=loses_answers)).step())  # type: ignore[arg-type]  # as far as it is asked
        except StoreUnavailableError:
            yield
        else:
            return
    raise AssertionError("nobody survives")


class TestReplaysThatBreak:
    @pytest.mark.parametrize("loses_answers", [False, True])
    def test_wherever_leaders_die_each_letter_is_replayed_once_and_counted_once(
        self, h: Harness, loses_answers: bool
    ) -> None:
        """S3-26, S3-27: every line of a step is one at which some leader dies."""
        body = Body(b'{"a":1}')
        dead = dead_letters(h, 2, payload=body) + dead_letters(h, 2, payload=body, queue="q")
        [held] = dead_letters(h, 1, payload=body, key=Key("k", window=None))
        h.submit(key=Key("k", window=None), payload=body, type="mail")
        start(h, 5, patch=Body(b'{"a":2}'), rate=3.0)
        for _ in range(3):
            for _ in deaths(h, loses_answers=loses_answers):
                self._check(h)
        step(h)
        over = kept(h)
        self._check(h)
        assert (over.state, over.replayed, over.skipped) == ("done", 4, {"duplicate": 1})
        assert (set(made(h)), over.pending) == (set(dead), ())
        assert [each.job_id for each in h.letters()] == [held]

    def _check(self, h: Harness) -> None:
        replay = kept(h)
        assert all(len(each) == 1 for each in made(h).values())
        if not replay.pending:
            assert replay.replayed == len(made(h)) == len(replay.open)
