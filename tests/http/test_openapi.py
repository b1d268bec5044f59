"""The document: complete, valid, true to its examples, and kept to by the running server."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from openapi_spec_validator import validate
from tests.http.conftest import Caller
from tests.servers.fixtures import FreshPostgres, postgres_sources
from tests.thoroughness import IS_FULL

from fencepost import __version__, http
from fencepost.core.access.tokens import Role
from fencepost.http.openapi.document import document
from fencepost.http.request import problems
from fencepost.http.request.problems import OWN, codes_of
from fencepost.http.routes import ROUTES
from lab.fuzz.http_fuzz import fuzz, fuzzed_server

SIZE_MAX = 400_000
"""Bytes of the document, which clients read whole."""


@pytest.fixture(scope="module")
def doc() -> dict[str, Any]:
    return document(ROUTES)


def operations(doc: dict[str, Any]) -> list[dict[str, Any]]:
    return [operation for path in doc["paths"].values() for operation in path.values()]


def test_the_document_is_openapi(doc: dict[str, Any]) -> None:
    validate(doc)
    assert doc["openapi"].startswith("3.1")
    assert doc["info"]["version"] == __version__


def test_every_route_is_in_it_under_a_name_of_its_own(doc: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(doc)]
    assert len(names) == len(set(names)) == len(ROUTES)
    for route in ROUTES:
        operation = doc["paths"][route.path][route.method.lower()]
        assert operation["x-roles"] == [str(role) for role in route.roles]
        assert operation["summary"]
        assert operation["description"]
        assert bool(operation["security"]) is bool(route.roles)
        assert set(operation["x-roles"]) <= {role.value for role in Role}


async def test_anybody_may_read_it(api: Caller, doc: dict[str, Any]) -> None:
    response = await api.ask("GET", "/openapi.json")
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert len(response.content) < SIZE_MAX
    assert response.json()["paths"].keys() == doc["paths"].keys()


def test_every_field_that_is_written_about_is_described(doc: dict[str, Any]) -> None:
    schemas = doc["components"]["schemas"]
    assert schemas["ClaimReply"]["properties"]["wait"]["description"].startswith("Seconds after")
    # Inherited, of a generic, and of a struct that other layers have.
    assert "description" in schemas["JobView"]["properties"]["run_at"]
    assert schemas["Items_Beat_"]["description"] == "Many in one request."
    assert "description" in schemas["Ownership"]["properties"]["expired"]
    for name, schema in schemas.items():
        assert schema.get("description"), name


def test_times_are_said_to_be_times(doc: dict[str, Any]) -> None:
    schemas = doc["components"]["schemas"]
    assert schemas["JobView"]["properties"]["created_at"]["format"] == "date-time"
    assert schemas["JobView"]["properties"]["started_at"]["anyOf"][0]["format"] == "date-time"
    assert schemas["Ticks"]["properties"]["ticks"]["items"]["format"] == "date-time"


def test_every_refusal_has_a_code_a_meaning_and_an_example(doc: dict[str, Any]) -> None:
    for route in ROUTES:
        for code in codes_of(route):
            assert code.meaning.endswith("."), code
            assert code.status in problems.TITLES
    for operation in operations(doc):
        for status, response in operation["responses"].items():
            assert int(status) < 400 or response["$ref"].startswith("#/components/responses/")


def test_codes_of_http_itself_are_those_that_are_raised() -> None:
    """What the sources raise by name is in the table, and nothing is that they do not."""
    folder = Path(http.__file__).parent
    text = "\n".join(path.read_text() for path in folder.rglob("*.py"))
    raised = set(re.findall(r'code="(\w+)"', text)) | {"invalid_request", "not_found"}
    raised |= {"method_not_allowed"}
    assert {code.name for code in OWN} == raised - {"invalid_job", "stale_lease"}


def _examples(doc: dict[str, Any]) -> list[tuple[str, Any, Any]]:
    """Return every example with where it is, and the schema that it must meet."""
    found = []
    for operation in operations(doc):
        name = operation["operationId"]
        bodies = [("body", operation.get("requestBody", {}))]
        replies = [
            (status, response)
            for status, response in operation["responses"].items()
            if "$ref" not in response
        ]
        for place, holder in bodies + replies:
            for content in holder.get("content", {}).values():
                given = content.get("examples", {}).values()
                found += [(f"{name} {place}", each["value"], content["schema"]) for each in given]
        for parameter in operation["parameters"]:
            if "example" in parameter:
                where = f"{name} {parameter['name']}"
                found.append((where, parameter["example"], parameter["schema"]))
    for name, response in doc["components"]["responses"].items():
        (content,) = response["content"].values()
        for each in content["examples"].values():
            key = each["$ref"].rpartition("/")[2]
            found.append((name, doc["components"]["examples"][key]["value"], content["schema"]))
    return found


def test_every_example_is_what_its_schema_says(doc: dict[str, Any]) -> None:
    examples = _examples(doc)
    assert len(examples) > 2 * len(ROUTES)
    for where, value, schema in examples:
        whole = {**schema, "components": doc["components"]}
        validator = jsonschema_rs.Draft202012Validator(whole, validate_formats=True)
        errors = [error.message for error in validator.iter_errors(value)]
        assert not errors, (where, errors)


def test_every_body_and_every_reply_has_an_example(doc: dict[str, Any]) -> None:
    for operation in operations(doc):
        holders = [operation.get("requestBody"), *operation["responses"].values()]
        for holder in holders:
            content = (holder or {}).get("content", {}).get("application/json")
            if content is not None and content["schema"] != {"type": "object"}:
                assert content["examples"], operation["operationId"]


@pytest.mark.timeout(240)
def test_the_running_server_keeps_to_it_on_sqlite(tmp_path: Path) -> None:
    """No server error, and no answer outside of the document: a walk along all of its edges."""
    with fuzzed_server(f"sqlite:///{tmp_path}/jobs.db") as target:
        findings = fuzz(
            target,
            seed=1,
            examples=1,
            seconds=60 if IS_FULL else 10,
            phases="examples,coverage",
            folder=tmp_path,
        )
    assert findings.is_clean, findings.text


@pytest.mark.timeout(240)
def test_the_running_server_keeps_to_it_on_postgres(
    tmp_path: Path, fresh_postgres: FreshPostgres
) -> None:
    """Nor to what comes to a fuzzer's mind within ten seconds."""
    with fuzzed_server(fresh_postgres(postgres_sources()[0])) as target:
        findings = fuzz(
            target,
            seed=2,
            examples=3,
            seconds=30 if IS_FULL else 6,
            phases="examples,fuzzing",
            folder=tmp_path,
        )
    assert findings.is_clean, findings.text
