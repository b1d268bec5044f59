"""Compares new jobs with those that hold their keys, which takes the keys of encryption.

Encrypted, every payload is another one. So the jobs that hold keys are read and decrypted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from msgspec.structs import replace

from fencepost.core.job.job import Body, Job, NewJob
from fencepost.core.values.names import id_text
from fencepost.core.values.payload import differences
from fencepost.errors import DuplicateJobError, EncryptionError
from fencepost.store.interface.queue import Duplicate, EnqueueReply, portions
from fencepost.store.plan import Plan
from fencepost.store.wrappers.encrypted.decrypt import Opener

T = TypeVar("T")
READ_AT_ONCE = 100
"""How many jobs that hold keys are read at once: each may be large."""
Get = Callable[[Iterable[str]], Plan[dict[str, Job]]]
"""Reads jobs by their ids, as they are stored."""


class SealedJobs:
    """New jobs, as they were given and as they are stored."""

    def __init__(
        self, jobs: Sequence[NewJob], sealed: Sequence[NewJob], get: Get, opener: Opener
    ) -> None:
        self.sealed = sealed
        self._jobs = jobs
        self._get = get
        self._opener = opener
        self._ids = [None if job.id is None else id_text(job.id) for job in sealed]

    def stored(self, plan: Plan[T]) -> Plan[T]:
        """Run *plan*, which stores them; if it refuses a duplicate, say in what that differs."""
        try:
            return (yield from plan)
        except DuplicateJobError as error:
            holder = error.existing_id
            assert holder is not None
            held = yield from self._held([holder])
            refused = next(
                job
                for job, job_id in zip(self._jobs, self._ids, strict=True)
                if job.key is not None and (job.type, job.key.value) == (error.type, error.key)
                if job_id != holder  # one job of a batch may hold the key of the next
            )
            raise DuplicateJobError(
                type=error.type,
                key=error.key,
                existing_id=holder,
                differs=differences(held.get(holder), refused.payload),
            ) from None

    def compared(self, replies: list[EnqueueReply]) -> Plan[list[EnqueueReply]]:
        """Return the *replies* to them, in which each duplicate says in what it differs."""
        answers = list(replies)
        places = [place for place, each in enumerate(replies) if isinstance(each, Duplicate)]
        for some in portions(places, READ_AT_ONCE):
            held = yield from self._held([replies[place].job_id for place in some])
            for place in some:
                found = held.get(replies[place].job_id)
                differs = differences(found, self._jobs[place].payload)
                answers[place] = replace(replies[place], differs=differs)
        return answers

    def _held(self, job_ids: Sequence[str]) -> Plan[dict[str, Body | None]]:
        """Return the payloads of these jobs by id; None for one that cannot be decrypted."""
        own = {job_id: job.payload for job_id, job in zip(self._ids, self._jobs, strict=True)}
        held: dict[str, Body | None] = {each: own[each] for each in job_ids if each in own}
        found = yield from self._get(each for each in job_ids if each not in own)
        return held | {job.id: self._open(job) for job in found.values()}

    def _open(self, job: Job) -> Body | None:
        try:
            return self._opener.open_payload(job)
        except EncryptionError:
            return None
