"""Encrypts what goes into a store, value by value.

What an attempt writes carries the version of its lease inside the envelope, where it cannot be
changed without a key: so a reader knows which attempt it belongs to.
"""

from __future__ import annotations

from typing import NamedTuple, TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.encryption import (
    NONCE_BYTES,
    Field,
    KeyRing,
    Owner,
    binding,
    from_text,
    header,
    parse,
    to_text,
)
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.job.job import (
    Body,
    ClaimedJob,
    Encoding,
    Failure,
    Job,
    JobRecord,
    NewJob,
    Progress,
)
from fencepost.core.job.outcome import Settlement
from fencepost.core.job.replays import BulkReplay
from fencepost.core.values.names import id_text
from fencepost.core.webhooks.delivery import DELIVERY_TYPE, Delivery
from fencepost.errors import ConfigurationError, MissingKeyError, TamperedError
from fencepost.store.interface.queue import Save

# Before the bytes of a body stands which of the two it was.
MARKS = {Encoding.JSON: b"j", Encoding.BINARY: b"b"}
VERSION_BYTES = 8

B = TypeVar("B", Body, Body | None)


class Details(msgspec.Struct, array_like=True):
    """What of a failure is encrypted; its category and code stay readable."""

    message: str
    exception: str | None = None
    traceback: str | None = None


class LeaseHolder(NamedTuple):
    """The job that is written to, and the version of the lease under which that happens."""

    owner: Owner
    version: int


def owner_of(job: Job | ClaimedJob) -> Owner:
    """Return what the content of *job* is bound to."""
    return Owner(job.id, job.type, job.queue, job.key)


def owner_of_new(job: NewJob, id_: bytes) -> Owner:
    """Return what the content of a job that is to have this id is bound to."""
    return Owner(id_text(id_), job.type, job.queue, None if job.key is None else job.key.value)


def owner_of_template(template: NewJob, cron: str) -> Owner:
    """Return what a cron's template is bound to; no job has an id with a colon in it."""
    return Owner(f"cron:{cron}", template.type, template.queue)


