"""Bearer tokens: what one looks like, what is stored of it, and what whoever has it may do.

A token is shown once and never stored: a store keeps its SHA-256. A slow hash protects secrets that
people think up; this one is 192 random bits, which nobody guesses however fast they hash, and a
slow hash would only slow down every request. Written without separators inside and with a prefix,
so that a scanner for leaked secrets finds one.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from fencepost.core.bounds import (
    TOKEN_EXPIRES_MIN,
    TOKEN_ID_BYTES,
    TOKEN_NAME_LENGTH_MAX,
    TOKEN_QUEUES_MAX,
    TOKEN_RATE_MAX,
    TOKEN_RATE_MIN,
    TOKEN_SECRET_BYTES,
)
from fencepost.core.display import shown
from fencepost.core.values.duration import Duration, parse_duration
from fencepost.core.values.names import check_name, check_queue
from fencepost.errors import ConfigurationError, InvalidJobError

PREFIX = "fp"
LENGTH = len(PREFIX) + 2 * TOKEN_ID_BYTES + 2 * TOKEN_SECRET_BYTES + 2
LOCAL = "local"
"""The name of whoever needs no token: on this machine, with the store in hand."""

_ID = re.compile(rf"[0-9a-f]{{{2 * TOKEN_ID_BYTES}}}")
_FORM = re.compile(rf"{PREFIX}_({_ID.pattern})_[0-9a-f]{{{2 * TOKEN_SECRET_BYTES}}}")
_NO_DIGEST = bytes(32)
"""What a token is compared with whose id nobody has; nothing is known to hash to it."""


class Role(StrEnum):
    """What a token allows. None but admin contains another: give a token several."""

    SUBMIT = "submit"
    """Submit jobs and send events, and see what becomes of them."""
    READ = "read"
    """Look at everything, payloads and results included."""
    WORK = "work"
    """Claim jobs, and settle what was claimed."""
    OPERATE = "operate"
    """Steer: cancel, retry, edit, pause, limit, replay."""
    ADMIN = "admin"
    """All of these, and what concerns tokens and the audit log."""

    # Asked for with every request; that of an enum is written in Python.
    __hash__ = str.__hash__


class TokenRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What a store keeps of a token. Nothing in it lets anybody in."""

    id: str
    name: str
    digest: bytes
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    """The only queues that it is good for; None means all."""
    rate: float | None = None
    """Requests a second that one server takes from it; None means any number."""
    created_at: datetime
    expires_at: datetime | None = None
    revoked_at: datetime | None = None

    def is_live(self, now: datetime) -> bool:
        """Tell whether it is still good; at the instant of its expiry it is not."""
        return self.revoked_at is None and (self.expires_at is None or now < self.expires_at)

    def ended_at(self, now: datetime) -> datetime | None:
        """Return since when it is good no longer; None while it is."""
        ends = [at for at in (self.expires_at, self.revoked_at) if at is not None and at <= now]
        return min(ends, default=None)

    def __repr__(self) -> str:
        return f"<TokenRecord {self.id} {self.name!r}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return [("id", self.id), ("name", self.name)]


class NewToken(msgspec.Struct, frozen=True):
    """A token that was just made: the only time that its text is there to be read."""

    text: str
    record: TokenRecord

    def __repr__(self) -> str:
        return f"<NewToken {self.record.id} {self.record.name!r}>"

    def __rich_repr__(self) -> list[tuple[str, str]]:
        return self.record.__rich_repr__()


