"""How SQL engines keep values in columns: numbers for states, text for failures, and a codec.

``Codec`` holds what differs between engines; the rest is the same in each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from fencepost.clock import Clock
from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import Body, Category, Encoding, Failure, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import Policy
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.queue import EnqueueReply
from fencepost.store.plan import Plan

# The partial indexes of the schema name these numbers; they never change.
BY_NUMBER = (
    State.PENDING,
    State.SCHEDULED,
    State.DELAYED,
    State.RUNNING,
    State.RETRYING,
    State.COMPLETED,
    State.FAILED,
    State.DEAD_LETTER,
    State.CANCELLED,
)
NUMBER = {state: number for number, state in enumerate(BY_NUMBER)}

PENDING = NUMBER[State.PENDING]
SCHEDULED = NUMBER[State.SCHEDULED]
DELAYED = NUMBER[State.DELAYED]
RUNNING = NUMBER[State.RUNNING]
RETRYING = NUMBER[State.RETRYING]
COMPLETED = NUMBER[State.COMPLETED]

ENCODINGS = (Encoding.JSON, Encoding.BINARY, Encoding.ENCRYPTED)
ENCODING_NUMBER = {encoding: number for number, encoding in enumerate(ENCODINGS)}

MODES = (Mode.ALL, Mode.ANY, Mode.ENDED)
MODE_NUMBER = {mode: number for number, mode in enumerate(MODES)}
ENCRYPTED = ENCODING_NUMBER[Encoding.ENCRYPTED]

_failures = msgspec.json.Decoder(Failure)
_progress = msgspec.json.Decoder(Progress)
_tags = msgspec.json.Decoder(dict[str, str])
_encoder = msgspec.json.Encoder()

decode_limits = msgspec.json.Decoder(TypeLimits).decode

UNREADABLE = Failure(Category.SYSTEM, "the stored failure cannot be read", code="corrupt")


def encode_json(value: Any) -> str:
    """Return the text of a small value."""
    return _encoder.encode(value).decode()


def encode_failure(failure: Failure | None) -> str | None:
    """Return the column of a failure."""
    return None if failure is None else encode_json(failure)


def decode_failure(text: str | None) -> Failure | None:
    """Return a failure; one that cannot be read is still a failure."""
    if text is None:
        return None
    try:
        return _failures.decode(text)
    except (msgspec.DecodeError, TypeError):
        return UNREADABLE


def decode_progress(text: str | None) -> Progress | None:
    """Return progress, or None for one that cannot be read."""
    try:
        return None if text is None else _progress.decode(text)
    except (msgspec.DecodeError, TypeError):
        return None


def decode_tags(text: str | None) -> dict[str, str]:
    """Return tags, or raise msgspec.DecodeError if they are corrupt."""
    return _tags.decode(text) if text else {}


def readable_tags(text: str | None) -> dict[str, str]:
    """Return tags; none if they cannot be read."""
    try:
        return decode_tags(text)
    except (msgspec.DecodeError, TypeError):
        return {}


class LaneNames(Protocol):
    @property
    def queue(self) -> str: ...

    @property
    def type(self) -> str: ...


class NumberCatalog(Protocol):
    """What the numbers of lanes and policies in rows stand for."""

    def lanes(self, numbers: Iterable[int]) -> Plan[Mapping[int, LaneNames]]: ...

    def policies(self, numbers: Iterable[int]) -> Plan[dict[int, Policy]]: ...


class SqlEnv(Protocol):
    """What a shared plan uses of an engine's ``Env``."""

    @property
    def clock(self) -> Clock: ...

    @property
    def catalog(self) -> NumberCatalog: ...

    @property
    def now(self) -> Any:
        """The time as a parameter; None if the server is to use its own."""


E = TypeVar("E", bound=SqlEnv)
E_contra = TypeVar("E_contra", bound=SqlEnv, contravariant=True)


class Enqueue(Protocol[E_contra]):
    """How an engine stores new jobs as a part of another plan."""

    def __call__(
        self, env: E_contra, jobs: Sequence[NewJob], *, atomic: bool, now: Any
    ) -> Plan[list[EnqueueReply]]: ...


class Codec(NamedTuple):
    """Times, ids of jobs and bodies as columns, and back."""

    encode_time: Callable[[datetime], Any]
    decode_time: Callable[[Any], datetime]
    encode_id: Callable[[str], Any]
    decode_id: Callable[[Any], str]
    encode_body: Callable[[Body], tuple[Any, ...]]
    """The columns of a body; an engine has as many as it needs."""
    decode_body: Callable[..., Body | None]
    """The body of these columns; None for one that cannot be read."""
    encode_list: Callable[[Sequence[Any]], Any]
    """A list of numbers or names as one parameter."""

    def encode_time_or_none(self, instant: datetime | None) -> Any:
        return None if instant is None else self.encode_time(instant)

    def decode_time_or_none(self, column: Any) -> datetime | None:
        return None if column is None else self.decode_time(column)
