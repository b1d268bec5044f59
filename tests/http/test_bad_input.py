"""Whatever a fuzzer sends is refused with a problem document, and nothing is stored of it."""

from __future__ import annotations

import gzip
import json
from collections.abc import AsyncIterator
from itertools import product
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.http.conftest import Caller
from tests.http.messages import GONE, part, post

from fencepost import App
from fencepost.core.bounds import KEY_LENGTH_MAX, PAGE_MAX
from fencepost.core.display import shown
from fencepost.core.filter import DEAD_LETTERS, EVENTS, encode_cursor
from fencepost.http import asgi
from fencepost.http.request.route import Route
from fencepost.http.routes import ROUTES
from fencepost.wire.bounds import HTTP_BATCH_MAX, HTTP_BODY_MAX, JSON_DEPTH_MAX

JSON = {"content-type": "application/json"}
NOBODY = "5f0c3b0e-6a51-4b7e-9d0a-2f6f3c1d8e47"
HUGE = 10**30
DEEP = 100_000


def snapshot(app: App) -> Any:
    """Return all that a request could have left behind."""
    store = app.session.store
    return [
        app.jobs.find(limit=1000),
        store.run(store.overview.queues()),
        store.run(store.overview.types()),
        store.run(store.cluster.workers()),
        store.run(store.settings.app_limit()),
        app.events.find().next,
        len(app.events.find()),
        len(app.dead_letters.list()),
        [(cron.name, cron.is_paused) for cron in app.crons.list()],
    ]


def path_of(route: Route) -> str:
    """Return the path of a route as somebody asks for it."""
    path = route.path.replace("{id}", NOBODY)
    return path.replace("{name}", "x").replace("{queue}", "x")


def submission(**fields: Any) -> bytes:
    return json.dumps({"type": "add", "payload": {"a": 1}, **fields}).encode()


def payload(raw: bytes, type: str = "foreign") -> bytes:
    """Return a submission whose payload is *raw*, JSON or not."""
    return b'{"type":"%s","payload":%s}' % (type.encode(), raw)


INVALID_JSON = {
    "nothing": b"",
    "white space": b" \n ",
    "text": b"hello",
    "a lone brace": b"{",
    "half a body": b'{"type":"add","payl',
    "single quotes": b"{'type':'add'}",
    "a trailing comma": b'{"type":"add",}',
    "two documents": b'{"type":"add"}{"type":"add"}',
    "a byte order mark": b'\xef\xbb\xbf{"type":"add"}',
    "UTF-16": '{"type":"add"}'.encode("utf-16"),
    "NaN": submission(payload=float("nan")),
    "infinity": submission(delay=float("inf")),
    "minus infinity": submission(delay=float("-inf")),
    "bad UTF-8 in a value": b'{"type":"\xff\xfe"}',
    "bad UTF-8 in a key": b'{"ty\xffpe":"add"}',
    "bad UTF-8 in a payload": payload(b'"\xc3\x28"'),
    "an overlong form": payload(b'"\xc0\xaf"'),
    "a surrogate in UTF-8": payload(b'"\xed\xa0\x80"'),
    "a raw control character": payload(b'"\x00"'),
    "a bad escape": payload(b'"\\x41"'),
    "a lone surrogate for a type": b'{"type":"\\ud800"}',
    "a lone surrogate for a key": b'{"type":"add","payload":{"a":1},"key":"\\udfff"}',
    "a lone surrogate in a payload": payload(b'"\\ud800"'),
    "a lone surrogate in a key of a payload": payload(b'{"\\udc00":1}'),
    "a bad number": payload(b"01"),
    "a comment": payload(b"/* no */ 1"),
}


async def test_what_is_not_json_is_refused(api: Caller, app: App) -> None:
    before = snapshot(app)
    for case, body in INVALID_JSON.items():
        refused = await api.refused("POST", "/v1/jobs", content=body, headers=JSON)
        assert refused in [(400, "invalid_json"), (422, "invalid_payload")], case
    assert snapshot(app) == before


