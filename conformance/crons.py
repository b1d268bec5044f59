"""Crons: declared again and again, fired exactly once a tick, paused, resumed, forgotten."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import chain
from typing import Any

import msgspec
import pytest

from conformance.harness import Colour, Harness, Run
from fencepost.core.job.idempotency import Key
from fencepost.core.job.job import Body, Encoding, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Backoff, Policy, Priority
from fencepost.store.interface.queue import Duplicate, Enqueued
from fencepost.store.interface.records.crons import (
    CronDefinition,
    CronFire,
    CronView,
    Fired,
    FireReply,
    NotDue,
)
from fencepost.store.interface.store import Store, Topic
from fencepost.store.plan import Operation

__all__ = ["TestCrons", "TestFiring"]

CROWD = 16
HOUR = timedelta(hours=1)
RICH = NewJob(
    type="report",
    payload=Body(b'{"to":"\xc3\xa4"}'),
    queue="reports",
    priority=Priority.HIGH,
    policy=Policy(max_attempts=7, backoff=Backoff("linear", 2.5), timeout=9.5, lease_ttl=44.0),
    delay=1.5,
    tags={"tenant": "7"},
    correlation_id="c",
)
over_stores = pytest.mark.parametrize("stores", [1, 4], ids="over {} store objects".format)


def definition(h: Harness, name: str = "report", **fields: Any) -> CronDefinition:
    """Return a cron that ticks at every full hour, first in an hour."""
    given = {"expression": "0 * * * *", "tz": "UTC", "next_tick": h.now + HOUR, **fields}
    return CronDefinition(name=name, **{"template": NewJob(type="report"), **given})


def declare(h: Harness, *crons: CronDefinition) -> None:
    h.run(h.store.crons.declare(crons))


def crons(h: Harness) -> dict[str, CronView]:
    found: list[CronView] = h.run(h.store.crons.list()).crons
    assert [each.name for each in found] == sorted(each.name for each in found)
    return {each.name: each for each in found}


def firing(expected: datetime, name: str = "report", count: int = 1, **fields: Any) -> CronFire:
    """Return a firing of what ``definition`` declares; one job a tick, under the tick's key."""
    ticks = [expected + n * HOUR for n in range(count)]
    given: dict[str, Any] = {
        "expression": "0 * * * *",
        "tz": "UTC",
        "jobs": tuple(
            NewJob(type="report", key=Key(f"cron:{name}:{tick.isoformat()}")) for tick in ticks
        ),
        "last_tick": ticks[-1] if ticks else None,
        "next_tick": expected + max(count, 1) * HOUR,
        **fields,
    }
    return CronFire(name=name, expected=expected, **given)


def fire(h: Harness, *fires: CronFire) -> list[FireReply]:
    replies: list[FireReply] = h.run(h.store.crons.fire(fires))
    return replies


def firer(*fires: CronFire) -> Callable[[Store], Operation[list[FireReply]]]:
    return lambda store: store.crons.fire(fires)


