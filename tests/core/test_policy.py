"""What a job carries of its task's settings."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.job.policy import (
    DEFAULT_POLICY,
    Backoff,
    Policy,
    Retry,
    decode_policy,
    encode_policy,
)

POLICIES = st.builds(
    Policy,
    max_attempts=st.integers(1, 10_000),
    backoff=st.builds(
        Backoff,
        strategy=st.sampled_from(["exponential", "linear", "constant", "custom"]),
        initial_delay=st.floats(0, 1e8),
        max_delay=st.floats(0, 1e8),
        multiplier=st.floats(1, 1_000),
        jitter=st.floats(0, 1),
        delays=st.lists(st.floats(0, 1e8), max_size=5).map(tuple),
    ),
    on_timeout=st.booleans(),
    on_system=st.booleans(),
    timeout=st.floats(0.001, 1e8),
    lifetime=st.floats(0.001, 1e8),
    lease_ttl=st.none() | st.floats(1, 1e8),
)


def test_the_default_policy_has_the_times_and_attempts_of_the_job_model() -> None:
    """S1-38, S1-41, S1-47, C4."""
    assert DEFAULT_POLICY.max_attempts == 3
    assert DEFAULT_POLICY.timeout == 30 * 60
    assert DEFAULT_POLICY.lifetime == 7 * 24 * 3600
    assert DEFAULT_POLICY.lease_ttl is None
    assert DEFAULT_POLICY.backoff == Retry().backoff


@given(POLICIES)
def test_a_policy_survives_storage_exactly(policy: Policy) -> None:
    """S1-46, S1-55: any process can finish a job by its task's rules."""
    assert decode_policy(encode_policy(policy)) == policy


@given(POLICIES, POLICIES)
def test_policies_have_equal_text_exactly_when_they_are_equal(one: Policy, other: Policy) -> None:
    """S1-46: stores keep each distinct policy once."""
    assert encode_policy(one) == encode_policy(msgspec.structs.replace(one))
    assert (encode_policy(one) == encode_policy(other)) == (one == other)


def test_the_default_policy_costs_no_space() -> None:
    """S1-46."""
    assert encode_policy(DEFAULT_POLICY) == "{}"
    assert decode_policy("{}") == DEFAULT_POLICY


@pytest.mark.parametrize("text", ["", "null", "[]", "{", '{"max_attempts": "many"}', '"\\ud800"'])
def test_corrupt_text_is_a_value_error(text: str) -> None:
    """S0-3: a store can tell a corrupt row from a bug of its own."""
    with pytest.raises(ValueError, match=r"."):
        decode_policy(text)


def test_a_field_of_a_later_version_is_passed_over() -> None:
    """S0-3: an older worker can still run what a newer one submitted."""
    assert decode_policy('{"later": 1, "max_attempts": 5}') == Policy(max_attempts=5)
