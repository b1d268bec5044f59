"""The schemas of requests and answers, generated from their structs.

msgspec generates them from types and constraints. Added here are the docstrings of fields, and the
format of times.
"""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import cache
from typing import Any, get_args, get_origin

import msgspec

from fencepost.wire.terms import REF

Schema = dict[str, Any]


def component_name(text: str) -> str:
    """Return *text* with the names of structs as the document has them, without ``Wire``."""
    return re.sub(r"Wire(?=[A-Z])", "", text)


class Schemas:
    """The schema components of the document, and the name of each type among them."""

    def __init__(self, kinds: Iterable[Any]) -> None:
        structs = list(dict.fromkeys(each for kind in kinds for each in _reachable(kind)))
        _, components = msgspec.json.schema_components(structs, ref_template=REF)
        named = component_name(msgspec.json.encode(components).decode())
        self.components: dict[str, Schema] = msgspec.json.decode(named)
        refs, _ = msgspec.json.schema_components(structs, ref_template="{name}")
        names = [component_name(ref["$ref"]) for ref in refs]
        self._names = dict(zip(structs, names, strict=True))
        for kind, name in self._names.items():
            _annotate(kind, self.components[name])

    def ref(self, kind: Any) -> Schema:
        """Return the schema of *kind*: a struct by reference, a union as ``anyOf``."""
        if kind in self._names:
            return {"$ref": REF.format(name=self._names[kind])}
        return {"anyOf": [self.ref(each) for each in get_args(kind)]}

    def pop(self, kind: Any) -> Schema:
        """Remove and return the schema of a struct that nothing refers to."""
        schema: Schema = self.components.pop(self._names[kind])
        return schema


def _reachable(kind: Any) -> Iterator[Any]:
    """Yield the structs in a type, each with those in its fields."""
    if _is_struct(get_origin(kind) or kind):
        yield kind
        for field in msgspec.structs.fields(kind):
            yield from _reachable(field.type)
        return
    for each in (*get_args(kind), *_named_kinds(kind)):
        yield from _reachable(each)


def _is_struct(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, msgspec.Struct)


def _named_kinds(kind: Any) -> Iterator[Any]:
    """Yield the types that ``either`` has named."""
    for meta in getattr(kind, "__metadata__", ()):
        yield from (meta.extra or {}).get("kinds", ())


def _rules(kind: Any, schema: Schema) -> list[Schema]:
    """Return rules for several fields: one of two forms of a body, and those that a struct declares
    in ``__exclusive__`` (at most one of two) and ``__some__`` (at least one).
    """
    names = schema["properties"]
    rules: list[Schema] = [
        {"not": {"required": [name, f"{name}_base64"]}}
        for name in names
        if f"{name}_base64" in names
    ]
    rules += [
        {"not": {"required": list(pair), "properties": dict.fromkeys(pair, _GIVEN)}}
        for pair in getattr(kind, "__exclusive__", ())
    ]
    if some := getattr(kind, "__some__", ()):
        rules.append({"anyOf": [{"required": [n], "properties": {n: _GIVEN}} for n in some]})
    return rules


_GIVEN: Schema = {"not": {"enum": [None, {}, []]}}


def _annotate(kind: Any, schema: Schema) -> None:
    if rules := _rules(get_origin(kind) or kind, schema):
        schema["allOf"] = rules
    schema["description"] = _paragraph(inspect.getdoc(get_origin(kind) or kind) or "")
    texts = descriptions(get_origin(kind) or kind)
    for field in msgspec.structs.fields(kind):
        about = schema["properties"][field.encode_name]
        _date(field.type, about)
        if field.name in texts:
            about["description"] = texts[field.name]


def _date(kind: Any, schema: Schema) -> None:
    """Set the format of a string that is a time."""
    if kind is datetime:
        schema["format"] = "date-time"
    elif get_origin(kind) is list and "items" in schema:
        _date(get_args(kind)[0], schema["items"])
    elif datetime in get_args(kind):
        for part in schema.get("anyOf", [schema]):
            if part == {"type": "string"}:
                part["format"] = "date-time"


@cache
def descriptions(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, inherited ones included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if _is_struct(each) and each is not msgspec.Struct:
            found.update(_below_fields(each))
    return found


def _below_fields(kind: type) -> Iterator[tuple[str, str]]:
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except OSError:  # installed without source: the document lacks these texts
        return
    (definition,) = ast.parse(source).body
    assert isinstance(definition, ast.ClassDef)
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, _paragraph(text)


def _paragraph(text: str) -> str:
    return " ".join(text.split()).replace("``", "`")
