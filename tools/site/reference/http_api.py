"""The reference of the HTTP API, made from the OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fencepost.http.openapi.document import document
from fencepost.http.routes import ROUTES
from tools.site.reference.docstrings import FOR_TESTS

Schema = dict[str, Any]


def http_page() -> str:
    """Return every route with its parameters, body and replies, and every shape that they name."""
    described = document(ROUTES)
    lines = [
        "# HTTP API\n",
        "Made from the OpenAPI document, which a server has at `/openapi.json`. A route without a"
        " role needs no token. What the words mean is in [the guide](../http.md).\n",
    ]
    for tag in described["tags"]:
        lines.append(f"\n## {tag['name'].capitalize()}\n")
        for path, operations in described["paths"].items():
            for method, operation in operations.items():
                if tag["name"] in operation["tags"]:
                    lines += _operation(method, path, operation)
    lines += ["\n## Shapes\n"]
    for name, schema in described["components"]["schemas"].items():
        lines += _shape(name, schema)
    return "\n".join(lines) + "\n"


def _operation(method: str, path: str, operation: Schema) -> Iterator[str]:
    yield f"### `{method.upper()} {path}`\n"
    yield f"{operation['summary'].rstrip('.')}. {_text(operation.get('description', ''))}\n"
    roles = ", ".join(f"`{role}`" for role in operation["x-roles"])
    if roles:
        yield f"Roles: {roles}.\n"
    rows = [
        f"| `{each['name']}` | {each['in']} | {_type(each['schema'])} |"
        f" {_text(each.get('description', ''))} |"
        for each in operation["parameters"]
    ]
    if rows:
        yield from ["| parameter | in | type | |", "| --- | --- | --- | --- |", *rows, ""]
    body = operation.get("requestBody")
    if body is not None:
        kinds = ", ".join(_type(each["schema"]) for each in body["content"].values())
        yield f"Body: {kinds}.\n"
    yield from ["| status | reply | |", "| --- | --- | --- |"]
    refused = [status for status, reply in operation["responses"].items() if "$ref" in reply]
    for status, reply in operation["responses"].items():
        if status not in refused:
            yield f"| {status} | {_reply(reply)} | {_text(reply.get('description', ''))} |"
    if refused:
        yield f"| {', '.join(refused)} | [Problem](#problem) | Refused or failed |"
    yield ""


def _reply(reply: Schema) -> str:
    kinds = [
        _type(each["schema"]) if each.get("schema") else f"`{media}`"
        for media, each in reply.get("content", {}).items()
    ]
    return ", ".join(dict.fromkeys(kinds)) or "-"


def _shape(name: str, schema: Schema) -> Iterator[str]:
    yield f"### {name}\n"
    yield f"{_text(schema.get('description', ''))}\n"
    required = set(schema.get("required", ()))
    rows = [
        f"| `{field}`{'' if field in required else ' (optional)'} | {_type(about)} |"
        f" {_text(about.get('description', ''))} |"
        for field, about in schema.get("properties", {}).items()
    ]
    if rows:
        yield from ["| field | type | |", "| --- | --- | --- |", *rows, ""]
    elif "enum" in schema:
        yield ", ".join(f"`{json.dumps(each)}`" for each in schema["enum"]) + "\n"


def _type(schema: Schema) -> str:
    """Return a schema in a few words, with links to shapes."""
    match schema:
        case {"$ref": str(address)}:
            name = address.rsplit("/", 1)[-1]
            return f"[{name}](#{name.lower()})"
        case {"anyOf": parts} | {"oneOf": parts}:
            return " or ".join(dict.fromkeys(_type(each) for each in parts))
        case {"enum": values}:
            return ", ".join(f"`{json.dumps(each)}`" for each in values)
        case {"const": value}:
            return f"`{json.dumps(value)}`"
        case {"type": "array"}:
            return f"list of {_type(schema.get('items') or {})}"
        case {"type": "object", "additionalProperties": dict(values)}:
            return f"object of {_type(values)}"
        case {"type": list(kinds)}:
            return " or ".join(kinds)
        case {"type": str(kind), "format": str(form)}:
            return f"{kind} ({form})"
        case {"type": str(kind)}:
            return kind
    return "any"


def _text(text: str) -> str:
    plain = " ".join(FOR_TESTS.sub("", text).split()).replace("``", "`").replace("|", "\\|")
    return plain.replace("<", "&lt;")
