"""The lines of the ledgers.

Times are seconds since 1970: all processes share one machine's clock.
"""

from __future__ import annotations

import msgspec


class Line(msgspec.Struct, frozen=True, tag_field="is", gc=False, omit_defaults=True):
    """What every line has: when it was written."""

    at: float


# Callers. A key is ``type/slot/number``.


class Asked(Line, frozen=True, tag=True):
    """A caller is about to submit these keys, in one call."""

    keys: list[str]


class Acknowledged(Line, frozen=True, tag=True):
    """The call returned: whatever happens from here on, these jobs exist."""

    keys: list[str]
    jobs: list[str]
    seconds: float


class Doubted(Line, frozen=True, tag=True):
    """The call raised; it is made again with the same keys."""

    keys: list[str]
    seconds: float
    error: str
    is_unknown: bool
    """Whether it may have been done; False is surely not done."""


# Workers and their handlers.


class Up(Line, frozen=True, tag=True):
    """A worker is about to run, under this name."""

    worker: str
    pid: int
    code: str
    """The folder of the code that it runs."""


class Served(Line, frozen=True, tag=True):
    """The HTTP API listens, in this process."""

    pid: int


class Started(Line, frozen=True, tag=True):
    """A handler began, under this lease."""

    job: str
    type: str
    version: int
    attempt: int
    token: str
    pid: int
    checkpoint: int | None = None
    """What it was given of an earlier attempt."""


class Effected(Line, frozen=True, tag=True):
    """A handler did what it is there for."""

    job: str
    version: int


class Kept(Line, frozen=True, tag=True):
    """The store acknowledged a checkpoint."""

    job: str
    version: int
    step: int


class Ended(Line, frozen=True, tag=True):
    """A handler ended: ``returned``, ``raised`` or ``interrupted``."""

    job: str
    version: int
    how: str


class Stalled(Line, frozen=True, tag=True):
    """A process was not given the machine for so long, up to this moment."""

    pid: int
    seconds: float


# Zombies.


class Taken(Line, frozen=True, tag=True):
    """A job was claimed by somebody who means never to finish it."""

    job: str
    version: int
    token: str
    worker: str
    expires_at: float

    def is_over(self, now: float) -> bool:
        """Tell whether the lease has surely run out."""
        return now > self.expires_at


class Tried(Line, frozen=True, tag=True):
    """One round of stale writes, and what became of them."""

    count: int
    refused: int
    repeated: int
    """Answered by ``AlreadySettled``: a settlement was sent again, and nothing changed."""
    accepted: list[str]
    """What was accepted, one sentence each; must be empty."""
    jobs: list[str] = []
    """The jobs of which something was accepted."""
    since: float = 0.0
    """When the tokens were seen to be stale; a failover since may have taken back by what they
    became so. 0 if their time was over, which no failover takes back."""


# The nemesis.


class Killed(Line, frozen=True, tag=True):
    """A process was sent SIGKILL, or killed itself."""

    pid: int
    role: str


class Stopped(Line, frozen=True, tag=True):
    """A process was stopped with SIGSTOP at ``at``, and continued at *until*."""

    pid: int
    role: str
    until: float


class Struck(Line, frozen=True, tag=True):
    """A fault, from ``at`` to *until*."""

    kind: str
    until: float
    is_wide: bool
    """Whether the store itself was hurt, and so everybody."""


class Calm(Line, frozen=True, tag=True):
    """The faults are over, and all is mended."""


Entry = (
    Asked
    | Acknowledged
    | Doubted
    | Up
    | Served
    | Started
    | Effected
    | Kept
    | Ended
    | Stalled
    | Taken
    | Tried
    | Killed
    | Stopped
    | Struck
    | Calm
)
