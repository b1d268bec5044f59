"""A server that answers a worker as a test tells it to, and remembers what was asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Answer = tuple[int, Any] | tuple[int, Any, dict[str, str]] | None
"""A status and a body; None hangs up."""

IDLE = 0.02
"""Seconds for which a claim that finds nothing is kept."""


def granted(body: Any) -> Answer:
    """Grant a batch of writes; of a single one, say so by itself."""
    items = body.get("items")
    if items is None:
        return 200, {"id": body["id"], "status": 200, "state": None}
    return 200, {"items": [{"id": each["id"], "status": 200, "state": None} for each in items]}


def stale(body: Any) -> Answer:
    """Refuse all writes, because others own the jobs."""
    refusal = {"status": 409, "code": "stale_lease", "state": "running", "detail": "stale"}
    if "items" not in body:
        return 409, {"id": body["id"], **refusal}
    return 200, {"items": [{"id": each["id"], **refusal} for each in body["items"]]}


@dataclass
class Scripted:
    """What to answer, and what was asked."""

    url: str = ""
    jobs: list[dict[str, Any]] = field(default_factory=list)
    """What the next claim gets."""
    answers: dict[str, Callable[[Any], Answer]] = field(default_factory=dict)
    """What else than success the writes of a kind are answered with."""
    asked: list[tuple[str, Any]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def give(self, **fields: Any) -> dict[str, Any]:
        """Let the next claim have a job; return it."""
        number = str(len(self.asked) + len(self.jobs))
        job = {
            "id": f"job-{number}",
            "type": "test",
            "attempt": 1,
            "timeout": 60.0,
            "lease_ttl": 30.0,
            "lease": {"token": f"token-{number}", "version": 1},
            "payload": {},
            "checkpoint": None,
            **fields,
        }
        with self.changed:
            self.jobs.append(job)
        return job

    def answer(self, path: str, body: Any) -> Answer:
        kind = path.rpartition("/")[2]
        with self.changed:
            self.asked.append((kind, body))
            self.changed.notify_all()
            if kind in self.answers:
                return self.answers[kind](body)
            if kind != "claims":
                return granted(body)
            if not self.jobs:
                self.changed.wait(IDLE)
            given, self.jobs = self.jobs[: body["limit"]], self.jobs[body["limit"] :]
            return 200, {"jobs": given, "wait": 0.0}

    def writes(self, kind: str) -> list[dict[str, Any]]:
        """Return what was written of this kind, one by one."""
        return [
            item
            for asked, body in self.asked
            if asked == kind
            for item in body.get("items", [body])
        ]

    def count(self, kind: str) -> int:
        return sum(1 for asked, _ in self.asked if asked == kind)

    def wait(self, is_so: Callable[[], Any], patience: float) -> Any:
        """Return what *is_so* returns once it is true, which it must be within *patience*."""
        with self.changed:
            assert self.changed.wait_for(is_so, patience), [kind for kind, _ in self.asked][-20:]
            return is_so()


@contextmanager
def scripted() -> Iterator[Scripted]:
    """Serve until the block is left."""
    script = Scripted()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            answer = script.answer(self.path, body)
            if answer is None:
                self.close_connection = True
                return
            data = json.dumps(answer[1]).encode()
            self.send_response(answer[0])
            for name, value in (answer[2] if len(answer) > 2 else {}).items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *_: Any) -> None:
            """Workers are killed in mid-request here."""

    server = Server(("127.0.0.1", 0), Handler)
    script.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
