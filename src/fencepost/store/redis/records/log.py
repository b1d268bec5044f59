"""A log: numbered records, found by number and by time. Events and the audit log are two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from fencepost.core.filter import PageRequest
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, number_of, number_text, read


class RecordLog(NamedTuple):
    """The log of this name."""

    name: str

    def append(self, unit: Unit, records: Sequence[tuple[bytes, int]]) -> Plan[list[int]]:
        """Add records with their times; return their numbers."""
        if not records:
            return []
        env, count = unit.env, len(records)
        (last,) = yield from unit.read([b"INCRBY", env.key(self.name, "seq"), str(count)])
        numbers = list(range(last - count + 1, last + 1))
        for number, (text, at) in zip(numbers, records, strict=True):
            unit.do(b"HSET", env.key(self.name), number_text(number), text)
            unit.do(b"ZADD", env.key(self.name, "numbers"), number, number_text(number))
            unit.do(b"ZADD", env.key(self.name, "times"), at, number_text(number))
        return numbers

    def page(
        self, env: Env, page: PageRequest, index: bytes | None = None
    ) -> Plan[tuple[list[bytes], int | None]]:
        """Return records, newest first, of an index if one is given, and the position after."""
        key = env.key(self.name, "numbers") if index is None else index
        top = b"+inf" if page.after is None else f"({page.after}".encode()
        part = [b"ZREVRANGEBYSCORE", key, top, b"-inf", b"LIMIT", 0, page.limit + 1]
        _, numbers = yield from read(env, part)
        shown = numbers[: page.limit]
        if not shown:
            return [], None
        _, texts = yield from read(env, [b"HMGET", env.key(self.name), *shown])
        more = len(numbers) > len(shown)
        return [text for text in texts if text], number_of(shown[-1]) if more else None

    def older(self, unit: Unit, until: int, limit: int) -> Plan[dict[int, bytes]]:
        """Delete up to *limit* records of that time or earlier, the oldest first; return them."""
        env, times = unit.env, unit.env.key(self.name, "times")
        part = [b"ZRANGEBYSCORE", times, b"-inf", until, b"LIMIT", 0, max(limit, 0)]
        (numbers,) = yield from unit.read(part)
        if not numbers:
            return {}
        found = yield from unit.fields(env.key(self.name), numbers)
        for number in numbers:
            unit.set_field(env.key(self.name), number, None)
            unit.do(b"ZREM", env.key(self.name, "numbers"), number)
            unit.do(b"ZREM", times, number)
        return {number_of(number): text for number, text in found.items() if text is not None}
