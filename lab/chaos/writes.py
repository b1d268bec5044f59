"""The ways by which a zombie tries to write: past everybody into the store, or by HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random
from typing import Any, NamedTuple, Protocol

import httpx

from fencepost.core.job.job import Body
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import DEFAULT_POLICY, Policy
from fencepost.errors import StoreUnavailableError
from fencepost.store.interface.queue import AlreadySettled, Beat, LeaseLost, Save
from fencepost.store.interface.store import Store

MARK = Body(b'"zombie"')
TTL = 60.0
TIMEOUT = 5.0


class Token(NamedTuple):
    job: str
    version: int
    token: str


class _Standing(NamedTuple):
    """What ``decide`` asks of a job; a success does not depend on it."""

    attempt: int = 1
    max_attempts: int = 1
    policy: Policy = DEFAULT_POLICY


SUCCESS = decide(_Standing(), Succeeded(MARK), Random(0))


class Writes(Protocol):
    """Writes under leases, many at once, and a reply to each; or StoreError."""

    def heartbeat(self, tokens: Sequence[Token]) -> Iterable[object]: ...

    def save(self, tokens: Sequence[Token]) -> Iterable[object]: ...

    def settle(self, tokens: Sequence[Token]) -> Iterable[object]: ...


class StoreWrites:
    """Writes by the store's own operations."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def heartbeat(self, tokens: Sequence[Token]) -> Iterable[object]:
        return self._store.run(
            self._store.queue.heartbeat([Beat(t.job, t.token, TTL) for t in tokens])
        )

    def save(self, tokens: Sequence[Token]) -> Iterable[object]:
        return self._store.run(self._store.queue.save([Save(t.job, t.token, MARK) for t in tokens]))

    def settle(self, tokens: Sequence[Token]) -> Iterable[object]:
        settlements = [Settlement(t.job, t.token, SUCCESS) for t in tokens]
        return self._store.run(self._store.queue.settle(settlements))


class HttpWrites:
    """Writes as a worker in another language does."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT)

    def heartbeat(self, tokens: Sequence[Token]) -> Iterable[object]:
        return self._post("heartbeat", tokens, lease_ttl=TTL)

    def save(self, tokens: Sequence[Token]) -> Iterable[object]:
        return self._post("checkpoint", tokens, checkpoint="zombie")

    def settle(self, tokens: Sequence[Token]) -> Iterable[object]:
        return self._post("ack", tokens, result="zombie")

    def _post(self, kind: str, tokens: Sequence[Token], **fields: Any) -> list[object]:
        items = [{"id": t.job, "token": t.token, **fields} for t in tokens]
        try:
            reply = self._client.post(f"/v1/leases/{kind}", json={"items": items})
        except httpx.HTTPError as error:
            raise StoreUnavailableError(str(error)) from error
        if reply.status_code != httpx.codes.OK:
            raise StoreUnavailableError(f"answered {reply.status_code}")
        return [reply_of(item) for item in reply.json()["items"]]


def reply_of(item: dict[str, Any]) -> object:
    """Return the store's word for an answer; what is no refusal stays as it came."""
    if item.get("code") == "stale_lease":
        return LeaseLost(item["id"])
    if item.get("repeated"):
        return AlreadySettled(item["id"], State(item["state"]))
    return item