INVALID_SUBMISSIONS = {
    "an array": b"[]",
    "an array of one": b'[{"type":"add"}]',
    "text in JSON": b'"add"',
    "null": b"null",
    "a number": b"1",
    "no type": b"{}",
    "a null type": submission(type=None),
    "a number for a type": submission(type=1),
    "an empty type": submission(type=""),
    "a long type": submission(type="x" * 201),
    "a type with a line break": submission(type="a\nb"),
    "a type with a NUL": submission(type="a\0b"),
    "a type of ours": submission(type="fencepost.webhook"),
    "an unknown field": submission(colour="red"),
    "an id": submission(id=NOBODY),
    "a list for a queue": submission(queue=["a"]),
    "an empty queue": submission(queue=""),
    "a long queue": submission(queue="q" * 101),
    "a negative priority": submission(priority=-1),
    "a huge priority": submission(priority=HUGE),
    "a fraction for a priority": submission(priority=1.5),
    "true for a priority": submission(priority=True),
    "an unknown priority": submission(priority="urgent"),
    "a negative delay": submission(delay=-1),
    "a negative delay in words": submission(delay="-1s"),
    "a huge delay": submission(delay=HUGE),
    "a delay out of range": b'{"type":"add","payload":{"a":1},"delay":1e999}',
    "an endless delay": submission(delay="9" * 10_000 + "s"),
    "a delay in no unit": submission(delay="5 parsecs"),
    "a delay and a time": submission(delay=1, run_at="2030-01-01T00:00:00Z"),
    "a time without a zone": submission(run_at="2030-01-01T00:00:00"),
    "a time that is none": submission(run_at="2030-13-01T00:00:00Z"),
    "a number for a time": submission(run_at=1_900_000_000),
    "a time before the calendar": submission(run_at="0001-01-01T00:00:00+14:00"),
    "an empty key": submission(key=""),
    "a long key": submission(key="k" * (KEY_LENGTH_MAX + 1)),
    "a key with a NUL": submission(key="a\0b"),
    "an unknown choice": submission(on_duplicate="replace"),
    "a list for tags": submission(tags=["a"]),
    "a number for a tag": submission(tags={"a": 1}),
    "a tag of ours": submission(tags={"fencepost.event": "x"}),
    "a tag without a name": submission(tags={"": "x"}),
    "a tag without a value": submission(tags={"a": ""}),
    "too many tags": submission(tags={f"t{n}": "x" for n in range(33)}),
    "a long correlation id": submission(correlation_id="c" * 257),
    "a callback by another protocol": submission(callback_url="ftp://a.example/"),
    "a callback to ourselves": submission(callback_url="https://127.0.0.1/"),
    "a long timeout": submission(timeout="10d"),
    "a short lease": submission(lease_ttl=0.1),
    "no attempts": submission(retry={"max_attempts": 0}),
    "attempts and retries": submission(retry={"max_attempts": 1, "max_retries": 1}),
    "huge attempts": submission(retry={"max_attempts": HUGE}),
    "an unknown backoff": submission(retry={"backoff": "quadratic"}),
    "too much jitter": submission(retry={"jitter": 2}),
    "after nobody": submission(after=[NOBODY]),
    "after what is no id": submission(after=["../../etc/passwd"]),
    "after too many": submission(after=[NOBODY] * 1_001),
    "after any of none": submission(after_any=[]),
    "two payloads": submission(payload_base64="aGk="),
    "no base64": b'{"type":"size","payload_base64":"@@@"}',
    "base64 without its end": b'{"type":"size","payload_base64":"aGk"}',
    "arguments that are missing": submission(payload={}),
    "arguments too many": submission(payload={"a": 1, "c": 2}),
    "an argument of the wrong type": submission(payload={"a": "one"}),
    "a list for keywords": submission(payload="a"),
    "a number out of range": payload(b"1e999"),
    "a number out of range, for a task": payload(b'{"a":1e999}', "add"),
    "a number of 10,000 digits": payload(b"[%s]" % (b"9" * 10_000)),
    "a number of 10,000 digits, for a task": payload(b'{"a":%s}' % (b"9" * 10_000), "add"),
    "a fraction of 10,000 digits and more": payload(b"[1%s.5e-9]" % (b"9" * 10_000)),
    "deep lists": payload(b"[" * DEEP + b"]" * DEEP),
    "deep lists without an end": payload(b"[" * DEEP),
    "deep objects": payload(b'{"a":' * DEEP + b"1" + b"}" * DEEP),
    "lists a level too deep": payload(b"[" * JSON_DEPTH_MAX + b"]" * JSON_DEPTH_MAX),
    "depth hidden behind text": payload(b'["\\"' + b"[" * 10 + b'",' + b"[" * DEEP + b"]" * DEEP),
}


