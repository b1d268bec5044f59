"""What a store is asked about crons, and what it answers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.bounds import CATCH_UP_DEFAULT
from fencepost.core.job.job import NewJob
from fencepost.errors import InvalidCronError
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.interface.replies import EnqueueReply
from fencepost.store.plan import Effect, Operation, Wakes


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
    """Ticks to be fired by whoever comes first."""

    name: str
    expression: str
    tz: str
    """Of the schedule that was reckoned with; if it has changed meanwhile, nothing is fired."""
    expected: datetime
    """The ``next_tick`` that was reckoned with; if it has passed meanwhile, nothing is fired."""
    jobs: tuple[NewJob, ...] = ()
    """One for each tick, in order; none if they are passed over."""
    last_tick: datetime | None = None
    """The last of those that were fired; None leaves what is written down."""
    next_tick: datetime | None
    """The one to wait for from now on; None if there is none any more."""


class Fired(msgspec.Struct, frozen=True):
    """The jobs are stored, and the next tick is written down."""

    name: str
    jobs: list[EnqueueReply]


class NotDue(msgspec.Struct, frozen=True):
    """Nothing was done: somebody else has fired it, or it is paused, changed or forgotten."""

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
    """When an app last said that it knows the cron; None if it was never written down."""
    changed_at: datetime | None = None
    """When times, policy or template last became different."""

    @property
    def description(self) -> str:
        """When it ticks, in English; empty if that cannot be read."""
        from fencepost.core.cron.schedule import (
            parse_schedule,  # few ask, and calendars load slowly
        )

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


def matching(row: CronView, fire: CronFire) -> bool:
    """Tell whether a cron still stands as whoever wants to fire it has reckoned."""
    return (
        not row.is_paused
        and row.next_tick == fire.expected
        and (row.expression, row.tz) == (fire.expression, fire.tz)
    )


class CronsFacet(Facet, abstract=True):
    """What a store is asked about crons, and what it answers."""

    @operation(Effect.WRITE, has_content=True, name="declare_crons")
    def declare(self, crons: Sequence[CronDefinition]) -> Operation[None]:
        """Write crons down. One whose times are as they were keeps its ticks, also past ones.

        One whose times have changed goes on from the tick that is given; a pause is kept.
        """

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.IF_FIRED)
    def fire(self, fires: Sequence[CronFire]) -> Operation[list[FireReply]]:
        """Enqueue the jobs of each cron that stands as expected, and move it on, in one.

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
