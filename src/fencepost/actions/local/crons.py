"""Crons of an app's store: jobs that are submitted on a schedule.

The code for calendars is imported on first use: most apps declare no cron.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from itertools import islice
from typing import TYPE_CHECKING, Any

import msgspec

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import StoreActions, stored
from fencepost.actions.replies import StoredJob
from fencepost.core.bounds import CATCH_UP_DEFAULT, CRON_NEXT_MAX, CRON_RUNS_MAX, CRONS_MAX
from fencepost.core.display import shown
from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.job import NewJob
from fencepost.core.runs import CRON_TAG, CronRun, marked, run_of
from fencepost.core.values.names import check_count
from fencepost.errors import ConfigurationError, CronNotFoundError
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.interface.reader import JobPage
from fencepost.store.interface.records.crons import CronList, CronView, definition_of, view_of

if TYPE_CHECKING:
    from fencepost.actions.session import Session
    from fencepost.core.cron import Cron, Schedule


class LocalCrons(StoreActions):
    """The crons of an app's store."""

    def all(self) -> Script[list[CronView]]:
        """Return the crons of the store, and those of this app that no worker has declared yet."""
        seen: CronList = yield self._store.crons.list()
        views = {name: view_of(cron, seen.now) for name, cron in self._session.crons.items()}
        views |= {row.name: row for row in seen.crons}
        return [view for _, view in sorted(views.items())]

    def pause(self, name: str) -> Script[None]:
        """Fire no more ticks of a cron, or raise CronNotFoundError."""
        from fencepost.core.cron import check_cron_name

        if (yield self._store.crons.pause(check_cron_name(name))):
            return
        own = self._session.crons.get(name)
        if own is None:
            raise CronNotFoundError(name)
        seen: CronList = yield self._store.crons.list()
        yield self._store.crons.declare([definition_of(own, seen.now)])
        yield self._store.crons.pause(name)

    def resume(self, name: str) -> Script[None]:
        """Continue with the first tick from now, or raise CronNotFoundError."""
        view, now = yield from self._find(name)
        tick = schedule_of(view).next_after(now)
        is_found = yield self._store.crons.resume(name, tick)
        if not is_found and name not in self._session.crons:
            raise CronNotFoundError(name)

    def run(self, name: str) -> Script[StoredJob]:
        """Submit a job of a cron now, outside its schedule."""
        view, _ = yield from self._find(name)
        own = self._session.crons.get(name)
        template = view.template if own is None else own.template
        if template is None:
            raise ConfigurationError(
                f"the stored job of cron {name!r} cannot be read; start a worker to redeclare it"
            )
        job = marked(msgspec.structs.replace(template, delay=0.0), name)
        replies: list[EnqueueReply] = yield self._session.in_time(self._store.queue.enqueue([job]))
        return stored(replies[0])

    def next(self, name: str, count: int) -> Script[list[datetime]]:
        """Return the next *count* ticks from now."""
        is_count = isinstance(count, int) and not isinstance(count, bool)
        if not is_count or not 1 <= count <= CRON_NEXT_MAX:
            raise ConfigurationError(f"count must lie between 1 and {CRON_NEXT_MAX}, got {count!r}")
        view, now = yield from self._find(name)
        return list(islice(schedule_of(view).after(now), count))

    def runs(self, name: str, limit: int) -> Script[list[CronRun]]:
        """Return the newest jobs of a cron that are kept, of ticks and of ``run``."""
        count = check_count(limit, "limit", 1, CRON_RUNS_MAX)
        yield from self._find(name)
        page: JobPage = yield self._store.reader.find(
            JobFilter(tags={CRON_TAG: name}), PageRequest(count)
        )
        return [run_of(job, name) for job in page.jobs]

    def forget(self, name: str) -> Script[None]:
        """Delete a cron from the store, or raise CronNotFoundError."""
        from fencepost.core.cron import check_cron_name

        if not (yield self._store.crons.forget(check_cron_name(name))):
            raise CronNotFoundError(name)

    def _find(self, name: str) -> Script[tuple[CronView, datetime]]:
        """Return the cron from the store, or else from this app; and the store's time."""
        from fencepost.core.cron import check_cron_name

        check_cron_name(name)
        seen: CronList = yield self._store.crons.list()
        for row in seen.crons:
            if row.name == name:
                return row, seen.now
        if name in self._session.crons:
            return view_of(self._session.crons[name], seen.now), seen.now
        raise CronNotFoundError(name)


def declare(
    session: Session,
    name: str,
    expression: str,
    tz: Any,
    template: NewJob,
    *,
    missed: str,
    catch_up: int | None,
) -> None:
    """Add a cron to the app, or raise ConfigurationError; the arguments are unchecked."""
    from fencepost.core.cron import (
        Cron,
        Missed,
        check_catch_up,
        check_cron_name,
        parse_missed,
        parse_schedule,
    )

    policy = parse_missed(missed)
    if catch_up is not None and policy is not Missed.CATCH_UP:
        raise ConfigurationError('catch_up= limits the ticks to make up for; add missed="catch_up"')
    if template.run_at is not None:
        raise ConfigurationError("a cron has its own schedule; leave run_at out of using()")
    cron = Cron(
        name=check_cron_name(name),
        schedule=parse_schedule(expression, tz),
        # The store sets the key of each job, from its tick.
        template=msgspec.structs.replace(template, key=None),
        missed=policy,
        catch_up=check_catch_up(CATCH_UP_DEFAULT if catch_up is None else catch_up),
    )
    _add(session, cron)


def keywords(arguments: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a cron's jobs, or raise ConfigurationError."""
    if arguments is None:
        return {}
    if not isinstance(arguments, Mapping):
        raise ConfigurationError(f"arguments must map names to values, got {shown(arguments)}")
    return dict(arguments)


def _add(session: Session, cron: Cron) -> None:
    known = session.crons.get(cron.name)
    if known is None and len(session.crons) >= CRONS_MAX:
        raise ConfigurationError(f"cron limit of an app reached ({CRONS_MAX})")
    # Equal ones come from a module that was loaded twice.
    if known is not None and known != cron:
        raise ConfigurationError(
            f"two crons are called {cron.name!r}: {known.schedule.expression!r} and "
            f"{cron.schedule.expression!r}; give one of them a name: @app.cron(…, name=…)"
        )
    session.crons[cron.name] = cron


def schedule_of(view: CronView) -> Schedule:
    """Return the schedule, or raise InvalidCronError if this machine lacks its time zone."""
    from fencepost.core.cron import parse_schedule

    return parse_schedule(view.expression, view.tz)
