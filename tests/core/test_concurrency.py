"""Concurrency keys: found in the arguments, and limits that make sense."""

from __future__ import annotations

from enum import Enum
from typing import Any
from uuid import UUID

import pytest

from fencepost.core.bounds import RUNNING_PER_KEY_MAX
from fencepost.core.job.policy import Policy
from fencepost.core.limits.concurrency import (
    check_rule,
    key_of,
    limit_of,
    parse_max_running_per_key,
)
from fencepost.core.values.signature import Signature
from fencepost.errors import ConfigurationError, InvalidJobError


class Context:
    """Stands in for the worker's."""


class Plan(Enum):
    FREE = "free"


def handler(
    tenant: Any, /, size: int = 3, *rest: int, ctx: Context, region: str = "eu"
) -> None: ...


SIGNATURE = Signature(handler, Context)


def found(rule: Any, *args: Any, **kwargs: Any) -> str | None:
    return key_of(check_rule(rule, SIGNATURE), SIGNATURE, SIGNATURE.encode(args, kwargs))


@pytest.mark.parametrize(
    ("value", "key"),
    [("7", "7"), (7, "7"), (None, None), (UUID(int=7), str(UUID(int=7))), (Plan.FREE, "free")],
)
def test_the_value_of_a_parameter_is_the_key_as_text(value: Any, key: str | None) -> None:
    assert found("tenant", value) == key


def test_a_default_is_a_value_too() -> None:
    assert found("size", 1) == "3"
    assert found("region", 1, 2, 3) == "eu"


def test_a_function_of_the_arguments_is_called_as_the_handler_is() -> None:
    assert found(lambda tenant, *rest, **named: f"{tenant}:{rest}", "a", 1, 2) == "a:(1, 2)"


@pytest.mark.parametrize("value", ["", [7], 7.5, {"a": 1}, "x" * 257, "line\nbreak"])
def test_what_cannot_be_a_key_is_refused(value: Any) -> None:
    with pytest.raises(InvalidJobError, match="concurrency_key"):
        found("tenant", value)


def test_a_function_that_raises_refuses_the_job() -> None:
    with pytest.raises(InvalidJobError, match=r"concurrency_key of handler\(\) raised KeyError"):
        found(lambda *_: dict[str, str]()["x"], 7)


@pytest.mark.parametrize("rule", ["tenant_id", "ctx", "rest", "", 7])
def test_a_rule_must_name_a_parameter_or_be_a_function(rule: Any) -> None:
    with pytest.raises(ConfigurationError, match="'tenant', 'size', 'region'"):
        check_rule(rule, SIGNATURE)


@pytest.mark.parametrize("value", [0, -1, True, 1.0, "2", None, RUNNING_PER_KEY_MAX + 1])
def test_a_limit_must_be_a_count_within_bounds(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="between 1 and 10,000"):
        parse_max_running_per_key(value)


def test_a_key_has_one_slot_unless_told() -> None:
    assert limit_of(Policy()) == 1
    assert limit_of(Policy(max_running_per_key=parse_max_running_per_key(7))) == 7
