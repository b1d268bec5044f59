"""Reads what stands in the code: docstrings, signatures and fields, as Markdown."""

from __future__ import annotations

import ast
import enum
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from typing import Any

EMPTY = inspect.Parameter.empty
LONG = 88
FOR_TESTS = re.compile(r" *\((?:[CS]\d+(?:-\d+)?(?:, )?)+\)")
"""The numbers of requirements, which say nothing to readers of the site."""


def markdown(doc: str | None) -> str:
    """Return a docstring as Markdown: the names in it are code."""
    text = FOR_TESTS.sub("", inspect.cleandoc(doc or "")).replace("``", "`")
    # Names of parameters stand between single stars; pairs of two are left alone.
    return re.sub(r"(?<![*\w])\*(\w+)\*(?![*\w])", r"`\1`", text)


def one_line(doc: str | None) -> str:
    """Return a docstring for the cell of a table."""
    return " ".join(markdown(doc).split()).replace("|", "\\|")


def signature(name: str, function: Any, *, is_method: bool = False) -> str:
    """Return how a function is called, as a block of code; over several lines if it is long."""
    found = inspect.signature(function)
    parameters = list(found.parameters.values())[1 if is_method else 0 :]
    words = list(_parameters(parameters))
    end = "" if found.return_annotation is EMPTY else f" -> {type_name(found.return_annotation)}"
    start = "async def" if inspect.iscoroutinefunction(function) else "def"
    line = f"{start} {name}({', '.join(words)}){end}"
    if len(line) > LONG:
        line = f"{start} {name}(\n" + "".join(f"    {word},\n" for word in words) + f"){end}"
    return code(line)


def keywords(function: Any) -> str:
    """Return the names that stand for ``**options``, if a TypedDict lists them."""
    lines = []
    for each in inspect.signature(function).parameters.values():
        found = re.fullmatch(r"Unpack\[(\w+)\]", str(each.annotation))
        listed = found and getattr(sys.modules[function.__module__], found[1], None)
        if listed and f"- ``{next(iter(listed.__annotations__))}``" not in str(function.__doc__):
            names = ", ".join(f"`{name}`" for name in listed.__annotations__)
            lines.append(f"\n`{each.name}` are: {names}.\n")
    return "".join(lines)


def constructor(kind: type) -> str:
    """Return how a class is called; nothing for an exception or an enumeration."""
    try:
        found = inspect.signature(kind)
    except (TypeError, ValueError):
        return ""
    words = list(_parameters(list(found.parameters.values())))
    line = f"{kind.__name__}({', '.join(words)})"
    if len(line) > LONG:
        line = f"{kind.__name__}(\n" + "".join(f"    {word},\n" for word in words) + ")"
    return code(line)


def code(text: str) -> str:
    """Return a block of Python."""
    return f"```python\n{text}\n```\n"


def below_fields(kind: type) -> dict[str, str]:
    """Return the docstrings of the fields of a class, those of its bases included."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("fencepost"):
            found.update(_below(each))
    return found


def types_of(kind: type) -> dict[str, str]:
    """Return the types of the public fields of a class, as they are written."""
    found: dict[str, str] = {}
    for each in reversed(kind.__mro__):
        if each.__module__.startswith("fencepost"):
            found |= {
                name: type_name(value)
                for name, value in inspect.get_annotations(each).items()
                if not name.startswith("_") and "ClassVar" not in str(value)
            }
    return found


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    tree = ast.parse(inspect.getsource(sys.modules[module]))
    return {each.name: each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)}


def _below(kind: type) -> Iterator[tuple[str, str]]:
    definition = _classes(kind.__module__)[kind.__name__]
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        match field, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)) | ast.Assign(targets=[ast.Name(id=name)]),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                yield name, text


def _parameters(parameters: list[inspect.Parameter]) -> Iterator[str]:
    previous = None
    for each in parameters:
        if previous is inspect.Parameter.POSITIONAL_ONLY and each.kind is not previous:
            yield "/"
        if each.kind is inspect.Parameter.KEYWORD_ONLY and previous not in (
            inspect.Parameter.KEYWORD_ONLY,
            inspect.Parameter.VAR_POSITIONAL,
        ):
            yield "*"
        previous = each.kind
        stars: dict[Any, str] = {
            inspect.Parameter.VAR_POSITIONAL: "*",
            inspect.Parameter.VAR_KEYWORD: "**",
        }
        text = stars.get(each.kind, "") + each.name
        # `*args: P.args` says no more than `*args`.
        if each.annotation is not EMPTY and not str(each.annotation).startswith("P."):
            text += f": {type_name(each.annotation)}"
        if each.default is not EMPTY:
            text += (" = " if ":" in text else "=") + _default(each.default)
        yield text


def _default(value: Any) -> str:
    text = repr(value)
    if not text.startswith("<"):
        return text
    return repr(value.value) if isinstance(value, enum.Enum) else "…"


def type_name(annotation: Any) -> str:
    """Return an annotation as it is read, without the modules of its names."""
    text = annotation if isinstance(annotation, str) else inspect.formatannotation(annotation)
    text = re.sub(r"ForwardRef\('([^']*)'\)", r"\1", text)
    return re.sub(r"\b(?:[A-Za-z_]\w*\.)+(?=[A-Za-z])", "", text)
