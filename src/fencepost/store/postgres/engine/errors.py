"""What PostgreSQL's errors mean to a caller: not done, perhaps done, or rejected.

An error with a code came from the server, which then rolled back. An error without one is a lost
connection: a commit that was in flight may have succeeded.
"""

from __future__ import annotations

import psycopg

from fencepost.core import bounds
from fencepost.errors import (
    FencepostError,
    InvalidJobError,
    SchemaError,
    StoreError,
    StoreUnavailableError,
    TooManyLanesError,
    UnknownOutcomeError,
)

RETRIED = frozenset({"40001", "40P01"})
"""Serialization failure, deadlock: a repetition may succeed."""

LOCK_NOT_AVAILABLE = "55P03"

STALE_SESSION = frozenset({"57P01", "57P02", "57P05", "25P03", "26000", "0A000", "25006"})
"""The server ended this session, lost its prepared statements, or has become a standby: nothing was
done, and a new connection may succeed."""

STALE_NUMBERS = "FP001"
"""A number that this process remembers does not exist, see ``fencepost.check_numbers``."""

TOO_MANY_LANES = "FP002"
"""More pairs of queue and type than there may be, see ``fencepost.lane_numbers``."""

NOT_ACCEPTED = "FP003"
"""A move to another store was begun, see ``fencepost.accept_jobs``."""

_SCHEMA = frozenset({"42P01", "3F000", "42883", "42703"})

_HINTS_BY_STATE = {
    "25006": "this server is a read-only standby; name all hosts in the URL, or the primary",
    "42501": "this role lacks a right; grant it the runtime role",
    "53100": "the server's disk is full; free some space",
    "53200": "the server is out of memory",
    "53300": "too many connections; lower pool_size, raise max_connections, or use a pooler",
    LOCK_NOT_AVAILABLE: "another transaction holds a lock for too long; look at pg_stat_activity",
    "57014": "it took too long and was cancelled; look at pg_stat_activity and at its indexes",
    "57P01": "the server is shutting down or an administrator ended the connection",
    "57P02": "the server is recovering from a crash",
    "57P03": "the server is starting or stopping; wait a moment",
    NOT_ACCEPTED: "a move of its jobs to another store was begun; submit to that store",
    STALE_NUMBERS: "the server has lost what this process remembers of it; repeat it",
}

# Errors while connecting are text only: libpq gives no code for them.
_HINTS_BY_TEXT = (
    ("password authentication failed", "the user or the password in the URL is wrong"),
    ("no password supplied", "the URL has no password, and this server wants one"),
    ("no pg_hba.conf entry", "this server does not let this user in from here (pg_hba.conf)"),
    ("role", "does not exist", "the user in the URL does not exist; create it, or correct the URL"),
    ("database", "does not exist", "create the database, or correct the URL"),
    ("too many clients", _HINTS_BY_STATE["53300"]),
    ("too many connections", _HINTS_BY_STATE["53300"]),
    ("connection slots are reserved", _HINTS_BY_STATE["53300"]),
    ("session is read-only", _HINTS_BY_STATE["25006"]),
    ("the database system is", _HINTS_BY_STATE["57P03"]),
    ("connection refused", "nothing listens there; is the server running, are host and port right"),
    ("no such file or directory", "nothing listens there; is the server running"),
    ("translate host name", "this host is not known here; correct the URL"),
    ("resolve host", "this host is not known here; correct the URL"),
    ("timeout", "the server does not answer; are host, port and firewall right"),
    ("ssl", "the two sides do not agree on encryption; look at sslmode and the certificates"),
)


def is_loss(error: psycopg.Error) -> bool:
    """Return whether the connection broke before the server reported an outcome."""
    return isinstance(error, psycopg.OperationalError) and error.sqlstate is None


def is_schema_missing(error: psycopg.Error) -> bool:
    return error.sqlstate in _SCHEMA


def translate(
    error: psycopg.Error, *, sent_commit: bool, where: str = "PostgreSQL"
) -> FencepostError:
    """Return the error for a caller; *sent_commit* if a commit may have been in flight."""
    state = error.sqlstate
    text = f"{where}: {headline(error)}"
    if is_loss(error):
        if sent_commit:
            return UnknownOutcomeError(f"{text}; it may have been done: repeat it with its key")
        return _unavailable(error, text, state)
    if state == TOO_MANY_LANES:
        return TooManyLanesError(bounds.LANES_MAX)
    if is_schema_missing(error):
        return SchemaError(f"{text}; run `fencepost migrate`")
    if state in _HINTS_BY_STATE or state in RETRIED or state in STALE_SESSION:
        return _unavailable(error, text, state)
    if isinstance(error, psycopg.DataError):
        # The submitter sees this, who need not know where the store is.
        return InvalidJobError(f"PostgreSQL cannot hold this value: {headline(error)}")
    if isinstance(error, psycopg.OperationalError):
        return _unavailable(error, text, state)
    return StoreError(text)


def refused(error: psycopg.Error, *, where: str) -> StoreUnavailableError:
    """Return the error for a connection that could not be opened."""
    return _unavailable(error, f"cannot connect to {where}: {headline(error)}", error.sqlstate)


def _unavailable(error: psycopg.Error, text: str, state: str | None) -> StoreUnavailableError:
    hint = _HINTS_BY_STATE.get(state or "") or _hint_by_text(str(error).lower())
    return StoreUnavailableError(text + (f"; {hint}" if hint else ""))


def _hint_by_text(text: str) -> str | None:
    for *parts, hint in _HINTS_BY_TEXT:
        if all(part in text for part in parts):
            return hint
    return None


def headline(error: psycopg.Error) -> str:
    """Return the message without its details, which may quote the content of a job."""
    primary = error.diag.message_primary
    return primary or (str(error).strip().splitlines() or [type(error).__name__])[0]
