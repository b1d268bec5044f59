"""Encrypts what goes into a store, value by value.

What an attempt writes carries the version of its lease inside the envelope, where nobody without a
key can change it: whoever reads it knows which attempt it belongs to.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from fencepost.core.crypto.envelope import Field, Owner, from_text, to_text
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
from fencepost.core.values.ids import id_text
from fencepost.core.webhooks.delivery import DELIVERY_TYPE, Delivery
from fencepost.store.interface.queue import Save
from fencepost.store.wrappers.encrypted.cipher import Cipher

# Which of the two a body was stands before its bytes.
MARKS = {Encoding.JSON: b"j", Encoding.BINARY: b"b"}
VERSION_BYTES = 8


class Details(msgspec.Struct, array_like=True):
    """What of a failure is encrypted; its category and code stay readable."""

    message: str
    exception: str | None = None
    traceback: str | None = None


class LeaseHolder(NamedTuple):
    """The job that something is written to, and the version of the lease under which it is."""

    owner: Owner
    version: int


def owner_of(job: Job | ClaimedJob) -> Owner:
    """Return what the content of *job* is bound to."""
    return Owner(job.id, job.type, job.queue, job.key)


def owner_of_new(job: NewJob, id_: bytes) -> Owner:
    """Return what the content of a job that is to have this id is bound to."""
    return Owner(id_text(id_), job.type, job.queue, None if job.key is None else job.key.value)


def owner_of_template(template: NewJob, cron: str) -> Owner:
    """Return what is bound of a cron's template; no job has an id with a colon in it."""
    return Owner(f"cron:{cron}", template.type, template.queue)


def sealed_delivery(type_: str, payload: Body) -> Delivery | None:
    """Return the delivery that a store has written down for a job with an encrypted address.

    A store has no keys. It copies the address as it is, encrypted for the job that the delivery
    tells of; what it adds stays readable with that job as well.
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


class Sealer:
    """One ring's way with the values that travel to a store."""

    def __init__(self, cipher: Cipher) -> None:
        self._cipher = cipher

    # Jobs.

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
        """Return where a webhook goes, encrypted for one job; empty is nowhere, and stays so."""
        if not url or from_text(url) is not None:
            return url
        return to_text(self._cipher.seal(url.encode(), Field.CALLBACK, owner))

    def seal_settlement(self, settlement: Settlement, holder: LeaseHolder) -> Settlement:
        """Return *settlement* with its result or failure encrypted."""
        decision = settlement.decision
        if decision.result is not None:
            result = self._seal_body(decision.result, Field.RESULT, *holder)
            decision = replace(decision, result=result)
        if decision.failure is not None:
            decision = replace(decision, failure=self._seal_failure(decision.failure, holder))
        return replace(settlement, decision=decision)

    def seal_save(self, save: Save, holder: LeaseHolder) -> Save:
        """Return *save* with what it keeps encrypted."""
        checkpoint, progress = save.checkpoint, save.progress
        if checkpoint is not None:
            checkpoint = self._seal_body(checkpoint, Field.CHECKPOINT, *holder)
        if progress is not None:
            progress = self._seal_progress(progress, holder)
        return replace(save, checkpoint=checkpoint, progress=progress)

    def seal_record(self, record: JobRecord) -> JobRecord:
        """Return *record* encrypted; what is so already, under whatever key, is left as it is."""
        job = record.job
        holder = LeaseHolder(owner_of(job), job.lease_version)
        result, checkpoint, progress = job.result, job.checkpoint, job.progress
        if result is not None:
            result = self._seal_body(result, Field.RESULT, *holder)
        if checkpoint is not None:
            checkpoint = self._seal_body(checkpoint, Field.CHECKPOINT, *holder)
        if progress is not None and from_text(progress.message) is None:
            progress = self._seal_progress(progress, holder)
        payload = job.payload
        if sealed_delivery(job.type, payload) is None:
            payload = self.seal_payload(payload, holder.owner)
        sealed = replace(
            job,
            payload=payload,
            callback_url=self.seal_callback(job.callback_url, holder.owner),
            result=result,
            checkpoint=checkpoint,
            progress=progress,
            failure=self._seal_once(job.failure, holder),
        )
        attempts = tuple(
            replace(
                each,
                failure=self._seal_once(
                    each.failure, LeaseHolder(holder.owner, each.lease_version)
                ),
            )
            for each in record.attempts
        )
        return replace(record, job=sealed, attempts=attempts)

    # Events and crons.

    def seal_event(self, event: NewEvent, id_: bytes) -> NewEvent:
        """Return *event* with its id chosen and its payload encrypted for it."""
        payload = self._seal_body(event.payload, Field.EVENT, Owner(id_text(id_), event.name))
        return replace(event, id=id_, payload=payload)

    def seal_sent(self, event: SentEvent) -> SentEvent:
        """Return the record *event* encrypted, unless it is so already."""
        payload = self._seal_body(event.payload, Field.EVENT, Owner(event.id, event.name))
        return replace(event, payload=payload)

    def seal_template(self, template: NewJob, cron: str) -> NewJob:
        """Return what a cron's jobs are made of with its content encrypted for that cron."""
        owner = owner_of_template(template, cron)
        return replace(
            template,
            payload=self._seal_body(template.payload, Field.TEMPLATE, owner),
            callback_url=self.seal_callback(template.callback_url, owner),
        )

    # Values.

    def _seal_body(
        self, body: Body, field: Field, owner: Owner, version: int | None = None
    ) -> Body:
        if body.encoding is Encoding.ENCRYPTED:
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
            failure.category, to_text(sealed), code=failure.code, culprit=failure.culprit
        )

    def _seal_once(self, failure: Failure | None, holder: LeaseHolder) -> Failure | None:
        if failure is None or from_text(failure.message) is not None:
            return failure
        return self._seal_failure(failure, holder)

    def _seal_progress(self, progress: Progress, holder: LeaseHolder) -> Progress:
        if not progress.message:
            return progress
        data = stamped(holder.version, progress.message.encode())
        sealed = self._cipher.seal(data, Field.PROGRESS, holder.owner)
        return Progress(progress.fraction, to_text(sealed))


def stamped(version: int, data: bytes) -> bytes:
    """Return *data* behind the version of the lease under which it is written."""
    return version.to_bytes(VERSION_BYTES, "big") + data


def unstamped(data: bytes) -> tuple[int, bytes]:
    """Return the version and what was written under it."""
    return int.from_bytes(data[:VERSION_BYTES], "big"), data[VERSION_BYTES:]
