"""What a handler's annotations mean: translated for msgspec, or refused when a task is declared.

msgspec ignores every constraint that is not its own ``Meta``, and hands types that it does not know
to a hook, where they fail at the first submission. So constraints of Pydantic's ``Field`` and of
annotated_types become ``Meta`` here, models in a union get a reader that goes by their tags, and
what has no JSON form is refused with what to write instead. Pydantic is known by its names only: it
need not be installed.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Iterator
from inspect import Parameter
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import msgspec

from fencepost.core.display import shown
from fencepost.core.values.payload import decoder_for, is_text_type
from fencepost.errors import ConfigurationError

T = TypeVar("T")

CONSTRAINTS = frozenset(
    ["gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length", "pattern"]
)
"""The names that Field, annotated_types and Meta share."""
_DESCRIPTIONS = ("title", "description", "examples", "deprecated", "json_schema_extra", "repr")
HARMLESS = frozenset(
    [*_DESCRIPTIONS, "annotation", "documentation", "unit", "strict", "allow_inf_nan"]
)
"""What describes a value, or asks for what JSON and msgspec do anyway."""
_UNIONS = (typing.Union, types.UnionType)


def translated(hint: Any) -> Any:
    """Return *hint* as msgspec enforces it, or raise ConfigurationError."""
    if hasattr(hint, "__supertype__"):  # a NewType
        inner = translated(hint.__supertype__)
        return hint if inner == hint.__supertype__ else inner
    if hasattr(hint, "__value__"):  # ``type X = …``
        try:
            inner = translated(hint.__value__)
        except RecursionError:
            return hint  # it contains itself
        return hint if inner == hint.__value__ else inner
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        metas, tag = _metas(args[1:])
        base = _union(typing.get_args(args[0]), tag) if tag else translated(args[0])
        if base == args[0] and all(each in args for each in metas):
            return hint
        return Annotated[base, *metas] if metas else base
    if origin in _UNIONS:
        return _union(args, None)
    if origin is None or origin is Literal or not isinstance(origin, type):
        return hint
    inner = tuple(each if each is ... else translated(each) for each in args)
    return hint if inner == args else types.GenericAlias(origin, inner)


def _metas(metadata: tuple[Any, ...]) -> tuple[list[msgspec.Meta], str | None]:
    """Return the constraints in *metadata*, and the discriminator of a union if it names one."""
    metas: list[msgspec.Meta] = []
    tag = None
    for each in metadata:
        if isinstance(each, msgspec.Meta):
            metas.append(each)
        elif (settings := _settings(each)) is not None:
            tag = settings.pop("discriminator", tag)
            metas += [_meta(name, value) for name, value in settings.items()]
    return metas, tag


def _settings(metadata: Any) -> dict[str, Any] | None:
    """Return what Pydantic or annotated_types asks for; None for anybody else's metadata."""
    kind = type(metadata)
    if kind.__module__.partition(".")[0] not in ("pydantic", "annotated_types"):
        return None
    asked = {name: value for name, value in _given(metadata).items() if value is not None}
    unknown = sorted(asked.keys() - CONSTRAINTS - HARMLESS - {"discriminator"})
    if unknown or not asked:
        name = kind.__name__.removesuffix("Info").lstrip("_")
        what = f"{name}({unknown[0]}=…)" if unknown else name
        raise ConfigurationError(
            f"{what} of an annotation would be ignored; constrain it with msgspec.Meta(…), take a "
            f"Pydantic model that has it, or check it in the handler"
        )
    return {name: value for name, value in asked.items() if name not in HARMLESS}


def _given(metadata: Any) -> dict[str, Any]:
    """Return the attributes of metadata; of a Field, those that were written."""
    if hasattr(metadata, "_attributes_set"):
        given = dict(metadata._attributes_set)
        for each in metadata.metadata:
            given |= _given(each)
        return given
    slots = getattr(type(metadata), "__slots__", ())
    return {name: getattr(metadata, name) for name in (*slots, *getattr(metadata, "__dict__", ()))}


