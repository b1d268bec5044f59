"""From rows to values and back."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from fencepost.core.job.job import Body, Encoding
from fencepost.store.sql.codec import ENCODING_NUMBER, ENCODINGS, Codec

_raw = msgspec.json.Decoder(msgspec.Raw)

JOB_COLUMNS = """
seq, id::text, queue, type, priority, policy, state, attempt, max_attempts, lease_version, run_at,
lease_expires_at, worker, created_at, updated_at, scheduled_at, started_at, completed_at,
expires_at, key, correlation_id, tags::text, replay_of::text, failure, progress,
flow, node, mode, missing, depth, gathers, own_priority, concurrency_key, callback_url, submitter,
checkpoint_encoding, checkpoint, checkpoint_bytes, result_encoding, result, result_bytes,
payload_encoding, payload, payload_bytes
"""
"""Columns of the view of all jobs."""


def utc(instant: datetime) -> datetime:
    """Return a time as the server gave it, in whatever zone its session is, in ours."""
    return instant.astimezone(UTC)


def plain_json(body: Body) -> str | None:
    """Return *body* as text that PostgreSQL gives back unchanged inside a JSON array, or None.

    Everything that ``core/values/payload.py`` encodes is such text; anything else is kept as bytes.
    """
    data = body.data
    if body.encoding is not Encoding.JSON or not data or data[0] <= 32 or data[-1] <= 32:
        return None
    try:
        _raw.decode(data)
        return data.decode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def body_fields(body: Body) -> tuple[int, str | None, bytes | None]:
    """Return the three columns of a body: how to read it, and it, as text or as bytes."""
    text = plain_json(body)
    return ENCODING_NUMBER[body.encoding], text, body.data if text is None else None


def hex_fields(body: Body | None) -> tuple[int | None, str | None, str | None]:
    """Return the same with the bytes in hexadecimal, as JSON can hold them; three None for none."""
    if body is None:
        return None, None, None
    encoding, text, data = body_fields(body)
    return encoding, text, None if data is None else data.hex()


def json_fields(name: str, body: Body | None) -> dict[str, Any]:
    """Return the same by the names under which the server's functions read a body."""
    encoding, text, digits = hex_fields(body)
    return {f"{name}_encoding": encoding, name: text, f"{name}_hex": digits}


def decode_body(encoding: int | None, text: str | None, data: bytes | None) -> Body | None:
    """Return a body, or None for none and for one that cannot be read."""
    if encoding not in (0, 1, 2) or (text is None and data is None):
        return None
    return Body(text.encode() if text is not None else bytes(data or b""), ENCODINGS[encoding])


CODEC = Codec(
    encode_time=lambda instant: instant,
    decode_time=utc,
    encode_id=str,
    decode_id=str,
    encode_body=body_fields,
    decode_body=decode_body,
    encode_list=list,
)
