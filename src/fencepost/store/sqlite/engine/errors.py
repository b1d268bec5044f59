"""SQLite's errors as errors of a store."""

from __future__ import annotations

import sqlite3

from fencepost.errors import StoreError, StoreUnavailableError


class NotBegunError(StoreUnavailableError):
    """No transaction could begin, for any operation."""


_HINTS = (
    ("locked", "another program holds the database; close it, or wait"),
    ("readonly", "the file, its folder or the file system is read-only for this user"),
    ("full", "the disk is full; free some space"),
    ("unable to open", "the folder must exist and be writable, and a file descriptor be free"),
    ("not a database", "this file is not a SQLite database"),
    ("malformed", "the file is damaged; restore it from a backup"),
    ("disk i/o", "the disk reports an error"),
)


def unavailable(error: sqlite3.Error, path: str) -> StoreError:
    """Return the error for a transaction that SQLite has rolled back."""
    text = str(error)
    hint = next((hint for part, hint in _HINTS if part in text.lower()), None)
    return StoreUnavailableError(f"{path}: {text}" + (f": {hint}" if hint else ""))
