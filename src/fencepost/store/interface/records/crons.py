"""Crons: declaring them, firing their ticks, pausing and listing them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import asdict

from fencepost.core.bounds import CATCH_UP_DEFAULT
from fencepost.core.job.job import NewJob
from fencepost.errors import InvalidCronError
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.plan import Effect, Operation, Wakes

if TYPE_CHECKING:
    from fencepost.core.cron import Cron, Due  # calendars load slowly, and few need them


class CronDefinition(msgspec.Struct, frozen=True, kw_only=True):
    """A cron as an app declares it."""

    name: str
    expression: str
    tz: str
    missed: str = "latest"
    catch_up: int = CATCH_UP_DEFAULT
    template: NewJob
    next_tick: datetime | None
    """The first tick after now; for a cron that is new, or whose times have changed."""


class CronFire(msgspec.Struct, frozen=True, kw_only=True):
    """Ticks to fire, if no other worker has fired them."""

    name: str
    expression: str
    tz: str
    """Of the schedule that the caller knows; if it has changed since, nothing is fired."""
    expected: datetime
    """The ``next_tick`` that the caller knows; if it has changed since, nothing is fired."""
    jobs: tuple[NewJob, ...] = ()
    """One for each tick, in order; none if ticks are skipped."""
    last_tick: datetime | None = None
    """The last tick that is fired; None leaves the stored one."""
    next_tick: datetime | None
    """The one to wait for from now on; None if there are no more."""


class Fired(msgspec.Struct, frozen=True):
    """The jobs and the next tick are stored."""

    name: str
    jobs: list[EnqueueReply]


class NotDue(msgspec.Struct, frozen=True):
    """Nothing was done: another worker has fired it, or it is paused, changed or deleted."""

    name: str


FireReply = Fired | NotDue


class CronView(msgspec.Struct, frozen=True, kw_only=True):
    """A cron as it stands in the store."""

    name: str
    expression: str
    tz: str
    missed: str
    catch_up: int
    template: NewJob | None
    """None if what is stored cannot be read."""
    is_paused: bool = False
    last_tick: datetime | None = None
    """The last one that was fired."""
    next_tick: datetime | None = None
    """The first one that was not fired yet; while the cron is paused, it may be long past."""
    declared_at: datetime | None = None
    """When an app last declared the cron; None if none has."""
    changed_at: datetime | None = None
    """When schedule, policy or template last changed."""

    @property
    def description(self) -> str:
        """When it ticks, in English; empty if that cannot be read."""
        from fencepost.core.cron import parse_schedule  # few ask, and calendars load slowly

        try:
            return parse_schedule(self.expression, self.tz).describe()
        except InvalidCronError:
            return ""


class CronList(msgspec.Struct, frozen=True):
    """Crons by name, and the store's time by which all about them is decided."""

    now: datetime
    crons: list[CronView]


_templates = msgspec.json.Decoder(NewJob)
_encoder = msgspec.json.Encoder(order="sorted")


def encode_template(job: NewJob) -> str:
    """Return a template as text; equal ones give equal text."""
    return _encoder.encode(job).decode()


def decode_template(text: str) -> NewJob | None:
    """Return the template that *text* holds; None if it cannot be read."""
    try:
        return _templates.decode(text)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None


class CronsFacet(Facet, abstract=True):
    """Crons: declaring them, firing their ticks, pausing and listing them."""

    @operation(Effect.WRITE, has_content=True, name="declare_crons")
    def declare(self, crons: Sequence[CronDefinition]) -> Operation[None]:
        """Store crons. One whose schedule has not changed keeps its next tick, also a past one.

        One whose schedule has changed goes on from the tick that is given; a pause is kept.
        """

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.IF_FIRED)
    def fire(self, fires: Sequence[CronFire]) -> Operation[list[FireReply]]:
        """Enqueue the jobs of each cron that is as expected, and store its next tick.

        Repeated after an unknown outcome, it answers NotDue if it was done.
        """

    @operation(Effect.WRITE, has_content=False, name="pause_cron")
    def pause(self, name: str) -> Operation[bool]:
        """Fire no more ticks of a cron; False if there is none of this name."""

    @operation(Effect.WRITE, has_content=False, name="resume_cron")
    def resume(self, name: str, next_tick: datetime | None) -> Operation[bool]:
        """Go on with a paused cron from *next_tick*; one that is not paused is left alone.

        False if there is none of this name.
        """

    @operation(Effect.WRITE, has_content=False, name="forget_cron")
    def forget(self, name: str) -> Operation[bool]:
        """Delete a cron, until an app declares it again; False if there is none."""

    @operation(Effect.READ, has_content=True, name="crons")
    def list(self) -> Operation[CronList]:
        """Return all crons, by name, and the time by the store's clock."""


def definition_of(cron: Cron, now: datetime) -> CronDefinition:
    """Return *cron* as it is declared at *now*."""
    return CronDefinition(
        name=cron.name,
        expression=cron.schedule.expression,
        tz=cron.schedule.tz,
        missed=cron.missed,
        catch_up=cron.catch_up,
        template=cron.template,
        next_tick=cron.schedule.next_after(now),
    )


def view_of(cron: Cron, now: datetime) -> CronView:
    """Return *cron* as a store would list it that does not know it yet."""
    return CronView(**asdict(definition_of(cron, now)))


def fire_of(cron: Cron, expected: datetime, due: Due) -> CronFire:
    """Return the request that fires what is *due*, if *expected* is still the next tick."""
    return CronFire(
        name=cron.name,
        expression=cron.schedule.expression,
        tz=cron.schedule.tz,
        expected=expected,
        jobs=tuple(cron.job(tick) for tick in due.ticks),
        last_tick=due.ticks[-1] if due.ticks else None,
        next_tick=due.next_tick,
    )


def has_same_times(cron: Cron, row: CronView) -> bool:
    """Return whether *cron* has the schedule that the store has."""
    return (cron.schedule.expression, cron.schedule.tz) == (row.expression, row.tz)
