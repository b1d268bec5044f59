"""A job in a unit of work: as it was read, and as it is to be written."""

from __future__ import annotations

from typing import Any

from fencepost.core.job.job import Failure
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy, Priority
from fencepost.core.values.names import id_text
from fencepost.store.redis.documents.document import Document, LeaseRecord
from fencepost.store.redis.documents.numbers import number_text, number_word
from fencepost.store.sql.codec import BY_NUMBER, RUNNING, decode_failure, encode_failure

PRIORITIES = tuple(Priority)


class Kept:
    """A job in a unit of work: as it was read, and as it is to be written."""

    __slots__ = (
        "before",
        "document",
        "id",
        "lease",
        "lease_was",
        "number",
        "policy",
        "read",
        "read_lease",
        "seq",
        "was",
        "word",
    )

    def __init__(
        self,
        seq: int,
        document: Document,
        policy: Policy,
        lease: LeaseRecord | None = None,
        *,
        read: bytes | None = None,
        read_lease: bytes | None = None,
    ) -> None:
        self.seq = seq
        self.number = number_text(seq)
        self.word = number_word(self.number)
        self.document = document
        self.id = id_text(document.id)
        self.policy = policy
        self.lease = lease
        self.read = read
        """What was read; None for a new job."""
        self.read_lease = read_lease
        self.lease_was = lease
        """Its lease when it was read."""
        self.was = None if read is None else self.state
        """The state in which it was read."""
        self.before: Any = None
        """Where it was found when it was read, if that is known already."""

    @property
    def type(self) -> str:
        return self.document.type

    @property
    def queue(self) -> str:
        return self.document.queue_name

    @property
    def state(self) -> State:
        return State.RUNNING if self.lease is not None else BY_NUMBER[self.document.number]

    @property
    def attempt(self) -> int:
        return self.document.attempt if self.lease is None else self.lease.attempt

    @property
    def max_attempts(self) -> int:
        return self.document.max_attempts

    @property
    def priority(self) -> Priority:
        return PRIORITIES[self.document.priority]

    @property
    def failure(self) -> Failure | None:
        return decode_failure(self.document.failure)

    @property
    def depth(self) -> int:
        waits = self.document.waits
        return 1 if waits is None else waits[2] or 1

    @property
    def missing(self) -> int:
        waits = self.document.waits
        return 0 if waits is None else waits[1] or 0

    @missing.setter
    def missing(self, count: int) -> None:
        waits = self.document.waits
        assert waits is not None
        self.document.waits = [waits[0], count, *waits[2:]]

    @property
    def is_held(self) -> bool:
        """Whether only its concurrency key keeps it from being claimable."""
        return (
            self.state is State.PENDING
            and self.document.concurrency_key is not None
            and not self.missing
        )

    def set_state(self, state: State) -> None:
        assert state is not State.RUNNING
        self.document.number = BY_NUMBER.index(state)

    def set_failure(self, failure: Failure | None) -> None:
        self.document.failure = encode_failure(failure)


assert BY_NUMBER[RUNNING] is State.RUNNING
