"""A request as an ASGI server hands it on, message by message: what no client can be made to do."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from fencepost import App
from fencepost.http import asgi

GONE = {"type": "http.disconnect"}


def part(body: bytes, *, is_last: bool = True) -> dict[str, Any]:
    """Return a message with some of a body."""
    return {"type": "http.request", "body": body, "more_body": not is_last}


async def post(
    app: App, path: str, messages: Sequence[Any] = (), *, headers: Sequence[tuple[str, str]] = ()
) -> int:
    """Send *messages* to a path, as JSON, and return the status of the answer.

    To ask for more of them than there are is an error.
    """
    coming: Iterator[Any] = iter(messages)
    sent: list[Any] = []

    async def receive() -> Any:
        message = next(coming, None)
        assert message is not None, "more was read than was sent"
        return message

    async def send(message: Any) -> None:
        sent.append(message)

    given = [("host", "localhost"), ("content-type", "application/json"), *headers]
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in given],
        "client": ("127.0.0.1", 1),
    }
    await asgi(app, is_local=True)(scope, receive, send)
    status: int = sent[0]["status"]
    return status
