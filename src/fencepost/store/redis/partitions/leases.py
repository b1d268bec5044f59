"""Claims and writes under a lease, over partitions.

A claim asks all partitions at once, each for a part of the free slots by the weights of its queues;
what some leave over is then asked of those that had enough. A partition that is not available is
skipped for a while, so the others still hand out jobs. Every other write goes to the partition of
its job.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from fencepost.core.bounds import CLAIM_MAX, POLL_INTERVAL
from fencepost.core.job.outcome import Settlement
from fencepost.core.limits.weights import deal
from fencepost.errors import StoreError
from fencepost.store.interface.queue import (
    Beat,
    Claim,
    ClaimRequest,
    HeartbeatReply,
    Save,
    SaveReply,
    SettleReply,
    WorkerLease,
)
from fencepost.store.plan import Operation, Plan
from fencepost.store.redis.partitions.hub import Hub, Partition, PartitionCall
from fencepost.store.redis.partitions.numbers import (
    SPREAD,
    by_partition,
    partition_of,
    partition_of_id,
    partition_of_token,
)
from fencepost.store.redis.partitions.outbox.delivery import deliver_all, deliver_quietly
from fencepost.store.redis.partitions.outbox.entries import has_entries, without_entries
from fencepost.store.redis.partitions.quotas import make_room

ROOM_TRIES = 3
"""How often a claim asks for room under the limit of the app."""


def claim(hub: Hub, request: ClaimRequest) -> Plan[Claim]:
    """Lease jobs of the partitions that have them."""
    yield from hub.refresh(is_needed=False)
    yield from hub.catch_up()
    if hub.is_delivery_due():
        yield from deliver_all(hub)
    merged = yield from _claim(hub, request)
    if not merged.jobs:
        before = set(hub.known)
        if (yield from hub.refresh()) - before:
            merged = yield from _claim(hub, request)
    return merged


def _claim(hub: Hub, request: ClaimRequest) -> Plan[Claim]:
    limit = max(min(request.limit, CLAIM_MAX), 0)
    requests, shares = _shared(hub, request, limit)
    current = [number for number in requests if number not in hub.behind]
    asked = [number for number in current if hub.is_well(number)] or current
    round_ = _Round(hub, asked)
    yield from round_.ask({n: replace(requests[n], limit=shares[n]) for n in asked if shares[n]})
    for number in asked:  # those that had their whole share may have more
        left = limit - len(round_.jobs)
        if left > 0 and round_.got(number) >= shares[number]:
            yield from round_.ask({number: replace(requests[number], limit=left)})
    yield from _claim_more(hub, round_, requests, limit)
    if not limit:  # the chores of a claim are done even if it can take no jobs
        yield from round_.ask({number: requests[number] for number in asked})
    if round_.errors and not round_.claims:
        raise round_.errors[0]
    yield from deliver_quietly(hub, round_.ended)
    return round_.merged(is_partial=len(asked) < len(requests) or bool(round_.errors))


def _claim_more(
    hub: Hub, round_: _Round, requests: Mapping[int, ClaimRequest], limit: int
) -> Plan[None]:
    """Claim where only a quota of the app's limit kept jobs from starting, if there is room."""
    for _ in range(ROOM_TRIES):
        wanted = dict.fromkeys(sorted(round_.short), limit - len(round_.jobs))
        if not wanted or len(round_.jobs) >= limit:
            return
        try:
            raised = yield from make_room(hub, wanted, content=round_.content)
        except StoreError:
            return  # what was claimed is claimed
        for number in raised:
            left = limit - len(round_.jobs)
            if left > 0:
                yield from round_.ask({number: replace(requests[number], limit=left)})
        if not raised:
            return


def _shared(
    hub: Hub, request: ClaimRequest, limit: int
) -> tuple[dict[int, ClaimRequest], dict[int, int]]:
    """Return what each partition is asked, in the order of turns, and how many jobs are its share.

    Without weights, partitions have equal turns, and within one its queues.
    """
    weights = request.queues
    if weights is None:
        names = {str(number): 1 for number in sorted(hub.known)}
        if not names:
            return {}, {}
        dealt = {int(name): count for name, count in deal(names, request.turn, limit).items()}
        return dict.fromkeys(dealt, request), dealt
    spread = {name: weight for name, weight in weights.items() if name in SPREAD}
    own = {name: weight for name, weight in weights.items() if name not in SPREAD}
    shares: dict[int, int] = {}
    for name, count in deal(own, request.turn, limit).items() if own else ():
        number = partition_of(name)
        shares[number] = shares.get(number, 0) + count
    shares = {number: count for number, count in shares.items() if number in hub.known}
    if spread:
        shares |= dict.fromkeys(sorted(hub.known - shares.keys()), 0)
    requests = {}
    for number in shares:
        queues = {name: weight for name, weight in own.items() if partition_of(name) == number}
        requests[number] = replace(request, queues=queues | spread)
    return requests, shares


