"""What happened, in order: at the store, in the processes, in the ledgers outside.

The history is all that the checker sees, and its digest says whether two runs were the same.
"""

from __future__ import annotations

import hashlib

import msgspec


class Snapshot(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A job as the store has it after one change; several within one operation are kept apart."""

    job_id: str
    type: str
    queue: str
    state: str
    attempt: int
    max_attempts: int
    version: int
    token: str | None = None
    worker: str | None = None
    ends_at: int | None = None
    """When the lease ends, in microseconds on the store's clock."""
    settled_token: str | None = None
    key: str | None = None
    expires_at: int = 0
    """When the job's lifetime ends, likewise."""
    saved: str = ""
    """The checkpoint and the progress, in short."""
    is_removed: bool = False
    mode: str = ""
    """When those that it waits for let it go; nothing if it has never waited for any."""
    awaited: tuple[str, ...] = ()
    """Who they are."""
    has_callback: bool = False
    concurrency_key: str | None = None
    per_key: int = 0
    """How many of its concurrency key may run at once."""


class Asked(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """What a worker asked for one job under one lease, and the replies."""

    job_id: str
    token: str
    answer: str
    event: str = ""
    """For a settlement: what it says that happened to the attempt."""


class Operated(msgspec.Struct, frozen=True, tag="operated", array_like=True):
    """One operation took effect at the store, or changed nothing."""

    at: float
    now: int
    """By the store's clock."""
    process: str
    name: str
    is_late: bool = False
    """A second delivery, long after the first."""
    asked: tuple[Asked, ...] = ()
    changes: tuple[Snapshot, ...] = ()
    error: str = ""


class Limited(msgspec.Struct, frozen=True, gc=False, tag="limited", array_like=True):
    """An operator bounded the running jobs of a queue, or ("") of the whole store."""

    at: float
    queue: str
    max_running: int | None


class Paused(msgspec.Struct, frozen=True, gc=False, tag="paused", array_like=True):
    """An operator paused a queue, or let it go on."""

    at: float
    queue: str
    is_paused: bool


class Acknowledged(msgspec.Struct, frozen=True, gc=False, tag="acknowledged", array_like=True):
    """A caller got the reply that its job is stored."""

    at: float
    process: str
    job_id: str


class Started(msgspec.Struct, frozen=True, gc=False, tag="started", array_like=True):
    """A handler was called."""

    at: float
    process: str
    job_id: str
    token: str
    version: int
    is_stubborn: bool = False
    """It will not let itself be interrupted at once."""


class Ended(msgspec.Struct, frozen=True, gc=False, tag="ended", array_like=True):
    """A handler came back: it ``returned``, ``raised`` or was ``interrupted``."""

    at: float
    process: str
    job_id: str
    token: str
    how: str


class Wrote(msgspec.Struct, frozen=True, gc=False, tag="wrote", array_like=True):
    """A handler wrote to a ledger outside, which may be one that looks at the lease's version."""

    at: float
    process: str
    job_id: str
    version: int
    is_fenced: bool
    is_accepted: bool


class Turn(msgspec.Struct, frozen=True, gc=False, tag="turn", array_like=True):
    """A process was booted, killed, stopped, continued, blocked, unblocked, terminated; it ended.

    Or its way to the store became ``cut off``, or ``connected`` again.
    """

    at: float
    process: str
    what: str


class Fault(msgspec.Struct, frozen=True, gc=False, tag="fault", array_like=True):
    """Something was made to go wrong."""

    at: float
    kind: str
    process: str = ""


class Defect(msgspec.Struct, frozen=True, gc=False, tag="defect", array_like=True):
    """Product code did what it must never do: it raised where nobody catches, or died."""

    at: float
    text: str


class Healed(msgspec.Struct, frozen=True, gc=False, tag="healed", array_like=True):
    """Nothing goes wrong from here on."""

    at: float


Event = (
    Operated
    | Limited
    | Paused
    | Acknowledged
    | Started
    | Ended
    | Wrote
    | Turn
    | Fault
    | Defect
    | Healed
)


class History:
    """Events in the order in which they happened."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._is_sealed = False

    def add(self, event: Event) -> None:
        if not self._is_sealed:
            self.events.append(event)

    def seal(self) -> None:
        """Take in no more: what is tidied up after the end did not happen."""
        self._is_sealed = True

    def digest(self) -> str:
        """Return a text that is equal for two histories only if they are."""
        return hashlib.sha256(msgspec.msgpack.encode(self.events)).hexdigest()
