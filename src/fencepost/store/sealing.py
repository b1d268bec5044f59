"""Encrypts what goes into a store, value by value, and decrypts what comes out.

What cannot be opened is left as it is: to look at a job never fails, and a store that is copied
without its keys is copied whole. Only a claimed job is told apart: see ``open_claimed``.
"""

from __future__ import annotations

import msgspec
from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.envelope import TAMPERED, Field, Owner, from_text, to_text
from fencepost.core.events import NewEvent, SentEvent
from fencepost.core.ids import id_text
from fencepost.core.job import (
    Attempt,
    Body,
    ClaimedJob,
    DeadLetter,
    Dependency,
    Encoding,
    Failure,
    Job,
    JobRecord,
    NewJob,
    Progress,
)
from fencepost.core.keyring import KeyRing
from fencepost.core.outcome import Settlement
from fencepost.errors import EncryptionError, MissingKeyError
from fencepost.store.cipher import Cipher
from fencepost.store.requests import Save

# Which of the two a body was stands before its bytes.
_MARKS = {Encoding.JSON: b"j", Encoding.BINARY: b"b"}
_ENCODINGS = {mark: encoding for encoding, mark in _MARKS.items()}


class _Details(msgspec.Struct, array_like=True):
    """What of a failure is encrypted; its category and code stay readable."""

    message: str
    exception: str | None = None
    traceback: str | None = None


_details = msgspec.json.Decoder(_Details)
_encoder = msgspec.json.Encoder()


