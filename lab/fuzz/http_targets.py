"""What HTTP requests are made of: bodies, queries, request ids, and whole submissions."""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from fencepost import App
from fencepost.core.access.tokens import Principal
from fencepost.core.filter import encode_cursor
from fencepost.errors import ConfigurationError, InvalidJobError
from fencepost.http.openapi.examples import example_of
from fencepost.http.operations.submit import prepare
from fencepost.http.request.problems import HttpError
from fencepost.http.request.read import BodyReader, QueryReader, request_id_of
from fencepost.http.routes import ROUTES
from fencepost.wire.control import JobSearch
from fencepost.wire.jobs import Submission
from lab.fuzz.inputs import bent, bent_bytes, raw_bytes
from lab.fuzz.target import Target

READERS = {
    route.name: (BodyReader(*route.bodies), route.bodies[0])
    for route in ROUTES
    if route.body is not None
}
EXAMPLES = {
    name: msgspec.json.encode(example)
    for name, (_, kind) in READERS.items()
    if (example := example_of(kind)) is not None
}
APP = App("memory://")

bodies = st.sampled_from(sorted(EXAMPLES)).flatmap(
    lambda name: st.tuples(st.just(name), bent_bytes(st.just(EXAMPLES[name])))
)
queries = st.sampled_from(
    [
        "state=running&state=delayed&type=send_mail&limit=10",
        "queue=mail&tag=tenant%3A7&correlation_id=order-42",
        "created_after=2026-01-31T12%3A00%3A00Z&created_before=2026-02-01T00%3A00%3A00%2B01%3A00",
        f"after={encode_cursor(42)}",
    ]
)


def _read_body(given: tuple[str, bytes]) -> Any:
    name, data = given
    return READERS[name][0].read(data)


def _read_submission(data: bytes) -> Any:
    submission = READERS["submit_job"][0].read(data)
    assert isinstance(submission, Submission)
    return prepare(APP.session, submission, Principal.local())


def _read_query(text: Any) -> Any:
    return QueryReader(JobSearch).read(str(text).encode("utf-8", "surrogatepass"))


def _read_request_id(data: bytes) -> str | None:
    return request_id_of({b"x-request-id": data})


def _check_request_id(_: bytes, request_id: str | None) -> None:
    assert request_id is None or (request_id.isascii() and request_id.isprintable())


HTTP_TARGETS = (
    Target("HTTP body", _read_body, bodies, (HttpError, InvalidJobError)),
    Target("HTTP submission", _read_submission, bent_bytes(st.just(EXAMPLES["submit_job"])),
           (HttpError, InvalidJobError, ConfigurationError)),
    Target("HTTP query", _read_query, bent(queries), (HttpError,)),
    Target("X-Request-ID", _read_request_id, bent_bytes(st.just(b"a-1.b_2:c")) | raw_bytes, (),
           _check_request_id),
)  # fmt: skip
