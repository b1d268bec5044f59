"""The backend of a client: the way to the server, and when a request is sent again.

A request is sent again when it was surely not done (nobody reached, 429, 503), and when its answer
was lost and a repeat is harmless; never otherwise. All of it is bounded.
"""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec

from fencepost.actions.script import Script, drive, drive_async
from fencepost.client.exchange import HttpReply, Outcome, Request, Rest, Transport
from fencepost.client.problems import UNKNOWN, error_of, is_surely_undone
from fencepost.client.remote import RemoteActions
from fencepost.client.submissions import submit, submit_all
from fencepost.clock import Clock
from fencepost.core.bounds import (
    CLIENT_BACKOFF_MAX,
    CLIENT_BACKOFF_MIN,
    CLIENT_KEY_WINDOW,
    CLIENT_RETRIES_MAX,
    CLIENT_RETRY_AFTER_MAX,
    EXPONENT_MAX,
)
from fencepost.core.display import shown, shown_url
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    FencepostError,
    ServerError,
    UnknownOutcomeError,
)
from fencepost.wire.jobs import Accepted, Submission

T = TypeVar("T")


class RemoteSession:
    """One client's way to its server."""

    def __init__(self, transport: Transport, *, timeout: float, retries: int, clock: Clock) -> None:
        self.transport = transport
        self.timeout = timeout
        self.retries = check_retries(retries)
        self.clock = clock
        self.actions = RemoteActions(self)
        """What can be asked of the server."""

    @property
    def key_window(self) -> float:
        """How long the key of a submission is held that was given none: beyond the last repeat."""
        sent = (self.retries + 1) * self.timeout
        rested = self.retries * CLIENT_RETRY_AFTER_MAX
        return max(CLIENT_KEY_WINDOW, 2 * (sent + rested))

    def run(self, script: Script[T]) -> T:
        return drive(script, self._perform)

    async def run_async(self, script: Script[T]) -> T:
        return await drive_async(script, self._perform_async)

    def _perform(self, step: Request | Rest) -> Outcome | None:
        if isinstance(step, Request):
            return self.transport.send(step)
        self.clock.sleep(step.seconds)
        return None

    async def _perform_async(self, step: Request | Rest) -> Outcome | None:
        if isinstance(step, Request):
            return await self.transport.send_async(step)
        await self.clock.sleep_async(step.seconds)
        return None

    def submit(self, job: Submission, conn: None = None) -> Accepted:
        """Store one job, once."""
        return self.run(submit(self, job))

    async def submit_async(self, job: Submission, conn: None = None) -> Accepted:
        """As ``submit``, for the async face."""
        return await self.run_async(submit(self, job))

    def submit_all(self, jobs: list[Submission], conn: None = None) -> Script[list[Accepted]]:
        """Store all of *jobs* or none."""
        return submit_all(self, jobs)

    def read(self, request: Request, kind: type[T], part: str | None = None) -> Script[T]:
        """Send *request* and return its answer as a *kind*; of an object, that *part* alone."""
        reply = yield from self.ask(request)
        return parse(reply, kind, part)

    def ask(self, request: Request) -> Script[HttpReply]:
        """Send *request*, again if need be and harmless, and return the answer, or raise."""
        start = self.clock.monotonic()
        is_unknown = False
        for attempt in range(self.retries + 1):
            outcome: Outcome = yield request
            error = error_of(outcome, request)
            if error is None:
                assert isinstance(outcome, HttpReply)
                return outcome
            is_unknown = is_unknown or isinstance(error, UnknownOutcomeError)
            rest = self._rest(attempt, error)
            end = self.clock.monotonic() + rest + self.timeout + request.wait
            is_last = attempt == self.retries or rest > CLIENT_RETRY_AFTER_MAX
            if is_last or not may_repeat(request, error, is_unknown, end - start):
                raise told(request, error, is_unknown)
            yield Rest(rest)
        raise AssertionError("a loop that ends by itself")

    def _rest(self, attempt: int, error: FencepostError) -> float:
        """Return how long to wait: as told, and never all clients at the same time."""
        growth = 2.0 ** min(attempt, EXPONENT_MAX.bit_length())
        longest = min(CLIENT_BACKOFF_MIN * growth, CLIENT_BACKOFF_MAX)
        asked: float = getattr(error, "retry_after", 0.0)
        return asked + self.clock.rng.uniform(0.0, longest)


def may_repeat(request: Request, error: FencepostError, is_unknown: bool, span: float) -> bool:
    """Tell whether *request* may be sent again, to be answered *span* seconds after the first."""
    is_worth_it = is_surely_undone(error) or isinstance(error, UnknownOutcomeError)
    return is_worth_it and (not is_unknown or request.is_look or span <= request.repeat_for)


def told(request: Request, error: FencepostError, is_unknown: bool) -> FencepostError:
    """Return what the caller is told: once an answer was lost, no refusal means 'not done'."""
    is_settled = isinstance(error, (UnknownOutcomeError, DuplicateJobError))
    if not is_unknown or is_settled or request.is_look:
        return error
    unknown = UnknownOutcomeError(f"an answer was lost, and then: {error}; {UNKNOWN}")
    unknown.__cause__ = error
    return unknown


def parse(reply: HttpReply, kind: type[T], part: str | None = None) -> T:
    """Return what is in *reply*, or raise ServerError."""
    try:
        if part is None:
            return msgspec.json.decode(reply.data, type=kind)
        return msgspec.json.decode(_part(reply, part), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise ServerError(
            f"the server's answer cannot be read ({error}); is it a Fencepost of this version?",
            status=reply.status,
        ) from None


def _part(reply: HttpReply, name: str) -> Any:
    return msgspec.json.decode(reply.data, type=dict[str, msgspec.Raw])[name]


def check_url(url: object) -> str:
    """Return where the API is, without a slash at the end, or raise ConfigurationError."""
    parts = _split(url)
    if parts is None:
        shown_ = shown_url(url) if isinstance(url, str) else shown(url)
        raise ConfigurationError(f"write the server's URL as https://host:port, got {shown_}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            "the server's URL is a scheme, a host and perhaps a path; the token is given apart: "
            "Client(url, token)"
        )
    return str(url).rstrip("/")


def _split(url: object) -> SplitResult | None:
    """Return the parts of a URL that a client can ask; None if it is none."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # of a port that is none, too
        return None
    return parts if is_good else None


def check_token(token: object) -> str | None:
    """Return a token that fits into a header, or raise ConfigurationError without showing it."""
    if token is None:
        return None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigurationError("the token is no token; `fencepost tokens create` makes one")
    return token


def check_retries(retries: object) -> int:
    """Return how often a request may be sent again, or raise ConfigurationError."""
    is_count = isinstance(retries, int) and not isinstance(retries, bool)
    if not is_count or not 0 <= int(str(retries)) <= CLIENT_RETRIES_MAX:
        raise ConfigurationError(
            f"retries must lie between 0 and {CLIENT_RETRIES_MAX}, got {shown(retries)}"
        )
    return int(str(retries))