class Sealer:
    """One ring's way with the values that travel to a store and back."""

    def __init__(self, ring: KeyRing, clock: Clock) -> None:
        self._cipher = Cipher(ring, clock)

    # On the way in.

    def seal_new(self, job: NewJob, id_: bytes) -> NewJob:
        """Return *job* with its id chosen and its payload encrypted for it."""
        payload = self.seal_payload(job.payload, Owner(id_text(id_), job.type))
        return replace(job, id=id_, payload=payload)

    def seal_payload(self, payload: Body, owner: Owner) -> Body:
        """Return *payload* encrypted for one job."""
        return self._seal_body(payload, Field.PAYLOAD, owner)

    def seal_settlement(self, settlement: Settlement, type: str) -> Settlement:
        """Return *settlement* with its result or failure encrypted."""
        decision, owner = settlement.decision, Owner(settlement.job_id, type)
        if decision.result is not None:
            result = self._seal_body(decision.result, Field.RESULT, owner)
            decision = replace(decision, result=result)
        if decision.failure is not None:
            decision = replace(decision, failure=self._seal_failure(decision.failure, owner))
        return replace(settlement, decision=decision)

    def seal_save(self, save: Save, type: str) -> Save:
        """Return *save* with what it keeps encrypted."""
        owner = Owner(save.job_id, type)
        checkpoint, progress = save.checkpoint, save.progress
        if checkpoint is not None:
            checkpoint = self._seal_body(checkpoint, Field.CHECKPOINT, owner)
        if progress is not None:
            progress = self._seal_progress(progress, owner)
        return replace(save, checkpoint=checkpoint, progress=progress)

    def seal_record(self, record: JobRecord) -> JobRecord:
        """Return *record* encrypted; what is so already, under whatever key, is left as it is."""
        job = record.job
        owner = Owner(job.id, job.type)
        bodies = {
            field.value: None if body is None else self._seal_body(body, field, owner)
            for field, body in _bodies(job).items()
        }
        progress, failure = job.progress, job.failure
        if progress is not None and from_text(progress.message) is None:
            progress = self._seal_progress(progress, owner)
        attempts = tuple(
            replace(each, failure=self._seal_once(each.failure, owner)) for each in record.attempts
        )
        failure = self._seal_once(failure, owner)
        sealed = replace(job, **bodies, progress=progress, failure=failure)
        return replace(record, job=sealed, attempts=attempts)

    def seal_event(self, event: NewEvent, id_: bytes) -> NewEvent:
        """Return *event* with its id chosen and its payload encrypted for it."""
        payload = self.seal_payload(event.payload, Owner(id_text(id_), event.name))
        return replace(event, id=id_, payload=payload)

    def seal_sent(self, event: SentEvent) -> SentEvent:
        """Return the record *event* encrypted, unless it is so already."""
        payload = self.seal_payload(event.payload, Owner(event.id, event.name))
        return replace(event, payload=payload)

    def seal_template(self, template: NewJob, cron: str) -> NewJob:
        """Return what a cron's jobs are made of with the payload encrypted for that cron."""
        payload = self.seal_payload(template.payload, Owner(cron, template.type))
        return replace(template, payload=payload)

    def _seal_body(self, body: Body, field: Field, owner: Owner) -> Body:
        if body.encoding is Encoding.ENCRYPTED:
            return body
        sealed = self._cipher.seal(_MARKS[body.encoding] + body.data, field, owner)
        return Body(sealed, Encoding.ENCRYPTED)

    def _seal_failure(self, failure: Failure, owner: Owner) -> Failure:
        details = _Details(failure.message, failure.exception, failure.traceback)
        sealed = self._cipher.seal(_encoder.encode(details), Field.FAILURE, owner)
        return Failure(
            failure.category, to_text(sealed), code=failure.code, culprit=failure.culprit
        )

    def _seal_once(self, failure: Failure | None, owner: Owner) -> Failure | None:
        if failure is None or from_text(failure.message) is not None:
            return failure
        return self._seal_failure(failure, owner)

    def _seal_progress(self, progress: Progress, owner: Owner) -> Progress:
        if not progress.message:
            return progress
        sealed = self._cipher.seal(progress.message.encode(), Field.PROGRESS, owner)
        return Progress(progress.fraction, to_text(sealed))

    # On the way out.

    def open_claimed(self, job: ClaimedJob) -> ClaimedJob:
        """Return *job* with its bodies decrypted.

        One whose key is missing stays as it is, and one that does not authenticate is replaced:
        whoever reads it then fails the attempt for the one reason or the other.
        """
        payload = self._open_claimed(job, job.payload, Field.PAYLOAD)
        checkpoint = job.checkpoint
        if checkpoint is not None:
            checkpoint = self._open_claimed(job, checkpoint, Field.CHECKPOINT)
        if payload is job.payload and checkpoint is job.checkpoint:
            return job
        return replace(job, payload=payload, checkpoint=checkpoint)

    def _open_claimed(self, job: ClaimedJob, body: Body, field: Field) -> Body:
        try:
            return self._open_body(body, field, Owner(job.id, job.type))
        except MissingKeyError:
            return body
        except EncryptionError:
            return TAMPERED

    def open_payload(self, job: Job) -> Body:
        """Return the payload of *job* decrypted, or raise EncryptionError."""
        return self._open_body(job.payload, Field.PAYLOAD, Owner(job.id, job.type))

    def open_job(self, job: Job) -> Job:
        """Return *job* with all of it decrypted that can be."""
        owner = Owner(job.id, job.type)
        bodies = {
            field.value: None if body is None else self._try_body(body, field, owner)
            for field, body in _bodies(job).items()
        }
        progress = self._open_progress(job.progress, owner)
        failure = self._open_failure(job.failure, owner)
        return replace(job, **bodies, progress=progress, failure=failure)

    def open_template(self, template: NewJob | None, cron: str) -> NewJob | None:
        """Return what a cron's jobs are made of decrypted, if it can be."""
        if template is None:
            return None
        owner = Owner(cron, template.type)
        return replace(template, payload=self._try_body(template.payload, Field.PAYLOAD, owner))

    def open_event(self, event: SentEvent) -> SentEvent:
        """Return the record *event* decrypted, if it can be."""
        owner = Owner(event.id, event.name)
        return replace(event, payload=self._try_body(event.payload, Field.PAYLOAD, owner))

    def open_dependency(self, dependency: Dependency) -> Dependency:
        """Return *dependency* with its result decrypted, if it can be."""
        if dependency.result is None:
            return dependency
        owner = Owner(dependency.job_id, dependency.type)
        return replace(dependency, result=self._try_body(dependency.result, Field.RESULT, owner))

    def open_attempt(self, attempt: Attempt, type: str) -> Attempt:
        """Return *attempt*, of a job of this type, with its failure decrypted."""
        failure = self._open_failure(attempt.failure, Owner(attempt.job_id, type))
        return replace(attempt, failure=failure)

    def open_letter(self, letter: DeadLetter) -> DeadLetter:
        """Return *letter* with its failure decrypted."""
        failure = self._open_failure(letter.failure, Owner(letter.job_id, letter.type))
        return replace(letter, failure=failure)

    def open_record(self, record: JobRecord) -> JobRecord:
        """Return *record* with all of it decrypted that can be."""
        attempts = tuple(self.open_attempt(each, record.job.type) for each in record.attempts)
        return replace(record, job=self.open_job(record.job), attempts=attempts)

    def _open_body(self, body: Body, field: Field, owner: Owner) -> Body:
        if body.encoding is not Encoding.ENCRYPTED:
            return body  # from before there were keys
        data = self._cipher.open(body.data, field, owner)
        return Body(data[1:], _ENCODINGS[data[:1]])

    def _try_body(self, body: Body, field: Field, owner: Owner) -> Body:
        try:
            return self._open_body(body, field, owner)
        except EncryptionError:
            return body

    def _open_failure(self, failure: Failure | None, owner: Owner) -> Failure | None:
        data = None if failure is None else self._open_text(failure.message, Field.FAILURE, owner)
        if failure is None or data is None:
            return failure
        details = _details.decode(data)
        return replace(
            failure,
            message=details.message,
            exception=details.exception,
            traceback=details.traceback,
        )

    def _open_progress(self, progress: Progress | None, owner: Owner) -> Progress | None:
        if progress is None:
            return None
        data = self._open_text(progress.message, Field.PROGRESS, owner)
        return progress if data is None else Progress(progress.fraction, data.decode())

    def _open_text(self, text: str, field: Field, owner: Owner) -> bytes | None:
        """Return what is in the envelope that *text* carries; None if it cannot be opened."""
        data = from_text(text)
        try:
            return None if data is None else self._cipher.open(data, field, owner)
        except EncryptionError:
            return None


def _bodies(job: Job) -> dict[Field, Body | None]:
    return {
        Field.PAYLOAD: job.payload,
        Field.RESULT: job.result,
        Field.CHECKPOINT: job.checkpoint,
    }
