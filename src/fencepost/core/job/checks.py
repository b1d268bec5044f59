"""What has to hold before a waiting job runs, and whether it does: a list for people to read.

``why.py`` says in words what holds a job up. This is the whole list, with what is in order too, so
that an operator sees what was looked at. It promises nothing: a claim decides by itself.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from fencepost.core.job.lifecycle import State
from fencepost.core.job.why import Situation
from fencepost.core.limits.concurrency import limit_of

_HAS_DETAILS_OF_OTHERS = frozenset(["app_limit", "key", "workers"])
"""Checks whose note counts jobs or workers of all queues."""


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that has to hold."""

    code: str
    is_met: bool
    text: str
    """What was found, such as ``queue 'mail' is not paused``."""
    note: str = ""
    """The figures behind it, such as ``3 of 24``."""

    @property
    def without_others(self) -> Check:
        """The same, for a token that may not know about other queues."""
        is_told = self.code not in _HAS_DETAILS_OF_OTHERS
        return self if is_told else msgspec.structs.replace(self, note="")


def checks(situation: Situation) -> list[Check]:
    """Return what was looked at for a waiting job, unmet first; none for one that runs or ended."""
    state = situation.job.state
    if state.is_terminal or state is State.RUNNING:
        return []
    return sorted(_checks(situation), key=lambda check: check.is_met)


def _checks(situation: Situation) -> Iterator[Check]:
    job, now = situation.job, situation.now
    waits = job.state is State.PENDING and not job.is_held
    yield Check(
        code="dependencies",
        is_met=not waits,
        text="it waits for other jobs" if waits else "it waits for no other job",
    )
    is_due = job.run_at <= now
    yield Check(code="due", is_met=is_due, text="its time has come" if is_due else "not due yet")
    yield _paused("type", job.type, situation.is_type_paused)
    yield _paused("queue", job.queue, situation.is_queue_paused)
    yield from _limits(situation)
    serving = sum(each.serves(job.type, job.queue) for each in situation.workers)
    yield Check(
        code="workers",
        is_met=serving > 0,
        text="a live worker serves it" if serving else "no live worker serves it",
        note=f"{serving} of {len(situation.workers)} workers",
    )


def _paused(kind: str, name: str, is_paused: bool) -> Check:
    text = f"{kind} {name!r} is {'paused' if is_paused else 'not paused'}"
    return Check(code=f"{kind}_paused", is_met=not is_paused, text=text)


def _limits(situation: Situation) -> Iterator[Check]:
    """Yield the limits that are set; one that is not set is not worth a line."""
    job = situation.job
    if situation.queue_limit is not None:
        running, limit = situation.queue_running, situation.queue_limit
        yield _room("queue_limit", f"the limit of queue {job.queue!r}", running, limit)
    if situation.app_limit is not None:
        running, limit = situation.app_running, situation.app_limit
        yield _room("app_limit", "the limit of all queues together", running, limit)
    if job.concurrency_key is not None and (job.is_held or job.state is State.SCHEDULED):
        limit = limit_of(job.policy)
        text = f"key {job.concurrency_key!r} has {'no slot' if job.is_held else 'a slot'} for it"
        note = f"{situation.key_active} of {limit}"
        yield Check(code="key", is_met=not job.is_held, text=text, note=note)
    if situation.limits.rate is not None:
        is_open = situation.usage.rate_opens_at is None
        text = f"the rate of type {job.type!r} {'has room' if is_open else 'is used up'}"
        yield Check(code="rate", is_met=is_open, text=text, note=situation.limits.rate.shown)


def _room(code: str, what: str, running: int, limit: int) -> Check:
    has_room = running < limit
    text = f"{what} {'has room' if has_room else 'is reached'}"
    return Check(code=code, is_met=has_room, text=text, note=f"{running} of {limit}")
