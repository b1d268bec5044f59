"""Decrypts what comes out of a store, value by value, and refuses what cannot be trusted.

A value is refused if it does not authenticate in its place, if it belongs to another attempt, or if
it is not encrypted and ``core.encryption`` does not accept that. Looking at a job never fails:
a refused value is replaced (``REFUSED``, ``REFUSED_TEXT``), and one that cannot be opened is left
as it is, so that a store can be copied without its keys. Decoding either raises an error that says
why.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from operator import eq, ge, gt
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from fencepost.clock import Clock
from fencepost.core.encryption import (
    NONCE_BYTES,
    REFUSED,
    REFUSED_TEXT,
    TAG_BYTES,
    TAMPERED,
    Field,
    Owner,
    Plain,
    from_text,
    header,
)
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
from fencepost.core.job.outcome import CANCELLED, LEASE_EXPIRED, LIFETIME_EXCEEDED, UNREADABLE_JOB
from fencepost.core.job.replays import BulkReplay
from fencepost.core.webhooks.delivery import Delivery
from fencepost.errors import EncryptionError, MissingKeyError, PlainContentError, TamperedError
from fencepost.store.sql.codec import UNREADABLE
from fencepost.store.wrappers.encrypted.encrypt import (
    MARKS,
    Cipher,
    Details,
    owner_of,
    owner_of_template,
    sealed_delivery,
    unstamped,
)

_ENCODINGS = {mark: encoding for encoding, mark in MARKS.items()}
_details = msgspec.json.Decoder(Details)

B = TypeVar("B", Body, Body | None)
V = TypeVar("V", Body, str)
IsRight = Callable[[int], bool]
"""Tells whether something may have been written under the lease of this version."""


class Opener:
    """Decrypts the values that come from a store, with the keys of one ring."""

    def __init__(self, cipher: Cipher, plain: Plain, clock: Clock) -> None:
        self._cipher = cipher
        self._plain = plain
        self._clock = clock

    def open_claimed(self, job: ClaimedJob) -> ClaimedJob:
        """Return *job* with its bodies decrypted.

        One whose key is missing stays as it is, and one that is refused is replaced: reading it
        then fails the attempt with the one reason or the other.
        """
        payload = _claimed(job.payload, partial(self._open_payload, job, job.payload))
        checkpoint, is_past = job.checkpoint, partial(gt, job.lease.version)
        if checkpoint is not None:
            opened = partial(self._open_body, checkpoint, Field.CHECKPOINT, owner_of(job), is_past)
            checkpoint = _claimed(checkpoint, opened)
        return replace(job, payload=payload, checkpoint=checkpoint)

    def open_payload(self, job: Job) -> Body:
        """Return the payload of *job* decrypted, or raise EncryptionError."""
        return self._open_payload(job, job.payload_body)

    def _open_payload(self, job: Job | ClaimedJob, payload: Body) -> Body:
        delivery = sealed_delivery(job.type, payload)
        if delivery is not None:
            return self._open_delivery(delivery)
        return self._open_body(payload, Field.PAYLOAD, owner_of(job))

    def _open_delivery(self, delivery: Delivery) -> Body:
        """Return the store's own delivery for a job that ended, with the address decrypted."""
        data = from_text(delivery.url)
        assert data is not None
        url = self._cipher.open(data, Field.CALLBACK, Owner(delivery.job_id.lower()))
        return Body(msgspec.json.encode(replace(delivery, url=url.decode())))

    def open_callback(self, job: Job) -> str | None:
        """Return the decrypted callback URL of *job*, or raise EncryptionError."""
        return self._open_callback(job.callback_url, owner_of(job))

    def _open_callback(self, url: str | None, owner: Owner) -> str | None:
        if url is None:
            return None
        data = from_text(url)
        if data is None:
            return self._accept(url)
        return self._cipher.open(data, Field.CALLBACK, owner).decode()

    def open_job(self, job: Job) -> Job:
        """Return *job* with everything decrypted that can be."""
        owner, is_past = owner_of(job), partial(ge, job.lease_version)
        return replace(
            job,
            payload_body=_seen(job.payload_body, partial(self.open_payload, job)),
            callback_url=self._see_callback(job.callback_url, owner),
            result_body=self.open_result(job),
            checkpoint_body=self._see_body(job.checkpoint_body, Field.CHECKPOINT, owner, is_past),
            progress=self._open_progress(job.progress, owner, is_past),
            failure=self._open_failure(job.failure, owner, is_past),
        )

    def open_result(self, job: Job) -> Body | None:
        """Return the result of *job* decrypted; one that its last attempt did not write is refused.

        A completed job without a result is refused, too: with encryption, even ``null`` is stored.
        """
        if job.state is not State.COMPLETED:
            return None if job.result_body is None else TAMPERED
        if job.result_body is None:
            return None if self._plain.accepts(self._clock.now()) else TAMPERED
        is_last = partial(eq, job.lease_version)
        return self._see_body(job.result_body, Field.RESULT, owner_of(job), is_last)

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
        """Return *record* with everything decrypted that can be.

        Plain content that is refused raises PlainContentError: the copy would lack it.
        """
        owner = owner_of(record.job)
        attempts = tuple(self.open_attempt(each, owner) for each in record.attempts)
        opened = replace(record, job=self.open_job(record.job), attempts=attempts)
        if _lacks(opened):
            raise PlainContentError(f"job {record.job.id}")
        return opened

    def open_template(self, template: NewJob | None, cron: str) -> NewJob | None:
        """Return the template of a cron's jobs, decrypted if it can be."""
        if template is None:
            return None
        owner = owner_of_template(template, cron)
        return replace(
            template,
            payload=self._see_body(template.payload, Field.TEMPLATE, owner),
            callback_url=self._see_callback(template.callback_url, owner),
        )

    def open_event(self, event: SentEvent) -> SentEvent:
        """Return the record *event* decrypted, if it can be."""
        owner = Owner(event.id, event.name)
        return replace(event, payload=self._see_body(event.payload, Field.EVENT, owner))

    def open_replay(self, replay: BulkReplay) -> BulkReplay:
        """Return *replay* with its patch decrypted, if it can be."""
        owner = Owner(f"replay:{replay.id}")
        return replace(replay, patch=self._see_body(replay.patch, Field.PATCH, owner))

    def _accept(self, value: V) -> V:
        """Return what is not encrypted, if that is accepted today."""
        if self._plain.accepts(self._clock.now()):
            return value
        raise PlainContentError

    def _open_body(
        self, body: Body, field: Field, owner: Owner, is_right: IsRight | None = None
    ) -> Body:
        """Return *body* decrypted; what an attempt has written *is_right* or not."""
        if body.encoding is not Encoding.ENCRYPTED:
            return self._accept(body)
        if body == REFUSED:  # copied from where it was refused
            raise PlainContentError
        if is_right is None:
            data = self._cipher.open(body.data, field, owner)
        else:
            data = self._open_stamped(body.data, field, owner, is_right)
        return Body(data[1:], _ENCODINGS[data[:1]])

    def _open_stamped(self, data: bytes, field: Field, owner: Owner, is_right: IsRight) -> bytes:
        version, opened = unstamped(self._cipher.open(data, field, owner))
        if not is_right(version):
            raise TamperedError
        return opened

    def _see_body(self, body: B, field: Field, owner: Owner, is_right: IsRight | None = None) -> B:
        if body is None:
            return None
        return _seen(body, partial(self._open_body, body, field, owner, is_right))

    def _see_callback(self, url: str | None, owner: Owner) -> str | None:
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
        opened = self._open_text(failure.message, Field.FAILURE, owner, is_right)
        if opened is None:
            return failure
        details = Details(opened) if isinstance(opened, str) else _details.decode(opened)
        return replace(
            failure,
            message=details.message,
            exception=details.exception,
            traceback=details.traceback,
        )

    def _open_progress(
        self, progress: Progress | None, owner: Owner, is_right: IsRight
    ) -> Progress | None:
        if progress is None or not progress["message"]:
            return progress
        opened = self._open_text(progress["message"], Field.PROGRESS, owner, is_right)
        if opened is None:
            return progress
        message = opened if isinstance(opened, str) else opened.decode()
        return {**progress, "message": message}

    def _open_text(
        self, text: str, field: Field, owner: Owner, is_right: IsRight
    ) -> bytes | str | None:
        """Return what was sealed into *text*; None if it is plain and accepted.

        Returns a text to show if it is refused, or cannot be opened.
        """
        data = from_text(text)
        if data is None:
            return None if self._plain.accepts(self._clock.now()) else REFUSED_TEXT
        try:
            return self._open_stamped(data, field, owner, is_right)
        except EncryptionError:
            return text


