"""The chore that goes on with replays of many dead letters.

A step reads, decides, and asks the store for one change, which names the version that was read. So
it does not matter who leads, or whether two do: the change of one of them is refused. A leader that
dies before the change has done nothing, and after it everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec
from msgspec.structs import replace

from fencepost.core.bounds import (
    REPLAY_BATCH,
    REPLAY_INTERVAL,
    REPLAY_PAGES,
    REPLAY_ROUNDS,
)
from fencepost.core.encryption import readable
from fencepost.core.filter import PageRequest
from fencepost.core.job.job import DeadLetter, Encoding
from fencepost.core.job.replays import (
    BulkReplay,
    allowance,
    counted,
    moved_on,
    with_states,
)
from fencepost.core.values.names import id_bytes
from fencepost.core.values.payload import with_fields
from fencepost.maintenance.maintenance import Chore
from fencepost.observe import names
from fencepost.observe.log import log
from fencepost.store.interface.control import Replay
from fencepost.store.interface.store import Store

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])


class Replayer:
    """Goes on with the replays in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._looked: dict[str, int] = {}
        """How many jobs of each replay were read: the next pass continues from there."""
        self._failed: set[str] = set()
        """Replays that could not continue: the others come first, or they would wait as long."""

    async def step(self) -> int:
        """Go on with every replay; return how many dead letters were replayed."""
        store = self._store
        found = await store.run_async(store.replays.list())
        self._looked = {each.id: self._looked.get(each.id, 0) for each in found.replays}
        self._failed &= self._looked.keys()
        total = 0
        for each in sorted(found.replays, key=lambda each: each.id in self._failed):
            self._failed.add(each.id)
            total += await self._go_on(each, found.now)
            self._failed.remove(each.id)
        return total

    async def _go_on(self, replay: BulkReplay, now: datetime) -> int:
        """Make one pass of a replay, in a few batches; leave it if somebody else changes it."""
        total = 0
        for _ in range(REPLAY_ROUNDS):
            before = replay
            for part in (self._look, self._finish, self._replay):
                changed = await part(replay, now)
                if changed is None:
                    return total
                total += changed.replayed - replay.replayed
                self._note_end(replay, changed)
                replay = changed
            if replay.replayed - before.replayed < REPLAY_BATCH:
                break
        return total

    def _note_end(self, before: BulkReplay, after: BulkReplay) -> None:
        if before.state.is_under_way and not after.state.is_under_way:
            counts = {"replayed": after.replayed, "failed": after.failed}
            log(names.REPLAY_ENDED, id=after.id, state=after.state, **counts)

    async def _look(self, replay: BulkReplay, now: datetime) -> BulkReplay | None:
        """Count those of its jobs that have ended, and stop it if too many failed again."""
        if not replay.open:
            return replay
        start = self._looked.get(replay.id, 0) % len(replay.open)
        asked = replay.open[start : start + REPLAY_BATCH]
        jobs = await self._store.run_async(self._store.reader.get(asked))
        states = {
            id_: None if job is None else job.state for id_, job in zip(asked, jobs, strict=True)
        }
        seen = with_states(replay, states, now)
        ended = len(replay.open) - len(seen.open)
        self._looked[replay.id] = start + len(asked) - ended
        return replay if seen is replay else await self._advance(seen)

    async def _finish(self, replay: BulkReplay, now: datetime) -> BulkReplay | None:
        """Repeat the batch that another leader had begun; what it replayed stays as it is."""
        if not replay.pending:
            return replay
        if _is_sealed(replay):
            return None
        ids = dict(replay.pending)
        noted = replace(replay, version=replay.version + 1, pending=())
        requests, skipped = await self._requests(noted, list(ids))
        named = [replace(each, id=id_bytes(ids[each.job_id])) for each in requests]
        return await self._advance(counted(noted, (), skipped), named)

    async def _replay(self, replay: BulkReplay, now: datetime) -> BulkReplay | None:
        """Replay as many as its rate allows."""
        count = allowance(replay, now)
        if count and _is_sealed(replay):
            return None
        if not count:
            return replay
        letters, position, is_end = await self._next(replay, count)
        taken = replay.replayed + sum(replay.skipped.values()) + len(letters)
        is_end = is_end or (replay.sample is not None and taken >= replay.sample)
        moved = moved_on(replay, len(letters), now, position=position, is_end=is_end)
        if not letters and moved.position == replay.position and moved.state is replay.state:
            return replay
        requests, skipped = await self._requests(moved, [each.job_id for each in letters])
        return await self._advance(counted(moved, (), skipped), requests)

    async def _next(
        self, replay: BulkReplay, count: int
    ) -> tuple[list[DeadLetter], int | None, bool]:
        """Return the next *count* that it is to replay, the place after them, and if it is the end.

        A page of the list says only where the list goes on after all of it. So one that holds too
        many is read again, up to the last that is taken.
        """
        position = None if replay.position is None else int(replay.position)
        chosen: list[DeadLetter] = []
        for _ in range(REPLAY_PAGES):
            some, following, is_end = await self._page(replay, position, count - len(chosen))
            chosen += some
            if is_end:
                return chosen, position, True
            position = following
            if len(chosen) >= count:
                break
        return chosen, position, False

    async def _page(
        self, replay: BulkReplay, position: int | None, count: int
    ) -> tuple[list[DeadLetter], int | None, bool]:
        """Do the same with one page."""
        assert replay.started_at is not None
        choice, reader = replay.choice, self._store.reader
        size = REPLAY_BATCH if choice.is_narrow else count
        while True:
            asked = PageRequest(size, position)
            page = await self._store.run_async(
                reader.dead_letters(choice.type, asked, choice.among)
            )
            letters = [readable(letter) for letter in page.letters]
            fitting = [
                place
                for place, letter in enumerate(letters)
                if choice.meets(letter, replay.started_at)
            ]
            if len(fitting) <= count:
                break
            size = fitting[count - 1] + 1
        is_end = page.next is None or choice.is_past(letters[-1])
        return [letters[place] for place in fitting], page.next, is_end

    async def _requests(
        self, replay: BulkReplay, job_ids: Sequence[str]
    ) -> tuple[list[Replay], dict[str, int]]:
        """Return what to ask for; and how many are left out, because they cannot be patched."""
        if replay.patch is None or not job_ids:
            return [Replay(job_id) for job_id in job_ids], {}
        patch = _fields.decode(replay.patch.data)
        jobs = await self._store.run_async(self._store.reader.get(job_ids))
        requests: list[Replay] = []
        skipped: Counter[str] = Counter()
        for job_id, job in zip(job_ids, jobs, strict=True):
            body = None if job is None else with_fields(job.payload_body, patch)
            if job is None:
                requests.append(Replay(job_id))  # the store says if it was replayed before
            elif body is None:
                skipped["payload"] += 1
            elif len(body.data) > replay.max_payload:
                skipped["too_large"] += 1
            else:
                requests.append(Replay(job_id, payload=body))
        return requests, skipped

    async def _advance(
        self, replay: BulkReplay, requests: Sequence[Replay] = ()
    ) -> BulkReplay | None:
        """Ask the store for a change; None if somebody else has changed the replay."""
        reply = await self._store.run_async(self._store.replays.advance(replay, requests))
        return None if reply is None else reply.replay


def _is_sealed(replay: BulkReplay) -> bool:
    """Return whether the key of its patch is missing here; a leader that has it will continue."""
    return replay.patch is not None and replay.patch.encoding is not Encoding.JSON


def go_on_with_replays(store: Store) -> Chore:
    """Return the chore that goes on with replays."""
    replayer = Replayer(store)

    async def batch() -> tuple[int, bool]:
        return await replayer.step(), False

    return Chore("replay", REPLAY_INTERVAL, batch)
