"""Events: what is on record of them, beside the jobs that they came to."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec.structs import replace

from fencepost.core.events import EventJob, NewEvent, SentEvent
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import NewJob
from fencepost.errors import DuplicateJobError
from fencepost.store.interface.queue import Duplicate
from fencepost.store.interface.records.events import EventPage, EventReply
from lab.model.control import Steering
from lab.model.rules import has_come, seconds
from lab.model.world import Sent


class Eventing(Steering):
    """Send, look, prune, load."""

    def send(self, event: NewEvent, jobs: Sequence[NewJob]) -> EventReply:
        before = self.world.copy()
        event_id = self.new_id()
        marked = [
            replace(job, tags={**job.tags, "fencepost.event": event.name}, correlation_id=event_id)
            for job in jobs
        ]
        self._check_times(marked)
        try:
            replies = self.entered([self._enqueue(new, (), atomic=True) for new in marked])
        except DuplicateJobError:
            self.world = before
            raise
        record = SentEvent(
            id=event_id,
            name=event.name,
            sent_at=self.now,
            payload=event.payload,
            key=event.key,
            jobs=tuple(
                EventJob(reply.job_id, reply.type, isinstance(reply, Duplicate))
                for reply in replies
            ),
        )
        self._keep(record)
        return EventReply(record, replies)

    def _keep(self, event: SentEvent) -> None:
        self.world.sent += 1
        self.world.events[event.id] = Sent(self.world.sent, event)

    def events(self, name: str | None, page: PageRequest) -> EventPage:
        found = [
            sent
            for sent in reversed(self.world.events.values())
            if name in (None, sent.event.name) and (page.after is None or sent.number < page.after)
        ]
        shown, rest = found[: page.limit], found[page.limit :]
        return EventPage([sent.event for sent in shown], shown[-1].number if rest else None)

    def prune_events(self, keep: float, limit: int) -> int:
        old = [
            sent
            for sent in self.world.events.values()
            if has_come(sent.event.sent_at + seconds(keep), self.now)
        ]
        oldest = sorted(old, key=lambda sent: (sent.event.sent_at, sent.number))[:limit]
        for sent in oldest:
            del self.world.events[sent.event.id]
        return len(oldest)

    def load_events(self, events: Sequence[SentEvent]) -> int:
        new = {event.id: event for event in events if event.id not in self.world.events}
        for event in new.values():
            self._keep(event)
        return len(new)
