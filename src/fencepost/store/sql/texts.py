"""Failures, progress and tags as the text that tables keep, and back."""

from __future__ import annotations

from typing import Any

import msgspec

from fencepost.core.job.job import Category, Failure, Progress

_failures = msgspec.json.Decoder(Failure)
_progress = msgspec.json.Decoder(Progress)
_tags = msgspec.json.Decoder(dict[str, str])
_encoder = msgspec.json.Encoder()

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
