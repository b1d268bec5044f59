"""A job as a document: its fields in one value, its lease beside it while it runs.

A document has a head that scripts read, a line break, and a list in MessagePack. The head has its
revision, which every change raises, and what scripts need: version, attempt, length of leases,
execution timeout, number of the state, priority, when it was created, and from then on when it is
due and how long it lives. Large payloads, results, checkpoints and past
attempts have values of their own, so that a document is small.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from fencepost.core.job.job import Body
from fencepost.core.values.names import DEFAULT_QUEUE
from fencepost.store.sql.codec import ENCODING_NUMBER, ENCODINGS

INLINE_MAX = 1_024
"""The largest payload that is part of its document."""


class Instant:
    """A time of a document, of which it keeps the microseconds since its creation."""

    def __init__(self, since: str) -> None:
        self._since = since

    def __get__(self, document: Document, _: Any = None) -> int:
        since: int = getattr(document, self._since)
        return document.created_at + since

    def __set__(self, document: Document, at: int) -> None:
        setattr(document, self._since, at - document.created_at)


class MaybeInstant:
    """The same for a time that may not have come."""

    def __init__(self, since: str) -> None:
        self._since = since

    def __get__(self, document: Document, _: Any = None) -> int | None:
        since: int | None = getattr(document, self._since)
        return None if since is None else document.created_at + since

    def __set__(self, document: Document, at: int | None) -> None:
        setattr(document, self._since, None if at is None else at - document.created_at)


class Document(msgspec.Struct, array_like=True):
    """What is kept of a job; None is what most jobs have.

    Times are kept as microseconds since its creation, which is shorter, and lets the server say
    when a job was created.
    """

    lease_version: int
    attempt: int
    lease_ttl: int | None
    """Of its policy, in microseconds; None: as the claim asks for."""
    timeout: int | None
    """Of its policy; None: as the default policy has it."""
    id: bytes
    type: str
    queue: str | None
    priority: int
    number: int
    """Of its state; RUNNING is never written, but seen by its lease."""
    created_at: int
    """Written in the head alone."""
    lifetime: int
    run_in: int = 0
    updated_in: int = 0
    scheduled_in: int | None = None
    started_in: int | None = None
    completed_in: int | None = None
    max_attempts: int = 1
    policy: bytes | None = None
    """The digest of its policy; None: the default."""
    payload_encoding: int = 0
    payload: bytes | None = None
    """None if it is kept apart."""
    key: str | None = None
    key_window: int | None = None
    tags: dict[str, str] | None = None
    correlation_id: str | None = None
    flow: str | None = None
    node: str | None = None
    callback_url: str | None = None
    concurrency_key: str | None = None
    submitter: str | None = None
    replay_of: bytes | None = None
    waits: list[int | None] | None = None
    """Mode, missing, depth, gathers, own priority."""
    parents: list[int] | None = None
    children: int = 0
    """How many jobs have come to wait for it; a new one changes the document."""
    failure: str | None = None
    settled_token: str | None = None
    worker: str | None = None
    """Of the attempt that succeeded."""
    is_dead_letter: bool = False

    @property
    def queue_name(self) -> str:
        return DEFAULT_QUEUE if self.queue is None else self.queue

    expires_at = Instant("lifetime")
    run_at = Instant("run_in")
    updated_at = Instant("updated_in")
    scheduled_at = MaybeInstant("scheduled_in")
    started_at = MaybeInstant("started_in")
    completed_at = MaybeInstant("completed_in")


def document_of(
    *,
    created_at: int,
    expires_at: int,
    run_at: int,
    updated_at: int,
    scheduled_at: int | None = None,
    started_at: int | None = None,
    completed_at: int | None = None,
    **fields: Any,
) -> Document:
    """Return a document with these times; the other fields are its own."""
    document = Document(created_at=created_at, lifetime=expires_at - created_at, **fields)
    document.run_at, document.updated_at = run_at, updated_at
    document.scheduled_at, document.started_at = scheduled_at, started_at
    document.completed_at = completed_at
    return document


class LeaseRecord(NamedTuple):
    """Who runs a job, and until when; times in microseconds."""

    token: str
    version: int
    attempt: int
    started_at: int
    expires_at: int
    ttl: int
    """As the claim asked for; so is the next."""
    grace: int
    worker: str

    def encode(self) -> bytes:
        return "|".join(map(str, self)).encode()


def read_lease(text: bytes) -> LeaseRecord:
    """Return the lease that the store keeps as *text*."""
    token, version, attempt, started, expires, ttl, grace, worker = text.decode().split("|", 7)
    return LeaseRecord(
        token, int(version), int(attempt), int(started), int(expires), int(ttl), int(grace), worker
    )


_decoder = msgspec.msgpack.Decoder(Document)
_encoder = msgspec.msgpack.Encoder()
_FIELDS = Document.__struct_fields__
_RARE = tuple(
    reversed(list(zip(_FIELDS, (None,) * 11 + Document.__struct_defaults__, strict=True)))
)[: -_FIELDS.index("key")]
"""The last fields with what most jobs have there, the last one first; each takes one byte then."""
_HEADER = 3
"""Bytes that say how many fields follow, since they are more than fifteen."""


def decode_document(text: bytes) -> Document:
    """Return the document, or raise msgspec.DecodeError."""
    end = text.index(b"\n")
    document = _decoder.decode(memoryview(text)[end + 1 :])
    document.created_at = int(text[:end].split(b" ", 8)[7])
    return document


def encode_document(revision: int, document: Document) -> bytes:
    before, after = encode_parts(document)
    return b"%d %b%d%b" % (revision, before, document.created_at, after)


def encode_parts(document: Document) -> tuple[bytes, bytes]:
    """Return a document from after its revision, up to its creation and from there on."""
    before, after = encode_head(document)
    return before, after + encode_fields(document, rare_fields(document))


def encode_head(document: Document) -> tuple[bytes, bytes]:
    """Return the head of a document from after its revision, up to its creation and from there."""
    ttl = "" if document.lease_ttl is None else document.lease_ttl
    timeout = "" if document.timeout is None else document.timeout
    before = (
        f"{document.lease_version} {document.attempt} {ttl} {timeout} "
        f"{document.number} {document.priority} "
    )
    return before.encode(), b" %d %d\n" % (document.run_in, document.lifetime)


def rare_fields(document: Document) -> int:
    """Return how many fields at the end are what most jobs have, and need not be written."""
    rare = 0
    for name, default in _RARE:
        if getattr(document, name) != default:
            break
        rare += 1
    return rare


def encode_fields(document: Document, rare: int) -> bytes:
    """Return what follows the head of a document, without so many fields at the end."""
    created_at, document.created_at = document.created_at, 0
    body = _encoder.encode(document)
    document.created_at = created_at
    if rare:
        count = len(_FIELDS) - rare
        body = b"\xdc" + count.to_bytes(2, "big") + body[_HEADER:-rare]
    return body


def revision_of(text: bytes) -> bytes:
    """Return the revision at the head of a document."""
    return text[: text.index(b" ")]


def body_of(encoding: int, data: bytes) -> Body:
    return Body(data, ENCODINGS[encoding])


def encode_body(body: Body) -> bytes:
    """Return a body as one value: a byte for its encoding, and the data."""
    return bytes((ENCODING_NUMBER[body.encoding],)) + body.data


def decode_body(text: bytes | None) -> Body | None:
    return None if not text else body_of(text[0], text[1:])
