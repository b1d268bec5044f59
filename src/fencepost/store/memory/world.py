"""All that a memory store holds: what its operations are functions of."""

from __future__ import annotations

from collections.abc import Callable

from fencepost.clock import Clock
from fencepost.store.chores import Chores
from fencepost.store.interface.listener import Topic
from fencepost.store.interface.replies import Moved
from fencepost.store.memory.engine.journal import Journal
from fencepost.store.memory.jobs.table import JobTable
from fencepost.store.memory.limits.rates import Rates
from fencepost.store.memory.limits.settings import LaneSettings
from fencepost.store.memory.records.access import ActionTable, TokenTable
from fencepost.store.memory.records.cluster import Presence
from fencepost.store.memory.records.crons import CronTable
from fencepost.store.memory.records.events import EventTable


class MemoryWorld:
    """The state of one memory store; one operation at a time changes it, under the store's lock."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.journal = Journal()
        self.chores = Chores(clock)
        self.jobs = JobTable(self.journal, clock)
        self.events = EventTable(self.journal)
        self.settings = LaneSettings()
        self.rates = Rates(self.journal)
        self.crons = CronTable(self.journal)
        self.tokens = TokenTable(self.journal)
        self.actions = ActionTable(self.journal)
        self.presence = Presence()

    @property
    def now(self) -> int:
        """The time in microseconds, by which all is decided."""
        return self.clock.now_us()

    def announce_room(self) -> None:
        """Under a limit, the end of one job may make another claimable."""
        if self.settings.has_limits():
            self.journal.announce(Topic.READY)

    def do(self, name: str, chore: Callable[[], list[Moved]]) -> list[Moved]:
        """Do a chore of a claim's; should it fail, take it back and take note of it."""
        if not self.chores.may(name):
            return []
        mark = self.journal.mark()
        try:
            moved = chore()
        except Exception as error:  # noqa: BLE001 - whatever is wrong with it, the claim is not
            self.journal.undo_to(mark)
            self.jobs.slots.postpone()
            self.chores.failed(name, repr(error))
            return []
        self.chores.done(name)
        return moved