class TestCrons:
    def test_a_declared_cron_is_seen_as_it_was_declared(self, h: Harness) -> None:
        declare(h, definition(h, missed="catch_up", catch_up=3, tz="Europe/Berlin", template=RICH))
        assert crons(h)["report"] == CronView(
            name="report",
            expression="0 * * * *",
            tz="Europe/Berlin",
            missed="catch_up",
            catch_up=3,
            template=RICH,
            next_tick=h.now + HOUR,
            declared_at=h.now,
            changed_at=h.now,
        )

    def test_a_binary_template_comes_back_as_it_was(self, h: Harness) -> None:
        template = NewJob(type="shout", payload=Body(bytes(range(256)), Encoding.BINARY))
        declare(h, definition(h, template=template))
        assert crons(h)["report"].template == template

    def test_the_time_is_the_stores_own(self, h: Harness) -> None:
        """Also of a store without any."""
        assert h.run(h.store.crons.list()).now == h.now
        declare(h, definition(h))
        h.advance(90.5)
        assert h.run(h.store.crons.list()).now == h.now

    def test_an_unchanged_cron_keeps_its_tick_though_it_has_passed(self, h: Harness) -> None:
        """That is how it is known what was missed."""
        declare(h, definition(h))
        first = crons(h)["report"]
        h.advance(5 * 3600.0)
        declare(h, definition(h))
        assert crons(h)["report"] == msgspec.structs.replace(first, declared_at=h.now)

    @pytest.mark.parametrize("changed", [{"expression": "5 * * * *"}, {"tz": "Asia/Tokyo"}])
    def test_changed_times_go_on_from_the_tick_that_is_given(
        self, h: Harness, changed: dict[str, str]
    ) -> None:
        declare(h, definition(h))
        h.run(h.store.crons.pause("report"))
        h.advance(5 * 3600.0)
        new = definition(h, **changed)
        declare(h, new)
        cron = crons(h)["report"]
        assert (cron.expression, cron.tz) == (new.expression, new.tz)
        assert cron.next_tick == new.next_tick
        assert cron.changed_at == h.now
        assert cron.is_paused, "a pause is kept"

    @pytest.mark.parametrize(
        "changed",
        [{"missed": "skip"}, {"catch_up": 99}, {"template": RICH}],
        ids=lambda changed: next(iter(changed)),
    )
    def test_what_does_not_concern_the_times_is_replaced(
        self, h: Harness, changed: dict[str, Any]
    ) -> None:
        declare(h, definition(h))
        tick = crons(h)["report"].next_tick
        h.advance(5 * 3600.0)
        declare(h, definition(h, **changed))
        cron = crons(h)["report"]
        [(name, value)] = changed.items()
        assert getattr(cron, name) == value
        assert (cron.next_tick, cron.changed_at) == (tick, h.now)

    def test_many_are_declared_at_once(self, h: Harness) -> None:
        names = ["b", "a", "ä", "Z", "with space"]
        declare(h, *(definition(h, name) for name in names))
        assert sorted(crons(h)) == sorted(names)

    def test_declaring_nothing_is_fine(self, h: Harness) -> None:
        declare(h)
        assert crons(h) == {}

    @over_stores
    def test_a_crowd_that_declares_the_same_agrees(self, h: Harness, stores: int) -> None:
        wanted = [definition(h, name) for name in "dbac"]
        h.race([lambda store: store.crons.declare(wanted)] * CROWD, h.peers(stores))
        assert list(crons(h)) == ["a", "b", "c", "d"]
        assert {cron.next_tick for cron in crons(h).values()} == {h.now + HOUR}

    def test_a_resumed_cron_goes_on_from_the_tick_that_is_given(self, h: Harness) -> None:
        """Ticks that passed while it was paused are not made up for."""
        declare(h, definition(h))
        assert h.run(h.store.crons.pause("report"))
        h.advance(5 * 3600.0)
        later = h.now + HOUR
        assert h.run(h.store.crons.resume("report", later))
        cron = crons(h)["report"]
        assert (cron.is_paused, cron.next_tick) == (False, later)

    def test_to_resume_what_is_not_paused_skips_no_tick(self, h: Harness) -> None:
        """Twice is once: the second must not pass over what has fallen due meanwhile."""
        declare(h, definition(h))
        before = crons(h)["report"]
        h.advance(5 * 3600.0)
        assert h.run(h.store.crons.resume("report", h.now + HOUR))
        assert crons(h)["report"] == before

    def test_a_forgotten_cron_is_gone_until_it_is_declared_again(self, h: Harness) -> None:
        declare(h, definition(h), definition(h, "other"))
        assert h.run(h.store.crons.forget("report"))
        assert list(crons(h)) == ["other"]
        declare(h, definition(h))
        assert list(crons(h)) == ["other", "report"]

    def test_what_nobody_has_declared_is_not_found(self, h: Harness) -> None:
        assert h.run(h.store.crons.pause("nobody")) is False
        assert h.run(h.store.crons.resume("nobody", h.now)) is False
        assert h.run(h.store.crons.forget("nobody")) is False

    def test_crons_outlive_the_store_object(self, h: Harness) -> None:
        declare(h, definition(h, template=RICH))
        h.run(h.store.crons.pause("report"))
        before = crons(h)
        h.reopen(is_clean=False)
        assert crons(h) == (before if h.is_durable else {})