def sealed_delivery(type_: str, payload: Body) -> Delivery | None:
    """Return the delivery that a store has made for a job with an encrypted callback URL.

    A store has no keys. It copies the URL as it is, encrypted for the job that has ended; the rest
    of the delivery stays readable, as it does in that job.
    """
    if type_ != DELIVERY_TYPE or payload.encoding is not Encoding.JSON:
        return None
    try:
        delivery = _deliveries.decode(payload.data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    return None if from_text(delivery.url) is None else delivery


_encoder = msgspec.json.Encoder()
_deliveries = msgspec.json.Decoder(Delivery)


class Cipher:
    """AES-256-GCM under the keys of a ring: seals one field of one job, and opens it again."""

    def __init__(self, ring: KeyRing, clock: Clock) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise ConfigurationError(
                f"encryption needs a library: pip install 'fencepost[encryption]' ({error})"
            ) from None
        self._clock = clock
        self._invalid = InvalidTag
        self._ciphers = {key.id: AESGCM(key.secret) for key in ring.keys}
        self._current = self._ciphers[ring.current.id]
        self._header = header(ring.current.id)

    def seal(self, data: bytes, field: Field, owner: Owner) -> bytes:
        """Return *data* in an envelope of the current key."""
        # Random, and so unique: no counter would survive a crash in every process at once.
        nonce = self._clock.new_bytes(NONCE_BYTES)
        bound = binding(self._header, field, owner)
        return self._header + nonce + self._current.encrypt(nonce, data, bound)

    def open(self, data: bytes, field: Field, owner: Owner) -> bytes:
        """Return what was sealed; raise MissingKeyError or TamperedError."""
        envelope = parse(data)
        if envelope is None:
            raise TamperedError
        cipher = self._ciphers.get(envelope.key_id)
        if cipher is None:
            raise MissingKeyError(envelope.key_id)
        bound = binding(header(envelope.key_id), field, owner)
        try:
            return cipher.decrypt(envelope.nonce, envelope.sealed, bound)
        except self._invalid:
            raise TamperedError from None


class Sealer:
    """Encrypts the values that go to a store, with the current key of a ring."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    def seal_new(self, job: NewJob, id_: bytes) -> NewJob:
        """Return *job* with its id chosen and its content encrypted for it."""
        owner = owner_of_new(job, id_)
        return replace(
            job,
            id=id_,
            payload=self.seal_payload(job.payload, owner),
            callback_url=self.seal_callback(job.callback_url, owner),
        )

    def seal_payload(self, payload: Body, owner: Owner) -> Body:
        """Return *payload* encrypted for one job."""
        return self._seal_body(payload, Field.PAYLOAD, owner)

    def seal_callback(self, url: str | None, owner: Owner) -> str | None:
        """Return a callback URL encrypted for one job; an empty one stays empty."""
        if not url or from_text(url) is not None:
            return url
        return to_text(self._cipher.seal(url.encode(), Field.CALLBACK, owner))

    def seal_settlement(self, settlement: Settlement, holder: LeaseHolder) -> Settlement:
        """Return *settlement* with its result or failure encrypted."""
        decision = settlement.decision
        result = self._seal_body(decision.result, Field.RESULT, *holder)
        failure = decision.failure and self._seal_failure(decision.failure, holder)
        return replace(settlement, decision=replace(decision, result=result, failure=failure))

    def seal_save(self, save: Save, holder: LeaseHolder) -> Save:
        """Return *save* with what it keeps encrypted."""
        checkpoint = self._seal_body(save.checkpoint, Field.CHECKPOINT, *holder)
        progress = save.progress and self._seal_progress(save.progress, holder)
        return replace(save, checkpoint=checkpoint, progress=progress)

    def seal_record(self, record: JobRecord) -> JobRecord:
        """Return *record* encrypted; values that are encrypted already, by any key, stay."""
        job = record.job
        owner = owner_of(job)
        holder = LeaseHolder(owner, job.lease_version)
        progress, payload = job.progress, job.payload_body
        if progress is not None and from_text(progress["message"]) is None:
            progress = self._seal_progress(progress, holder)
        if sealed_delivery(job.type, payload) is None:
            payload = self.seal_payload(payload, owner)
        sealed = replace(
            job,
            payload_body=payload,
            callback_url=self.seal_callback(job.callback_url, owner),
            result_body=self._seal_body(job.result_body, Field.RESULT, *holder),
            checkpoint_body=self._seal_body(job.checkpoint_body, Field.CHECKPOINT, *holder),
            progress=progress,
            failure=self._seal_once(job.failure, holder),
        )
        attempts = []
        for each in record.attempts:
            failure = self._seal_once(each.failure, LeaseHolder(owner, each.lease_version))
            attempts.append(replace(each, failure=failure))
        return replace(record, job=sealed, attempts=tuple(attempts))

    def seal_event(self, event: NewEvent, id_: bytes) -> NewEvent:
        """Return *event* with its id chosen and its payload encrypted for it."""
        payload = self._seal_body(event.payload, Field.EVENT, Owner(id_text(id_), event.name))
        return replace(event, id=id_, payload=payload)

    def seal_sent(self, event: SentEvent) -> SentEvent:
        """Return the record *event* encrypted, unless it is already."""
        payload = self._seal_body(event.payload, Field.EVENT, Owner(event.id, event.name))
        return replace(event, payload=payload)

    def seal_template(self, template: NewJob, cron: str) -> NewJob:
        """Return the template of a cron's jobs with its content encrypted for that cron."""
        owner = owner_of_template(template, cron)
        return replace(
            template,
            payload=self._seal_body(template.payload, Field.TEMPLATE, owner),
            callback_url=self.seal_callback(template.callback_url, owner),
        )

    def seal_replay(self, replay: BulkReplay) -> BulkReplay:
        """Return *replay* with its patch encrypted for it; no job has an id with a colon."""
        owner = Owner(f"replay:{replay.id}")
        return replace(replay, patch=self._seal_body(replay.patch, Field.PATCH, owner))

    def _seal_body(self, body: B, field: Field, owner: Owner, version: int | None = None) -> B:
        if body is None or body.encoding is Encoding.ENCRYPTED:
            return body
        data = MARKS[body.encoding] + body.data
        if version is not None:
            data = stamped(version, data)
        return Body(self._cipher.seal(data, field, owner), Encoding.ENCRYPTED)

    def _seal_failure(self, failure: Failure, holder: LeaseHolder) -> Failure:
        details = _encoder.encode(Details(failure.message, failure.exception, failure.traceback))
        data = stamped(holder.version, details)
        sealed = self._cipher.seal(data, Field.FAILURE, holder.owner)
        return Failure(
            failure.category,
            to_text(sealed),
            code=failure.code,
            failed_dependency=failure.failed_dependency,
        )

    def _seal_once(self, failure: Failure | None, holder: LeaseHolder) -> Failure | None:
        if failure is None or from_text(failure.message) is not None:
            return failure
        return self._seal_failure(failure, holder)

    def _seal_progress(self, progress: Progress, holder: LeaseHolder) -> Progress:
        if not progress["message"]:
            return progress
        data = stamped(holder.version, progress["message"].encode())
        sealed = self._cipher.seal(data, Field.PROGRESS, holder.owner)
        return {**progress, "message": to_text(sealed)}


def stamped(version: int, data: bytes) -> bytes:
    """Return *data* behind the version of the lease under which it is written."""
    return version.to_bytes(VERSION_BYTES, "big") + data


def unstamped(data: bytes) -> tuple[int, bytes]:
    """Return the version and what was written under it."""
    return int.from_bytes(data[:VERSION_BYTES], "big"), data[VERSION_BYTES:]
