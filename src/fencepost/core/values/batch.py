"""The signature of a batch handler: it takes a list of jobs, and a caller submits one of them.

The payload of a job is one value, of the type that ``list[BatchJob[…]]`` names. On the wire it is
that value itself: an object has its fields, as the arguments of any other handler.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

from fencepost.core.bounds import BATCH_MAX, BATCH_WAIT_MAX
from fencepost.core.display import shown
from fencepost.core.job.job import Body, Encoding
from fencepost.core.values.names import check_count
from fencepost.core.values.payload import convert, decoder_for
from fencepost.core.values.signature import Signature, type_hints
from fencepost.core.values.times import Duration, parse_duration
from fencepost.errors import ConfigurationError, PermanentError

PAYLOAD = "payload"
"""The only parameter of a submission."""

_POSITIONAL = (Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD)


class BatchSignature(Signature):
    """Reads and writes the payload of one job of a batch handler."""

    def __init__(self, function: Callable[..., Any], context_type: type, item_type: type) -> None:
        hints = type_hints(function)
        jobs = _jobs_parameter(function)
        kind = _payload_type(hints.get(jobs, Any), item_type, function.__name__)
        super().__init__(_of_one(function.__name__, kind), context_type)
        self.context_name = jobs
        returned = typing.get_args(hints.get("return"))
        self.return_type = returned[0] if len(returned) == 1 else Any
        self._payload_type = self._hints[PAYLOAD]
        self._payload_decoder = decoder_for(self._payload_type)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the payload: the only argument, or an object of those given by name."""
        if len(args) > 1 or bool(args) == bool(kwargs):
            raise TypeError("takes one payload, or its fields by name")
        return args[0] if args else kwargs

    def _refuse_text(self, arguments: Any) -> None:
        if isinstance(arguments, str):
            raise ValueError("Expected `bytes`, got `str`")

    def _read(self, payload: Body) -> tuple[Any, dict[str, Any]]:
        if payload.encoding is Encoding.JSON:
            value = self._payload_decoder.decode(payload.data)
        elif payload.encoding is Encoding.BINARY:
            value = convert(payload.data, self._payload_type)
        else:
            return super()._read(payload)  # which says why it cannot be read
        return self._arguments(value), {}


def _jobs_parameter(function: Callable[..., Any]) -> str:
    """Return the name of the parameter that takes the jobs."""
    parameters = list(signature(function).parameters.values())
    is_first_named = bool(parameters) and parameters[0].kind in _POSITIONAL
    if not is_first_named or any(each.default is each.empty for each in parameters[1:]):
        raise ConfigurationError(
            f"{function.__name__}() has batch=, so it takes one argument, the list of jobs: "
            f"def {function.__name__}(jobs: list[BatchJob[…]]); the context of each is job.ctx"
        )
    return parameters[0].name


def _payload_type(hint: Any, item_type: type, name: str) -> Any:
    """Return what ``list[BatchJob[…]]`` names; Any if it names nothing."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or hint in (list, Sequence):
        return Any
    if origin in (list, Sequence) and args[0] is item_type:
        return Any
    if origin in (list, Sequence) and typing.get_origin(args[0]) is item_type:
        return typing.get_args(args[0])[0]
    raise ConfigurationError(
        f"{name}() has batch=, so it takes jobs: list[BatchJob[…]], with the type of one payload "
        f"in the brackets; got {hint}"
    )


def _of_one(name: str, kind: Any) -> Callable[..., Any]:
    """Return a function that takes the payload of one job."""

    def one(payload: Any) -> None: ...

    one.__name__ = name
    one.__annotations__ = {PAYLOAD: kind}
    return one


def check_batch(size: object, wait: Duration | None) -> tuple[int | None, float]:
    """Return the options ``batch`` and ``batch_wait``, or raise ConfigurationError."""
    if size is None:
        if wait is not None:
            raise ConfigurationError("batch_wait is for batch handlers; give batch= as well")
        return None, 0.0
    seconds = 0.0 if wait is None else parse_duration(wait, name="batch_wait")
    if seconds > BATCH_WAIT_MAX:
        raise ConfigurationError(
            f"batch_wait can be {BATCH_WAIT_MAX * 1000:g}ms at most, got {shown(wait)}: a worker "
            f"that holds a job must start it soon, or a pause would come too late for it; to "
            f"collect jobs for longer, submit them with a delay"
        )
    return check_count(size, "batch", 1, BATCH_MAX), seconds


def each_result(returned: object, count: int) -> Sequence[Any]:
    """Return what a batch handler returned for each of its jobs, or raise PermanentError."""
    if returned is None:
        return [None] * count
    if isinstance(returned, (list, tuple)) and len(returned) == count:
        return returned
    got = f"{len(returned)} of them" if isinstance(returned, (list, tuple)) else shown(returned)
    raise PermanentError(
        f"a batch handler returns None, or a list with a result or an exception for each of its "
        f"{count} jobs, in their order; got {got}",
        code="invalid_result",
    )
