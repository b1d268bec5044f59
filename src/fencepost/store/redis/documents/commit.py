"""A commit: what it relies on, and the commands that it runs; see ``commit.lua``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.core.job.lifecycle import DEAD
from fencepost.errors import StoreUnavailableError
from fencepost.generators import delegate
from fencepost.store.plan import Plan, Row, Statement
from fencepost.store.redis.documents.document import decode_document, encode_document, revision_of
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.places import (
    BLOCK,
    NOWHERE,
    Places,
    is_simple,
    letters_key,
    places,
)
from fencepost.store.redis.jobs.catalog import Env, pack
from fencepost.store.sql.codec import SCHEDULED
from fencepost.store.sql.records.transfer import NOT_ACCEPTED

ABSENT, EXACT, BEGINS, REVISED = b"absent", b"exact", b"begins", b"revised"
ABOVE = b"above"
ACCEPTING, ROOM = b"accepting", b"room"
"""The kinds of checks, see ``commit.lua``."""
PAIRS_MAX = 1_000
"""How many fields one command may set, and how many one check may compare."""

NEVER = 1 << 62

T = TypeVar("T")


class StaleError(Exception):
    """Something that was read has changed since; the operation starts again."""


def check_commit(answer: int) -> None:
    """Raise unless a commit was made."""
    if answer == 0:
        raise StaleError
    if answer < 0:
        raise StoreUnavailableError(NOT_ACCEPTED)


def at_once(plan: Plan[T]) -> Plan[T]:
    """Return *plan* as one whose commit does not wait for the end of the operation."""
    return delegate(plan, _alone)


def _alone(statement: Statement) -> Plan[list[Row]]:
    return (yield replace(statement, alone=True))


class Commit:
    """The only parameter of a statement that commits; what it has to announce is added later."""

    def __init__(self, now: bytes, *, deadline: int | None, believed: int | None) -> None:
        self._now = now
        self._deadline = deadline
        self._believed = believed
        self._checks: defaultdict[tuple[bytes, bytes], list[tuple[Any, Any]]] = defaultdict(list)
        self._premises: list[list[Any]] = []
        self.commands: list[list[Any]] = []

    @property
    def lines_up(self) -> bool:
        """Whether jobs become claimable by it."""
        return any(command[0] == b"LINE" for command in self.commands)

    def check(
        self, kind: bytes, key: bytes, field: bytes | msgspec.Raw, expected: Any = b""
    ) -> None:
        """Rely on a field of a hash."""
        self._checks[kind, key].append((field, expected))

    def premise(self, kind: bytes, key: bytes, expected: Any = b"") -> None:
        """Rely on a key as a whole."""
        self._premises.append([kind, key, [], expected])

    @property
    def words(self) -> list[Any]:
        """What the script is given."""
        checks = [*self._premises]
        for (kind, key), pairs in self._checks.items():
            for start in range(0, len(pairs), PAIRS_MAX):
                fields, expected = zip(*pairs[start : start + PAIRS_MAX], strict=True)
                checks.append([kind, key, fields, expected])
        request: dict[str, Any] = {"checks": checks, "commands": self.commands}
        if self._deadline is not None:
            request["deadline"] = self._deadline
        if self._believed is not None:
            request["believed"] = self._believed
        return [self._now, pack(request)]


class Changes:
    """The commands that write changed documents and move them in the indexes."""

    def __init__(self, env: Env, sets: defaultdict[bytes, list[Any]]) -> None:
        self._env = env
        self._adds: defaultdict[bytes, list[Any]] = defaultdict(list)
        self._drops: defaultdict[bytes, list[msgspec.Raw]] = defaultdict(list)
        self._sets = sets
        self._unset: defaultdict[bytes, list[msgspec.Raw]] = defaultdict(list)
        self._counted: Counter[tuple[bytes, bytes]] = Counter()
        self._lines: defaultdict[bytes, list[tuple[int, int, msgspec.Raw]]] = defaultdict(list)
        self._left: defaultdict[bytes, list[msgspec.Raw]] = defaultdict(list)
        self._lifetimes: dict[int, int] = {}
        self._letters: list[list[Any]] = []
        self._moves: defaultdict[tuple[Places, Places], list[tuple[int, msgspec.Raw]]]
        self._moves = defaultdict(list)
        """The jobs that go from one place to another: those that are alike, together."""
        self._ended: dict[object, Places] = {}
        """Where jobs are that have ended alike."""
        self._flows: dict[str, None] = {}
        """Flows whose jobs have come or gone."""

    def add(self, kept: Kept, *, is_deleted: bool) -> None:
        """Take up what becomes of one job; nothing if it is as it was read."""
        env = self._env
        before, after = kept.before or NOWHERE, NOWHERE
        was_dead = is_same = False
        if kept.read is not None and kept.before is None:
            was = decode_document(kept.read)
            is_same = was == kept.document and not is_deleted
            if is_same and kept.lease_was == kept.lease:
                return
            before = places(env, kept.seq, was, kept.lease_was)
            was_dead = was.is_dead_letter
        number = kept.word
        if not is_deleted:
            after = self._ends(kept) or places(env, kept.seq, kept.document, kept.lease)
            if not is_same:
                revision = 0 if kept.read is None else int(revision_of(kept.read))
                self._sets[env.key("job")] += [number, encode_document(revision + 1, kept.document)]
            if kept.lease is not None:
                self._sets[env.key("lease")] += [number, kept.lease.encode()]
            elif kept.lease_was is not None:
                self._unset[env.key("lease")].append(number)
        self._moves[before, after].append((kept.seq, number))
        is_dead = kept.document.is_dead_letter and not is_deleted
        if is_dead is not was_dead:
            self._letters.append(_letter(env, kept, is_dead=is_dead))

    def _ends(self, kept: Kept) -> Places | None:
        """Return where a job is that has ended, once for all that are alike; None of others."""
        document = kept.document
        if kept.lease is not None or document.completed_in is None or not is_simple(document):
            return None
        alike = (
            document.number,
            document.queue,
            document.type,
            document.created_at + document.completed_in,
            document.is_dead_letter,
        )
        found = self._ended.get(alike)
        if found is None:
            found = self._ended[alike] = places(self._env, kept.seq, document, None)
        return found

    def _move(self, before: Places, after: Places, jobs: Sequence[tuple[int, msgspec.Raw]]) -> None:
        numbers = [number for _, number in jobs]
        for key in before.sorted:
            if key not in after.sorted:
                self._drops[key] += numbers
        for key, score in after.sorted.items():
            if before.sorted.get(key) != score:
                self._adds[key] += [word for number in numbers for word in (score, number)]
        if (before.lane, before.run_at) != (after.lane, after.run_at):
            if before.lane is not None:
                self._left[before.lane] += numbers
            if after.lane is not None:
                self._lines[after.lane] += [(after.run_at, *each) for each in jobs]
        if after.lifetime is not None and after.lifetime != before.lifetime:
            for block in {seq // BLOCK for seq, _ in jobs}:
                self._lifetimes[block] = min(self._lifetimes.get(block, NEVER), after.lifetime)
        if before.flow != after.flow:
            self._flows |= dict.fromkeys(flow for flow in (before.flow, after.flow) if flow)
        for at in after.counted:
            self._counted[at] += len(jobs)
        for at in before.counted:
            self._counted[at] -= len(jobs)

    def commands(self) -> Iterator[list[Any]]:
        """Yield the commands, each for as many jobs as there are."""
        env = self._env
        for (before, after), jobs in self._moves.items():
            self._move(before, after, jobs)
        yield from self._letters
        for key, members in self._unset.items():
            yield from portions([b"HDEL", key], members, 1)
        for key, members in self._drops.items():
            yield from portions([b"ZREM", key], members, 1)
        for key, pairs in self._adds.items():
            yield from portions([b"ZADD", key], pairs, 2)
        for flow in self._flows:
            yield [b"FLOW", env.key("flows"), env.key("flow", flow), flow]
        for key, pairs in self._sets.items():
            yield from portions([b"HSET", key], pairs, 2)
        times = [word for block, at in self._lifetimes.items() for word in (at, block)]
        yield from portions([b"ZADD", env.key("lifetimes"), b"LT"], times, 2)
        # After the documents, which say whether an entry of a line counts.
        for lane, members in self._left.items():
            for part in portions([], members, 1):
                yield [b"LEAVE", lane, str(SCHEDULED), part]
        for lane, entries in self._lines.items():
            words = [word for at, _, number in sorted(entries, key=_turn) for word in (at, number)]
            yield [b"LINE", lane, words]
        for (key, name), change in self._counted.items():
            if change:
                yield [b"COUNT", key, name, change]


def _turn(entry: tuple[int, int, msgspec.Raw]) -> tuple[int, int]:
    return entry[:2]


def _letter(env: Env, kept: Kept, *, is_dead: bool) -> list[Any]:
    """Return the command that puts a dead letter on the stream of its type, or takes it off."""
    stream = letters_key(env, kept.type)
    if not is_dead:
        return [b"EXHUME", env.key("letters"), kept.number, stream]
    fields = {
        "job_id": kept.id,
        "type": kept.type,
        "queue": kept.queue,
        "state": kept.state.value,
        "attempts": kept.attempt,
        "failure": kept.document.failure or "",
        "completed_at": kept.document.completed_at or 0,
    }
    assert kept.state in DEAD
    words = [str(part) for pair in fields.items() for part in pair]
    return [b"BURY", env.key("letters"), kept.number, stream, *words]


def portions(head: list[Any], items: Sequence[Any], width: int) -> Iterator[list[Any]]:
    """Yield commands that begin with *head*, with as many items as one may have."""
    step = PAIRS_MAX * width
    for start in range(0, len(items), step):
        yield [*head, *items[start : start + step]]
