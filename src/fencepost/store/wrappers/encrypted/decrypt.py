"""Decrypts what comes out of a store, value by value, and refuses what is not to be trusted.

Refused is what does not authenticate where it stands, what belongs to another attempt, and what is
not encrypted at all unless ``core.plain`` accepts it. To look at a job never fails: what is refused
is replaced (``REFUSED``, ``REFUSED_TEXT``), and what cannot be opened is left as it is, so that a
store can be copied without its keys. Whoever decodes either is told why.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import eq, ge, gt
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.crypto.envelope import (
    NONCE_BYTES,
    REFUSED,
    REFUSED_TEXT,
    TAG_BYTES,
    TAMPERED,
    Field,
    Owner,
    from_text,
    header,
)
from fencepost.core.crypto.plain import Plain
from fencepost.core.events import SentEvent
from fencepost.core.job.job import (
    Attempt,
    Body,
    ClaimedJob,
    DeadLetter,
    Encoding,
    Failure,
    Job,
    JobRecord,
    NewJob,
    Progress,
)
from fencepost.core.job.lifecycle import State
from fencepost.core.webhooks.delivery import Delivery
from fencepost.errors import EncryptionError, MissingKeyError, PlainContentError, TamperedError
from fencepost.store.failures import is_stores_own
from fencepost.store.wrappers.encrypted.cipher import Cipher
from fencepost.store.wrappers.encrypted.encrypt import (
    MARKS,
    Details,
    owner_of,
    owner_of_template,
    sealed_delivery,
    unstamped,
)

_ENCODINGS = {mark: encoding for encoding, mark in MARKS.items()}
_details = msgspec.json.Decoder(Details)

V = TypeVar("V", Body, str)
IsRight = Callable[[int], bool]
"""Tells whether something may have been written under the lease of this version."""


class Opener:
    """One ring's way with the values that come from a store."""

    def __init__(self, cipher: Cipher, plain: Plain, clock: Clock) -> None:
        self._cipher = cipher
        self._plain = plain
        self._clock = clock

    # Jobs.

    def open_claimed(self, job: ClaimedJob) -> ClaimedJob:
        """Return *job* with its bodies decrypted.

        One whose key is missing stays as it is, and one that is refused is replaced: whoever reads
        it then fails the attempt for the one reason or the other.
        """
        payload = _claimed(job.payload, lambda: self.open_payload(job))
        checkpoint = job.checkpoint
        if checkpoint is not None:
            checkpoint = _claimed(checkpoint, lambda: self._open_checkpoint(job))
        return replace(job, payload=payload, checkpoint=checkpoint)

    def _open_checkpoint(self, job: ClaimedJob) -> Body:
        assert job.checkpoint is not None
        is_past = partial(gt, job.lease.version)
        return self._open_written(job.checkpoint, Field.CHECKPOINT, owner_of(job), is_past)

    def open_payload(self, job: Job | ClaimedJob) -> Body:
        """Return the payload of *job* decrypted, or raise EncryptionError."""
        delivery = sealed_delivery(job.type, job.payload)
        if delivery is not None:
            return self._open_delivery(delivery)
        return self._open_body(job.payload, Field.PAYLOAD, owner_of(job))

    def _open_delivery(self, delivery: Delivery) -> Body:
        """Return what a store says of the end of a job, with the address decrypted."""
        data = from_text(delivery.url)
        assert data is not None
        url = self._cipher.open(data, Field.CALLBACK, Owner(delivery.job_id.lower()))
        return Body(msgspec.json.encode(replace(delivery, url=url.decode())))

    def open_callback(self, job: Job) -> str | None:
        """Return where a webhook goes when *job* has ended, or raise EncryptionError."""
        return self._open_callback(job.callback_url, owner_of(job))

    def _open_callback(self, url: str | None, owner: Owner) -> str | None:
        data = None if url is None else from_text(url)
        if data is not None:
            return self._cipher.open(data, Field.CALLBACK, owner).decode()
        return None if url is None else self._accept(url)

    def open_job(self, job: Job) -> Job:
        """Return *job* with all of it decrypted that can be."""
        owner, is_past = owner_of(job), partial(ge, job.lease_version)
        checkpoint = job.checkpoint
        if checkpoint is not None:
            checkpoint = self._try_written(checkpoint, Field.CHECKPOINT, owner, is_past)
        return replace(
            job,
            payload=_seen(job.payload, lambda: self.open_payload(job)),
            callback_url=self._try_callback(job.callback_url, owner),
            result=self.open_result(job),
            checkpoint=checkpoint,
            progress=self._open_progress(job.progress, owner, is_past),
            failure=self._open_failure(job.failure, owner, is_past),
        )

    def open_result(self, job: Job) -> Body | None:
        """Return the result of *job* decrypted; one that its last attempt did not write is refused.

        So is none at all of a job that has completed: who encrypts stores one, if only ``null``.
        """
        if job.state is not State.COMPLETED:
            return None if job.result is None else TAMPERED
        if job.result is None:
            return None if self._plain.accepts(self._clock.now()) else TAMPERED
        is_last = partial(eq, job.lease_version)
        return self._try_written(job.result, Field.RESULT, owner_of(job), is_last)

    def open_attempt(self, attempt: Attempt, owner: Owner) -> Attempt:
        """Return *attempt*, of the job *owner*, with its failure decrypted."""
        is_its_own = partial(eq, attempt.lease_version)
        failure = self._open_failure(attempt.failure, owner, is_its_own)
        return replace(attempt, failure=failure)

    def open_letter(self, letter: DeadLetter) -> DeadLetter:
        """Return *letter* with its failure decrypted."""
        owner = Owner(letter.job_id, letter.type, letter.queue)
        failure = self._open_failure(letter.failure, owner, lambda _: True)
        assert failure is not None
        return replace(letter, failure=failure)

    def open_record(self, record: JobRecord) -> JobRecord:
        """Return *record* with all of it decrypted that can be.

        Plain content that is refused raises PlainContentError: it would be lost on the way.
        """
        owner = owner_of(record.job)
        attempts = tuple(self.open_attempt(each, owner) for each in record.attempts)
        opened = replace(record, job=self.open_job(record.job), attempts=attempts)
        if _lacks(opened):
            raise PlainContentError(f"job {record.job.id}")
        return opened

    # Events and crons.

    def open_template(self, template: NewJob | None, cron: str) -> NewJob | None:
        """Return what a cron's jobs are made of decrypted, if it can be."""
        if template is None:
            return None
        owner = owner_of_template(template, cron)
        return replace(
            template,
            payload=_seen(
                template.payload, lambda: self._open_body(template.payload, Field.TEMPLATE, owner)
            ),
            callback_url=self._try_callback(template.callback_url, owner),
        )

    def open_event(self, event: SentEvent) -> SentEvent:
        """Return the record *event* decrypted, if it can be."""
        owner = Owner(event.id, event.name)
        opened = _seen(event.payload, lambda: self._open_body(event.payload, Field.EVENT, owner))
        return replace(event, payload=opened)

    # Values.

    def _accept(self, value: V) -> V:
        """Return what is not encrypted, if that is accepted today."""
        if self._plain.accepts(self._clock.now()):
            return value
        raise PlainContentError

    def _open_body(self, body: Body, field: Field, owner: Owner) -> Body:
        if body.encoding is not Encoding.ENCRYPTED:
            return self._accept(body)
        if body == REFUSED:  # copied from where it was refused
            raise PlainContentError
        return _marked(self._cipher.open(body.data, field, owner))

    def _open_written(self, body: Body, field: Field, owner: Owner, is_right: IsRight) -> Body:
        if body.encoding is not Encoding.ENCRYPTED:
            return self._accept(body)
        return _marked(self._open_stamped(body.data, field, owner, is_right))

    def _open_stamped(self, data: bytes, field: Field, owner: Owner, is_right: IsRight) -> bytes:
        version, opened = unstamped(self._cipher.open(data, field, owner))
        if not is_right(version):
            raise TamperedError
        return opened

    def _try_written(self, body: Body, field: Field, owner: Owner, is_right: IsRight) -> Body:
        return _seen(body, lambda: self._open_written(body, field, owner, is_right))

    def _try_callback(self, url: str | None, owner: Owner) -> str | None:
        try:
            return self._open_callback(url, owner)
        except PlainContentError:
            return REFUSED_TEXT
        except EncryptionError:
            return url

    def _open_failure(
        self, failure: Failure | None, owner: Owner, is_right: IsRight
    ) -> Failure | None:
        if failure is None or is_stores_own(failure):
            return failure
        data = from_text(failure.message)
        if data is None:
            if self._plain.accepts(self._clock.now()):
                return failure
            return replace(failure, message=REFUSED_TEXT, exception=None, traceback=None)
        try:
            opened = self._open_stamped(data, Field.FAILURE, owner, is_right)
        except EncryptionError:
            return replace(failure, exception=None, traceback=None)
        details = _details.decode(opened)
        return replace(
            failure,
            message=details.message,
            exception=details.exception,
            traceback=details.traceback,
        )

    def _open_progress(
        self, progress: Progress | None, owner: Owner, is_right: IsRight
    ) -> Progress | None:
        if progress is None or not progress.message:
            return progress
        data = from_text(progress.message)
        if data is None:
            if self._plain.accepts(self._clock.now()):
                return progress
            return replace(progress, message=REFUSED_TEXT)
        try:
            opened = self._open_stamped(data, Field.PROGRESS, owner, is_right)
        except EncryptionError:
            return progress
        return replace(progress, message=opened.decode())


def _marked(data: bytes) -> Body:
    return Body(data[1:], _ENCODINGS[data[:1]])


def _claimed(body: Body, open_: Callable[[], Body]) -> Body:
    """Return a body of a claimed job as whoever runs it is given it."""
    try:
        return open_()
    except MissingKeyError as error:
        if body.encoding is Encoding.ENCRYPTED:
            return body
        return Body(header(error.key_id) + bytes(NONCE_BYTES + TAG_BYTES), Encoding.ENCRYPTED)
    except PlainContentError:
        return REFUSED
    except EncryptionError:
        return TAMPERED


def _seen(body: Body, open_: Callable[[], Body]) -> Body:
    """Return a body as whoever looks at it is shown it."""
    try:
        return open_()
    except PlainContentError:
        return REFUSED
    except EncryptionError:
        return body


def _lacks(record: JobRecord) -> bool:
    """Tell whether anything of *record* was refused for not being encrypted."""
    job = record.job
    failures = (job.failure, *(each.failure for each in record.attempts))
    texts = [job.callback_url, *(each.message for each in (job.progress, *failures) if each)]
    return REFUSED in (job.payload, job.result, job.checkpoint) or REFUSED_TEXT in texts
