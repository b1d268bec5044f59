"""Crons: declared by apps, fired by the first process that comes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import msgspec

from fencepost.core.values.times import from_us, from_us_or_none, to_us
from fencepost.store.interface.records.crons import (
    CronDefinition,
    CronFire,
    CronList,
    CronView,
    Fired,
    FireReply,
    NotDue,
    decode_template,
    encode_template,
)
from fencepost.store.plan import Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env, read
from fencepost.store.redis.jobs.enqueue import accept

TIMES = ("last_tick", "next_tick", "declared_at", "changed_at")


class CronRecord(msgspec.Struct):
    """A cron as it is kept."""

    name: str
    expression: str
    tz: str
    missed: str
    catch_up: int
    template: str
    next_tick: int | None
    declared_at: int
    changed_at: int
    is_paused: bool = False
    last_tick: int | None = None

    @property
    def times(self) -> tuple[str, str]:
        return self.expression, self.tz

    @property
    def terms(self) -> tuple[object, ...]:
        return (*self.times, self.missed, self.catch_up, self.template)


_records = msgspec.json.Decoder(CronRecord)


def _us(instant: datetime | None) -> int | None:
    return None if instant is None else to_us(instant)


def _get(unit: Unit, name: str) -> Plan[CronRecord | None]:
    text = yield from unit.field(unit.env.key("crons"), name.encode())
    return None if text is None else _records.decode(text)


def _put(unit: Unit, record: CronRecord) -> None:
    text = msgspec.json.encode(record)
    unit.set_field(unit.env.key("crons"), record.name.encode(), text)


def declare(env: Env, crons: Sequence[CronDefinition]) -> Plan[None]:
    """Write crons down; those whose times are as they were keep their ticks."""
    unit = Unit(env)
    now = yield from unit.start()
    for each in {each.name: each for each in crons}.values():
        known = yield from _get(unit, each.name)
        new = CronRecord(
            each.name,
            each.expression,
            each.tz,
            each.missed,
            each.catch_up,
            encode_template(each.template),
            _us(each.next_tick),
            now,
            now,
        )
        if known is not None:
            new.is_paused, new.last_tick = known.is_paused, known.last_tick
            if known.times == new.times:
                new.next_tick = known.next_tick
            if known.terms == new.terms:
                new.changed_at = known.changed_at
        _put(unit, new)
    yield from unit.commit()


def fire(env: Env, fires: Sequence[CronFire]) -> Plan[list[FireReply]]:
    """Store the jobs of each cron that stands as expected, and move it on."""
    unit = Unit(env)
    yield from unit.start()
    replies: list[FireReply] = []
    for each in fires:
        cron = yield from _get(unit, each.name)
        is_expected = (
            cron is not None
            and not cron.is_paused
            and cron.next_tick == to_us(each.expected)
            and cron.times == (each.expression, each.tz)
        )
        if cron is None or not is_expected:
            replies.append(NotDue(each.name))
            continue
        cron.next_tick = _us(each.next_tick)
        if each.last_tick is not None:
            cron.last_tick = to_us(each.last_tick)
        _put(unit, cron)
        placed = yield from accept(unit, each.jobs, atomic=False)
        replies.append(Fired(each.name, [job.reply for job in placed]))
    yield from unit.commit()
    return replies


def pause(env: Env, name: str) -> Plan[bool]:
    """Fire no more ticks of a cron."""
    unit = Unit(env)
    cron = yield from _get(unit, name)
    if cron is None:
        return False
    cron.is_paused = True
    _put(unit, cron)
    yield from unit.commit()
    return True


def resume(env: Env, name: str, next_tick: datetime | None) -> Plan[bool]:
    """Go on with a paused cron."""
    unit = Unit(env)
    cron = yield from _get(unit, name)
    if cron is None:
        return False
    if cron.is_paused:
        cron.is_paused, cron.next_tick = False, _us(next_tick)
        _put(unit, cron)
        yield from unit.commit()
    return True


def forget(env: Env, name: str) -> Plan[bool]:
    """Delete a cron."""
    unit = Unit(env)
    if (yield from _get(unit, name)) is None:
        return False
    unit.set_field(env.key("crons"), name.encode(), None)
    yield from unit.commit()
    return True


def crons(env: Env) -> Plan[CronList]:
    """Return all crons by name, and the store's time."""
    now, texts = yield from read(env, [b"HVALS", env.key("crons")])
    records = sorted(map(_records.decode, texts), key=lambda each: each.name)
    return CronList(from_us(now), [_view(record) for record in records])


def _view(record: CronRecord) -> CronView:
    fields = msgspec.structs.asdict(record) | {"template": decode_template(record.template)}
    fields |= {name: from_us_or_none(fields[name]) for name in TIMES}
    return CronView(**fields)