class _Round:
    """The claims of one round over partitions."""

    def __init__(self, hub: Hub, numbers: Sequence[int]) -> None:
        self._hub = hub
        self._claims: dict[int, list[Claim]] = {number: [] for number in numbers}
        self.errors: list[StoreError] = []
        self.ended: list[int] = []
        """Partitions in which jobs ended that others wait for."""
        self._got: dict[int, int] = {}
        self.short: set[int] = set()
        """Partitions in which only their quotas of the app's limit keep jobs from starting."""
        self.content: set[int] = set()
        """Those that have answered otherwise."""

    @property
    def claims(self) -> list[Claim]:
        """What partitions answered, in the order of their turns."""
        return [claim for own in self._claims.values() for claim in own]

    @property
    def jobs(self) -> list[Any]:
        return [job for claim in self.claims for job in claim.jobs]

    def got(self, number: int) -> int:
        """Return how many jobs a partition gave; too few to be asked again, if it failed."""
        return self._got.get(number, 0)

    def ask(self, requests: Mapping[int, ClaimRequest]) -> Plan[None]:
        """Claim in some partitions at once."""
        calls = [
            PartitionCall(self._hub.at(number), self._hub.at(number).queue.claim(request))
            for number, request in requests.items()
        ]
        if not calls:
            return
        for number, reply in zip(requests, (yield from self._hub.attempt(calls)), strict=True):
            self._hub.judge(number, reply)
            if isinstance(reply, StoreError):
                self.errors.append(reply)
                self._got[number] = -1
            elif isinstance(reply, BaseException):
                raise reply
            else:
                self._claims[number].append(reply)
                (self.short if reply.is_short else self.content).add(number)
                (self.content if reply.is_short else self.short).discard(number)
                self._got[number] = self._got.get(number, 0) + len(reply.jobs)
                moves = [*reply.recovered, *reply.expired, *reply.corrupt, *reply.followed]
                if has_entries(moves):
                    self.ended.append(number)

    def merged(self, *, is_partial: bool) -> Claim:
        """Return one claim for all."""
        waits = [claim.wait for claim in self.claims if claim.wait is not None]
        if is_partial:
            waits.append(POLL_INTERVAL)

        def moves(name: str) -> list[Any]:
            found = [move for claim in self.claims for move in getattr(claim, name)]
            return [
                replace(move, followed=without_entries(move.followed))
                for move in without_entries(found)
            ]

        return Claim(
            jobs=self.jobs,
            recovered=moves("recovered"),
            followed=moves("followed"),
            expired=moves("expired"),
            promoted=sum(claim.promoted for claim in self.claims),
            held=sum(claim.held for claim in self.claims),
            corrupt=moves("corrupt"),
            wait=min(waits) if waits else None,
            is_unsure=bool(self.errors),
        )


def route(hub: Hub, held: Sequence[tuple[str, str]]) -> Plan[list[int]]:
    """Return the partitions of jobs by their ids and tokens.

    If the two disagree, the job was moved here under a foreign id, or the token is not its own.
    """
    numbers = [partition_of_id(job_id) for job_id, _ in held]
    odd = [
        place
        for place, (_, token) in enumerate(held)
        if partition_of_token(token) not in (None, numbers[place])
    ]
    if odd:
        found = yield from hub.whereabouts([held[place][0] for place in odd])
        for place, number in zip(odd, found, strict=True):
            numbers[place] = number
    return numbers


def scatter(
    hub: Hub,
    items: Sequence[Any],
    numbers: Sequence[int],
    make: Callable[[Partition, list[Any]], Operation[list[Any]]],
) -> Plan[list[Any]]:
    """Give each partition its items as one operation; return the replies in the items' order."""
    parts = by_partition(numbers)
    calls = [
        PartitionCall(hub.at(number), make(hub.at(number), [items[place] for place in places]))
        for number, places in parts.items()
    ]
    answers = (yield from hub.each(calls)) if calls else []
    replies: list[Any] = [None] * len(items)
    for places, part in zip(parts.values(), answers, strict=True):
        for place, reply in zip(places, part, strict=True):
            replies[place] = reply
    return replies


def settled_moves(hub: Hub, replies: list[Any], numbers: Sequence[int]) -> Plan[list[Any]]:
    """Deliver what the ends in *replies* put into outboxes; return them without that."""
    ended = []
    for place, reply in enumerate(replies):
        followed = getattr(reply, "followed", ())
        if followed and has_entries(followed):
            ended.append(numbers[place])
            replies[place] = replace(reply, followed=without_entries(followed))
    yield from deliver_quietly(hub, ended)
    return replies


def settle(hub: Hub, settlements: Sequence[Settlement]) -> Plan[list[SettleReply]]:
    """Record decisions where their jobs are."""
    numbers = yield from route(hub, [(each.job_id, each.token) for each in settlements])
    replies = yield from scatter(
        hub, settlements, numbers, lambda store, part: store.queue.settle(part)
    )
    return (yield from settled_moves(hub, replies, numbers))


def heartbeat(hub: Hub, beats: Sequence[Beat]) -> Plan[list[HeartbeatReply]]:
    """Extend leases where their jobs are."""
    numbers = yield from route(hub, [(each.job_id, each.token) for each in beats])
    return (
        yield from scatter(hub, beats, numbers, lambda store, part: store.queue.heartbeat(part))
    )


def held(hub: Hub, workers: Sequence[str]) -> Plan[list[WorkerLease]]:
    """Return the leases that workers hold in any partition, as far as it is available."""
    numbers = sorted((yield from hub.refresh()))
    asked = [number for number in numbers if hub.is_well(number)] or numbers
    calls = [PartitionCall(hub.at(number), hub.at(number).queue.held(workers)) for number in asked]
    replies = (yield from hub.attempt(calls)) if calls else []
    leases: list[WorkerLease] = []
    errors: list[BaseException] = []
    for number, reply in zip(asked, replies, strict=True):
        hub.judge(number, reply)
        if isinstance(reply, BaseException):
            errors.append(reply)
        else:
            leases += reply
    if errors and len(errors) == len(asked):
        raise errors[0]
    return leases


def save(hub: Hub, saves: Sequence[Save]) -> Plan[list[SaveReply]]:
    """Keep checkpoints and progress where their jobs are."""
    numbers = yield from route(hub, [(each.job_id, each.token) for each in saves])
    return (yield from scatter(hub, saves, numbers, lambda store, part: store.queue.save(part)))