async def test_a_submission_that_makes_no_sense_is_refused(api: Caller, app: App) -> None:
    before = snapshot(app)
    for case, body in INVALID_SUBMISSIONS.items():
        status, _ = await api.refused("POST", "/v1/jobs", content=body, headers=JSON)
        assert status == 422, case
    assert snapshot(app) == before


INVALID_BODIES = [
    ("POST", "/v1/jobs/batch", {"jobs": []}),
    ("POST", "/v1/jobs/batch", {"jobs": {}}),
    ("POST", "/v1/jobs/batch", {"jobs": [{"type": "x"}] * (HTTP_BATCH_MAX + 1)}),
    ("POST", "/v1/jobs/batch", {"jobs": [{"type": "x"}, {"type": ""}], "atomic": True}),
    ("POST", "/v1/jobs/batch", {"jobs": [{"type": "x"}, {"type": 1}]}),
    ("POST", "/v1/jobs/batch", {"jobs": [{"type": "x"}], "atomic": "yes"}),
    ("POST", "/v1/flows", {"nodes": {}}),
    ("POST", "/v1/flows", {"nodes": {"a": {"type": "x", "after": ["a"]}}}),
    (
        "POST",
        "/v1/flows",
        {"nodes": {"a": {"type": "x", "after": ["b"]}, "b": {"type": "x", "after": ["a"]}}},
    ),
    ("POST", "/v1/flows", {"nodes": {"": {"type": "x"}}}),
    ("POST", "/v1/flows", {"nodes": {f"n{n}": {"type": "x"} for n in range(HTTP_BATCH_MAX + 1)}}),
    ("POST", "/v1/flows", {"nodes": {"a": {"type": "x", "after": ["elsewhere"]}}}),
    ("POST", "/v1/events/user..created", {}),
    ("POST", "/v1/events/user.*", {}),
    ("POST", f"/v1/events/{'e' * 201}", {}),
    ("POST", "/v1/events/user.created", {"payload": []}),
    ("POST", "/v1/events/user.created", {"payload": {}, "key": ""}),
    ("POST", "/v1/claims", {"limit": 0}),
    ("POST", "/v1/claims", {"limit": HUGE}),
    ("POST", "/v1/claims", {"queues": []}),
    ("POST", "/v1/claims", {"queues": {"a": 0}}),
    ("POST", "/v1/claims", {"queues": {"a": HUGE}}),
    ("POST", "/v1/claims", {"queues": {f"q{n}": 100 for n in range(11)}}),
    ("POST", "/v1/claims", {"types": []}),
    ("POST", "/v1/claims", {"types": ["fencepost.webhook"]}),
    ("POST", "/v1/claims", {"worker": ""}),
    ("POST", "/v1/claims", {"worker": "w\r\nx-evil: 1"}),
    ("POST", "/v1/claims", {"worker": "w" * 201}),
    ("POST", "/v1/claims", {"lease_ttl": 0}),
    ("POST", "/v1/claims", {"lease_ttl": "never"}),
    ("POST", "/v1/claims", {"timeout": 3600}),
    ("POST", "/v1/leases/heartbeat", {"items": []}),
    ("POST", "/v1/leases/heartbeat", {"items": [{"id": "a", "token": "b"}] * 1_001}),
    ("POST", "/v1/leases/heartbeat", {"id": NOBODY, "token": "t", "items": []}),
    ("POST", "/v1/leases/heartbeat", {"id": NOBODY, "token": "t", "lease_ttl": -1}),
    ("POST", "/v1/leases/ack", {"id": NOBODY, "token": "t", "result": 1, "result_base64": ""}),
    ("POST", "/v1/leases/nack", {"id": NOBODY, "token": "t", "category": "cancelled"}),
    ("POST", "/v1/leases/nack", {"id": NOBODY, "token": "t", "retry_after": -1}),
    ("POST", "/v1/leases/release", {"id": NOBODY, "token": "t", "delay": HUGE}),
    ("POST", "/v1/leases/progress", {"id": NOBODY, "token": "t", "fraction": 1.5}),
    ("POST", "/v1/leases/progress", {"id": NOBODY, "token": "t", "fraction": "half"}),
    ("POST", "/v1/jobs/cancel", {}),
    ("POST", "/v1/jobs/cancel", {"state": ["asleep"]}),
    ("POST", "/v1/jobs/cancel", {"dry_run": True}),
    ("PUT", "/v1/limit", {}),
    ("PUT", "/v1/limit", {"max_running": 0}),
    ("PUT", "/v1/limit", {"max_running": -HUGE}),
    ("PUT", "/v1/limit", {"max_running": HUGE}),
    ("PUT", "/v1/limit", {"max_running": 1.5}),
    ("PUT", "/v1/queues/mail/limit", {"max_running": HUGE}),
    ("PUT", "/v1/types/mail/limit", {}),
    ("PUT", "/v1/types/mail/limit", {"rate": 5}),
    ("PUT", "/v1/types/mail/limit", {"rate": "5/year"}),
    ("PUT", "/v1/types/mail/limit", {"rate": "9" * 1000}),
    ("PUT", f"/v1/queues/{'q' * 101}/limit", {"max_running": 1}),
    ("POST", f"/v1/queues/{'q' * 101}/pause", None),
    ("POST", "/v1/queues/a%C2%85b/pause", None),
    ("POST", "/v1/queues/mail/pause", {"a": 1}),
    ("POST", f"/v1/types/{'t' * 201}/pause", None),
    ("POST", "/v1/dead-letters/replay", {"limit": -1}),
    ("POST", "/v1/dead-letters/replay", {"limit": 0}),
    ("POST", "/v1/dead-letters/replay", {"type": ""}),
]