def _claimed(body: Body, open_: Callable[[], Body]) -> Body:
    """Return a body of a claimed job in the form in which its worker gets it."""
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
    """Return a body in the form in which readers see it."""
    try:
        return open_()
    except PlainContentError:
        return REFUSED
    except EncryptionError:
        return body


def _lacks(record: JobRecord) -> bool:
    """Return whether a value of *record* was refused because it was not encrypted."""
    job = record.job
    failures = (job.failure, *(each.failure for each in record.attempts))
    progress = "" if job.progress is None else job.progress["message"]
    texts = [job.callback_url, progress, *(each.message for each in failures if each)]
    bodies = (job.payload_body, job.result_body, job.checkpoint_body)
    return REFUSED in bodies or REFUSED_TEXT in texts


_FIXED = (LEASE_EXPIRED.failure, UNREADABLE, CANCELLED, LIFETIME_EXCEEDED, UNREADABLE_JOB)
_MESSAGES = {
    "execution_timeout": re.compile(r"ran longer than its timeout of [0-9.e+]{1,20} s", re.ASCII),
    "dependency_failed": re.compile(
        r"it waited for job [0-9a-f-]{36}, which ended as (failed|dead_letter|cancelled)", re.ASCII
    ),
}


def is_stores_own(failure: Failure) -> bool:
    """Return whether *failure* is one that a store records by itself.

    A store has no keys. So it records these without encryption, also where plain content is
    refused. They say nothing of a job's content, and any other text was not written by a store.
    """
    if failure in _FIXED:
        return True
    form = _MESSAGES.get(failure.code or "")
    if form is None or failure.exception is not None or failure.traceback is not None:
        return False
    return form.fullmatch(failure.message) is not None
