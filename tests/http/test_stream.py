"""``GET /v1/stream`` on a real socket: told once, in order, and nothing missed after a cut."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.cli.support import wait_until
from tests.http.serving import Served, serving
from tests.http.sockets import request
from tests.http.sockets import serving as serving_sockets

from fencepost import App
from fencepost.http.operations import stream as module
from fencepost.testing import drain

LINES_MAX = 20
"""Of a stream that is to end; one that goes on says now and then that it is there."""


class Event(dict[str, Any]):
    """One event of a stream."""

    kind: str
    id: str | None


class Listening:
    """A client of a stream, event by event."""

    def __init__(self, response: httpx.Response) -> None:
        self._lines = response.iter_lines()
        self.last_id: str | None = None

    def next(self, kind: str) -> Event:
        """Return the next event of a kind, whatever comes before it."""
        fields: dict[str, str] = {}
        for line in self._lines:
            if not line:
                self.last_id = fields.get("id", self.last_id)
                if fields.get("event") == kind:
                    event = Event(json.loads(fields["data"]))
                    event.kind, event.id = kind, fields.get("id")
                    return event
                fields = {}
            elif not line.startswith(":"):
                name, _, value = line.partition(": ")
                fields[name] = value
        raise AssertionError("the stream has ended")

    def lines(self) -> Iterator[str]:
        """Yield what comes, as it comes."""
        return self._lines

    def is_over(self) -> bool:
        """Tell whether the end comes soon, and no job before it."""
        lines = list(islice(self._lines, LINES_MAX))
        return len(lines) < LINES_MAX and not any(line.startswith("event: job") for line in lines)


@contextmanager
def listening(served: Served, path: str = "", **headers: str) -> Iterator[Listening]:
    with (
        httpx.Client(base_url=served.url, timeout=20, headers=headers) as client,
        client.stream("GET", f"/v1/stream{path}") as response,
    ):
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Listening(response)


@pytest.fixture
def app(tmp_path: Path) -> Iterator[App]:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:

        @app.task
        def add(a: int) -> int:
            return a

        @app.task(queue="mail")
        def letter(a: int) -> int:
            return a

        yield app


@pytest.fixture
def served(app: App) -> Iterator[Served]:
    with serving(app) as served:
        yield served


def run(app: App, type: str, *numbers: int) -> list[str]:
    """Submit and run jobs, one after the other; return their ids."""
    ids = []
    for number in numbers:
        job = app.session.tasks[type]
        from fencepost.actions.options import Options
        from fencepost.app import TaskHandle

        handle: TaskHandle[..., Any] = TaskHandle(app.session, job, Options())
        ids.append(handle.submit(number).id)
        drain(app)
    return ids


def test_jobs_are_told_of_as_they_end_once_and_in_order(app: App, served: Served) -> None:
    run(app, "add", 0)  # before anybody listens: not told
    with listening(served) as client:
        client.next("queues")
        ids = run(app, "add", 1, 2)
        ids += run(app, "letter", 3)
        told = [client.next("job") for _ in ids]
    assert [job["id"] for job in told] == ids
    assert [job["state"] for job in told] == ["completed"] * 3
    assert "payload" not in told[0]
    assert "result" not in told[0]


def test_a_client_that_was_cut_off_misses_nothing(app: App, served: Served) -> None:
    with listening(served) as client:
        client.next("queues")
        before = run(app, "add", 1)
        client.next("job")
    last = client.last_id
    assert last is not None
    meanwhile = run(app, "add", 2, 3)
    with listening(served, **{"last-event-id": last}) as client:
        told = [client.next("job")["id"] for _ in range(3)]
        after = run(app, "add", 4)
        told.append(client.next("job")["id"])
    # What ended just before the cut may be told again; nothing else is.
    assert told == before + meanwhile + after


def test_a_client_is_told_from_a_time_on(app: App, served: Served) -> None:
    ids = run(app, "add", 1, 2)
    since = app.jobs.get(ids[0]).refresh().created_at.isoformat().replace("+00:00", "Z")
    with listening(served, f"?since={since}") as client:
        assert [client.next("job")["id"] for _ in ids] == ids


def test_conditions_choose_what_is_told(app: App, served: Served) -> None:
    with listening(served, "?type=letter&queue=mail&state=completed") as client:
        client.next("queues")
        run(app, "add", 1)
        (mine,) = run(app, "letter", 2)
        job = client.next("job")
        assert job["id"] == mine
    # An id was sent for what it was not told of, too, so that it need not be read again.
    assert client.last_id is not None


def test_queues_are_told_when_they_change(
    app: App, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fencepost.http.api.QUEUES_INTERVAL", 0.0)
    with listening(served) as client:
        assert client.next("queues") == {"queues": []}
        app.queues.pause("mail")
        run(app, "add", 1)
        while True:
            queues = client.next("queues")["queues"]
            if [queue["name"] for queue in queues] == ["default", "mail"]:
                break
    assert queues[1]["is_paused"] is True


def test_a_token_for_one_queue_hears_of_that_one_only(app: App) -> None:
    token = app.tokens.create("mail", roles=["read"], queues=["mail"]).text
    with (
        serving(app, is_local=False) as served,
        listening(served, authorization=f"Bearer {token}") as client,
    ):
        client.next("queues")
        run(app, "add", 1)
        (mine,) = run(app, "letter", 2)
        assert client.next("job")["id"] == mine
        assert [queue["name"] for queue in client.next("queues")["queues"]] in (["mail"], [])


def test_not_even_an_id_tells_of_an_end_out_of_reach(app: App, served: Served) -> None:
    """A bare id says that something ended, and when; a token for all queues is sent those."""
    token = app.tokens.create("mail", roles=["read"], queues=["mail"]).text
    every = app.tokens.create("every", roles=["read"]).text
    with (
        listening(served, authorization=f"Bearer {token}") as client,
        listening(served, "?queue=mail", authorization=f"Bearer {every}") as all_queues,
    ):
        for each in (client, all_queues):
            each.next("queues")
        run(app, "add", 1)
        assert next(line for line in all_queues.lines() if line.startswith("id: "))
        run(app, "letter", 2)
        told = []
        for line in client.lines():
            told.append(line)
            if line.startswith("event: job"):
                break
        assert [line for line in told if line.startswith("id: ")] == told[-2:-1]


def test_a_revoked_token_hears_no_more(
    app: App, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STREAM_SILENCE", 0.0)  # one that goes on says so
    monkeypatch.setattr(module, "TOKEN_RECHECK_SECONDS", 0.0)
    monkeypatch.setattr("fencepost.http.authentication.TOKEN_RECHECK_SECONDS", 0.0)
    token = app.tokens.create("reader", roles=["read"])
    with listening(served, authorization=f"Bearer {token.text}") as client:
        client.next("queues")
        app.tokens.revoke(token.record.id)
        assert client.is_over()


def test_streams_are_bounded_and_let_go_when_their_client_leaves(
    app: App, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HTTP_STREAMS_MAX", 1)
    with listening(served) as client:
        client.next("queues")
        assert served.api.streams == 1
        refused = httpx.get(f"{served.url}/v1/stream")
        assert (refused.status_code, refused.json()["code"]) == (503, "too_many_streams")
        assert refused.headers["retry-after"]
    wait_until(lambda: served.api.streams == 0, "the stream is let go of")


def test_of_many_streams_that_are_asked_for_at_once_no_more_are_served(
    app: App, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each takes its place before it waits for anything, and gives it back however it ends."""
    monkeypatch.setattr(module, "HTTP_STREAMS_MAX", 5)
    with serving_sockets(app) as served:
        for _ in range(2):
            clients = [served.connect() for _ in range(20)]
            for client in clients:
                client.send(request("GET", "/v1/stream"))
            statuses = [client.answer().status for client in clients]
            assert sorted(statuses) == [200] * 5 + [503] * 15
            for client in clients:
                client.close()
            wait_until(lambda: served.server.api.streams == 0, "all places are free")


