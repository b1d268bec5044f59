"""The OpenAPI 3.1 document, generated from the list of routes."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from typing import Any, get_args

from fencepost import __version__
from fencepost.core.access.bounds import REQUEST_ID_LENGTH_MAX
from fencepost.core.bounds import (
    CORRELATION_ID_LENGTH_MAX,
    CRON_NAME_LENGTH_MAX,
    QUEUE_LENGTH_MAX,
    TYPE_LENGTH_MAX,
)
from fencepost.http.cookies import NAME
from fencepost.http.openapi.examples import example_of, path_example, problem_example
from fencepost.http.openapi.schemas import Schema, Schemas, component_name
from fencepost.http.request.problems import MEDIA_TYPE, TITLES, Code, Problem, codes_of
from fencepost.http.request.route import Route
from fencepost.wire.terms import REF, event_rules, name_rules

_JSON = "application/json"
_DESCRIPTION = """\
Submit, follow, run and control jobs from any language.

Errors are problem documents (RFC 9457) with a stable `code`. Any other method of a path is refused
with 405 `method_not_allowed`, any other path with 404 `not_found`, and anything that is not in this
document with 422 `invalid_request`: nothing is ignored. After a 503 nothing was done; after a 504
the outcome is unknown: repeat the request with the same idempotency key or lease token. JSON is
stored as it was written, so that no number is rounded.
"""
_SECURITY = {
    "type": "http",
    "scheme": "bearer",
    "description": "Create one with `fencepost tokens create NAME --role submit`.",
}

_SESSION = {
    "type": "apiKey",
    "in": "cookie",
    "name": NAME,
    "description": (
        "For browsers: `POST /v1/session` exchanges a token for it. Its name ends with the port, "
        "if the address has one. What changes something must come from a page of this server."
    ),
}


def document(routes: Sequence[Route]) -> dict[str, Any]:
    """Return the document of an API of these routes."""
    schemas, refusals = Schemas(_kinds(routes)), Refusals()
    paths: dict[str, Any] = {}
    for route in routes:
        operation = _operation(route, schemas)
        operation["responses"] |= refusals.of(route)
        paths.setdefault(route.path, {})[route.method.lower()] = operation
    for query in {route.query for route in routes}:
        schemas.pop(query)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Fencepost", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "./"}],
        "tags": [{"name": name} for name in dict.fromkeys(route.tag for route in routes)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.components.items())),
            "responses": dict(sorted(refusals.responses.items())),
            "examples": dict(sorted(refusals.examples.items())),
            "headers": _HEADERS,
            "securitySchemes": {"token": _SECURITY, "session": _SESSION},
        },
    }


def _kinds(routes: Iterable[Route]) -> Iterator[Any]:
    yield Problem
    for route in routes:
        yield route.query
        yield from route.replies.values()
        yield from route.bodies


def _operation(route: Route, schemas: Schemas) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "tags": [route.tag],
        "summary": route.summary,
        "description": " ".join((inspect.getdoc(route.operation) or "").split()),
        "parameters": [*_in_path(route), *_in_query(route, schemas), *_in_headers(route)],
        "responses": {
            str(status): _reply(route, status, kind, schemas)
            for status, kind in route.replies.items()
        },
        "security": [{"token": []}, {"session": []}] if route.roles else [],
        "x-roles": list(route.roles),
    }
    if route.body is not None:
        operation["requestBody"] = _request(route, schemas)
    return operation


def _in_path(route: Route) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", route.path):
        of = route.path.split("/")[2]
        # There is no rule for ids of jobs: a malformed one is not found, like any unknown id.
        limit = None if name == "id" and of != "flows" else _NAME_LENGTHS.get(of)
        rules: Schema = {"minLength": 1} if limit is None else name_rules(limit)
        if of == "events":
            rules = event_rules()
        yield {
            "name": name,
            "in": "path",
            "required": True,
            "schema": {"type": "string", **rules},
            "example": path_example(route.path),
        }


def _in_query(route: Route, schemas: Schemas) -> Iterator[dict[str, Any]]:
    schema = schemas.components[route.query.__name__]
    for name, about in schema["properties"].items():
        rules = _without_null(dict(about))
        parameter = {"name": name, "in": "query", "schema": rules}
        if "description" in rules:
            parameter["description"] = rules.pop("description")
        if name in schema["required"]:
            parameter["required"] = True
        yield parameter


def _without_null(schema: Schema) -> Schema:
    """Return the schema of a query parameter, which is left out rather than null."""
    if schema.get("default", ...) is None:
        del schema["default"]
    parts = [part for part in schema.pop("anyOf", []) if part != {"type": "null"}]
    if len(parts) == 1:
        return {**schema, **parts[0]}
    return {**schema, "anyOf": parts} if parts else schema


def _in_headers(route: Route) -> Iterator[dict[str, Any]]:
    for name in route.headers:
        spelled = name.title().replace("-Id", "-ID")
        yield {"name": spelled, "in": "header", "schema": {"type": "string"}}
    yield {
        "name": "X-Request-ID",
        "in": "header",
        "schema": {"type": "string"},
        "description": "Is returned and logged; if it is missing or unfit, the server makes one.",
    }


def _request(route: Route, schemas: Schemas) -> dict[str, Any]:
    kinds = route.bodies
    refs = [schemas.ref(kind) for kind in kinds]
    examples = {
        name: {"value": value}
        for name, kind in zip(("one", "many"), kinds, strict=False)
        if (value := example_of(kind)) is not None
    }
    schema = refs[0] if len(refs) == 1 else {"oneOf": refs}
    content = {_JSON: {"schema": schema, "examples": examples}}
    return {"required": not route.is_body_optional, "content": content}


def _reply(route: Route, status: int, kind: Any, schemas: Schemas) -> dict[str, Any]:
    headers = {"X-Request-ID": _header("X-Request-ID")}
    if status == 201 and "id" in kind.__struct_fields__:
        headers["Location"] = _header("Location")
    reply: dict[str, Any] = {"description": _SUCCESSES[status], "headers": headers}
    if kind is not None:
        reply["content"] = {route.media_type: _content(route, kind, schemas)}
    return reply


def _content(route: Route, kind: Any, schemas: Schemas) -> dict[str, Any]:
    if route.media_type != _JSON or kind in (str, bytes):
        return {"schema": {"type": "string"}}
    if kind is dict:
        return {"schema": {"type": "object"}}
    kinds = get_args(kind) or (kind,)
    examples = {
        component_name(each.__name__): {"value": value}
        for each in kinds
        if (value := example_of(each)) is not None
    }
    return {"schema": schemas.ref(kind), "examples": examples}


class Refusals:
    """The problems of all routes; what several share is written once."""

    def __init__(self) -> None:
        self.responses: dict[str, Any] = {}
        self.examples: dict[str, Any] = {}
        self._names: dict[tuple[Code, ...], str] = {}

    def of(self, route: Route) -> dict[str, Any]:
        """Return what *route* can be refused with, by status."""
        return {
            str(status): {"$ref": f"#/components/responses/{self._name(status, tuple(codes))}"}
            for status, codes in groupby(codes_of(route), key=lambda code: code.status)
        }

    def _name(self, status: int, codes: tuple[Code, ...]) -> str:
        if codes not in self._names:
            number = sum(code[0].status == status for code in self._names)
            name = f"Problem{status}" + (f"_{number + 1}" if number else "")
            self._names[codes] = name
            self.responses[name] = _refusal(status, codes)
            for code in codes:
                self.examples[_example_name(code)] = {"value": problem_example(code)}
        return self._names[codes]


def _refusal(status: int, codes: Sequence[Code]) -> dict[str, Any]:
    headers = ["X-Request-ID", *(name for name, n in _HEADERS_OF_PROBLEMS if n == status)]
    meanings = "".join(f"\n- `{code.name}`: {code.meaning}" for code in codes)
    names = sorted({code.name for code in codes})
    narrowed = {"properties": {"status": {"const": status}, "code": {"enum": names}}}
    schema = {"allOf": [{"$ref": REF.format(name="Problem")}, narrowed]}
    examples = {
        code.name: {"$ref": f"#/components/examples/{_example_name(code)}"} for code in codes
    }
    return {
        "description": f"{TITLES[status]}\n{meanings}",
        "headers": {name: _header(name) for name in headers},
        "content": {MEDIA_TYPE: {"schema": schema, "examples": examples}},
    }


def _example_name(code: Code) -> str:
    return f"{code.name}.{code.status}"


def _header(name: str) -> dict[str, str]:
    return {"$ref": f"#/components/headers/{name}"}


_NAME_LENGTHS = {
    "crons": CRON_NAME_LENGTH_MAX,
    "flows": CORRELATION_ID_LENGTH_MAX,
    "queues": QUEUE_LENGTH_MAX,
    "scale": QUEUE_LENGTH_MAX,
    "types": TYPE_LENGTH_MAX,
}
"""The longest names in paths, by subject."""
_SUCCESSES = {200: "Done", 201: "Stored", 202: "Accepted", 204: "Done; there is no body"}
_HEADERS_OF_PROBLEMS = (
    ("WWW-Authenticate", 401),
    ("Retry-After", 429),
    ("Retry-After", 503),
    ("Retry-After", 504),
)
_HEADERS: dict[str, Any] = {
    "X-Request-ID": {
        "description": "The id of this request in the logs.",
        "required": True,
        "schema": {"type": "string", "minLength": 1, "maxLength": REQUEST_ID_LENGTH_MAX},
    },
    "Location": {
        "description": "The path of what was stored.",
        "required": True,
        "schema": {"type": "string", "pattern": "^/v1/"},
    },
    "Retry-After": {
        "description": "Seconds after which a repeat may succeed.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[0-9]+$"},
    },
    "WWW-Authenticate": {
        "description": "Requests a bearer token, or says what is wrong with the one given.",
        "required": True,
        "schema": {"type": "string", "pattern": "^Bearer"},
    },
}
