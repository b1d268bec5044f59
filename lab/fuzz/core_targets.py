"""The parsers of ``core`` and of the app: what people write in Python."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fencepost.actions.options import Options, UsingOptions, merge
from fencepost.core.bounds import DURATION_MAX, PAGE_MAX, PAYLOAD_BYTES_MAX, WEIGHT_TOTAL_MAX
from fencepost.core.cron import (
    SHORTHANDS,
    Schedule,
    check_catch_up,
    check_cron_name,
    parse_missed,
    parse_schedule,
    parse_zone,
)
from fencepost.core.display import shown
from fencepost.core.events import check_event_name, check_pattern, matches
from fencepost.core.filter import decode_cursor, encode_cursor, make_filter, make_page
from fencepost.core.job.idempotency import check_key, parse_on_duplicate
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.policy import (
    Policy,
    Priority,
    Retry,
    decode_policy,
    encode_policy,
    parse_priority,
)
from fencepost.core.job.timeouts import Retention, Timeouts
from fencepost.core.limits.weights import deal, parse_weights
from fencepost.core.values.names import (
    check_correlation_id,
    check_queue,
    check_tags,
    check_type,
    id_bytes,
    id_text,
)
from fencepost.core.values.payload import parse_max_payload
from fencepost.core.values.times import UNITS, format_duration, parse_duration
from fencepost.errors import (
    ConfigurationError,
    InvalidCronError,
    InvalidDurationError,
    InvalidEventError,
    InvalidJobError,
    InvalidKeyError,
    JobNotFoundError,
)
from fencepost.store.interface.records.crons import decode_template, encode_template
from lab.fuzz.inputs import bent, keywords, objects, raw_text
from lab.fuzz.target import Target

NOON = datetime(2026, 10, 24, 12, tzinfo=UTC)
MEANINGLESS = (ConfigurationError, InvalidJobError)

duration_texts = st.lists(
    st.builds(
        lambda number, gap, unit: f"{number}{gap}{unit}",
        st.integers(0, 10**6) | st.floats(0, 10**4, allow_nan=False).map(lambda x: f"{x:.3f}"),
        st.sampled_from(["", " "]),
        st.sampled_from(list(UNITS)),
    ),
    min_size=1,
    max_size=4,
).map("".join)
durations = objects | bent(duration_texts)
cursors = st.integers(0, 10**18 - 1).map(encode_cursor)
names = st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=20)
tags = st.dictionaries(bent(names), bent(names), max_size=3)
uuids = st.uuids(version=4).map(str)

cron_atoms = st.sampled_from(["*", "L", "LW", "MON", "jan", "5L", "MON#2", "*/5", "1-5/2"])
cron_numbers = st.integers(0, 61).map(str)
cron_parts = cron_atoms | cron_numbers | st.builds("{}-{}".format, cron_numbers, cron_numbers)
cron_fields = st.lists(cron_parts, min_size=1, max_size=3).map(",".join)
expressions = st.lists(cron_fields, min_size=4, max_size=6).map(" ".join) | st.sampled_from(
    list(SHORTHANDS)
)
zones = st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Europe", "../UTC"])


words = st.text(st.sampled_from("aB3_-"), min_size=1, max_size=3)
event_names = st.lists(words, min_size=1, max_size=5).map(".".join)
patterns = st.lists(words | st.sampled_from(["*", "**"]), min_size=1, max_size=5).map(".".join)


def mostly(valid: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Return what is meant, and now and then something else."""
    return st.integers(0, 4).flatmap(lambda roll: valid if roll else objects)


retry_settings = {
    "max_attempts": mostly(st.integers(0, 12)),
    "max_retries": mostly(st.integers(-1, 12)),
    "backoff": mostly(bent(st.sampled_from(["exponential", "linear", "constant"]))),
    "initial_delay": mostly(duration_texts),
    "max_delay": mostly(duration_texts),
    "multiplier": mostly(st.floats(0.5, 1_500)),
    "jitter": mostly(st.none() | st.just("full") | st.floats(-0.1, 1.1)),
    "on_timeout": objects,
    "on_system": objects,
}


def _check_duration(_: Any, seconds: float) -> None:
    assert math.isfinite(seconds)
    assert 0 <= seconds <= DURATION_MAX
    assert abs(parse_duration(format_duration(seconds)) - seconds) <= 0.001


def _check_weights(_: Any, weights: dict[str, int]) -> None:
    assert 1 <= sum(weights.values()) <= WEIGHT_TOTAL_MAX
    dealt = deal(weights, turn=3, count=2 * sum(weights.values()))
    assert dealt == {name: 2 * weights[name] for name in dealt}


def _check_filter(_: dict[str, Any], made: Any) -> None:
    assert all(isinstance(state, State) for state in made.states)
    assert msgspec.json.decode(msgspec.json.encode(made), type=type(made)) == made


def _check_page(_: dict[str, Any], page: Any) -> None:
    assert 1 <= page.limit <= PAGE_MAX
    assert page.after is None or 0 <= page.after < 10**18


def _check_cursor(given: Any, position: int) -> None:
    assert encode_cursor(position) == given


def _check_event_name(given: Any, name: str) -> None:
    assert name == given
    assert check_pattern(name) == name
    assert matches(name, name)
    assert matches("**", name)


def _check_pattern(given: Any, pattern: str) -> None:
    assert pattern == given
    some = pattern.replace("**", "a.b").replace("*", "a")
    assert matches(pattern, check_event_name(some))
    assert not matches(pattern, f"other-{'.x' * 99}") or pattern.endswith("**")