class TestFiring:
    def test_a_tick_makes_its_job_and_moves_on(self, h: Harness) -> None:
        declare(h, definition(h))
        tick = h.advance(HOUR)
        [reply] = fire(h, firing(tick))
        assert isinstance(reply, Fired)
        [stored] = reply.jobs
        assert isinstance(stored, Enqueued)
        job = h.get(stored.job_id)
        assert (job.type, job.state) == ("report", State.SCHEDULED)
        assert job.key == f"cron:report:{tick.isoformat()}"
        cron = crons(h)["report"]
        assert (cron.last_tick, cron.next_tick) == (tick, tick + HOUR)
        assert h.take().id == job.id

    def test_a_repeated_firing_is_not_due(self, h: Harness) -> None:
        """The reply was lost after the commit: to ask again tells so, and does nothing."""
        declare(h, definition(h))
        tick = h.advance(HOUR)
        fire(h, firing(tick))
        before = crons(h)
        assert fire(h, firing(tick)) == [NotDue("report")]
        assert crons(h) == before
        assert len(h.find()) == 1

    def test_a_tick_of_the_same_batch_is_fired_once(self, h: Harness) -> None:
        declare(h, definition(h))
        tick = h.advance(HOUR)
        replies = fire(h, firing(tick), firing(tick), firing(tick + HOUR))
        assert [type(reply) for reply in replies] == [Fired, NotDue, Fired]
        assert len(h.find()) == 2

    @over_stores
    def test_sixteen_racers_fire_a_tick_once(self, h: Harness, stores: int) -> None:
        peers = h.peers(stores)
        declare(h, definition(h))
        for _ in range(5):
            tick = h.advance(HOUR)
            # Without keys: the tick in the row has to do it alone.
            bare = firing(tick, jobs=(NewJob(type="report"),))
            replies = list(chain(*h.race([firer(bare)] * CROWD, peers)))
            assert Counter(map(type, replies)) == {Fired: 1, NotDue: CROWD - 1}
        assert len(h.find()) == 5

    @over_stores
    def test_racers_that_fire_several_do_not_block_each_other(
        self, h: Harness, stores: int
    ) -> None:
        """In whatever order each of them names them."""
        names = list("abcd")
        declare(h, *(definition(h, name) for name in names))
        tick = h.advance(HOUR)
        orders = [names, names[::-1], names[2:] + names[:2]]
        asks = [firer(*(firing(tick, name) for name in order)) for order in orders * 4]
        replies = list(chain(*h.race(asks, h.peers(stores))))
        assert Counter(r.name for r in replies if isinstance(r, Fired)) == dict.fromkeys(names, 1)
        assert len(h.find()) == 4

    @over_stores
    def test_racers_that_look_and_fire_on_their_own_miss_no_tick(
        self, h: Harness, stores: int
    ) -> None:
        """What a worker does: look, decide, fire; until the row says that there is no more."""
        declare(h, definition(h))
        first = h.advance(HOUR)
        end = h.advance(9 * 3600.0)

        async def work(store: Store, run: Run) -> list[datetime]:
            fired: list[datetime] = []
            for _ in range(100):
                [cron] = (await run(store.crons.list())).crons
                assert cron.next_tick is not None
                if cron.next_tick > end:
                    return fired
                [reply] = await run(store.crons.fire([firing(cron.next_tick)]))
                fired += [cron.next_tick] if isinstance(reply, Fired) else []
            raise AssertionError("the ticks do not come to an end")

        ticks = sorted(chain(*h.race_scripts([work] * 8, h.peers(stores))))
        assert ticks == [first + n * HOUR for n in range(10)]
        assert len(h.find()) == 10

    def test_a_paused_cron_is_not_due(self, h: Harness) -> None:
        declare(h, definition(h))
        h.run(h.store.crons.pause("report"))
        tick = h.advance(HOUR)
        before = crons(h)
        assert fire(h, firing(tick)) == [NotDue("report")]
        assert crons(h) == before
        assert h.find() == []

    def test_a_cron_whose_times_have_changed_is_not_due(self, h: Harness) -> None:
        """Even if its next tick is the same: the one after that would be another's."""
        declare(h, definition(h))
        tick = h.now + HOUR
        declare(h, definition(h, expression="0 */2 * * *"))
        h.advance_to(tick)
        assert fire(h, firing(tick)) == [NotDue("report")]
        assert fire(h, firing(tick, tz="Asia/Tokyo")) == [NotDue("report")]
        [reply] = fire(h, firing(tick, expression="0 */2 * * *"))
        assert isinstance(reply, Fired)

    def test_a_forgotten_cron_is_not_due(self, h: Harness) -> None:
        declare(h, definition(h))
        h.run(h.store.crons.forget("report"))
        assert fire(h, firing(h.now + HOUR), firing(h.now, "nobody")) == [
            NotDue("report"),
            NotDue("nobody"),
        ]

    def test_several_ticks_are_made_up_for_in_their_order(self, h: Harness) -> None:
        declare(h, definition(h))
        tick = h.now + HOUR
        h.advance(3 * 3600.0)
        [reply] = fire(h, firing(tick, count=3))
        assert isinstance(reply, Fired)
        taken = [h.take().id for _ in range(3)]
        assert taken == [each.job_id for each in reply.jobs]
        keys = [h.get(job_id).key for job_id in taken]
        assert keys == [f"cron:report:{(tick + n * HOUR).isoformat()}" for n in range(3)]
        assert crons(h)["report"].last_tick == tick + 2 * HOUR

    def test_ticks_are_passed_over_without_a_job(self, h: Harness) -> None:
        """The last one that was fired stays the last one."""
        declare(h, definition(h))
        first = h.advance(HOUR)
        fire(h, firing(first))
        h.advance(5 * 3600.0)
        assert fire(h, firing(first + HOUR, count=0)) == [Fired("report", [])]
        cron = crons(h)["report"]
        assert (cron.last_tick, cron.next_tick) == (first, first + 2 * HOUR)
        assert len(h.find()) == 1

    def test_after_its_last_tick_a_cron_is_never_due(self, h: Harness) -> None:
        declare(h, definition(h))
        tick = h.advance(HOUR)
        fire(h, firing(tick, next_tick=None))
        assert crons(h)["report"].next_tick is None
        assert fire(h, firing(tick)) == [NotDue("report")]

    def test_the_key_of_a_tick_is_a_second_line_of_defence(self, h: Harness) -> None:
        """Forgotten and declared again, a cron makes no second job of the same tick."""
        declare(h, definition(h))
        tick = h.advance(HOUR)
        [first] = fire(h, firing(tick))
        assert isinstance(first, Fired)
        h.run(h.store.crons.forget("report"))
        declare(h, definition(h, next_tick=tick))
        [second] = fire(h, firing(tick))
        assert isinstance(second, Fired)
        [duplicate] = second.jobs
        assert isinstance(duplicate, Duplicate)
        assert duplicate.job_id == first.jobs[0].job_id
        assert len(h.find()) == 1

    def test_of_several_crons_each_is_answered_for_itself(self, h: Harness) -> None:
        declare(h, definition(h, "b"), definition(h, "a"), definition(h, "c"))
        h.run(h.store.crons.pause("a"))
        tick = h.advance(HOUR)
        replies = fire(h, firing(tick, "c"), firing(tick, "a"), firing(tick, "b"))
        assert [(type(reply), reply.name) for reply in replies] == [
            (Fired, "c"),
            (NotDue, "a"),
            (Fired, "b"),
        ]

    def test_a_job_carries_all_that_its_template_says(self, h: Harness) -> None:
        declare(h, definition(h, template=RICH))
        tick = h.advance(HOUR)
        job = msgspec.structs.replace(RICH, key=Key("cron:report:x"))
        [reply] = fire(h, firing(tick, jobs=(job,)))
        assert isinstance(reply, Fired)
        stored = h.get(reply.jobs[0].job_id)
        assert (stored.payload_body, stored.queue, stored.priority) == (
            RICH.payload,
            RICH.queue,
            RICH.priority,
        )
        assert (stored.policy, stored.tags, stored.correlation_id) == (
            RICH.policy,
            RICH.tags,
            RICH.correlation_id,
        )
        assert (stored.state, stored.run_at) == (State.DELAYED, tick + timedelta(seconds=1.5))

    def test_a_fired_tick_survives_a_crash(self, h: Harness) -> None:
        """The worker that fired it dies at once: the job is stored, and is not fired again."""
        if not h.is_durable:
            pytest.skip("nothing outlives this store's object")
        declare(h, definition(h))
        tick = h.advance(HOUR)
        fire(h, firing(tick))
        h.reopen(is_clean=False)
        assert len(h.find()) == 1
        assert fire(h, firing(tick)) == [NotDue("report")]

    def test_whoever_waits_for_jobs_is_woken(self, h: Harness) -> None:
        declare(h, definition(h))
        listener = h.store.listen(Topic.READY)
        tick = h.advance(HOUR)
        fire(h, firing(tick))
        if h.colour is Colour.SYNC:
            assert listener.wait(10.0)
        else:
            assert h.wait(listener.wait_async(10.0))
        listener.close()
