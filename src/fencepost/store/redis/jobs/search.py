"""Searching jobs, the newest or the oldest first.

A tag, a flow or a correlation id has an index; so have jobs that run or wait for their time, by the
sets that the store works with. An id is looked up. All else reads jobs in the order of their
numbers, which are dense, and stops as soon as the counters say that no more can come: what is rare
and old is what takes long. No index is kept for searches alone: each would cost every job a hundred
bytes of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.job.lifecycle import State
from fencepost.core.values.times import to_us
from fencepost.store.interface.control import Selected
from fencepost.store.interface.reader import JobPage
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, field, number_of
from fencepost.store.redis.jobs.read import whole
from fencepost.store.sql.codec import NUMBER

PORTION = 500
FEW = 20_000
"""How many numbers of an index of the store itself a search reads at once."""
WHOLE_ID = 32
RUNNING = {State.RUNNING}
TIMED = {State.DELAYED, State.RETRYING}


def find(env: Env, filter: JobFilter, page: PageRequest) -> Plan[JobPage]:
    """Return one page of the jobs that meet *filter*."""
    unit = Unit(env)
    seqs = yield from _search(unit, filter, page, page.limit + 1)
    shown = seqs[: page.limit]
    jobs = yield from unit.jobs(shown)
    found = yield from whole(unit, list(jobs.values()))
    following = shown[-1] if len(seqs) > page.limit else None
    return JobPage(found, following, list(jobs))


def select(env: Env, filter: JobFilter, page: PageRequest) -> Plan[Selected]:
    """Return one page of the ids of the jobs that meet *filter*."""
    unit = Unit(env)
    seqs = yield from _search(unit, filter, page, page.limit + 1)
    shown = seqs[: page.limit]
    jobs = yield from unit.jobs(shown)
    ids = [kept.id for kept in jobs.values()]
    return Selected(ids, shown[-1] if len(seqs) > page.limit else None)


def count(env: Env, filter: JobFilter, at_most: int | None = None) -> Plan[int]:
    """Count the jobs that meet *filter*."""
    unit = Unit(env)
    if not filter.is_countable:
        return len((yield from _search(unit, filter, PageRequest(), at_most)))
    return (yield from _counted(unit, filter))


def _counted(unit: Unit, filter: JobFilter) -> Plan[int]:
    """Return how many jobs have the states, the queue and the type of a filter."""
    (flat,) = yield from unit.read([b"HGETALL", unit.env.key("counts")])
    numbers = {str(NUMBER[state]) for state in filter.states}
    total = 0
    for name, text in zip(flat[::2], flat[1::2], strict=True):
        number, queue, type_ = name.decode().split("\n")
        if (
            (not numbers or number in numbers)
            and filter.queue in (None, queue)
            and filter.type in (None, type_)
        ):
            total += int(text)
    return total


def _search(unit: Unit, filter: JobFilter, page: PageRequest, limit: int | None) -> Plan[list[int]]:
    """Return the numbers of jobs, as many as *limit*."""
    found: list[int] = []
    few = yield from _few(unit, filter)
    if few is not None:
        numbers = sorted(_beyond(few, page), reverse=not page.is_oldest_first)
        for start in range(0, len(numbers), PORTION):
            if limit is not None and len(found) >= limit:
                break
            jobs = yield from Unit(unit.env).jobs(numbers[start : start + PORTION])
            found += [kept.seq for kept in jobs.values() if _meets(kept, filter)]
        return found if limit is None else found[:limit]
    key = yield from _shortest(unit, filter)
    last, low = yield from unit.read([b"GET", unit.env.key("seq")], [b"GET", unit.env.key("low")])
    pages = _Pages(unit, key, page, int(low or 0) + 1, int(last or 0))
    # From the first page on, the counters say how many there are.
    stop = _Stop(unit, filter) if page.after is None and key is None else None
    while limit is None or len(found) < limit:
        seqs = yield from pages.following()
        if not seqs:
            break
        # In a unit of its own: a search of millions must not remember them all.
        jobs = yield from Unit(unit.env).jobs(seqs)
        found += [kept.seq for kept in jobs.values() if _meets(kept, filter)]
        if stop is not None and (yield from stop.is_reached(jobs.values())):
            break
    return found if limit is None else found[:limit]


def _beyond(numbers: Iterable[int], page: PageRequest) -> Iterator[int]:
    """Yield the numbers that come after those of earlier pages."""
    after = page.after
    for seq in numbers:
        if after is None or (seq > after if page.is_oldest_first else seq < after):
            yield seq


class _Pages:
    """The numbers of jobs from one end on, all of them or those of an index."""

    def __init__(
        self, unit: Unit, key: bytes | None, page: PageRequest, low: int, high: int
    ) -> None:
        self._unit = unit
        self._key = key
        self._is_up = page.is_oldest_first
        after = page.after
        if after is not None and self._is_up:
            low = max(low, after + 1)
        elif after is not None:
            high = min(high, after - 1)
        self._low = low
        self._high = high

    def following(self) -> Plan[list[int]]:
        """Return the next portion; nothing at the end."""
        low, high = self._low, self._high
        if low > high:
            return []
        if self._key is not None:
            by, *ends = (b"ZRANGEBYSCORE", low, high)
            if not self._is_up:
                by, *ends = (b"ZREVRANGEBYSCORE", high, low)
            (numbers,) = yield from self._unit.read([by, self._key, *ends, b"LIMIT", 0, PORTION])
            seqs = list(map(number_of, numbers))
        elif self._is_up:
            seqs = list(range(low, min(low + PORTION - 1, high) + 1))
        else:
            seqs = list(range(high, max(high - PORTION + 1, low) - 1, -1))
        if seqs and self._is_up:
            self._low = seqs[-1] + 1
        elif seqs:
            self._high = seqs[-1] - 1
        return seqs


class _Stop:
    """Says when no more jobs with the states, the queue and the type of a filter can come."""

    def __init__(self, unit: Unit, filter: JobFilter) -> None:
        self._unit = unit
        self._filter = filter
        self._seen = 0
        self._counted: int | None = None

    def is_reached(self, jobs: Iterable[Kept]) -> Plan[bool]:
        self._seen += sum(_is_counted(kept, self._filter) for kept in jobs)
        if self._counted is None or self._seen >= self._counted:
            # Read again before it is believed: jobs may have come meanwhile.
            self._counted = yield from _counted(self._unit, self._filter)
        return self._seen >= self._counted


def _few(unit: Unit, filter: JobFilter) -> Plan[list[int] | None]:
    """Return the numbers of jobs among which all are that a filter can meet; None if unknown."""
    env = unit.env
    if filter.key is not None:
        return (yield from _keyed(unit, filter.key))
    if len(filter.id_prefix or "") == WHOLE_ID:
        found = yield from unit.numbers_of([bytes.fromhex(filter.id_prefix or "")])
        return list(found.values())
    for states, key in ((RUNNING, env.key("leases")), (TIMED, env.key("due"))):
        if filter.states and states.issuperset(filter.states):
            (size,) = yield from unit.read([b"ZCARD", key])
            if size > FEW:
                return None
            (numbers,) = yield from unit.read([b"ZRANGE", key, 0, -1])
            return list(map(number_of, numbers))
    return None


def _keyed(unit: Unit, key: str) -> Plan[list[int]]:
    """Return the numbers of the jobs of all types that took a key last."""
    (names,) = yield from unit.read([b"HKEYS", unit.env.key("counts")])
    types = {name.decode().split("\n")[2] for name in names}
    fields = [field(type_, key) for type_ in sorted(types)]
    held = yield from unit.fields(unit.env.key("keys"), fields)
    return [int(text.split()[0]) for text in held.values() if text]


def _shortest(unit: Unit, filter: JobFilter) -> Plan[bytes | None]:
    """Return the index that has the fewest jobs, if there is one for this filter."""
    indexes = list(_indexes(unit.env, filter))
    if len(indexes) < 2:
        return indexes[0] if indexes else None
    sizes = yield from unit.read(*([b"ZCARD", each] for each in indexes))
    return indexes[sizes.index(min(sizes))]


def _indexes(env: Env, filter: JobFilter) -> Iterator[bytes]:
    for name, value in filter.tags.items():
        yield env.key("tag", name, value)
    if filter.flow is not None:
        yield env.key("flow", filter.flow)
    if filter.correlation_id is not None:
        yield env.key("correlation", filter.correlation_id)


def _is_counted(kept: Kept, filter: JobFilter) -> bool:
    return (
        (not filter.states or kept.state in filter.states)
        and filter.type in (None, kept.type)
        and filter.queue in (None, kept.queue)
    )


def _meets(kept: Kept, filter: JobFilter) -> bool:
    document = kept.document
    after, before = filter.created_after, filter.created_before
    return (
        _is_counted(kept, filter)
        and filter.flow in (None, document.flow)
        and filter.correlation_id in (None, document.correlation_id)
        and filter.tags.items() <= (document.tags or {}).items()
        and filter.key in (None, document.key)
        and document.id.hex().startswith(filter.id_prefix or "")
        and (after is None or document.created_at >= to_us(after))
        and (before is None or document.created_at < to_us(before))
    )