async def test_a_body_that_makes_no_sense_is_refused(api: Caller, app: App) -> None:
    before = snapshot(app)
    for method, path, body in INVALID_BODIES:
        status, _ = await api.refused(method, path, body)
        assert status == 422, (path, shown(body))
    assert snapshot(app) == before


INVALID_QUERIES = [
    "/v1/jobs?colour=red",
    "/v1/jobs?limit=0",
    "/v1/jobs?limit=-1",
    f"/v1/jobs?limit={PAGE_MAX + 1}",
    f"/v1/jobs?limit={HUGE}",
    f"/v1/jobs?limit={'9' * 5_000}",
    "/v1/jobs?limit=ten",
    "/v1/jobs?limit=1.5",
    "/v1/jobs?limit=1e1",
    "/v1/jobs?limit=+1",
    "/v1/jobs?limit=%D9%A3",
    "/v1/jobs?limit=",
    "/v1/jobs?limit=true",
    "/v1/jobs?limit=null",
    "/v1/jobs?limit=1&limit=2",
    "/v1/jobs?type=a&type=b",
    "/v1/jobs?type=",
    "/v1/jobs?type=%00",
    "/v1/jobs?type=%FF",
    f"/v1/jobs?type={'t' * 201}",
    "/v1/jobs?limit",
    "/v1/jobs?&",
    "/v1/jobs?state=asleep",
    "/v1/jobs?tag=tenant",
    "/v1/jobs?tag=:7",
    "/v1/jobs?created_after=yesterday",
    "/v1/jobs?created_after=2026-01-31",
    "/v1/jobs?created_after=2026-01-31T12:00:00",
    "/v1/jobs?created_after=1700000000",
    "/v1/jobs?created_after=null",
    "/v1/jobs?created_after=0001-01-01T00:00:00%2B14:00",
    "/v1/jobs?after=",
    "/v1/jobs?after=!",
    "/v1/jobs?after=42",
    "/v1/jobs?after=ajE6",
    "/v1/jobs?after=ajE6NDI%3D",
    "/v1/jobs?after=ajE6LTE",
    f"/v1/jobs?after={encode_cursor(10**30)}",
    f"/v1/jobs?after={encode_cursor(42)[:-1]}",
    f"/v1/jobs?after={encode_cursor(42, EVENTS)}",
    f"/v1/jobs?after={encode_cursor(42, DEAD_LETTERS)}",
    f"/v1/jobs?after={'A' * 5_000}",
    f"/v1/events?after={encode_cursor(42)}",
    "/v1/events?name=a..b",
    f"/v1/dead-letters?after={encode_cursor(42)}",
    "/v1/dead-letters?limit=0",
    "/v1/crons/nightly/next?count=0",
    f"/v1/crons/nightly/next?count={HUGE}",
    "/v1/queues?limit=1",
    "/health/live?verbose=1",
    "/openapi.json?format=yaml",
    "/v1/jobs?" + "&".join(["tag=a"] * 10_000),
    "/v1/jobs?" + "&" * 10_000,
]