def _check_matching(given: tuple[str, str], is_meant: bool) -> None:
    pattern, name = given
    if is_meant:
        assert len(name.split(".")) >= len(pattern.split("."))


def _check_policy(_: str, policy: Policy) -> None:
    assert decode_policy(encode_policy(policy)) == policy


def _check_retry(_: dict[str, Any], retry: Retry) -> None:
    policy = Policy(max_attempts=retry.max_attempts, backoff=retry.backoff)
    _check_policy("", policy)


def _check_id(given: str, raw: bytes) -> None:
    assert id_text(raw) == given.lower()


def _check_shown(_: object, text: str) -> None:
    assert len(text) <= 300


def _check_schedule(_: Any, schedule: Schedule) -> None:
    assert schedule.describe()
    assert parse_schedule(schedule.expression, schedule.tz) == schedule
    first = schedule.next_after(NOON)
    if first is not None:
        assert first > NOON
        assert schedule.last(3, since=first, until=first) == [first]


def _merge(given: dict[str, Any]) -> Options:
    return merge(Options(), given, Timeouts())  # type: ignore[arg-type]  # that is the test


CORE_TARGETS = (
    Target("duration", parse_duration, durations, (InvalidDurationError,), _check_duration),
    Target("cursor", decode_cursor, bent(cursors) | objects, (ConfigurationError,), _check_cursor),
    Target(
        "page",
        lambda given: make_page(**given),
        st.fixed_dictionaries(
            {
                "limit": mostly(st.integers(0, PAGE_MAX + 1)),
                "after": mostly(st.none() | bent(cursors)),
            }
        ),
        (ConfigurationError,),
        _check_page,
    ),
    Target(
        "filter",
        lambda given: make_filter(**given),
        keywords("state", "type", "queue", "tags", "correlation_id")
        | keywords("state", values=bent(st.sampled_from(list(State))))
        | keywords("state", values=st.lists(bent(st.sampled_from(list(State)))))
        | keywords("type", "queue", "correlation_id", values=bent(names))
        | keywords("tags", values=tags),
        MEANINGLESS,
        _check_filter,
    ),
    Target(
        "queue weights",
        parse_weights,
        objects
        | st.lists(bent(names), max_size=4)
        | st.dictionaries(bent(names), st.integers(-1, 120) | objects, max_size=4),
        MEANINGLESS,
        _check_weights,
    ),
    Target("priority", parse_priority, objects | bent(st.sampled_from([p.name for p in Priority])),
           (InvalidJobError,)),
    Target("key", check_key, objects | bent(names), (InvalidKeyError,)),
    Target("on_duplicate", parse_on_duplicate,
           objects | bent(st.sampled_from(["return", "reject"])), (ConfigurationError,)),
    Target("type", check_type, objects | bent(names), (InvalidJobError,)),
    Target("queue", check_queue, objects | bent(names), (InvalidJobError,)),
    Target("correlation id", check_correlation_id, objects | bent(names), (InvalidJobError,)),
    Target("tags", check_tags, objects | tags, (InvalidJobError,)),
    Target("event name", check_event_name, objects | bent(event_names), (InvalidEventError,),
           _check_event_name),
    Target("event pattern", check_pattern, objects | bent(patterns), (InvalidEventError,),
           _check_pattern),
    Target("event matching", lambda given: matches(*given), st.tuples(patterns, event_names), (),
           _check_matching),
    Target("job id", id_bytes, objects | bent(uuids), (JobNotFoundError,), _check_id),
    Target("max_payload", parse_max_payload, mostly(st.integers(0, 2 * PAYLOAD_BYTES_MAX)),
           (ConfigurationError,)),
    Target(
        "retention",
        lambda given: Retention(**given).by_state(),
        keywords("completed", "cancelled", "failed", "dead_letter", "events", values=durations),
        (InvalidDurationError,),
    ),
    Target(
        "timeouts",
        lambda given: Timeouts(**given),
        keywords("execution", "lease_ttl", "visibility", "lifetime", "submission",
                 values=durations),
        (ConfigurationError,),
    ),
    Target(
        "retry",
        lambda given: Retry(**given),
        st.fixed_dictionaries({}, optional=retry_settings),
        (ConfigurationError,),
        _check_retry,
    ),
    Target(
        "options of using()",
        _merge,
        keywords(*UsingOptions.__annotations__)
        | keywords("delay", "key_window", "timeout", "lease_ttl", "lifetime", values=durations)
        | keywords("id", "", "run_at"),
        MEANINGLESS,
    ),
    Target(
        "stored policy",
        decode_policy,
        bent(st.builds(encode_policy, st.builds(Policy, max_attempts=st.integers(1, 99)))),
        (ValueError, RecursionError),
        _check_policy,
    ),
    Target("cron expression", parse_schedule, objects | bent(expressions), (InvalidCronError,),
           _check_schedule),
    Target("cron expression in a zone", lambda tz: parse_schedule("30 2 * * *", tz),
           objects | bent(zones), (InvalidCronError,), _check_schedule),
    Target("time zone", parse_zone, objects | bent(zones), (InvalidCronError,)),
    Target("name of a cron", check_cron_name, objects | bent(names), (ConfigurationError,)),
    Target("policy for missed ticks", parse_missed,
           objects | bent(st.sampled_from(["latest", "skip", "catch_up"])), (ConfigurationError,)),
    Target("stored template of a cron", decode_template,
           bent(st.builds(lambda type_: encode_template(NewJob(type=type_)), names))),
    Target("bound of catching up", check_catch_up, mostly(st.integers(-1, 1_001)),
           (ConfigurationError,)),
    Target("shown value", shown, objects | raw_text, (), _check_shown),
)  # fmt: skip
