"""A caller in a process of its own: ``SETTINGS URL NAME``, where the name says how it submits.

It notes what it is about to submit, then submits, then notes the answer. Whatever had no answer is
submitted again with the same keys, by this process or, if it is killed, by its successor.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Iterable
from random import Random

from msgspec.structs import replace

from fencepost import App, NewJob
from fencepost.errors import StoreError, UnknownOutcomeError
from lab.chaos import graphs
from lab.chaos.entries import Acknowledged, Asked, Doubted, Entry
from lab.chaos.ledger import Ledger, paths, read
from lab.chaos.process import begin, watch_for_stalls
from lab.chaos.settings import Settings
from lab.chaos.tasks import (
    EVENT,
    EVENT_TYPES,
    ORDERED,
    PLAIN_WEIGHTS,
    QUICK,
    RECEIVER,
    SPREAD_WEIGHTS,
    TYPES,
    WEIGHTS,
    declare,
    make_app,
)

BULK, CROWD, WOVEN, HERALD = "bulk", "crowd", "woven", "herald"
NAMES = (BULK, CROWD, ORDERED, WOVEN, HERALD)
SHARES = {BULK: 0.43, CROWD: 0.38, ORDERED: 0.05, WOVEN: 0.1, HERALD: 0.04}
CALLBACK_EVERY = 6
"""Of the quick jobs that are submitted in bulk, which have a webhook sent at their end."""
SIZES = {BULK: (1, 5, 20, 50, 100), CROWD: (1,), ORDERED: (1, 1, 3), WOVEN: graphs.SIZES}
CROWD_SIZE = 12
"""Submissions that the crowd makes at once."""
REPEAT_DELAY = 0.1
PATIENCE = 60.0
"""How long a caller that is to stop still repeats what had no answer."""

Batch = list[str]


def unanswered(entries: Iterable[Entry]) -> tuple[list[Batch], int]:
    """Return the batches that were asked for in vain, and the first number never used."""
    waiting: dict[tuple[str, ...], None] = {}
    number = 0
    for entry in entries:
        if isinstance(entry, Asked):
            waiting[tuple(entry.keys)] = None
            number = max(number, int(entry.keys[-1].rpartition("/")[2]) + 1)
        elif isinstance(entry, Acknowledged):
            waiting.pop(tuple(entry.keys), None)
    return [list(keys) for keys in waiting], number


class Caller:
    """Submits batches at a steady rate."""

    def __init__(self, settings: Settings, url: str, name: str) -> None:
        earlier = [
            entry for path in paths(settings.place, f"caller-{name}-") for entry in read(path)
        ]
        self._batches, self._number = unanswered(earlier)
        self._ledger = Ledger(settings.place, f"caller-{name}")
        watch_for_stalls(self._ledger, settings.ttl / 6)
        self._app = make_app(url, settings)
        self._tasks = declare(self._app, settings, self._ledger)
        self._name = name
        self._is_plain = settings.mutant is not None
        self._weights = PLAIN_WEIGHTS if self._is_plain else WEIGHTS
        if name == WOVEN and settings.is_spread:
            self._weights = SPREAD_WEIGHTS
        self._rng = Random(f"{settings.seed} {name} {self._number}")
        self._interval = 1 / (settings.rate * SHARES[name])
        """Seconds that one job has."""
        self._clock = self._ledger.clock
        self._due = self._clock.monotonic()
        self._stops_at: float | None = None
        signal.signal(signal.SIGTERM, lambda *_: self.stop())

    def stop(self) -> None:
        self._stops_at = self._clock.monotonic() + PATIENCE

    @property
    def app(self) -> App:
        return self._app

    def call_on(self) -> None:
        """Submit, one batch after another, until stopped."""
        while (batch := self._next()) is not None:
            jobs = self._prepare_all(batch)
            while not self._is_too_late():
                asked_at = self._ask(batch)
                try:
                    handles = self._app.submit_many(jobs)
                except StoreError as error:
                    self._doubt(batch, asked_at, error)
                    self._clock.sleep(REPEAT_DELAY)
                else:
                    self._acknowledge(batch, asked_at, [handle.id for handle in handles])
                    break
            self._clock.sleep(self._pause(len(batch)))

    def send_on(self) -> None:
        """Send events until stopped; one that had no answer may be there, and is not sent again."""
        while self._stops_at is None:
            self._number += 1
            keys = [f"{type}/{self._name}/{self._number}" for type in EVENT_TYPES]
            asked_at = self._ask(keys)
            try:
                sent = self._app.event(EVENT).send(number=self._number)
            except StoreError as error:
                self._doubt(keys, asked_at, error)
            else:
                ids = {job.type: job.id for job in sent.jobs}
                self._acknowledge(keys, asked_at, [ids[type] for type in EVENT_TYPES])
            self._clock.sleep(self._pause(len(keys)))

    async def call_on_async(self) -> None:
        """Submit one by one, many at once."""
        await asyncio.gather(*(self._member() for _ in range(CROWD_SIZE)))

    async def _member(self) -> None:
        while (batch := self._next()) is not None:
            for key in batch:
                await self._submit(key)
            await self._clock.sleep_async(self._pause(len(batch)))

    async def _submit(self, key: str) -> None:
        type, _, number = key.split("/")
        task = self._tasks[type].using(key=key).aio
        while not self._is_too_late():
            asked_at = self._ask([key])
            try:
                handle = await task.submit(int(number))
            except StoreError as error:
                self._doubt([key], asked_at, error)
                await self._clock.sleep_async(REPEAT_DELAY)
            else:
                self._acknowledge([key], asked_at, [handle.id])
                return

    def _next(self) -> Batch | None:
        """Return what to submit now; None when there is nothing more to do."""
        if self._batches:
            return self._batches.pop(0)
        if self._stops_at is not None:
            return None
        return [self._new_key() for _ in range(self._rng.choice(SIZES[self._name]))]

    def _new_key(self) -> str:
        (type,) = [ORDERED] if self._name == ORDERED else self._rng.choices(TYPES, self._weights)
        self._number += 1
        return f"{type}/{self._name}/{self._number}"

    def _prepare_all(self, batch: Batch) -> list[NewJob]:
        jobs = [self._prepare(key) for key in batch]
        return graphs.woven(batch, jobs) if self._name == WOVEN else jobs

    def _prepare(self, key: str) -> NewJob:
        type, _, number = key.split("/")
        job = self._tasks[type].using(key=key).prepare(int(number))
        is_chosen = type == QUICK and int(number) % CALLBACK_EVERY == 0 and not self._is_plain
        return replace(job, callback_url=RECEIVER) if self._name == BULK and is_chosen else job

    def _pause(self, count: int) -> float:
        """Return how long to wait for the rate's sake; what was missed is not made up for."""
        now = self._clock.monotonic()
        self._due = max(self._due, now - 1.0) + count * self._interval
        return 0.0 if self._stops_at else max(self._due - now, 0.0)

    def _is_too_late(self) -> bool:
        return self._stops_at is not None and self._clock.monotonic() > self._stops_at

    def _ask(self, keys: Batch) -> float:
        asked_at = self._ledger.now()
        self._ledger.note(Asked(asked_at, keys))
        return asked_at

    def _acknowledge(self, keys: Batch, asked_at: float, jobs: list[str]) -> None:
        now = self._ledger.now()
        self._ledger.note(Acknowledged(now, keys, jobs, now - asked_at))

    def _doubt(self, keys: Batch, asked_at: float, error: StoreError) -> None:
        now = self._ledger.now()
        is_unknown = isinstance(error, UnknownOutcomeError)
        self._ledger.note(Doubted(now, keys, now - asked_at, str(error)[:200], is_unknown))


def main() -> None:
    settings, url, name = begin()
    caller = Caller(settings, url, name)
    if name == CROWD:
        asyncio.run(caller.call_on_async())
    elif name == HERALD:
        caller.send_on()
    else:
        caller.call_on()


if __name__ == "__main__":
    main()
