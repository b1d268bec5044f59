"""Bearer tokens: their form, what a store keeps of one, and what it allows.

A token is shown once and never stored: a store keeps its SHA-256. A slow hash protects passwords;
192 random bits cannot be guessed, and a slow hash would only slow down every request. The prefix
and the fixed form let scanners for leaked secrets find one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from fencepost.core.access.bounds import (
    TOKEN_EXPIRES_MIN,
    TOKEN_ID_BYTES,
    TOKEN_NAME_LENGTH_MAX,
    TOKEN_QUEUES_MAX,
    TOKEN_RATE_MAX,
    TOKEN_RATE_MIN,
    TOKEN_SECRET_BYTES,
)
from fencepost.core.display import shown
from fencepost.core.values.names import (
    check_choice,
    check_list,
    check_name,
    check_number,
    check_queue,
)
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import ConfigurationError

if TYPE_CHECKING:
    from fencepost.core.access.sessions import SessionRecord

PREFIX = "fp"
LENGTH = len(PREFIX) + 2 * TOKEN_ID_BYTES + 2 * TOKEN_SECRET_BYTES + 2

_ID = re.compile(rf"[0-9a-f]{{{2 * TOKEN_ID_BYTES}}}")
_FORM = re.compile(rf"{PREFIX}_({_ID.pattern})_[0-9a-f]{{{2 * TOKEN_SECRET_BYTES}}}")
_NO_DIGEST = bytes(32)
"""What a token with an unknown id is compared with; no known text has this hash."""


class Role(StrEnum):
    """What a token allows. Only admin includes others: give a token several."""

    SUBMIT = "submit"
    """Submit jobs and send events, and see their state and results."""
    READ = "read"
    """Read everything, payloads and results included."""
    WORK = "work"
    """Claim and settle jobs."""
    OPERATE = "operate"
    """Cancel, retry, edit, pause, limit, replay."""
    ADMIN = "admin"
    """All of these, tokens and the audit log."""

    # Needed for every request; Enum's own is written in Python.
    __hash__ = str.__hash__


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps of a token. It does not give access."""

    id: str
    name: str
    digest: bytes
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    """The queues that it is limited to; None means all."""
    rate: float | None = None
    """Requests a second to one server; None means no limit."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_live(self, now: datetime) -> bool:
        """Return whether it is valid; at the instant of its expiry it is not."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def ended_at(self, now: datetime) -> datetime | None:
        """Return when it became invalid; None while it is valid."""
        ends = [at for at in (self.expires_at, self.revoked_at) if at is not None and at <= now]
        return min(ends, default=None)

    def __repr__(self) -> str:
        return f"<TokenRecord {self.id} {self.name!r}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("id", self.id), ("name", self.name)]


class NewToken(msgspec.Struct, frozen=True):
    """A new token: its text is shown only now."""

    text: str
    record: TokenRecord

    def __repr__(self) -> str:
        return f"<NewToken {self.record.id} {self.record.name!r}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return self.record.__rich_repr__()


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """The caller, and what it may do."""

    token_id: str | None = None
    """None for local callers."""
    name: str
    roles: frozenset[Role]
    queues: frozenset[str] | None = None
    session_id: str | None = None
    """The session of a browser that it came by; None with the token itself."""
    expires_at: datetime | None = None
    """When the token or the session ends."""

    @classmethod
    def local(cls) -> Principal:
        """Return the local caller, which may do everything."""
        return _LOCAL

    @classmethod
    def of(cls, record: TokenRecord, session: SessionRecord | None = None) -> Principal:
        """Return the owner of a token, who may have come by a *session* that was made from it."""
        queues = None if record.queues is None else frozenset(record.queues)
        return cls(
            token_id=record.id,
            name=record.name,
            roles=frozenset(record.roles),
            queues=queues,
            session_id=None if session is None else session.id,
            expires_at=record.expires_at if session is None else session.expires_at,
        )

    def may(self, role: Role) -> bool:
        """Return whether *role* is granted."""
        return role in self.roles or Role.ADMIN in self.roles

    def may_use(self, queue: str) -> bool:
        """Return whether jobs of *queue* are visible."""
        return self.queues is None or queue in self.queues


