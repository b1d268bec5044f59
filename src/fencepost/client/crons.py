"""What can be asked of the crons of a server."""

from __future__ import annotations

from datetime import datetime

from fencepost.actions.script import Script
from fencepost.client.exchange import (
    CRONS,
    FOREVER,
    Request,
    ServerActions,
    get,
    path,
    post,
    query_of,
)
from fencepost.core.display import shown
from fencepost.errors import CronNotFoundError
from fencepost.wire.crons import CronView
from fencepost.wire.jobs import Accepted


class RemoteCrons(ServerActions):
    """The crons of a server."""

    def all(self) -> Script[list[CronView]]:
        """Return every cron by name."""
        return self._session.read(get(CRONS), list[CronView], "crons")

    def pause(self, name: str) -> Script[None]:
        """Fire no more ticks of a cron, or raise CronNotFoundError."""
        yield from self._session.ask(post(CRONS, _named(name), "pause", repeat_for=FOREVER))

    def resume(self, name: str) -> Script[None]:
        """Go on with the first tick from now, or raise CronNotFoundError."""
        yield from self._session.ask(post(CRONS, _named(name), "resume", repeat_for=FOREVER))

    def run(self, name: str) -> Script[Accepted]:
        """Submit a job of a cron now, whatever its schedule says."""
        return self._session.read(post(CRONS, _named(name), "run"), Accepted)

    def next(self, name: str, count: int) -> Script[list[datetime]]:
        """Return the next *count* ticks from now."""
        request = get(CRONS, _named(name), "next", query=query_of(count=count))
        return self._session.read(request, list[datetime], "ticks")

    def forget(self, name: str) -> Script[None]:
        """Delete a cron from the store, or raise CronNotFoundError."""
        yield from self._session.ask(Request("DELETE", path(CRONS, _named(name))))


def _named(name: str) -> str:
    if not isinstance(name, str) or not name:
        raise CronNotFoundError(shown(name))
    return name
