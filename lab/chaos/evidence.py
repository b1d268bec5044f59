"""All that a run has left behind, in the order in which the checker asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from lab.chaos import dump, ledger
from lab.chaos.dump import Closing, Record
from lab.chaos.entries import (
    Acknowledged,
    Asked,
    Calm,
    Doubted,
    Ended,
    Entry,
    Kept,
    Killed,
    Served,
    Stalled,
    Started,
    Stopped,
    Struck,
    Taken,
    Tried,
    Up,
)
from lab.chaos.settings import Settings
from lab.chaos.windows import Windows

Lease = tuple[str, int]
"""A job and the version of a lease on it."""

FORGETTING = frozenset(
    {"kill_server", "failover", "disk_full", "kill_master", "kill_ahead", "demote_master"}
)
"""Faults by which servers can forget a claim, which waits neither for a disk nor for a replica."""
FORGOTTEN = 1.0
"""Seconds before a fault of which they can forget it; by default PostgreSQL writes every 0.6 s."""


@dataclass
class Evidence:
    """Ledgers, sorted by what they say, and the jobs as the store has them in the end."""

    ttl: float
    records: list[Record] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=dict)
    integrity: str = "ok"
    asked: set[str] = field(default_factory=set)
    acknowledged: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """The jobs that were named in answer to each key."""
    answered: dict[str, tuple[float, float]] = field(default_factory=dict)
    """When the submission of each job that was acknowledged was asked for, and when answered."""
    unknown: int = 0
    unavailable: int = 0
    started: dict[Lease, list[Started]] = field(default_factory=lambda: defaultdict(list))
    raised: set[Lease] = field(default_factory=set)
    interrupted: set[Lease] = field(default_factory=set)
    kept: dict[str, list[Kept]] = field(default_factory=lambda: defaultdict(list))
    taken: set[Lease] = field(default_factory=set)
    held: dict[str, list[Started | Taken]] = field(default_factory=lambda: defaultdict(list))
    """The leases of each job that anybody has seen, also those that the store has forgotten."""
    tried: list[Tried] = field(default_factory=list)
    pids: dict[str, int] = field(default_factory=dict)
    """The process of each worker."""
    killed: dict[int, float] = field(default_factory=dict)
    stopped: dict[int, list[Stopped]] = field(default_factory=lambda: defaultdict(list))
    stalled: dict[int, list[Stalled]] = field(default_factory=lambda: defaultdict(list))
    struck: list[Struck] = field(default_factory=list)
    slow: list[tuple[float, float]] = field(default_factory=list)
    """When the store kept a caller waiting for longer than a heartbeat can wait."""
    is_server: bool = False
    """Whether the store is a server that can die by itself, and forget claims then."""
    may_lose: bool = False
    """Whether it may forget then what it has acknowledged, too."""
    served: list[Served] = field(default_factory=list)
    """When the HTTP API began to listen, each time."""
    calm_at: float | None = None
    codes: set[str] = field(default_factory=set)
    """The folders of the code that workers ran."""
    counted: dict[str, int] = field(default_factory=lambda: {"killed": 0, "stopped": 0})

    def add(self, entry: Entry) -> None:
        """Sort one line in."""
        match entry:
            case Started(job=job, version=version):
                self.started[job, version].append(entry)
                self.held[job].append(entry)
            case Ended(job=job, version=version, how=how):
                if how == "raised":
                    self.raised.add((job, version))
                elif how == "interrupted":
                    self.interrupted.add((job, version))
            case Asked(keys=keys):
                self.asked.update(keys)
            case Acknowledged(keys=keys, jobs=jobs):
                for key, job in zip(keys, jobs, strict=True):
                    self.acknowledged[key].add(job)
                    self.answered[job] = (entry.at - entry.seconds, entry.at)
                self._note_wait(entry.at, entry.seconds)
            case Doubted(is_unknown=is_unknown):
                self.unknown += is_unknown
                self.unavailable += not is_unknown
                self._note_wait(entry.at, entry.seconds)
            case Kept(job=job):
                self.kept[job].append(entry)
            case Taken(job=job, version=version):
                self.taken.add((job, version))
                self.held[job].append(entry)
            case Tried():
                self.tried.append(entry)
            case _:
                self._add_fault(entry)

    def _note_wait(self, at: float, seconds: float) -> None:
        if seconds > self.ttl / 3:
            self.slow.append((at - seconds, at))

    def _add_fault(self, entry: Entry) -> None:
        match entry:
            case Up(worker=worker, pid=pid, code=code):
                self.pids[worker] = pid
                self.codes.add(code)
            case Served():
                self.served.append(entry)
            case Killed(at=at, pid=pid):
                self.counted["killed"] += 1
                self.killed[pid] = at
            case Stopped(pid=pid):
                self.counted["stopped"] += 1
                self.stopped[pid].append(entry)
            case Stalled(pid=pid):
                self.stalled[pid].append(entry)
            case Struck():
                self.struck.append(entry)
            case Calm(at=at):
                self.calm_at = at
            case _:
                pass

    def wide(self, aftershock: float) -> Windows:
        """Return when everybody had reason to lose a lease; faults are felt a little longer."""
        hurt = [(each.at, each.until) for each in self.struck if each.is_wide]
        spans = [*hurt, *self.slow, *self._api_away()]
        return Windows((began, until + aftershock) for began, until in spans)

    def _api_away(self) -> Iterator[tuple[float, float]]:
        """Return when nobody answered for the API, by whom workers hear from the store."""
        for pid in {each.pid for each in self.served}:
            yield from ((each.at - each.seconds, each.at) for each in self.stalled.get(pid, ()))
            yield from ((each.at, each.until) for each in self.stopped.get(pid, ()))
            if pid in self.killed:
                at = self.killed[pid]
                yield at, min((each.at for each in self.served if each.at > at), default=at)

    def forgetful(self) -> Windows:
        """Return when the store may have forgotten claims of the moment before."""
        if not self.is_server:
            return Windows([])
        return Windows((each.at, each.until) for each in self.struck if each.kind in FORGETTING)

    def lost(self) -> Windows:
        """Return when the store may have acknowledged what it has forgotten since."""
        spans = self.forgetful().spans if self.may_lose else []
        return Windows((began - FORGOTTEN, until) for began, until in spans)

    def taken_back(self, tried: Tried) -> bool:
        """Tell whether a failover may have made tokens valid again that had been seen stale."""
        return tried.since > 0 and self.forgetful().touch(tried.since, tried.at)

    def revived(self) -> set[str]:
        """Return the jobs that were written under such tokens."""
        return {job for each in self.tried if self.taken_back(each) for job in each.jobs}


def gather(place: Path, settings: Settings, closing: Closing) -> Evidence:
    """Read every ledger and the dump."""
    evidence = Evidence(
        settings.ttl,
        counts=closing.counts,
        integrity=closing.integrity,
        is_server=settings.store == "postgres" or settings.is_group,
        may_lose=settings.is_group and settings.durability != "replica",
    )
    evidence.records = list(dump.read(place))
    for path in ledger.paths(place):
        for entry in ledger.read(path):
            evidence.add(entry)
    return evidence