class Principal(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks, and what they may."""

    token_id: str | None = None
    """None for whoever needs no token."""
    name: str
    roles: frozenset[Role]
    queues: frozenset[str] | None = None

    @classmethod
    def local(cls) -> Principal:
        """Return whoever is on this machine while there is no token: they may do everything."""
        return _LOCAL

    @classmethod
    def of(cls, record: TokenRecord) -> Principal:
        """Return whoever has the token of *record*."""
        queues = None if record.queues is None else frozenset(record.queues)
        return cls(
            token_id=record.id, name=record.name, roles=frozenset(record.roles), queues=queues
        )

    def may(self, role: Role) -> bool:
        """Tell whether what needs *role* is allowed."""
        return role in self.roles or Role.ADMIN in self.roles

    def may_use(self, queue: str) -> bool:
        """Tell whether jobs of *queue* are within reach."""
        return self.queues is None or queue in self.queues


_LOCAL = Principal(name=LOCAL, roles=frozenset(Role))


class TokenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What a token is to be good for, checked."""

    name: str
    roles: tuple[Role, ...]
    queues: tuple[str, ...] | None = None
    expires: float | None = None
    """Seconds from its making."""
    rate: float | None = None


def make_options(
    name: object,
    roles: object,
    *,
    queues: object = None,
    expires: Duration | None = None,
    rate: object = None,
) -> TokenOptions:
    """Check what a user asked for, or raise ConfigurationError."""
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
    """Return what is stored of a token: of all of it, so that a secret fits no other id."""
    return hashlib.sha256(text.encode("utf-8", "replace")).digest()


def id_in(presented: str) -> str | None:
    """Return the id that a presented token names; None if it is none of ours."""
    match = _FORM.fullmatch(presented)
    return None if match is None else match[1]


def is_token_id(text: str) -> bool:
    """Tell whether *text* could be the id of a token."""
    return _ID.fullmatch(text) is not None


def verify(presented: str, record: TokenRecord | None, now: datetime) -> bool:
    """Tell whether *presented* is the token of *record*, and still good.

    Takes as long for an id that nobody has (None) as for a wrong secret, and as long for a secret
    that is wrong at its end as at its start: what can be measured tells nothing about what is
    stored. Never raises, whatever is presented.
    """
    expected = _NO_DIGEST if record is None else record.digest
    text = presented if len(presented) == LENGTH else ""  # bounded work for unbounded input
    is_same = hmac.compare_digest(digest_of(text), expected)
    return record is not None and is_same and record.is_live(now)


def check_token_name(value: object) -> str:
    """Return *value* if a token can be called so, or raise ConfigurationError."""
    try:
        name = check_name(value, what="the name of a token", limit=TOKEN_NAME_LENGTH_MAX)
    except InvalidJobError as error:
        raise ConfigurationError(str(error)) from None
    if is_token_id(name):
        raise ConfigurationError(f"the name of a token must not look like an id: {name}")
    return name


def parse_roles(values: object) -> tuple[Role, ...]:
    """Return the roles that *values* names, at least one, or raise ConfigurationError."""
    given = [values] if isinstance(values, str) else values
    if not isinstance(given, Iterable):
        raise ConfigurationError(f"roles must be a list such as ['submit'], got {shown(values)}")
    roles = {_parse_role(value) for value in given}
    if not roles:
        raise ConfigurationError(f"a token needs a role; there are {', '.join(Role)}")
    return tuple(role for role in Role if role in roles)


def _parse_role(value: object) -> Role:
    for role in Role:
        if value == role:
            return role
    raise ConfigurationError(f"no role is called {shown(value)}; there are {', '.join(Role)}")


def parse_queues(values: object) -> tuple[str, ...] | None:
    """Return the queues that a token is good for, or raise; None means all."""
    if values is None:
        return None
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise ConfigurationError(f"queues must be a list such as ['mail'], got {shown(values)}")
    try:
        queues = sorted({check_queue(value) for value in values})
    except InvalidJobError as error:
        raise ConfigurationError(str(error)) from None
    if not queues:
        # An empty list that meant all would widen a scope by a slip.
        raise ConfigurationError("a token for no queue is good for nothing; leave queues out")
    if len(queues) > TOKEN_QUEUES_MAX:
        raise ConfigurationError(f"a token may name {TOKEN_QUEUES_MAX} queues, got {len(queues)}")
    return tuple(queues)


def parse_request_rate(value: object) -> float | None:
    """Return requests a second, or raise ConfigurationError; None means any number."""
    if value is None:
        return None
    if (
        isinstance(value, (int, float))
        and not isinstance(value, bool)
        and TOKEN_RATE_MIN <= value <= TOKEN_RATE_MAX
    ):
        return float(value)
    raise ConfigurationError(
        f"rate is a number of requests a second between {TOKEN_RATE_MIN:g} and "
        f"{TOKEN_RATE_MAX:,.0f}, got {shown(value)}"
    )