async def test_a_query_that_makes_no_sense_is_refused(api: Caller) -> None:
    for path in INVALID_QUERIES:
        status, code = await api.refused("GET", path)
        assert status == 422, path
        assert code in ("invalid_request", "invalid_job", "invalid_event"), path


async def test_a_wait_that_makes_no_sense_is_refused(api: Caller) -> None:
    job_id = await api.submit("add", {"a": 1})
    for timeout in ("-1", "-1s", "nan", "inf", "1e999", "never", "3600", ""):
        refused = await api.refused("GET", f"/v1/jobs/{job_id}/wait", params={"timeout": timeout})
        assert refused == (422, "invalid_duration"), timeout


FOREIGN_IDS = [
    NOBODY,
    NOBODY.upper(),
    "1",
    "null",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "a%2Fb",
    "%00",
    "%0d%0ax-evil:1",
    "%FF",
    "%F0%9F%92%A9",
    "'%20or%201=1--",
    "5f0c3b0e6a514b7e9d0a2f6f3c1d8e47",
    "5f0c3b0e-6a51-1b7e-9d0a-2f6f3c1d8e47",
    "x" * 10_000,
]
WITH_ID = [route for route in ROUTES if "{id}" in route.path]


async def test_an_id_of_nobody_is_not_found(api: Caller, app: App) -> None:
    before = snapshot(app)
    for route, each in product(WITH_ID, FOREIGN_IDS):
        path = route.path.replace("{id}", each)
        body: Any = {} if route.body is not None else None
        status, code = await api.refused(route.method, path, body)
        assert status in (404, 422), (route.path, each, code)
    assert snapshot(app) == before


ALSO_IDS = {
    *(
        (method, f"/v1/jobs/{word}")
        for method in ("GET", "PATCH")
        for word in ("batch", "cancel", "count", "edit", "retry")
    ),
    ("PATCH", "/v1/jobs/count"),
    ("DELETE", "/v1/dead-letters/discard"),
    ("DELETE", "/v1/dead-letters/replay"),
    ("DELETE", "/v1/dead-letters/groups"),
}
"""What can be read as an id is one, of nobody."""


