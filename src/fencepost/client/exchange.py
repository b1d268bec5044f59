"""The steps of a script that runs against a server: requests, what comes of them, and rests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import quote

import msgspec

if TYPE_CHECKING:
    from fencepost.client.session import RemoteSession

JOBS = "/v1/jobs"
FLOWS = "/v1/flows"
DEAD_LETTERS = "/v1/dead-letters"
EVENTS = "/v1/events"
QUEUES = "/v1/queues"
TYPES = "/v1/types"
CRONS = "/v1/crons"
SCALE = "/v1/scale"

FOREVER = math.inf
"""However often it is repeated, the same holds afterwards."""


class Request(msgspec.Struct, frozen=True):
    """One request, but for the server and the token."""

    method: str
    path: str
    query: tuple[tuple[str, str], ...] = ()
    body: bytes | None = None
    wait: float = 0.0
    """How many seconds the server may take on purpose."""
    repeat_for: float = 0.0
    """For so many seconds a repeat is harmless, should the answer be lost; 0: never repeat it."""

    @property
    def is_look(self) -> bool:
        """Whether it only looks: there is nothing that may have been done."""
        return self.method == "GET"


class HttpReply(msgspec.Struct, frozen=True):
    """What a server answered, good or bad."""

    status: int
    data: bytes
    retry_after: str | None = None
    """As the header has it."""


class Unreached(msgspec.Struct, frozen=True):
    """Nobody was reached: nothing was sent, and surely nothing done."""

    reason: str


class Unheard(msgspec.Struct, frozen=True):
    """The request was sent, at least in part, and nothing was heard: it may have been done."""

    reason: str


class Rest(msgspec.Struct, frozen=True):
    """Wait before the next request."""

    seconds: float


Outcome = HttpReply | Unreached | Unheard


class Transport(Protocol):
    """A way to a server."""

    def send(self, request: Request) -> Outcome: ...

    async def send_async(self, request: Request) -> Outcome: ...


NAMED = frozenset([QUEUES, TYPES, CRONS, SCALE])
"""Where names are found, which may have slashes in them."""


def path(*parts: str) -> str:
    """Return the path of a route: the first part as it is, the others quoted.

    Servers take no path in which a slash is encoded. Those of a name stay as they are; an id has
    none, and one that does is the id of nothing.
    """
    first, *rest = parts
    if first in NAMED:
        rest = [segment for part in rest for segment in part.split("/")]
    return "/".join((first, *map(_segment, rest)))


def _segment(text: str) -> str:
    # What is nothing but dots would be taken for a way up.
    return quote(text, safe="").replace(".", "%2E") if not text.strip(".") else quote(text, safe="")


def get(*parts: str, query: tuple[tuple[str, str], ...] = (), wait: float = 0.0) -> Request:
    """Return a request that only looks."""
    return Request("GET", path(*parts), query, wait=wait, repeat_for=FOREVER)


def post(*parts: str, body: Any = None, repeat_for: float = 0.0) -> Request:
    """Return a request that does something."""
    data = None if body is None else msgspec.json.encode(body)
    return Request("POST", path(*parts), body=data, repeat_for=repeat_for)


def put(*parts: str, body: Any) -> Request:
    """Return a request that sets something."""
    return Request("PUT", path(*parts), body=msgspec.json.encode(body), repeat_for=FOREVER)


def query_of(**given: Any) -> tuple[tuple[str, str], ...]:
    """Return the parameters that are given, in the order of their names in the call."""
    return tuple((name, str(value)) for name, value in given.items() if value is not None)


class ServerActions:
    """The actions on one subject of a server; each is a script."""

    def __init__(self, session: RemoteSession) -> None:
        self._session = session
