"""Jobs that events and crons create: accepted in the home, in one commit with their cause.

The home keeps the records of events and the ticks of crons. The jobs are stored there with them, as
an intent, and moved to their partitions at once, or by the next process that delivers.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.events import NewEvent, SentEvent, jobs_for
from fencepost.core.job.job import NewJob
from fencepost.core.values.names import id_text
from fencepost.core.values.times import from_us
from fencepost.store.interface.queue import Duplicate, EnqueueReply
from fencepost.store.interface.records.crons import CronFire, Fired, FireReply
from fencepost.store.interface.records.events import EventReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.jobs.enqueue import store_plain
from fencepost.store.redis.partitions.hub import HOME, WRITE, Hub
from fencepost.store.redis.partitions.keys import prepare
from fencepost.store.redis.partitions.numbers import partition_of
from fencepost.store.redis.partitions.outbox.delivery import read_times
from fencepost.store.redis.partitions.outbox.entries import Part, intent_job
from fencepost.store.redis.partitions.submit import SplitSubmission
from fencepost.store.redis.records.events import append
from fencepost.store.sql.records.events import record_of


class _Arrival:
    """Jobs that are going to be stored by way of the home."""

    def __init__(self, hub: Hub, jobs: Sequence[NewJob]) -> None:
        self._hub = hub
        self._jobs = jobs
        self._numbers = [partition_of(job.queue) for job in jobs]
        self._submission = SplitSubmission(hub, jobs, self._numbers, is_atomic=True)
        self._parts: list[Part] = []
        self._times: dict[int, int] = {}

    def prepare(self) -> Plan[NewJob]:
        """Return the intent."""
        yield from prepare(self._hub, self._jobs, self._numbers)
        self._times = yield from read_times(self._hub, set(self._numbers))
        parts = yield from self._submission.parts(self._times)
        self._parts = [replace(part, is_atomic=False) for part in parts]
        return intent_job(self._parts)

    def expected(self) -> list[EnqueueReply]:
        """Return the replies as they are going to be, unless a key is taken meanwhile."""
        return self._submission.replies({})

    def finish(self, intent_id: str) -> Plan[list[EnqueueReply]]:
        """Store the parts of the intent that is in the home."""
        finished = self._submission.finish(HOME, intent_id, self._parts, self._times)
        return (yield from finished)


def fire(hub: Hub, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
    """Move crons on, with the jobs of their ticks."""
    arrivals: list[_Arrival | None] = []
    asked: list[CronFire] = []
    for each in fires:
        arrival = _Arrival(hub, each.jobs) if each.jobs else None
        arrivals.append(arrival)
        if arrival is None:
            asked.append(each)
        else:
            intent = yield from arrival.prepare()
            asked.append(replace(each, jobs=(intent,)))
    replies: list[FireReply] = yield from hub.on(HOME, hub.home.crons.fire(asked))
    for place, (arrival, reply) in enumerate(zip(arrivals, replies, strict=True)):
        if arrival is not None and isinstance(reply, Fired):
            (intended,) = reply.jobs
            jobs = yield from arrival.finish(intended.job_id)
            replies[place] = Fired(reply.name, jobs)
    return replies


def send(hub: Hub, event: NewEvent, jobs: Sequence[NewJob]) -> Plan[EventReply]:
    """Record an event, with the jobs of its handlers."""
    event_id = id_text(event.id or hub.clock.new_id())
    own = jobs_for(event_id, event, jobs)
    numbers = [partition_of(job.queue) for job in own]
    keyed = [place for place, job in enumerate(own) if job.key is not None]
    if keyed:
        yield from prepare(hub, [own[p] for p in keyed], [numbers[p] for p in keyed])
    submission = SplitSubmission(hub, own, numbers, is_atomic=True)
    held = yield from submission.held()
    fresh = [
        replace(job, id=id_)
        for place, (job, id_) in enumerate(zip(own, submission.ids, strict=True))
        if place not in held
    ]
    arrival = _Arrival(hub, fresh)
    intent = (yield from arrival.prepare()) if fresh else None
    replies = _in_order(len(own), held, arrival.expected())
    record, intent_id = yield from hub.ask(HOME, WRITE, _record, event_id, event, replies, intent)
    if intent_id is not None:
        replies = _in_order(len(own), held, (yield from arrival.finish(intent_id)))
    return EventReply(record, replies)


def _in_order(
    count: int, held: dict[int, Duplicate], fresh: Sequence[EnqueueReply]
) -> list[EnqueueReply]:
    following = iter(fresh)
    states = {reply.job_id: reply.state for reply in fresh}
    found = [held.get(place) or next(following) for place in range(count)]
    return [replace(each, state=states.get(each.job_id, each.state)) for each in found]


def _record(
    env: Env,
    event_id: str,
    event: NewEvent,
    replies: Sequence[EnqueueReply],
    intent: NewJob | None,
) -> Plan[tuple[SentEvent, str | None]]:
    unit = Unit(env)
    now = yield from unit.start()
    stored = (yield from store_plain(unit, [intent])) if intent is not None else []
    record = record_of(event_id, event, replies, sent_at=from_us(now))
    yield from append(unit, [record])
    yield from unit.commit()
    return record, stored[0].id if stored else None