async def test_a_wrong_method_is_refused_with_those_that_are_right(api: Caller, app: App) -> None:
    before = snapshot(app)
    methods = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW")
    for route, method in product(ROUTES, methods):
        path = path_of(route)
        right = {each.method for each in ROUTES if each.path == route.path}
        if method in right or (method, path) in ALSO_IDS:
            continue
        response = await api.ask(method, path)
        assert response.status_code == 405, (method, path)
        allowed = set(response.headers["allow"].split(", ")) - {"HEAD"}
        assert right <= allowed <= right | {also for also, place in ALSO_IDS if place == path}
    assert snapshot(app) == before


async def test_nothing_is_at_other_paths(api: Caller) -> None:
    for path in (
        "/v1",
        "/v1/",
        "/v1/jobs/",
        "/v2/jobs",
        "/v1//jobs",
        "/v1/jobs/a/b/c",
        "/%00",
    ):
        assert await api.refused("GET", path) == (404, "not_found"), path


WITH_BODY = [route for route in ROUTES if route.body is not None]


async def test_a_body_that_is_not_called_json_is_refused(api: Caller, app: App) -> None:
    """A browser sends these from any page without asking."""
    before = snapshot(app)
    types = ("", "text/plain", "text/json", "application/x-www-form-urlencoded", "application/jso")
    for route, media_type in product(WITH_BODY, (None, *types)):
        headers = {} if media_type is None else {"content-type": media_type}
        refused = await api.refused(route.method, path_of(route), content=b"{}", headers=headers)
        assert refused == (415, "unsupported_media_type"), (route.path, media_type)
    assert snapshot(app) == before


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "gzip, identity", "evil"])
async def test_a_compressed_body_is_refused(api: Caller, app: App, encoding: str) -> None:
    """What it grows to, nobody knows beforehand."""
    before = snapshot(app)
    headers = {**JSON, "content-encoding": encoding}
    body = gzip.compress(submission())
    assert await api.refused("POST", "/v1/jobs", content=body, headers=headers) == (
        415,
        "unsupported_media_type",
    )
    assert snapshot(app) == before