def _meta(name: str, value: Any) -> msgspec.Meta:
    return msgspec.Meta(**{name: getattr(value, "pattern", value)})


def _union(members: tuple[Any, ...], tag: str | None) -> Any:
    """Return a union, with one reader in the place of models that msgspec cannot tell apart."""
    models = [each for each in members if is_model(each)]
    if len(models) > 1 and not all(_is_tagged(each) for each in models):
        rest = [each for each in members if not is_model(each)]
        members = (*rest, _tagged(models, tag))
    elif tag is not None:
        raise ConfigurationError("Field(discriminator=…) is for a union of Pydantic models")
    lone = [each for each in members if isinstance(each, type) and _is_foreign(each)]
    if lone and len([each for each in members if each is not types.NoneType]) > 1:
        raise ConfigurationError(
            f"a union can have {lone[0].__name__} and None, and nothing else; take one type, or a "
            f"parameter for each"
        )
    return typing.Union[tuple(translated(each) for each in members)]  # noqa: UP007 - made here


def is_model(kind: Any) -> bool:
    """Return whether *kind* is a Pydantic model, a dataclass or a msgspec Struct."""
    if not isinstance(kind, type):
        return False
    is_plain = dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct)
    return is_plain or hasattr(kind, "model_validate")


def _is_foreign(kind: type) -> bool:
    """Return whether msgspec has to ask a hook to read *kind*."""
    return hasattr(kind, "model_validate") or is_text_type(kind)


def _is_tagged(kind: Any) -> bool:
    return issubclass(kind, msgspec.Struct) and kind.__struct_config__.tag is not None


def _tagged(models: list[type], tag: str | None) -> type:
    """Return a type whose reader chooses among *models* by a field that has a value for each."""
    tables = [_literals(model) for model in models]
    for field in [tag] if tag is not None else tables[0]:
        pairs = [
            (value, model)
            for table, model in zip(tables, models, strict=True)
            for value in table.get(field, ())
        ]
        by_value = dict(pairs)
        if len(by_value) == len(pairs) and all(field in table for table in tables):
            return _reader(field, by_value)
    names = " | ".join(model.__name__ for model in models)
    raise ConfigurationError(
        f"{names} cannot be told apart in JSON; give each a field with its own value, such as "
        f'kind: Literal["{models[0].__name__.lower()}"], or make them msgspec Structs with tag=True'
    )


def _literals(model: type) -> dict[str, tuple[Any, ...]]:
    hints = _hints(model)
    return {n: typing.get_args(h) for n, h in hints.items() if typing.get_origin(h) is Literal}


def _hints(model: type) -> dict[str, Any]:
    try:
        return typing.get_type_hints(model, include_extras=True)
    except Exception:  # noqa: BLE001 - any error in the user's annotations lands here
        return {}


def _reader(field: str, by_value: dict[Any, type]) -> type:
    decoders = {value: decoder_for(model) for value, model in by_value.items()}

    def read(value: Any) -> Any:
        tag = value.get(field) if isinstance(value, dict) else None
        decoder = decoders.get(tag) if isinstance(tag, (str, int)) else None
        if decoder is None:
            raise ValueError(f"Expected an object whose {field!r} is one of {list(decoders)}")
        return decoder.decode(msgspec.json.encode(value))

    models = tuple(dict.fromkeys(by_value.values()))
    name = " | ".join(model.__name__ for model in models)
    return _AnyOf(name, (), {"model_validate": staticmethod(read), "models": models})


class _AnyOf(type):
    """The type of a union's reader: what it has read is one of its models."""

    models: tuple[type, ...]

    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, cls.models)


