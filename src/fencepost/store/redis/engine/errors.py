"""What errors of Redis mean to a caller: surely not done, perhaps done, or rejected.

An error that the server answered means that the script did nothing, except for one that stopped a
script at a command: what it had written before stays, unless that was its first write. If the
connection broke while a script was under way, it may have been run.
"""

from __future__ import annotations

import re

import redis.exceptions as theirs

from fencepost.errors import (
    FencepostError,
    StoreError,
    StoreUnavailableError,
    UnknownOutcomeError,
)

BROKEN = (theirs.ConnectionError, theirs.TimeoutError, OSError)

_CODES: tuple[tuple[type[Exception], str], ...] = (
    (theirs.BusyLoadingError, "LOADING"),
    (theirs.ReadOnlyError, "READONLY"),
    (theirs.NoPermissionError, "NOPERM"),
    (theirs.OutOfMemoryError, "OOM"),
    (theirs.MovedError, "MOVED"),
    (theirs.AskError, "ASK"),
    (theirs.TryAgainError, "TRYAGAIN"),
    (theirs.MasterDownError, "MASTERDOWN"),
    (theirs.ClusterDownError, "CLUSTERDOWN"),
    (theirs.ClusterCrossSlotError, "CROSSSLOT"),
)
"""The driver takes these codes off the text."""

_HINTS = (
    ("WRONGPASS", "the user or the password in the URL is wrong"),
    ("invalid username-password", "the user or the password in the URL is wrong"),
    ("invalid password", "the user or the password in the URL is wrong"),
    ("NOAUTH", "this server wants a password; write redis://user:password@host"),
    ("Authentication required", "this server wants a password; write redis://user:password@host"),
    ("without any password configured", "this server has no password; take it out of the URL"),
    ("NOPERM", "this user lacks a right; see the ACL rules in docs/redis.md"),
    ("user executing the script", "this user lacks a right; see the ACL rules in docs/redis.md"),
    ("ACL failure in script", "this user lacks a right; see the ACL rules in docs/redis.md"),
    ("READONLY", "this server is a replica; name the master in the URL"),
    ("LOADING", "the server is reading its data from the disk; wait a moment"),
    ("BUSY", "a script of another application runs for too long on this server"),
    ("OOM", "the server has no memory left; raise maxmemory"),
    ("MISCONF", "the server cannot write to its disk, and refuses writes; look at its log"),
    ("NOREPLICAS", "too few replicas are connected (min-replicas-to-write); look after them"),
    ("MOVED", "this server is a part of a cluster; write redis+cluster://host"),
    ("ASK", "the slot of these keys is being moved to another server; wait until that is done"),
    ("TRYAGAIN", "the slot of these keys is being moved to another server; wait until it is done"),
    ("CLUSTERDOWN", "a part of the cluster is down; look at `redis-cli cluster info`"),
    ("MASTERDOWN", "the replica has lost its master"),
    ("CROSSSLOT", "the keys are not in one slot; write the prefix with braces"),
    ("WRONGTYPE", "another application wrote a key of this prefix; give each its own `prefix`"),
    ("max number of clients", "too many connections; raise maxclients"),
    ("No connection available", "all connections of this process are in use"),
    ("Connection refused", "nothing listens there; is the server running, are host and port right"),
    ("Name or service not known", "this host is not known here; correct the URL"),
    ("certificate", "TLS failed; name the authority of the server's certificate by ssl_ca_certs"),
    ("SSL", "the two sides do not agree on encryption; rediss:// has it, redis:// has not"),
    ("Timeout", "the server does not answer; are host, port and firewall right"),
)

ELSEWHERE = frozenset({"READONLY", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN"})
"""Answers of a server that is not, or not yet, the one that has the keys."""

_CLOSED = re.compile(r"reset by peer|closed by server")
_STOPPED = re.compile(r"user_script|Error running script")
_UNDONE = "nothing was written"
"""What a script says whose first write was refused; see ``time.lua``."""


class UnfitError(theirs.ConnectionError):
    """A server that answers, but cannot be used: said while a connection to it is opened."""

    def __init__(self, text: str, *, may_move: bool = False) -> None:
        super().__init__(text)
        self.may_move = may_move
        """Whether another server may have taken over."""


class ServerChangedError(Exception):
    """Another server, or the same with other data, has taken over within an operation."""


def code_of(error: Exception) -> str:
    """Return the code of an error, empty if it has none that matters."""
    for kind, code in _CODES:
        if isinstance(error, kind):
            return code
    return next((word for word in re.findall(r"[A-Z]{3,}", str(error)) if word in _KNOWN), "")


_KNOWN = {sign for sign, _ in _HINTS if sign.isupper() and sign not in ("SSL", "ASK")}


def is_elsewhere(error: Exception) -> bool:
    """Tell whether nothing was done because another server has the keys, or soon will."""
    if isinstance(error, UnfitError):
        return error.may_move
    return isinstance(error, theirs.ResponseError) and code_of(error) in ELSEWHERE


def refused(error: Exception, *, where: str) -> StoreUnavailableError:
    """Return the error for a connection that could not be opened."""
    if isinstance(error, UnfitError):
        return StoreUnavailableError(f"{where}: {error}")
    text = _text(error)
    if _CLOSED.search(text) and _hint(text) is None:
        text = f"{text}; the server closed the connection: if it wants TLS, write rediss://"
    return StoreUnavailableError(f"cannot connect to {where}: {text}")


def lost(error: Exception, *, where: str) -> FencepostError:
    """Return the error for a connection that broke while a script was under way."""
    text = f"{where}: {_text(error)}"
    if isinstance(error, theirs.BusyLoadingError):  # an answer, which the driver takes for a break
        return StoreUnavailableError(text)
    return UnknownOutcomeError(f"{text}; it may have been done: repeat it with its key")


def answered(error: Exception, *, where: str, writes: bool = True) -> FencepostError:
    """Return the error for what the server answered to a script, which *writes* or only reads."""
    said = _text(error)
    text = f"{where}: {said}"
    if writes and _STOPPED.search(said) and _UNDONE not in said:
        return UnknownOutcomeError(
            f"{text}; a part may have been written: mend that, repeat it with its key, and run "
            f"`fencepost doctor`"
        )
    return StoreUnavailableError(text) if _hint(said) else StoreError(text)


def behind(count: int, wanted: int, seconds: float, *, where: str) -> UnknownOutcomeError:
    """Return the error for a write that too few replicas have confirmed."""
    return UnknownOutcomeError(
        f"{where}: {count} of {wanted} replicas confirmed it within {seconds:g} s; it was done "
        f"here, and a failover may take it back: repeat it with its key"
    )


def _text(error: Exception) -> str:
    text = str(error) or type(error).__name__
    code = code_of(error)
    if code and code not in text:
        text = f"{code} {text}"
    hint = _hint(text)
    return text if hint is None else f"{text}; {hint}"


def _hint(text: str) -> str | None:
    return next((hint for sign, hint in _HINTS if sign in text), None)
