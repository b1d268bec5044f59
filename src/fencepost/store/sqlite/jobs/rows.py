"""Rows as values, values as rows, and many rows in one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

from fencepost.core.flows.dependents import Parent
from fencepost.core.job.job import Body
from fencepost.core.job.policy import Priority
from fencepost.core.values.names import id_bytes, id_text
from fencepost.core.values.times import from_us, to_us
from fencepost.store.plan import Row
from fencepost.store.sql.codec import (
    BY_NUMBER,
    ENCODING_NUMBER,
    ENCODINGS,
    Codec,
    decode_failure,
    encode_json,
)
from fencepost.store.sql.endings import Stored


def as_bytes(column: str) -> str:
    """Return SQL that fetches content if it is bytes; text (a damaged row) as a number.

    Neither can be read as content; but text that is not UTF-8 cannot even be fetched.
    """
    return f"case typeof({column}) when 'text' then 0 else {column} end"


JOB_COLUMNS = f"""
seq, id, (select queue from lanes where lanes.lane = jobs.lane),
(select type from lanes where lanes.lane = jobs.lane), priority, policy, state, attempt,
max_attempts, lease_version, run_at, lease_expires_at, worker, created_at, updated_at, scheduled_at,
started_at, completed_at, expires_at, key, correlation_id, tags, replay_of, failure, progress,
flow, node, mode, missing, depth, gathers, own_priority,
(select concurrency_key from slots where slots.slot = jobs.slot), callback_url, submitter,
{as_bytes("checkpoint")}, checkpoint_encoding, {as_bytes("result")}, result_encoding,
{as_bytes("payload")}, payload_encoding
"""


def decode_body(data: bytes | None, encoding: int | None) -> Body | None:
    """Return a body; None if there is none or it cannot be read."""
    if not isinstance(data, bytes) or encoding not in (0, 1, 2):
        return None
    return Body(data, ENCODINGS[encoding])


def encode_body(body: Body | None) -> tuple[bytes | None, int | None]:
    """Return the two columns of a body."""
    return (None, None) if body is None else (body.data, ENCODING_NUMBER[body.encoding])


CODEC = Codec(
    encode_time=to_us,
    decode_time=from_us,
    encode_id=id_bytes,
    decode_id=id_text,
    encode_body=encode_body,
    decode_body=decode_body,
    encode_list=encode_json,
)


PARENT_COLUMNS = "jobs.seq, jobs.id, jobs.state, jobs.priority, jobs.depth, jobs.failure"
PRIORITIES = tuple(Priority)


def stored(row: Row) -> Stored:
    """Return the job in a row with PARENT_COLUMNS, for those that wait for it."""
    seq, id_, state, priority, depth, failure = row
    urgency = PRIORITIES[priority]
    parent = Parent(id_text(id_), BY_NUMBER[state], urgency, depth or 1, decode_failure(failure))
    return Stored(seq, parent)


CHUNK_MAX = 256


def values(template: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements and parameters that together cover *rows*; ``{values}`` is filled in.

    ``executemany`` releases the interpreter's lock at every row, and waits for the thread that
    runs handlers to get it back: five milliseconds a row at worst. One statement a chunk waits
    once. Chunks are powers of two, so that few distinct texts are prepared and all stay prepared.
    """
    start = 0
    while start < len(rows):
        size = min(CHUNK_MAX, 1 << (len(rows) - start).bit_length() - 1)
        chunk = rows[start : start + size]
        yield _text(template, len(chunk), len(chunk[0])), list(chain.from_iterable(chunk))
        start += size


@lru_cache(maxsize=256)
def _text(template: str, count: int, width: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return template.replace("{values}", "values " + ",".join([row] * count))


def numbers_json(numbers: Sequence[Any]) -> str:
    """Return a list of numbers for json_each."""
    return "[" + ",".join(map(str, numbers)) + "]"
