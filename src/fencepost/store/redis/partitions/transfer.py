"""Whole jobs out of all partitions, and into them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from msgspec.structs import replace

from fencepost.core.bounds import DUMP_BYTES
from fencepost.core.job.job import JobRecord
from fencepost.core.values.names import id_bytes, wanted_ids
from fencepost.core.values.times import to_us
from fencepost.store.interface.records.transfer import Dump, LoadReply
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.partitions.hub import LOOK, WRITE, Hub
from fencepost.store.redis.partitions.keys import bind_types
from fencepost.store.redis.partitions.numbers import (
    HIDDEN,
    gathering,
    is_gathering,
    is_stamped,
    partition_of,
)
from fencepost.store.redis.partitions.outbox.delivery import (
    deliver_all,
    read_times,
    subscribe,
)
from fencepost.store.redis.partitions.outbox.entries import (
    COMMIT_WITHIN_US,
)
from fencepost.store.redis.partitions.outbox.mirrors import place_alone, standing
from fencepost.store.redis.partitions.outbox.news import Wanted
from fencepost.store.redis.partitions.records import everywhere
from fencepost.store.redis.partitions.views.pages import (
    Head,
    Merge,
    pack_positions,
    unpack_positions,
)
from fencepost.store.redis.partitions.views.reader import plain_names
from fencepost.store.redis.records import transfer


def accept_jobs(hub: Hub, is_accepted: bool) -> Plan[None]:
    """Refuse new jobs in every partition, or accept them again; what was accepted is delivered."""
    yield from everywhere(hub, lambda store: store.transfer.accept_jobs(is_accepted))
    yield from deliver_all(hub)


def dump(hub: Hub, after: int, limit: int) -> Plan[Dump]:
    """Return whole jobs of all partitions in the order of their creation, each after those that it
    waits for."""
    seen = unpack_positions(after) if after else {}
    positions = {number: seen.get(number, 0) for number in sorted((yield from hub.refresh()))}

    def fetch(number: int, start: int | None, size: int) -> Plan[tuple[list[Head], int | None]]:
        found, last = yield from hub.ask(number, LOOK, _dump, start or 0, size)
        heads = [
            Head(-to_us(record.job.created_at), seq, (number, record))
            for seq, record in found
            if record.job.queue not in HIDDEN
        ]
        return heads, last

    merge = Merge(fetch, limit)
    yield from merge.start(positions)
    records: list[JobRecord] = []
    size = 0
    while len(records) < limit:
        head = yield from merge.take(lambda item: item[1].dependencies, lambda item: item[1].job.id)
        if head is None:
            break
        number, record = head.item
        named = yield from plain_names(hub, record.dependencies)
        record = replace(record, dependencies=tuple(named[each] for each in record.dependencies))
        size += _size(record)
        if records and size > DUMP_BYTES:
            break
        positions[number] = head.position
        records.append(record)
    return Dump(records, pack_positions(positions) if records else after)


def _size(record: JobRecord) -> int:
    job = record.job
    bodies = (job.payload_body, job.result_body, job.checkpoint_body)
    return sum(len(body.data) for body in bodies if body is not None)


def _dump(env: Env, after: int, limit: int) -> Plan[tuple[list[tuple[int, JobRecord]], int | None]]:
    """Return whole jobs of a partition with their numbers, and from where to go on."""
    page = yield from transfer.dump(env, after, limit)
    jobs = yield from Unit(env).by_id(wanted_ids([record.job.id for record in page.records]))
    found = [(jobs[each.job.id].seq, each) for each in page.records if each.job.id in jobs]
    return found, page.last if page.records else None


def load(hub: Hub, records: Sequence[JobRecord]) -> Plan[list[LoadReply]]:
    """Store jobs of another store: runs of one partition as one operation, in their order."""
    replies: list[LoadReply] = []
    for number, run in groupby(records, key=lambda record: partition_of(record.job.queue)):
        part = list(run)
        yield from hub.found([number])
        yield from bind_types(
            hub, [(record.job.type, number) for record in part if _is_bound(record)]
        )
        yield from hub.note_strays(
            {
                record.job.id: number
                for record in part
                if not is_stamped(id_bytes(record.job.id), number)
            }
        )
        part = yield from _mirror(hub, number, part)
        replies += yield from hub.on(number, hub.at(number).transfer.load(part))
    return replies


def _is_bound(record: JobRecord) -> bool:
    """Tell whether a loaded job holds what is judged within one partition."""
    job = record.job
    return record.holds_key or (job.concurrency_key is not None and not job.state.is_terminal)


def _mirror(hub: Hub, number: int, records: Sequence[JobRecord]) -> Plan[list[JobRecord]]:
    """Have mirrors of those jobs of other partitions that loaded ones wait for; return these."""
    named = sorted({each for record in records for each in record.dependencies})
    if not named:
        return list(records)
    times = yield from read_times(hub, [number])
    places = dict(zip(named, (yield from hub.whereabouts(named)), strict=True))
    loaded = [_waiting(record, number, places) for record in records]
    wanted = {
        (plain, own)
        for record, new in zip(records, loaded, strict=True)
        for plain, own in zip(record.dependencies, new.dependencies, strict=True)
        if places[plain] != number
    }
    for other in sorted({places[plain] for plain, _ in wanted}):
        pairs = sorted(pair for pair in wanted if places[pair[0]] == other)
        asked = yield from hub.ask(other, WRITE, standing, [plain for plain, _ in pairs])
        found = [(own, each) for (_, own), each in zip(pairs, asked, strict=True) if each]
        live = [Wanted(each.id, own, number) for own, each in found if not each.state.is_terminal]
        known = yield from subscribe(hub, [(other, each) for each in live])
        mirrors = [replace(known.get((own, number)) or each, id=own) for own, each in found]
        deadline = times[number] + COMMIT_WITHIN_US
        yield from hub.ask(number, WRITE, place_alone, mirrors, deadline)
    return loaded


def _waiting(record: JobRecord, number: int, places: Mapping[str, int]) -> JobRecord:
    """Return a job that waits for the mirrors of those of other partitions."""
    waits = record.job.waits
    if waits is None or not waits.gathers:
        return record
    names = tuple(
        each if places[each] == number or is_gathering(each) else gathering(each)
        for each in record.dependencies
    )
    return replace(record, dependencies=names)
