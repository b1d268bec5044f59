"""The backend of a client: it sends requests, and decides when to send one again.

A request is sent again when it was surely not done (server not reached, 429, 503), or when its
answer was lost and a repeat is harmless; never otherwise, and never without bound.

A single submission without a key is sent with a random one: when the answer is lost, the same
request is sent again, and returns the job that the first has stored. No one else knows the key, so
the job that it returns is the one that was meant, and not a duplicate. The jobs of a bulk get no
such keys, which would halve its speed.
"""

from __future__ import annotations

from typing import Any, TypeVar
from urllib.parse import SplitResult, urlsplit

import msgspec
from msgspec.structs import replace

from fencepost.actions.backend import Script
from fencepost.client.actions import RemoteActions
from fencepost.client.problems import UNKNOWN, error_of, is_surely_undone
from fencepost.client.submissions import repeat_for
from fencepost.client.transport import JOBS, HttpReply, Outcome, Request, Rest, Transport, post
from fencepost.clock import Clock
from fencepost.core.bounds import EXPONENT_MAX
from fencepost.core.display import shown, shown_url
from fencepost.errors import (
    ConfigurationError,
    DuplicateJobError,
    FencepostError,
    ServerError,
    UnknownOutcomeError,
)
from fencepost.generators import drive, drive_async
from fencepost.wire.bounds import (
    CLIENT_BACKOFF_MAX,
    CLIENT_BACKOFF_MIN,
    CLIENT_KEY_WINDOW,
    CLIENT_RETRIES_MAX,
    CLIENT_RETRY_AFTER_MAX,
)
from fencepost.wire.jobs import Accepted, Batch, Submission

T = TypeVar("T")


class RemoteSession:
    """The backend of one client."""

    def __init__(self, transport: Transport, *, timeout: float, retries: int, clock: Clock) -> None:
        self.transport = transport
        self.timeout = timeout
        self.retries = check_retries(retries)
        self.clock = clock
        self.actions = RemoteActions(self)

    @property
    def key_window(self) -> float:
        """How long the random key of a submission is held: beyond the last repeat."""
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
        return self.run(self._submit(job))

    async def submit_async(self, job: Submission, conn: None = None) -> Accepted:
        return await self.run_async(self._submit(job))

    def _submit(self, job: Submission) -> Script[Accepted]:
        """Store one job, only once."""
        sent = self.keyed(job)
        request = post(JOBS, body=sent, repeat_for=repeat_for(sent))
        reply = yield from self.read(request, Accepted)
        return replace(reply, duplicate=False) if job.key is None else reply

    def submit_all(self, jobs: list[Submission], conn: None = None) -> Script[list[Accepted]]:
        """Store many jobs, all or none; sent again after a lost answer only if all have keys."""
        if not jobs:
            return []
        safe = min(repeat_for(job) for job in jobs)
        request = post(JOBS, "batch", body=Batch(jobs=jobs, atomic=True), repeat_for=safe)
        return (yield from self.read(request, list[Accepted], "jobs"))

    def keyed(self, job: Submission) -> Submission:
        """Return *job* with its key, or with a random one."""
        if job.key is not None:
            return job
        key = f"client:{self.clock.new_token()}"
        return replace(job, key=key, key_window=self.key_window, on_duplicate="return")

    def read(self, request: Request, kind: type[T], part: str | None = None) -> Script[T]:
        """Send *request* and return its answer, or one *part* of it, as a *kind*."""
        reply = yield from self.ask(request)
        return parse(reply, kind, part)

    def ask(self, request: Request) -> Script[HttpReply]:
        """Send *request*, again where that is needed and harmless; return the answer or raise."""
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
                raise final_error(request, error, is_unknown)
            yield Rest(rest)
        raise AssertionError("the last attempt returns or raises")

    def _rest(self, attempt: int, error: FencepostError) -> float:
        """Return how long to wait: as the server asks, with jitter between clients."""
        growth = 2.0 ** min(attempt, EXPONENT_MAX.bit_length())
        longest = min(CLIENT_BACKOFF_MIN * growth, CLIENT_BACKOFF_MAX)
        asked: float = getattr(error, "retry_after", 0.0)
        return asked + self.clock.rng.uniform(0.0, longest)


def may_repeat(request: Request, error: FencepostError, is_unknown: bool, span: float) -> bool:
    """Return whether *request* may be sent again, for an answer *span* seconds after the first."""
    is_worth_it = is_surely_undone(error) or isinstance(error, UnknownOutcomeError)
    return is_worth_it and (not is_unknown or request.is_read or span <= request.repeat_for)


def final_error(request: Request, error: FencepostError, is_unknown: bool) -> FencepostError:
    """Return the error for the caller: after a lost answer, a refusal does not mean 'not done'."""
    is_settled = isinstance(error, (UnknownOutcomeError, DuplicateJobError))
    if not is_unknown or is_settled or request.is_read:
        return error
    unknown = UnknownOutcomeError(f"an answer was lost, and then: {error}; {UNKNOWN}")
    unknown.__cause__ = error
    return unknown


def parse(reply: HttpReply, kind: type[T], part: str | None = None) -> T:
    """Return the decoded *reply*, or raise ServerError."""
    try:
        data: Any = reply.data
        if part is not None:
            data = msgspec.json.decode(data, type=dict[str, msgspec.Raw])[part]
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError, KeyError) as error:
        raise ServerError(
            f"the server's answer cannot be read ({error}); is it a Fencepost of this version?",
            status=reply.status,
        ) from None


def check_url(url: object) -> str:
    """Return the URL of the API without a trailing slash, or raise ConfigurationError."""
    parts = _split(url)
    if parts is None:
        shown_ = shown_url(url) if isinstance(url, str) else shown(url)
        raise ConfigurationError(f"write the server's URL as https://host:port, got {shown_}")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ConfigurationError(
            "the server's URL is a scheme, a host and perhaps a path; pass the token separately: "
            "Client(url, token)"
        )
    return str(url).rstrip("/")


def _split(url: object) -> SplitResult | None:
    """Return the parts of an http URL; None if it is none."""
    try:
        parts = urlsplit(url if isinstance(url, str) else "")
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # also for an invalid port
        return None
    return parts if is_good else None


def check_token(token: object) -> str | None:
    """Return a token that fits into a header, or raise ConfigurationError without showing it."""
    if token is None:
        return None
    if not isinstance(token, str) or not token or not token.isascii() or not token.isprintable():
        raise ConfigurationError("this is not a token; `fencepost tokens create` makes one")
    return token


def check_retries(retries: int) -> int:
    """Return how often a request may be sent again, or raise ConfigurationError."""
    is_count = isinstance(retries, int) and not isinstance(retries, bool)
    if is_count and 0 <= retries <= CLIENT_RETRIES_MAX:
        return retries
    raise ConfigurationError(
        f"retries must lie between 0 and {CLIENT_RETRIES_MAX}, got {shown(retries)}"
    )
