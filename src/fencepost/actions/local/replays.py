"""Replays of many dead letters: start, watch and steer them. The leader goes on with them."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

from fencepost.actions.backend import Script
from fencepost.actions.local.steps import StoreActions
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import LETTERS_GROUPED_MAX, PAGE_MAX
from fencepost.core.encryption import readable
from fencepost.core.filter import PageRequest
from fencepost.core.job.replay_order import ReplayOptions, ReplayView, order_replay, view_of
from fencepost.core.job.replays import BulkReplay, Order, steered
from fencepost.core.values.names import id_bytes, id_text
from fencepost.errors import ReplayNotFoundError, StateConflictError
from fencepost.store.interface.control import Advanced, ReplayList
from fencepost.store.interface.reader import DeadLetterPage

TRIES = 20
"""How often a change is tried again because the leader made progress meanwhile."""


class LocalReplays(StoreActions):
    """The replays in an app's store."""

    def start(self, options: ReplayOptions) -> Script[ReplayView]:
        """Start a replay of the dead letters that meet the conditions."""
        id_ = id_text(self._session.clock.new_id())
        return (yield from self.launch((yield from self.order(id_, Principal.local(), options))))

    def order(self, id_: str, by: Principal, options: ReplayOptions) -> Script[BulkReplay]:
        """Return the replay to be started under this id, with the number of its dead letters."""
        name = id_text(id_bytes(id_))
        limit = self._session.max_payload
        asked = order_replay(name, by.name, options, queues=by.queues, max_payload=limit)
        total, is_known = yield from self._count(asked)
        return replace(asked, total=total, is_total_known=is_known)

    def launch(self, asked: BulkReplay) -> Script[ReplayView]:
        """Start a replay. Repeating this is harmless: an id is used once.

        Raise StateConflictError if another replay has it, which the caller may not be let see.
        """
        kept: BulkReplay = yield self._store.replays.start(asked)
        if kept.choice != asked.choice:
            raise StateConflictError(f"another replay has the id {asked.id}; give a new one")
        return view_of(kept)

    def _count(self, asked: BulkReplay) -> Script[tuple[int, bool]]:
        """Return how many meet the conditions, and whether those are all; the newest are seen."""
        most = LETTERS_GROUPED_MAX if asked.sample is None else asked.sample
        now, choice = self._session.clock.now(), asked.choice
        total = 0
        position: int | None = None
        for _ in range(LETTERS_GROUPED_MAX // PAGE_MAX):
            page: DeadLetterPage = yield self._store.reader.dead_letters(
                choice.type, PageRequest(PAGE_MAX, position), choice.among
            )
            total += sum(choice.meets(readable(letter), now) for letter in page.letters)
            position = page.next
            is_end = position is None or (page.letters and choice.is_past(page.letters[-1]))
            if is_end or total >= most:
                return min(total, most), bool(is_end) or asked.sample is not None
        return total, False

    def all(self, within: Iterable[str] | None = None) -> Script[list[ReplayView]]:
        """Return every replay that is kept (and stays within these queues), the newest first."""
        found: ReplayList = yield self._store.replays.list()
        return [view_of(each) for each in found.replays if _is_within(each, within)]

    def get(self, replay_id: str, within: Iterable[str] | None = None) -> Script[ReplayView]:
        """Return one, or raise ReplayNotFoundError."""
        found: ReplayList = yield self._store.replays.list()
        return view_of(_named(found, replay_id, within))

    def steer(
        self, replay_id: str, order: Order, within: Iterable[str] | None = None
    ) -> Script[ReplayView]:
        """Hold, resume or stop one, or raise ReplayNotFoundError or StateConflictError."""
        for _ in range(TRIES):
            found: ReplayList = yield self._store.replays.list()
            kept = _named(found, replay_id, within)
            changed = steered(kept, order, found.now)
            if changed is kept:
                return view_of(kept)
            reply: Advanced | None = yield self._store.replays.advance(changed)
            if reply is not None:
                return view_of(reply.replay)
        raise StateConflictError(f"replay {replay_id} is being changed by others; try again")


def _named(found: ReplayList, replay_id: str, within: Iterable[str] | None) -> BulkReplay:
    wanted = replay_id.lower() if isinstance(replay_id, str) else ""
    for each in found.replays:
        if each.id == wanted and _is_within(each, within):
            return each
    raise ReplayNotFoundError(str(replay_id))


def _is_within(replay: BulkReplay, queues: Iterable[str] | None) -> bool:
    """Return whether a replay is limited to these queues."""
    among = replay.choice.among
    return queues is None or (among is not None and set(among) <= set(queues))
