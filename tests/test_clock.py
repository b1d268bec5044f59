"""The only source of time, sleep, randomness and ids."""

from __future__ import annotations

import asyncio
import random
import re
import time
import uuid
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.clock import Clock, SystemClock, as_uuid4
from fencepost.core.values.names import id_bytes, id_text


def test_the_present_is_an_aware_utc_time() -> None:
    """S2-5."""
    assert SystemClock().now().tzinfo is UTC


def test_the_present_is_counted_in_whole_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-5."""
    monkeypatch.setattr(time, "time_ns", lambda: 1_234_567_999)
    assert SystemClock().now_us() == 1_234_567


def test_monotonic_time_is_the_machines() -> None:
    """S2-7: heartbeats must not depend on a clock that can be set back."""
    assert SystemClock().monotonic is time.monotonic


def test_sleep_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-31."""
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    SystemClock().sleep(1.5)
    assert slept == [1.5]


async def test_an_awaited_sleep_is_handed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """S2-31."""
    slept: list[float] = []

    async def record(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", record)
    await SystemClock().sleep_async(1.5)
    assert slept == [1.5]


@given(st.binary(min_size=16, max_size=16))
def test_any_sixteen_bytes_make_a_version_4_id_that_keeps_their_other_bits(raw: bytes) -> None:
    """S1-1."""
    stamped = as_uuid4(raw)
    made = uuid.UUID(bytes=stamped)
    assert (made.version, made.variant) == (4, uuid.RFC_4122)
    changed = int.from_bytes(raw) ^ int.from_bytes(stamped)
    assert changed & ~(0xF000_C000_0000_0000_0000 | 0xF000 << 64 | 0xC000 << 48) == 0
    assert as_uuid4(stamped) == stamped


def test_ids_are_valid_and_do_not_repeat() -> None:
    """S1-1, S1-4."""
    ids = [SystemClock().new_id() for _ in range(1_000)]
    assert len(set(ids)) == len(ids)
    assert all(id_bytes(id_text(raw)) == raw for raw in ids)


def test_tokens_are_22_safe_characters_and_do_not_repeat() -> None:
    """S0-50, S0-72."""
    tokens = [SystemClock().new_token() for _ in range(1_000)]
    assert len(set(tokens)) == len(tokens)
    assert all(re.fullmatch(r"[A-Za-z0-9_-]{22}", token) for token in tokens)


def test_each_clock_has_a_generator_of_its_own() -> None:
    """S0-65: two workers must not jitter in step."""
    one, other = SystemClock(), SystemClock()
    assert isinstance(one.rng, random.Random)
    assert one.rng.random() != other.rng.random()


def test_seeding_the_global_generator_does_not_make_ids_or_tokens_repeat() -> None:
    """S0-50, S1-4: a user's random.seed() must not break fencing."""
    random.seed(1)
    first = SystemClock().new_id(), SystemClock().new_token(), SystemClock().rng.random()
    random.seed(1)
    second = SystemClock().new_id(), SystemClock().new_token(), SystemClock().rng.random()
    assert not set(first) & set(second)


def test_the_system_clock_is_a_clock() -> None:
    """C40: any other, injected in its place, is one too."""
    clock: Clock = SystemClock()
    assert clock.now().tzinfo is UTC