async def _chunks(total: int) -> AsyncIterator[bytes]:
    yield b'{"type":"add","payload":"'
    for _ in range(total // 65_536):
        yield b"x" * 65_536
    yield b'"}'


async def test_a_body_of_forty_megabytes_is_refused(api: Caller, app: App) -> None:
    before = snapshot(app)
    huge = b"[" + b" " * 40_000_000 + b"]"
    for route in WITH_BODY:
        for content in (huge, _chunks(40_000_000)):
            refused = await api.refused(route.method, path_of(route), content=content, headers=JSON)
            assert refused == (413, "payload_too_large"), route.path
    assert snapshot(app) == before


async def test_a_payload_over_the_app_s_limit_is_refused(api: Caller, app: App) -> None:
    before = snapshot(app)
    refused = await api.refused("POST", "/v1/jobs", content=_chunks(10_000_000), headers=JSON)
    assert refused == (413, "payload_too_large")
    body = {"type": "foreign", "payload": "x" * 1_000_001}
    assert await api.refused("POST", "/v1/jobs", body) == (413, "payload_too_large")
    assert snapshot(app) == before


@pytest.mark.parametrize("announced", ["10000000", "9" * 5_000, "1" + "0" * 30])
async def test_a_body_that_announces_to_be_too_large_is_not_read(app: App, announced: str) -> None:
    """Not one byte of it is asked for."""
    assert await post(app, "/v1/jobs", headers=[("content-length", announced)]) == 413


@pytest.mark.parametrize("count", [1, 3])
async def test_a_body_over_the_limit_is_refused_though_nothing_announced_it(
    app: App, count: int
) -> None:
    """In one piece or in several, none of which is too large by itself."""
    whole = b'{"worker":"w1"}'.ljust(HTTP_BODY_MAX)
    for body, status in ((whole, 200), (whole + b" ", 413)):
        step = -(-len(body) // count)
        pieces = [body[start : start + step] for start in range(0, len(body), step)]
        messages = [part(piece, is_last=piece is pieces[-1]) for piece in pieces]
        assert await post(app, "/v1/claims", [*messages, GONE]) == status


async def test_a_request_id_that_is_unfit_for_a_log_is_replaced(api: Caller) -> None:
    for sent in ("", " ", "a b", "a\tb", "ü", "x" * 129, "<script>", 'a"b', "{}", "$(reboot)"):
        for path in ("/v1/nowhere", "/health/live"):
            response = await api.ask("GET", path, headers={"x-request-id": sent.encode()})
            assert response.headers["x-request-id"] not in ("", sent)


async def test_no_answer_repeats_much_of_what_was_sent(api: Caller) -> None:
    for body in (
        {"type": "x" * 60_000},
        {"type": "a", "queue": ["<b>"] * 5_000},
        {"x" * 60_000: 1},
    ):
        response = await api.ask("POST", "/v1/jobs", body)
        assert len(response.content) < 2_000
    response = await api.ask("GET", f"/v1/jobs/{'x' * 60_000}")
    assert len(response.content) < 2_000
    for query in ("x" * 60_000, f"{'x' * 60_000}=1", f"limit={'9' * 60_000}"):
        response = await api.ask("GET", f"/v1/jobs?{query}")
        assert len(response.content) < 2_000


POSTING = [route for route in ROUTES if route.method != "GET"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    route=st.sampled_from(POSTING),
    body=st.binary(max_size=200)
    | st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.text() | st.sampled_from(["type", "jobs", "id"]), inner, max_size=3
            )
        ),
        max_leaves=8,
    ).map(lambda value: json.dumps(value).encode("utf-8", "surrogatepass")),
    name=st.text(min_size=1, max_size=20),
)
async def test_no_bytes_make_a_server_error(app: App, route: Any, body: bytes, name: str) -> None:
    """Whatever is sent anywhere: an answer that the route's document has, and no error of ours."""
    transport = httpx.ASGITransport(app=asgi(app, is_local=True), raise_app_exceptions=True)
    quoted = httpx.QueryParams({"n": name})
    path = route.path
    for parameter in ("{id}", "{name}", "{queue}"):
        path = path.replace(parameter, str(quoted)[2:].replace("+", "%20"))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as client:
        response = await client.request(route.method, path, content=body, headers=JSON)
    assert response.status_code < 500, response.text
    if response.status_code >= 400:
        assert response.json()["code"] != "internal_error"


async def test_a_whole_number_may_be_written_with_zeros(api: Caller) -> None:
    """As JSON Schema has it, and some languages write it; a payload stays as it was written."""
    body = b'{"type":"other","priority":1.0,"retry":{"max_attempts":2.00},"payload":{"x":3.0}}'
    response = await api.ask(
        "POST", "/v1/jobs", content=body, headers={"content-type": "application/json"}
    )
    assert response.status_code == 201, response.text
    shown = await api.ask("GET", f"/v1/jobs/{response.json()['id']}")
    assert (shown.json()["priority"], shown.json()["max_attempts"]) == (1, 2)
    assert '"payload":{"x":3.0}' in shown.text
    assert (await api.ask("GET", "/v1/jobs?limit=5.0")).status_code == 200
    for wrong in (b"1.5", b'"1"', b"1e400", b"true"):
        refused = await api.ask(
            "POST",
            "/v1/jobs",
            content=b'{"type":"other","priority":' + wrong + b"}",
            headers={"content-type": "application/json"},
        )
        assert refused.status_code == 422, wrong
