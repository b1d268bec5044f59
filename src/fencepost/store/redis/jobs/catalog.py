"""What a plan needs besides its arguments: the clock, the names of keys, policies by their digests.

A policy is stored under the digest of its text, so that nothing that a process remembers of one can
become wrong.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from functools import lru_cache
from random import Random
from typing import Any, NamedTuple

import msgspec

from fencepost.clock import Clock, SystemClock
from fencepost.core.job.policy import DEFAULT_POLICY, Policy, decode_policy, encode_policy
from fencepost.store.chores import Chores
from fencepost.store.plan import Plan, Statement
from fencepost.store.redis.documents.held_jobs import HeldJobs
from fencepost.store.redis.documents.numbers import number_of, number_text

REMEMBERED_MAX = 10_000
DIGEST = 8


class Catalog:
    """Policies by their digests, remembered."""

    def __init__(self) -> None:
        self._policies: dict[bytes, Policy] = {}
        self._digests: dict[Policy, tuple[bytes, bytes]] = {}

    def digest(self, policy: Policy) -> tuple[bytes | None, bytes]:
        """Return the digest and the text of a policy; no digest for the default."""
        if policy == DEFAULT_POLICY:
            return None, b""
        known = self._digests.get(policy)
        if known is None:
            text = _bytes(encode_policy(policy))
            known = (hashlib.blake2b(text, digest_size=DIGEST).digest(), text)
            if len(self._digests) >= REMEMBERED_MAX:
                self._digests.clear()
            self._digests[policy] = known
        return known

    def policies(self, env: Env, digests: Iterable[bytes | None]) -> Plan[dict[bytes, Policy]]:
        """Return policies by digest, except those that cannot be read."""
        missing = [each for each in {*digests} if each is not None and each not in self._policies]
        if missing:
            _, texts = yield from read(env, [b"HMGET", env.key("policies"), *missing])
            if len(self._policies) >= REMEMBERED_MAX:
                self._policies.clear()
            for digest, text in zip(missing, texts, strict=True):
                try:
                    self._policies[digest] = decode_policy(text.decode())
                except (ValueError, TypeError, AttributeError):
                    continue
        return self._policies


def _bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode()


class Env(NamedTuple):
    """What a plan needs besides its arguments."""

    clock: Clock
    prefix: bytes
    catalog: Catalog
    chores: Chores
    held: HeldJobs
    before_commit: Callable[[Any], Plan[None]] | None = None
    """What is added to every commit of a unit, in a partition."""

    @property
    def rng(self) -> Random:
        return self.clock.rng

    @property
    def now(self) -> bytes:
        """The time to pass to the server; empty, for the server's own, unless in a test."""
        is_real = isinstance(self.clock, SystemClock)
        return b"" if is_real else str(self.clock.now_us()).encode()

    def believe(self) -> int | None:
        """Return what the time of the server is believed to be; None if nothing is known."""
        if isinstance(self.clock, SystemClock):
            return self.held.believed(self.clock.monotonic())
        return self.clock.now_us()

    def key(self, *parts: str | bytes) -> bytes:
        """Return the key with this name; names of users come after a line break each."""
        return _key(self.prefix, parts)


@lru_cache(maxsize=REMEMBERED_MAX)
def _key(prefix: bytes, parts: tuple[str | bytes, ...]) -> bytes:
    return prefix + b"\n".join(map(_bytes, parts))


@lru_cache(maxsize=REMEMBERED_MAX)
def field(*parts: str | int) -> bytes:
    """Return the field of a hash that stands for several names."""
    return b"\n".join(str(part).encode() for part in parts)


_encode = msgspec.msgpack.Encoder().encode
_HEADS = tuple(bytes((0xA0 | size,)) if size < 32 else bytes((0xD9, size)) for size in range(256))
_NESTED = frozenset((bytes, list, tuple, dict))


def pack(value: Any) -> bytes:
    """Return *value* as scripts read it.

    One word: the driver spends more on many small ones than the server does. Bytes become what
    scripts know as a string; they do not know MessagePack's own bytes.
    """
    return _encode(_readable(value))


def _readable(value: Any) -> Any:
    kind = type(value)
    if kind is bytes:
        size = len(value)
        if size < 256:
            return msgspec.Raw(_HEADS[size] + value)
        return msgspec.Raw(b"\xdb" + size.to_bytes(4, "big") + value)
    if kind is dict:
        return {name: _readable(each) for name, each in value.items()}
    if kind is list or kind is tuple:
        return [
            each
            if type(each) not in _NESTED
            else msgspec.Raw(_HEADS[len(each)] + each)
            if type(each) is bytes and len(each) < 256
            else _readable(each)
            for each in value
        ]
    return value


def read(env: Env, *commands: list[Any]) -> Plan[list[Any]]:
    """Run commands as one; return the time in microseconds and their answers."""
    answers: list[Any] = yield Statement("read", [env.now, pack(commands)])
    return [int(answers[0]), *answers[1:]]


__all__ = ["Catalog", "Env", "field", "number_of", "number_text", "pack", "read"]
