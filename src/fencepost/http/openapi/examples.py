"""An example of every body and reply, for the OpenAPI document.

They are written as JSON, and read by the structs that the API reads and writes, so that none can go
out of date.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from fencepost.http.openapi.example_bodies import bodies
from fencepost.http.openapi.example_replies import replies
from fencepost.http.openapi.example_values import JOB_ID, OTHER_ID, plain
from fencepost.http.request.problems import TITLES, Code, Problem
from fencepost.wire import leases


def path_example(path: str) -> str:
    """Return an example of the parameter of *path*."""
    names = {"queues": "mail", "scale": "mail", "types": "send_mail", "events": "user.created"}
    names |= {"crons": "nightly", "tokens": "0f8d6c1a5f43"}
    return names.get(path.split("/")[2], JOB_ID)


def problem_example(code: Code) -> Any:
    """Return a problem document of this code."""
    problem = Problem(
        type=f"urn:fencepost:problem:{code.name}",
        title=TITLES[code.status],
        status=code.status,
        code=code.name,
        detail=code.meaning,
        request_id=OTHER_ID,
    )
    return plain(problem)


def example_of(kind: Any) -> Any:
    """Return an example of a struct as JSON; None if there is none."""
    return _examples().get(kind)


@cache
def _examples() -> dict[Any, Any]:
    written = bodies() | replies()
    found = {
        kind: plain(msgspec.json.decode(msgspec.json.encode(value), type=kind))
        for kind, value in written.items()
    }
    many: Any = leases.Items
    for kind in _LEASED:
        found[many[kind]] = {"items": [found[kind]]}
    return found


_LEASED: tuple[Any, ...] = (
    leases.Ack,
    leases.WireBeat,
    leases.Checkpoint,
    leases.Nack,
    leases.ProgressBody,
    leases.Release,
)