def check_types(hint: Any, default: Any) -> None:
    """Raise ConfigurationError if values of a parameter could not be submitted, and say why.

    One with a *default* may have a type without a JSON form: direct calls can give it.
    """
    if hasattr(default, "_attributes_set"):
        raise ConfigurationError(
            "Field(…) in the place of a default would be ignored; write Annotated[…, Field(…)]"
        )
    for kind, where in _classes(hint, "", set()):
        reason = _refusal(kind)
        if reason is None and default is Parameter.empty and not _has_form(kind):
            reason = (
                f"{kind.__name__} has no JSON form; take str and convert it in the handler, or "
                f"take a dataclass, a msgspec Struct or a Pydantic model"
            )
        if reason is not None:
            raise ConfigurationError(f"{where}{reason}")


def _classes(hint: Any, where: str, seen: set[Any]) -> Iterator[tuple[type, str]]:
    """Yield the classes in *hint*, and in the fields of those that msgspec reads itself."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Literal or ClassVar in (origin, hint):
        return
    if hasattr(hint, "__value__") and hint not in seen:
        seen.add(hint)
        yield from _classes(hint.__value__, where, seen)
    for each in args[:1] if origin is Annotated else args:
        yield from _classes(each, where, seen)
    kind = hint if origin is None else origin
    is_form = kind is Annotated or kind in _UNIONS
    if is_form or not isinstance(kind, type) or kind in seen:
        return
    seen.add(kind)
    yield kind, where
    if hasattr(kind, "model_validate"):
        yield from _secrets(kind, where, seen)
        return
    is_plain = is_model(kind) or typing.is_typeddict(kind) or hasattr(kind, "_fields")
    for name, field in _hints(kind).items() if is_plain else ():
        if not _is_enforced(field):
            yield _Unenforced, f"{where}{kind.__name__}.{name}: "
        yield from _classes(field, f"{where}{kind.__name__}.{name}: ", seen)


def _secrets(model: type, where: str, seen: set[Any]) -> Iterator[tuple[type, str]]:
    """Yield secrets in a Pydantic model, which would be stored as asterisks."""
    decorators = getattr(model, "__pydantic_decorators__", None)
    if getattr(decorators, "field_serializers", None):
        return  # it says itself how it is written
    fields = getattr(model, "model_fields", {})
    for name, field in _hints(model).items():
        if name not in fields:
            continue
        for kind, inner in _classes(field, f"{where}{model.__name__}.{name}: ", seen):
            if _is_secret(kind):
                yield kind, inner


def _is_secret(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "pydantic" and kind.__name__.startswith("Secret")


class _Unenforced:
    """Stands for an annotation in a class, where it cannot be translated."""


def _is_enforced(hint: Any) -> bool:
    """Return whether msgspec enforces *hint* as it is."""
    try:
        return bool(translated(hint) == hint)
    except ConfigurationError:
        return False


def _refusal(kind: type) -> str | None:
    """Return why values of *kind* cannot be submitted, and what to do; None if they can."""
    name = kind.__name__
    if kind is _Unenforced:
        return (
            "its constraints or its union would not be enforced inside this class; constrain it "
            "with msgspec.Meta(…) and tag unions, or make the class a Pydantic model"
        )
    if _is_secret(kind):
        return (
            f"{name} hides its value, which a store has to keep; submit a reference to the secret, "
            f"or take str and encrypt payloads with App(keys=…)"
        )
    if hasattr(kind, "__pydantic_validator__") and not hasattr(kind, "model_validate"):
        return f"the validators of the Pydantic dataclass {name} would not run; take a BaseModel"
    return None


def _has_form(kind: type) -> bool:
    """Return whether values of *kind* can be written as JSON."""
    if _is_foreign(kind) or kind is object:
        return True
    return not isinstance(_info(kind), msgspec.inspect.CustomType)


def _info(kind: type) -> Any:
    try:
        return msgspec.inspect.type_info(kind)
    except Exception:  # noqa: BLE001 - the decoder has accepted it; there is nothing to say
        return None


def for_parameter(function: str, name: str, change: Callable[..., T], *args: Any) -> T:
    """Return ``change(*args)``; an error names the parameter."""
    try:
        return change(*args)
    except ConfigurationError as error:
        raise ConfigurationError(f"{function}(): parameter {shown(name)}: {error}") from None