_LOCAL = Principal(name="local", roles=frozenset(Role))


class TokenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The checked options of a new token."""

    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    expires: float | None = None
    """Seconds from its creation."""
    rate: float | None = None


def make_options(
    name: object,
    roles: object,
    *,
    queues: object = None,
    expires: Duration | None = None,
    rate: object = None,
) -> TokenOptions:
    """Check the options that a user gave, or raise ConfigurationError."""
    return TokenOptions(
        name=check_token_name(name),
        roles=parse_roles(roles),
        queues=parse_queues(queues),
        expires=None
        if expires is None
        else parse_duration(expires, name="expires", minimum=TOKEN_EXPIRES_MIN),
        rate=parse_request_rate(rate),
    )


def make_token(options: TokenOptions, raw: bytes, now: datetime) -> NewToken:
    """Return a token made of *raw*, which is TOKEN_ID_BYTES + TOKEN_SECRET_BYTES random bytes."""
    assert len(raw) == TOKEN_ID_BYTES + TOKEN_SECRET_BYTES
    id_, secret = raw[:TOKEN_ID_BYTES].hex(), raw[TOKEN_ID_BYTES:].hex()
    text = f"{PREFIX}_{id_}_{secret}"
    record = TokenRecord(
        id=id_,
        name=options.name,
        digest=digest_of(text),
        roles=options.roles,
        queues=options.queues,
        rate=options.rate,
        created_at=now,
        expires_at=None if options.expires is None else now + timedelta(seconds=options.expires),
    )
    return NewToken(text, record)


def digest_of(text: str) -> bytes:
    """Return the stored hash of a whole token, so that a secret fits no other id."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def id_in(presented: str) -> str | None:
    """Return the id in a presented token; None if it does not have our form."""
    match = _FORM.fullmatch(presented)
    return None if match is None else match[1]


def is_token_id(text: str) -> bool:
    """Return whether *text* could be the id of a token."""
    return _ID.fullmatch(text) is not None


def verify(presented: str, record: TokenRecord | None, now: datetime) -> bool:
    """Return whether *presented* is the token of *record*, and valid.

    In constant time: an unknown id (None) takes as long as a wrong secret, wherever it is wrong.
    Never raises.
    """
    expected = _NO_DIGEST if record is None else record.digest
    text = presented if len(presented) == LENGTH else ""  # bounded work for unbounded input
    is_same = hmac.compare_digest(digest_of(text), expected)
    return record is not None and is_same and record.is_live(now)


def check_token_name(value: object) -> str:
    """Return *value* if it can name a token, or raise ConfigurationError."""
    name = check_name(
        value, what="the name of a token", limit=TOKEN_NAME_LENGTH_MAX, error=ConfigurationError
    )
    if is_token_id(name):
        raise ConfigurationError(f"the name of a token must not look like an id: {name}")
    return name


def parse_roles(values: object) -> tuple[Role, ...]:
    """Return the roles that *values* names, at least one, or raise ConfigurationError."""
    given = [values] if isinstance(values, str) else values
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"roles must be a list such as ['submit'], got {shown(values)}")
    roles = {check_choice(value, "a role", Role) for value in given}
    if not roles:
        raise ConfigurationError(f"a token needs a role; there are {', '.join(Role)}")
    return tuple(role for role in Role if role in roles)


def parse_queues(values: object) -> tuple[str, ...] | None:
    """Return the queues of a token, or raise ConfigurationError; None means all."""
    if values is None:
        return None
    listed = check_list(values, "queues", example="['mail']", most=TOKEN_QUEUES_MAX)
    queues = sorted({check_queue(value, error=ConfigurationError) for value in listed})
    if not queues:
        # If an empty list meant all, a mistake would widen the scope.
        raise ConfigurationError("a token for no queue is good for nothing; leave queues out")
    return tuple(queues)


def parse_request_rate(value: object) -> float | None:
    """Return requests a second, or raise ConfigurationError; None means no limit."""
    if value is None:
        return None
    return check_number(value, "rate (requests a second)", TOKEN_RATE_MIN, TOKEN_RATE_MAX)