def test_a_place_among_the_streams_is_given_back_however_it_ends(
    app: App, parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "HTTP_STREAMS_MAX", 1)
    with serving_sockets(app) as served:
        api = served.server.api
        with served.connect() as client:
            assert client.ask("HEAD", "/v1/stream").status == 200
            assert client.ask("GET", "/v1/stream?state=nonsense").status == 422
            assert client.ask("GET", "/v1/stream", None, "last-event-id: x").status == 422
            assert api.streams == 0
        for sent in (b"", request("GET", "/v1/stream")):  # gone before the answer, or behind it
            with served.connect() as client:
                client.send(request("GET", "/v1/stream") + sent)
            served.until_quiet()
            wait_until(lambda: api.streams == 0, "its place is free")


def test_a_stopping_server_ends_its_streams(app: App) -> None:
    with serving(app) as served, listening(served) as client:
        client.next("queues")
        served.api.is_stopping = True
        assert client.is_over()


@pytest.mark.parametrize(
    ("path", "headers"),
    [
        ("?state=nonsense", {}),
        ("?since=2030-01-01T00:00:00", {}),
        ("?nonsense=1", {}),
        ("", {"last-event-id": "nonsense"}),
        ("", {"last-event-id": "ajE6MTIz"}),  # a cursor of another list
        ("", {"last-event-id": "czE6OTk5OTk5OTk5OTk5OTk5OTk5OTk5"}),
        ("", {"last-event-id": "czE6OTk5OTk5OTk5OTk5OTk5OTk5"}),
    ],
)
def test_a_stream_that_makes_no_sense_is_refused(
    served: Served, path: str, headers: dict[str, str]
) -> None:
    response = httpx.get(f"{served.url}/v1/stream{path}", headers=headers)
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"
