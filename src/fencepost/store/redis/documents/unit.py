"""A unit of work: what an operation has read, and what it is going to write, all or nothing.

An operation reads documents, changes them in memory, and commits. The commit is one script: it
compares what was read with what is there, and if anything has changed, nothing is written and the
operation starts again. So every rule stands once, in Python, and no lock is held while it applies.

What a commit consists of is in ``commit.py``, where jobs are found in ``places.py``.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import msgspec

from fencepost.core import bounds
from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.core.values.names import id_text, lanes_max
from fencepost.errors import TooManyLanesError
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.documents.commit import (
    ABOVE,
    ABSENT,
    ACCEPTING,
    BEGINS,
    EXACT,
    PAIRS_MAX,
    REVISED,
    ROOM,
    Changes,
    Commit,
)
from fencepost.store.redis.documents.document import (
    INLINE_MAX,
    Document,
    LeaseRecord,
    decode_document,
    encode_body,
    read_lease,
    revision_of,
)
from fencepost.store.redis.documents.job import Kept
from fencepost.store.redis.documents.places import attempts_key, running_places
from fencepost.store.redis.jobs.catalog import Env, field, number_of, number_text, read

CLOSED = b"seq"
"""The field with the last number that no new job may have any more, see ``close_numbers``."""
COLUMNS = ("job", "lease", "payload", "result", "checkpoint", "progress")

_packer = msgspec.msgpack.Encoder()


class Unit:
    """What an operation has read, and what it is going to write."""

    def __init__(self, env: Env) -> None:
        self.env = env
        self.now = 0
        """The time of the first read."""
        self._kept: dict[int, Kept | None] = {}
        self._fields: dict[tuple[bytes, bytes], bytes | None] = {}
        self._read_fields: dict[tuple[bytes, bytes], bytes | None] = {}
        self._numbers: list[int] = []
        self._deleted: set[int] = set()
        self._commands: list[list[Any]] = []
        self._last: list[list[Any]] = []
        self._extra: defaultdict[bytes, list[Any]] = defaultdict(list)
        self._policies: dict[bytes, bytes] = {}
        self._deadline: int | None = None
        self._links: defaultdict[int, list[int]] = defaultdict(list)
        self._opened = 0
        self.adds = False
        """Whether it has jobs that are refused while none are accepted."""
        self._new: list[Kept] = []
        self._most: list[int] = []
        self._believed: int | None = None

    # Reading.

    def read(self, *commands: list[Any]) -> Plan[list[Any]]:
        """Return the answers of commands that only read."""
        now, *answers = yield from read(self.env, *commands)
        self.now = self.now or now
        return answers

    def start(self) -> Plan[int]:
        """Return the time of the unit, read now if nothing was read yet."""
        if not self.now:
            yield from self.read()
        return self.now

    def jobs(self, seqs: Iterable[int]) -> Plan[dict[int, Kept]]:
        """Return the jobs of these numbers that are there, as they stand in this unit."""
        wanted = list(dict.fromkeys(seqs))
        missing = [seq for seq in wanted if seq not in self._kept]
        for start in range(0, len(missing), PAIRS_MAX):
            yield from self._load(missing[start : start + PAIRS_MAX])
        found = {seq: self._kept[seq] for seq in wanted}
        return {seq: kept for seq, kept in found.items() if kept and seq not in self._deleted}

    def _load(self, seqs: Sequence[int]) -> Plan[None]:
        numbers = [number_text(seq) for seq in seqs]
        texts, leases = yield from self.read(
            [b"HMGET", self.env.key("job"), *numbers], [b"HMGET", self.env.key("lease"), *numbers]
        )
        documents: dict[int, Document] = {}
        for seq, text in zip(seqs, texts, strict=True):
            if text is not None:
                try:
                    documents[seq] = decode_document(text)
                except (msgspec.DecodeError, ValueError):
                    continue  # damaged: nothing can be done with it here
        digests = {document.policy for document in documents.values()}
        policies = yield from self.env.catalog.policies(self.env, digests)
        for seq, text, lease in zip(seqs, texts, leases, strict=True):
            document = documents.get(seq)
            if document is None:
                self._kept[seq] = None
                continue
            policy = DEFAULT_POLICY
            if document.policy is not None:
                policy = policies.get(document.policy, DEFAULT_POLICY)
            record = None if lease is None else read_lease(lease)
            self._kept[seq] = Kept(seq, document, policy, record, read=text, read_lease=lease)

    def adopt(self, jobs: Iterable[Kept], now: int) -> None:
        """Take jobs for read that a claim has read before, and *now* for the time."""
        for kept in jobs:  # a running job: it changes, or nothing is written
            kept.before = running_places(self.env, kept.seq, kept.document, kept.lease)
            self._kept[kept.seq] = kept
        self.now = self._believed = now

    def numbers_of(self, ids: Iterable[bytes]) -> Plan[dict[bytes, int]]:
        """Return the numbers of jobs by id."""
        wanted = list(dict.fromkeys(ids))
        found: dict[bytes, int] = {}
        for kept in self._kept.values():
            if kept is not None and kept.read is None:
                found[kept.document.id] = kept.seq
        for start in range(0, len(wanted), PAIRS_MAX):
            part = wanted[start : start + PAIRS_MAX]
            (texts,) = yield from self.read([b"HMGET", self.env.key("ids"), *part])
            for id_, text in zip(part, texts, strict=True):
                if text is not None:
                    found[id_] = struct.unpack(">Q", text)[0]
        return found

    def by_id(self, ids: Iterable[bytes]) -> Plan[dict[str, Kept]]:
        """Return the jobs of these ids that are there, by id as text."""
        numbers = yield from self.numbers_of(ids)
        found = yield from self.jobs(numbers.values())
        return {id_text(kept.document.id): kept for kept in found.values()}

    def field(self, key: bytes, name: bytes) -> Plan[bytes | None]:
        """Return a field of a hash, on which the commit relies."""
        at = (key, name)
        if at not in self._fields:
            (value,) = yield from self.read([b"HGET", key, name])
            self._read_fields[at] = self._fields[at] = value
        return self._fields[at]

    def fields(self, key: bytes, names: Sequence[bytes]) -> Plan[dict[bytes, bytes | None]]:
        """Do the same for several, read at once."""
        missing = [name for name in dict.fromkeys(names) if (key, name) not in self._fields]
        for start in range(0, len(missing), PAIRS_MAX):
            part = missing[start : start + PAIRS_MAX]
            (values,) = yield from self.read([b"HMGET", key, *part])
            for name, value in zip(part, values, strict=True):
                self._read_fields[key, name] = self._fields[key, name] = value
        return {name: self._fields[key, name] for name in names}

    def children(self, parents: Iterable[Kept]) -> Plan[list[list[int]]]:
        """Return the numbers of the jobs that wait for each of *parents*, or waited for it."""
        asked = list(parents)
        commands = [
            [b"ZRANGE", self.env.key("children", number_text(each.seq)), 0, -1]
            for each in asked
            if each.document.children and each.read is not None
        ]
        answers = iter((yield from self.read(*commands)) if commands else ())
        found: list[list[int]] = []
        for each in asked:
            is_asked = each.document.children and each.read is not None
            numbers = map(number_of, next(answers)) if is_asked else ()
            found.append([*numbers, *self._links.get(each.seq, ())])
        return found

    def changed(self) -> Iterator[tuple[Kept, State | None]]:
        """Yield the jobs of this unit, with the states in which they were read."""
        for kept in list(self._kept.values()):
            if kept is not None:
                yield kept, kept.was

    # Writing.

    def set_field(self, key: bytes, name: bytes, value: bytes | None) -> None:
        """Change a field that was read by ``field``."""
        assert (key, name) in self._read_fields
        self._fields[key, name] = value

    def rely_on(self, *leases: LeaseRecord) -> None:
        """Commit only while these leases are valid."""
        ends = [lease.expires_at for lease in leases]
        self._deadline = min(ends if self._deadline is None else (self._deadline, *ends))

    def do(self, *command: Any) -> None:
        """Run a command with the commit."""
        self._commands.append(list(command))

    def at_last(self, *command: Any) -> None:
        """Run a command with the commit, after the documents were written."""
        self._last.append(list(command))

    def reserve(self, count: int) -> Plan[None]:
        """Get numbers for *count* new jobs."""
        if count > len(self._numbers):
            lacking = count - len(self._numbers)
            (last,) = yield from self.read([b"INCRBY", self.env.key("seq"), str(lacking)])
            self._numbers += range(last - lacking + 1, last + 1)

    def open_lane(self, queue: str, type: str) -> Plan[None]:
        """Make sure that a lane is known, or raise TooManyLanesError."""
        lanes, name = self.env.key("lanes"), field(queue, type)
        if (yield from self.field(lanes, name)) is None:
            (count,) = yield from self.read([b"HLEN", lanes])
            most = lanes_max(type)
            if count + self._opened >= most:
                raise TooManyLanesError(bounds.LANES_MAX)
            self.set_field(lanes, name, b"1")
            self._most.append(most - self._opened)
            self._opened += 1

    def digest(self, policy: Policy) -> bytes | None:
        """Return the digest of a policy, which the commit stores."""
        digest, text = self.env.catalog.digest(policy)
        if digest is not None:
            self._policies[digest] = text
        return digest

    def add(self, document: Document, policy: Policy, payload: Body) -> Kept:
        """Add a job; there must be a number for it."""
        seq = self._numbers.pop(0)
        kept = Kept(seq, document, policy)
        self._kept[seq] = kept
        self.adds = True
        self.set_payload(kept, payload)
        self._put("ids", document.id, number_text(seq))
        self._new.append(kept)
        return kept

    def set_payload(self, kept: Kept, payload: Body) -> None:
        """Set the payload of a job; its encoding is in the document."""
        number = kept.number
        if len(payload.data) <= INLINE_MAX:
            kept.document.payload = payload.data
            if kept.read is not None:
                self.do(b"HDEL", self.env.key("payload"), number)
        else:
            kept.document.payload = None
            self._put("payload", kept.word, payload.data)

    def large_payload(self, kept: Kept) -> Plan[bytes]:
        """Return a payload that is kept apart; empty if it is lost."""
        key, number = self.env.key("payload"), kept.number
        pending = self._extra[key]
        for name, value in zip(pending[::2], pending[1::2], strict=True):
            if name is kept.word:
                return bytes(value)
        (data,) = yield from self.read([b"HGET", key, number])
        return data or b""

    def put_body(self, column: str, kept: Kept, body: Body | None) -> None:
        """Set or delete a result or a checkpoint."""
        number = kept.number
        if body is None:
            self.do(b"HDEL", self.env.key(column), number)
        else:
            self._put(column, kept.word, encode_body(body))

    def put_progress(self, kept: Kept, text: bytes | None) -> None:
        number = kept.number
        if text is None:
            self.do(b"HDEL", self.env.key("progress"), number)
        else:
            self._put("progress", kept.word, text)

    def record(self, kept: Kept, attempt: Sequence[Any]) -> None:
        """Keep an attempt that has ended without success."""
        self.do(b"RPUSH", attempts_key(self.env, kept.seq), _packer.encode(attempt))

    def link(self, child: Kept, parents: Sequence[Kept]) -> None:
        """Let *child* wait for *parents* too; a change of theirs from now on is a conflict."""
        known = child.document.parents or []
        child.document.parents = [*known, *(each.seq for each in parents)]
        for parent in parents:
            parent.document.children += 1
            self._links[parent.seq].append(child.seq)
            number = child.number
            self.do(b"ZADD", self.env.key("children", number_text(parent.seq)), child.seq, number)

    def delete(self, kept: Kept) -> None:
        """Forget a job, and all that is kept of it."""
        self._deleted.add(kept.seq)
        number = kept.number
        for column in COLUMNS:
            self.do(b"HDEL", self.env.key(column), number)
        self.do(b"HDEL", self.env.key("ids"), kept.document.id)
        self.do(b"DEL", attempts_key(self.env, kept.seq), self.env.key("children", number))
        for parent in kept.document.parents or ():
            self.do(b"ZREM", self.env.key("children", number_text(parent)), number)

    def _put(self, column: str, name: bytes | msgspec.Raw, value: bytes) -> None:
        self._extra[self.env.key(column)] += [name, value]

    # The commit.

    def commit(self) -> Plan[None]:
        """Write everything; if something has changed, nothing is written, and it starts again."""
        if self.env.before_commit is not None:
            yield from self.env.before_commit(self)
        commands = [*self._commands, *self._changes()]
        for at, value in self._fields.items():
            if value != self._read_fields[at]:
                commands.append([b"HDEL", *at] if value is None else [b"HSET", *at, value])
        commands += self._last
        if not commands:
            return
        commit = Commit(self.env.now, deadline=self._deadline, believed=self._believed)
        commit.commands = commands
        self._check(commit)
        # It is sent at the end of the operation, of which this plan may be a part.
        yield Statement("commit", [commit])

    def _check(self, commit: Commit) -> None:
        jobs, leases = self.env.key("job"), self.env.key("lease")
        for kept in self._kept.values():
            if kept is None or kept.read is None:
                continue
            number = kept.word
            commit.check(REVISED, jobs, number, revision_of(kept.read))
            lease = kept.read_lease
            if lease is None:
                commit.check(ABSENT, leases, number)
            elif kept.lease is None:
                # However often it was extended meanwhile, it is the same lease.
                commit.check(BEGINS, leases, number, lease[: lease.index(b"|") + 1])
            else:
                commit.check(EXACT, leases, number, lease)
        for (key, name), value in self._read_fields.items():
            if value is None:
                commit.check(ABSENT, key, name)
            else:
                commit.check(EXACT, key, name, value)
        if self._new:  # those that follow the first one have higher numbers
            commit.check(ABOVE, self.env.key("closed"), CLOSED, self._new[0].seq)
        for kept in self._new:
            commit.check(ABSENT, self.env.key("ids"), kept.document.id)
            # A server that lost its last moments may give a number again that it gave before.
            commit.check(ABSENT, jobs, kept.number)
        for place in range(self._opened):
            commit.premise(ROOM, self.env.key("lanes"), self._most[place])
        if self.adds:
            commit.premise(ACCEPTING, self.env.key("refusing"))

    def _changes(self) -> Iterator[list[Any]]:
        if self._policies:
            pairs = [word for pair in self._policies.items() for word in pair]
            self._extra[self.env.key("policies")] += pairs
        changes = Changes(self.env, self._extra)
        for kept in self._kept.values():
            if kept is not None:
                changes.add(kept, is_deleted=kept.seq in self._deleted)
        yield from changes.commands()


def close_numbers(env: Env, upto: int) -> Plan[None]:
    """Refuse new jobs under numbers up to *upto*, which were reserved before.

    An operation that has reserved one and not committed yet starts again, with a higher number.
    """
    unit = Unit(env)
    known = yield from unit.field(env.key("closed"), CLOSED)
    if int(known or 0) < upto:
        unit.set_field(env.key("closed"), CLOSED, str(upto).encode())
    yield from unit.commit()
