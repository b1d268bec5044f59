"""Submissions over HTTP: their options as the wire has them.

Values are turned into JSON; the server decides whether they make sense.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec

from fencepost.actions.options import RULED, SubmitOptions, ids_of
from fencepost.actions.synonyms import option_instead
from fencepost.core.bounds import KEY_WINDOW_DEFAULT
from fencepost.core.display import shown
from fencepost.core.job.job import Encoding
from fencepost.core.job.policy import FULL_JITTER, Retry, parse_priority
from fencepost.core.values.payload import BYTES_LIKE, encode
from fencepost.core.values.times import Duration, check_instant, parse_duration
from fencepost.errors import ConfigurationError, InvalidJobError, InvalidPayloadError
from fencepost.wire.bounds import HTTP_BATCH_MAX
from fencepost.wire.jobs import RetryOptions, Submission

Payload = Mapping[str, Any] | bytes | None
"""The handler's keyword arguments; or bytes, for a handler that takes only those."""
Fields = Mapping[str, Any]
"""Fields of a ``Submission``."""


def merge(fields: Fields, given: SubmitOptions) -> dict[str, Any]:
    """Return *fields* with those *given* in their place."""
    unknown = sorted(given.keys() - SubmitOptions.__annotations__.keys())
    if unknown:
        hint = option_instead(given, unknown[0])
        raise ConfigurationError(f"a submission has no option {shown(unknown[0])}{hint}")
    named = {name: value for name, value in given.items() if value is not None}
    if "delay" in named and "run_at" in named:
        raise InvalidJobError("give delay or run_at, not both")
    merged = {name: value for name, value in fields.items() if name not in _replaced(named)}
    for name, value in named.items():
        merged[name] = _WRITTEN[name](value) if name in _WRITTEN else value
    if "tags" in named:
        merged["tags"] = {**(fields.get("tags") or {}), **named["tags"]}  # type: ignore[dict-item]
    return merged


def _replaced(named: Mapping[str, Any]) -> set[str]:
    """Return the fields that those *named* exclude."""
    pairs = (("delay", "run_at"), ("after", "after_any"))
    return {other for a, b in pairs for one, other in ((a, b), (b, a)) if one in named}


def submission(type: str, payload: Payload, fields: Fields) -> Submission:
    """Return a job as it is sent."""
    if not isinstance(type, str):
        raise InvalidJobError(f"type must be text, got {shown(type)}")
    if payload is None:
        return Submission(type=type, **fields)
    body = encode(payload)
    if body.encoding is Encoding.BINARY:
        encoded = base64.b64encode(body.data).decode()
        return Submission(type=type, payload_base64=encoded, **fields)
    return Submission(type=type, payload=msgspec.Raw(body.data), **fields)


def payload_of(data: Sequence[bytes], arguments: dict[str, Any]) -> Payload:
    """Return the payload of a call with either bytes or keyword arguments."""
    if not data:
        return arguments
    if len(data) > 1 or not isinstance(data[0], BYTES_LIKE):
        raise InvalidPayloadError(
            f"give arguments by name: a client knows no signatures; got {shown(data)}"
        )
    if arguments:
        raise InvalidPayloadError("give bytes alone, or arguments by name")
    return bytes(data[0])


def repeat_for(job: Submission) -> float:
    """Return for how many seconds a repeat of *job* returns the job that was stored first."""
    if job.key is None or job.on_duplicate == "reject" or job.key_window == "active":
        # A key that is held while its job is live is free again once a quick job has ended.
        return 0.0
    window = KEY_WINDOW_DEFAULT if job.key_window is None else job.key_window
    return parse_duration(window, name="key_window")


def _seconds(name: str) -> Any:
    return lambda value: parse_duration(value, name=name)


def _window(value: Duration | Literal["active"]) -> float | str:
    return "active" if value == "active" else parse_duration(value, name="key_window")


def _retry(retry: Retry) -> RetryOptions:
    if not isinstance(retry, Retry):
        raise ConfigurationError(f"retry must be a Retry(…), got {shown(retry)}")
    if retry.rule is not None:
        raise ConfigurationError(RULED)
    backoff = retry.backoff
    if backoff.strategy == "custom":
        raise ConfigurationError(
            "a backoff function cannot be sent to a server; name exponential, linear or constant, "
            "or give the function to the task where it is declared"
        )
    return RetryOptions(
        max_attempts=retry.max_attempts,
        backoff=backoff.strategy,
        initial_delay=backoff.initial_delay,
        max_delay=backoff.max_delay,
        multiplier=backoff.multiplier,
        jitter="full" if backoff.jitter == FULL_JITTER else backoff.jitter,
        on_timeout=retry.on_timeout,
        on_system=retry.on_system,
    )


_WRITTEN: dict[str, Any] = {
    "delay": _seconds("delay"),
    "run_at": lambda value: check_instant(value, name="run_at"),
    "priority": lambda value: int(parse_priority(value)),
    "key_window": _window,
    "tags": dict,
    "timeout": _seconds("timeout"),
    "lease_ttl": _seconds("lease_ttl"),
    "lifetime": _seconds("lifetime"),
    "retry": _retry,
    "after": ids_of,
    "after_any": ids_of,
}


def check_batch(jobs: Iterable[Submission]) -> list[Submission]:
    """Return *jobs* if one request can hold them and all are prepared."""
    found = list(jobs)
    if len(found) > HTTP_BATCH_MAX:
        raise InvalidJobError(
            f"submit at most {HTTP_BATCH_MAX:,} jobs in one call (all or none are stored), "
            f"got {len(found):,}; split them"
        )
    for job in found:
        if not isinstance(job, Submission):
            raise InvalidJobError(
                f"submit_many takes jobs from prepare() of a client's task, got {shown(job)}"
            )
    return found
