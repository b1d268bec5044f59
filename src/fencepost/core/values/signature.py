"""A handler's signature as the schema of its payload.

Arguments are encoded as a JSON object by parameter name, and decoded again before anything is
stored: what a caller can submit is exactly what a worker can read. A lone ``bytes`` argument is
kept as it is.
"""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any

import msgspec
from msgspec.structs import replace

from fencepost.core.display import shortened
from fencepost.core.encryption import unreadable
from fencepost.core.job.job import Attempt, AttemptOutcome, Body, Encoding
from fencepost.core.job.outcome import Unreadable
from fencepost.core.values.annotations import check_types, for_parameter, translated
from fencepost.core.values.payload import BYTES_LIKE, convert, decode, decoder_for, encode_json
from fencepost.errors import ConfigurationError, InvalidPayloadError

_VARIADIC = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_BINARY = (*BYTES_LIKE, *(kind | None for kind in BYTES_LIKE))
_UNREADABLE = (msgspec.DecodeError, ValueError, NotImplementedError, RecursionError)


class Signature:
    """Turns arguments into a payload, and a payload back into a call."""

    def __init__(self, function: Callable[..., Any], context_type: type) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", type(function).__name__)
        hints = type_hints(function)
        parameters = list(inspect.signature(function).parameters.values())
        self.context_name = _context_name(parameters, hints, context_type)
        self.parameters = [p for p in parameters if p.name != self.context_name]
        for parameter in self.parameters:
            if parameter.name in hints:
                name, hint = parameter.name, hints[parameter.name]
                hints[name] = for_parameter(self.name, name, translated, hint)
        self.return_type = hints.get("return", Any)
        self._rest = self._only(Parameter.VAR_POSITIONAL)
        self._extra = self._only(Parameter.VAR_KEYWORD)
        self._extra_type = types.GenericAlias(dict, (str, hints.get(self._extra or "", Any)))
        self._positional_only = self._names(Parameter.POSITIONAL_ONLY)
        self._plain = self._names(Parameter.POSITIONAL_OR_KEYWORD)
        self._keyword_only = self._names(Parameter.KEYWORD_ONLY)
        self._fields = [p.name for p in self.parameters if p.name != self._extra]
        # Most handlers: every argument is given by name. A short path, since every job takes it.
        self._is_by_name = all(
            p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.default is p.empty
            for p in self.parameters
        )
        self._binary = [name for name in self._fields if hints.get(name) in _BINARY]
        try:
            self._arguments = _arguments_struct(self.name, self.parameters, hints)
            self._decoder = decoder_for(self._arguments)
            decoder_for(self._extra_type)  # so that a type it cannot read is refused here
        except TypeError as error:
            raise ConfigurationError(f"{self.name}(): {error}") from None

        self._hints = hints

    def check_types(self) -> None:
        """Raise ConfigurationError for a parameter whose values could not be submitted."""
        for parameter in self.parameters:
            hint = self._hints.get(parameter.name, Any)
            default = parameter.default
            for_parameter(self.name, parameter.name, check_types, hint, default)

    def _names(self, kind: Any) -> list[str]:
        return [p.name for p in self.parameters if p.kind is kind]

    def _only(self, kind: Any) -> str | None:
        return next(iter(self._names(kind)), None)

    def encode(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Body:
        """Return the payload of a call, or raise InvalidPayloadError if the handler refuses it."""
        try:
            sole = self._sole_bytes(args, kwargs) if len(self.parameters) == 1 else None
            if sole is not None:
                body = Body(sole, Encoding.BINARY)
            else:
                arguments = self._bind(args, kwargs)
                if self._binary:
                    self._refuse_text(arguments)
                body = encode_json(arguments)
            self._read(body)
        except TypeError as error:
            raise InvalidPayloadError(f"{self.name}(): {shortened(str(error))}") from None
        except _UNREADABLE as error:
            raise InvalidPayloadError(shortened(str(error))) from None
        return body

    def _sole_bytes(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bytes | None:
        """Return the argument of a handler with one parameter, if it is binary."""
        if len(args) + len(kwargs) != 1:
            return None
        parameter = self.parameters[0]
        value = args[0] if args else kwargs.get(parameter.name)
        if not isinstance(value, BYTES_LIKE):
            return None
        refused = (parameter.KEYWORD_ONLY,) if args else _VARIADIC
        return None if parameter.kind in refused else bytes(value)

    def _bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return the arguments by parameter name, or raise TypeError as a call would."""
        if self._rest is None and self._extra is None:
            return self._arguments(*args, **kwargs)
        payload = inspect.Signature(self.parameters).bind(*args, **kwargs).arguments
        extra = payload.pop(self._extra, {}) if self._extra else {}
        clash = sorted(extra.keys() & set(self._fields))
        if clash:
            raise TypeError(f"arguments clash with parameter names: {clash}")
        return {**payload, **extra}

    def _refuse_text(self, arguments: Any) -> None:
        """Refuse text for bytes: read as base64, it would reach the handler as something else."""
        for name in self._binary:
            by_name = isinstance(arguments, dict)
            value = arguments.get(name) if by_name else getattr(arguments, name)
            if isinstance(value, str):
                raise ValueError(f"Expected `bytes`, got `str` - at `$.{name}`")

    def decode(self, payload: Body) -> tuple[list[Any], dict[str, Any]]:
        """Return the arguments in *payload*, or raise InvalidPayloadError if they do not fit.

        Raises EncryptionError for a payload that could not be decrypted.
        """
        try:
            arguments, kwargs = self._read(payload)
        except _UNREADABLE as error:
            why = shortened(str(error))
            raise InvalidPayloadError(f"payload does not fit {self.name}(): {why}") from None
        if self._is_by_name:
            return [], msgspec.structs.asdict(arguments)
        rest = [] if self._rest is None else getattr(arguments, self._rest)
        if rest is msgspec.UNSET:
            rest = []
        # What comes before *rest must go by position too, or *rest would take its place.
        by_position = self._positional_only + self._plain if rest else self._positional_only
        by_name = self._keyword_only if rest else self._plain + self._keyword_only
        for name in by_name:
            value = getattr(arguments, name)
            if value is not msgspec.UNSET:
                kwargs[name] = value
        return self._in_order(arguments, by_position, rest), kwargs

    def _in_order(self, arguments: Any, names: list[str], rest: list[Any]) -> list[Any]:
        values: list[Any] = []
        missing = None
        for name in names:
            value = getattr(arguments, name)
            if value is msgspec.UNSET:
                missing = missing or name
            elif missing is None:
                values.append(value)
            else:
                raise InvalidPayloadError(f"{self.name}(): {name!r} needs {missing!r} before it")
        if rest and missing is not None:
            raise InvalidPayloadError(f"{self.name}(): {self._rest!r} needs {missing!r} before it")
        return values + rest

    def _read(self, payload: Body) -> tuple[Any, dict[str, Any]]:
        """Return the declared arguments, checked, and those that ``**`` collects."""
        if payload.encoding is Encoding.BINARY:
            return convert(self._binary_argument(payload.data), self._arguments), {}
        if payload.encoding is Encoding.ENCRYPTED:
            raise unreadable(payload)
        if self._extra is None:
            return self._decoder.decode(payload.data), {}
        values = decode(payload)
        if not isinstance(values, dict):
            raise ValueError(f"Expected `object`, got `{type(values).__name__}`")
        declared = {name: values.pop(name) for name in self._fields if name in values}
        return convert(declared, self._arguments), convert(values, self._extra_type)

    def _binary_argument(self, data: bytes) -> dict[str, Any]:
        if len(self.parameters) != 1 or self._extra is not None:
            raise ValueError("a binary payload needs a handler of one parameter")
        return {self._fields[0]: data if self._rest is None else [data]}


def type_hints(function: Callable[..., Any]) -> dict[str, Any]:
    """Return resolved annotations; one that cannot be resolved leaves its parameter unchecked."""
    scope = getattr(inspect.unwrap(function), "__globals__", {})
    hints: dict[str, Any] = {}
    for name, annotation in getattr(function, "__annotations__", {}).items():
        lone = types.SimpleNamespace(__annotations__={name: annotation})
        try:
            hints |= typing.get_type_hints(lone, globalns=scope, include_extras=True)
        except Exception:  # noqa: BLE001 - any error in the user's annotation lands here
            continue
    return hints


def _context_name(
    parameters: list[Parameter], hints: dict[str, Any], context_type: type
) -> str | None:
    """Return the name of the parameter that takes the context, if there is one."""
    wanted = [p for p in parameters if _is_context(p, hints, context_type)]
    if not wanted:
        return None
    if len(wanted) > 1:
        names = [p.name for p in wanted]
        raise ConfigurationError(f"only one parameter may be a {context_type.__name__}: {names}")
    context = wanted[0]
    if context.kind in (Parameter.POSITIONAL_ONLY, *_VARIADIC):
        raise ConfigurationError(f"parameter {context.name!r} must be one that has a name")
    has_rest = any(p.kind is Parameter.VAR_POSITIONAL for p in parameters)
    if has_rest and context.kind is not Parameter.KEYWORD_ONLY:
        raise ConfigurationError(f"parameter {context.name!r} must come after the starred one")
    return context.name


def _is_context(parameter: Parameter, hints: dict[str, Any], context_type: type) -> bool:
    """Return whether a parameter is a context, optional and annotated ones included."""
    if parameter.name in hints:
        hint = hints[parameter.name]
        origin = typing.get_origin(hint)
        is_wrapped = origin in (typing.Union, types.UnionType, typing.Annotated)
        return hint is context_type or (is_wrapped and context_type in typing.get_args(hint))
    # Imported for type checkers only: the name is all that is known.
    written = str(parameter.annotation).removesuffix(" | None")
    return written.rpartition(".")[2] == context_type.__name__


def _arguments_struct(name: str, parameters: list[Parameter], hints: dict[str, Any]) -> Any:
    """Make a struct whose constructor has the handler's signature and whose decoder checks types.

    A default is left out of the payload, so that a handler whose default changes uses the new one.
    """
    positional: list[Any] = []
    keyword_only: list[Any] = []
    for parameter in parameters:
        kind = hints.get(parameter.name, Any)
        if parameter.kind is Parameter.VAR_KEYWORD:
            continue
        if parameter.kind is Parameter.VAR_POSITIONAL:
            kind = types.GenericAlias(list, (kind,))
        field: tuple[Any, ...] = (parameter.name, kind)
        if parameter.default is not parameter.empty or parameter.kind in _VARIADIC:
            optional = kind if kind is Any else kind | msgspec.UnsetType
            field = (parameter.name, optional, msgspec.UNSET)
        (keyword_only if parameter.kind is parameter.KEYWORD_ONLY else positional).append(field)
    base = msgspec.defstruct(f"{name}_arguments", positional, forbid_unknown_fields=True)
    if not keyword_only:
        return base
    return msgspec.defstruct(
        f"{name}_arguments", keyword_only, bases=(base,), kw_only=True, forbid_unknown_fields=True
    )


PASSED_OVER = frozenset({AttemptOutcome.RUNNING, AttemptOutcome.RELEASED})
"""Attempts that do not count: the present one, and those that were released."""


class UnreadPayload(Exception):
    """The payload could not be read as a handler's arguments; the handler was not called."""

    def __init__(self, error: InvalidPayloadError) -> None:
        super().__init__(str(error))
        self.error = error


def read_arguments(signature: Signature, payload: Body) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a handler, or raise UnreadPayload if another version may read them.

    Raises InvalidPayloadError for what no version can read.
    """
    try:
        return signature.decode(payload)
    except InvalidPayloadError as error:
        if payload.encoding is Encoding.JSON:
            decode(payload)  # invalid JSON is damaged, and fails at once
        raise UnreadPayload(error) from None


def with_past(outcome: Unreadable, attempts: Sequence[Attempt] | None) -> Unreadable:
    """Return *outcome* with the number and the time of earlier ones in *attempts*, oldest first.

    While a deployment rolls, workers of the old version cannot read what callers of the new one
    submit. Such a job is released, uncounted, for a bounded time (C47). The attempts say since
    when, so that a restart does not begin again. One that did read the payload ends the count.
    """
    attempts = attempts or ()
    returns = 0
    since = None
    for attempt in reversed(attempts):
        if attempt.outcome in PASSED_OVER:
            continue
        if attempt.outcome is not AttemptOutcome.UNREADABLE:
            break
        returns += 1
        since = attempt.ended_at
    if since is None:
        return outcome
    # Both by the store's clock: this attempt has just begun.
    waited = (attempts[-1].started_at - since).total_seconds()
    return replace(outcome, returns=returns, waited=max(waited, 0.0))
