"""The rules of the store, judged by what changed in it; nothing here knows how a store works."""

from __future__ import annotations

from collections import defaultdict, deque

from fencepost.core.webhooks.delivery import DELIVERY_TYPE
from lab.simulation.graphs import FOLLOW, TERMINAL, GraphRules
from lab.simulation.history import Asked, Limited, Operated, Snapshot
from lab.simulation.source_rules import VariedRules
from lab.simulation.verdict import Verdict

LIVE = frozenset({"pending", "scheduled", "delayed", "running", "retrying"})
FAILED = TERMINAL - {"completed"}
WAITING = ("delayed", "retrying")

Move = tuple[str, str]

_RECOVER: set[Move] = {("running", "retrying"), ("running", "dead_letter"), ("running", "failed")}
_PROMOTE: set[Move] = {(state, new) for state in WAITING for new in ("scheduled", "pending")}
"""What is due becomes claimable, unless its concurrency key holds it up."""
_EXPIRE: set[Move] = {(state, "dead_letter") for state in LIVE}
_REOPEN: set[Move] = {
    (old, new) for old in TERMINAL - {"completed"} for new in ("scheduled", "delayed", "pending")
}
_ENTER: set[Move] = {("", state) for state in ("scheduled", "delayed", "pending", *sorted(FAILED))}
_ADMIT: set[Move] = {("pending", "scheduled")}
"""A job of a concurrency key is stored first, and then let in if there is room."""
ENDINGS = {
    "SUCCEED": ("completed", 0),
    "REJECT": ("failed", 0),
    "EXHAUST": ("dead_letter", 0),
    "RETRY": ("retrying", 0),
    "RELEASE": ("scheduled", -1),
    "SNOOZE": ("delayed", -1),
}
"""What a settlement makes of a running job, and by how much it changes the count of attempts."""

MOVES: dict[str, set[Move]] = {
    "enqueue": _ENTER | _ADMIT,
    "send": {("", "scheduled"), ("", "delayed")},
    "spawn": _ENTER | FOLLOW,
    "replay": {("", "scheduled"), ("", "pending")} | _ADMIT,
    "claim": {("scheduled", "running")} | _RECOVER | _PROMOTE | _EXPIRE | FOLLOW,
    "recover": _RECOVER | FOLLOW,
    "promote": _PROMOTE | FOLLOW,
    "fire": {("", "scheduled")},
    "expire": _EXPIRE | FOLLOW,
    "settle": {("running", state) for state, _ in ENDINGS.values()} | FOLLOW,
    "cancel": {(state, "cancelled") for state in LIVE} | FOLLOW,
    # Of a live job that waits for its time, too (C45).
    "retry": _REOPEN | _ADMIT | _PROMOTE,
    "edit": _PROMOTE | _ADMIT | {("scheduled", "delayed")},  # of its due time (C46)
}
"""Which operation may move a job from where to where."""
POSITIVE = frozenset({"Settled", "Extended", "Saved"})


class StoreRules:
    """Follows every job through its life."""

    def __init__(self, verdict: Verdict) -> None:
        self._verdict = verdict
        self.jobs: dict[str, Snapshot] = {}
        self.removed: set[str] = set()
        self.running: dict[str, Snapshot] = {}
        self.returned: set[str] = set()
        """Tokens under which a handler returned."""
        self._tokens: set[str] = set()
        self._settled: set[str] = set()
        self._keys: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._limits: dict[str, int | None] = {}
        self._graphs = GraphRules(verdict, self.jobs)
        self._varied = VariedRules(verdict, self.jobs, self.running)

    def note_limit(self, event: Limited) -> None:
        self._limits[event.queue] = event.max_running

    def note(self, event: Operated) -> None:
        """Judge one operation and everything that it changed."""
        self._varied.note(event)
        changes: dict[str, deque[Snapshot]] = defaultdict(deque)
        if event.name in ("settle", "heartbeat", "save"):
            for change in event.changes:
                changes[change.job_id].append(change)
            for asked in event.asked:
                self._judge_answer(event, asked, changes[asked.job_id])
            left = {id(change) for of_job in changes.values() for change in of_job}
            for change in event.changes:  # in their order: who waited follows who ended
                if id(change) in left:
                    self._judge_rest(event, change)
            return
        if event.name == "spawn":
            self._judge_spawning(event)
        has_claimed: set[str] = set()
        for change in event.changes:
            self._judge_change(event, change)
            if event.name == "claim" and change.state == "running":
                has_claimed.add(change.queue)
        if has_claimed:
            self._judge_limits(event, has_claimed)
            self._varied.note_claim(event)

    # Writes under a lease.

    def _judge_rest(self, event: Operated, change: Snapshot) -> None:
        """Judge what a write changed that nobody asked for: who waited for what it ended."""
        old = self.jobs.get(change.job_id)
        is_webhook = old is None and change.type == DELIVERY_TYPE
        if is_webhook or (old is not None and old.state == "pending" and event.name == "settle"):
            self._judge_change(event, change)
            return
        self._accuse("stale write", event, f"{event.name} changed {change}")
        self._keep(change)

    def _judge_spawning(self, event: Operated) -> None:
        for asked in event.asked:
            job = self.jobs.get(asked.job_id)
            is_valid = job is not None and is_leased(job, asked.token, event.now)
            if is_valid != (asked.answer == "Spawned"):
                rule = "valid lease refused" if is_valid else "stale write"
                self._accuse(rule, event, f"{asked}, job {job}")
            self._verdict.stale_refused += not is_valid
            if not is_valid and event.changes:
                self._accuse("stale write", event, f"{asked} changed {event.changes}")

    def _judge_answer(self, event: Operated, asked: Asked, changes: deque[Snapshot]) -> None:
        job = self.jobs.get(asked.job_id)
        is_valid = job is not None and is_leased(job, asked.token, event.now)
        if asked.answer in POSITIVE:
            if not is_valid:
                self._accuse("stale write", event, f"{event.name} accepted {asked}, job {job}")
            if changes and job is not None:
                self._judge_write(event, asked, job, changes.popleft())
            else:
                self._accuse("unwritten", event, f"{asked} changed nothing")
        elif is_valid:
            self._accuse("valid lease refused", event, f"{event.name} refused {asked}, job {job}")
        elif asked.answer == "AlreadySettled":
            if asked.token not in self._settled:
                self._accuse("never settled", event, f"{asked} was told so, job {job}")
        else:
            self._verdict.stale_refused += 1

    def _judge_write(self, event: Operated, asked: Asked, old: Snapshot, new: Snapshot) -> None:
        if event.name == "settle":
            self._judge_settlement(event, asked, old, new)
        elif _lease_of(new)[:-1] != _lease_of(old)[:-1] or new.state != old.state:
            self._accuse("illegal change", event, f"{old} became {new}")
        elif event.name == "heartbeat" and (new.ends_at or 0) < (old.ends_at or 0):
            self._accuse("lease shortened", event, f"{old} became {new}")
        elif event.name == "save" and new.ends_at != old.ends_at:
            self._accuse("illegal change", event, f"{old} became {new}")
        self._keep(new)

    def _judge_settlement(
        self, event: Operated, asked: Asked, old: Snapshot, new: Snapshot
    ) -> None:
        state, difference = ENDINGS[asked.event]
        if asked.token in self._settled:
            self._accuse("settled twice", event, f"{asked}")
        self._settled.add(asked.token)
        self._verdict.settled += 1
        if asked.event == "SUCCEED" and asked.token not in self.returned:
            self._accuse("phantom", event, f"{asked}: no handler returned under that lease")
        if (new.state, new.attempt) != (state, old.attempt + difference):
            self._accuse("attempts", event, f"{asked.event}: {old} became {new}")
        if new.token is not None or new.version != old.version:
            self._accuse("illegal change", event, f"settled, {old} became {new}")

    # All other changes.

    def _judge_change(self, event: Operated, new: Snapshot) -> None:
        old = self.jobs.get(new.job_id)
        if new.is_removed:
            self._judge_removal(event, old, new)
            return
        was = "" if old is None else old.state
        if old is not None and was == new.state:
            # A key passed on, tags, a priority: nothing that the protocol is about.
            is_claimed = event.name == "claim" and was != "pending"
            # SQLite writes the new budget of a job that is retried by a statement of its own.
            is_reset = event.name == "retry" and was != "running"
            if (_lease_of(old) != _lease_of(new) and not is_reset) or is_claimed:
                self._accuse("illegal change", event, f"{event.name}: {old} became {new}")
        elif old is None and new.type == DELIVERY_TYPE:
            pass  # stored with the end that it tells of, whatever ended the job
        elif (was, new.state) not in MOVES.get(event.name, ()):
            self._accuse("illegal transition", event, f"{event.name}: {old} became {new}")
        elif old is not None:
            self._judge_move(event, old, new)
        self._graphs.judge(event, old, new)
        self._keep(new)
        self._judge_key(event, new)

    def _judge_removal(self, event: Operated, old: Snapshot | None, new: Snapshot) -> None:
        if old is None or old.state not in TERMINAL or event.name != "prune":
            self._accuse("live job removed", event, f"{event.name} removed {old}")
        self.jobs.pop(new.job_id, None)
        self.running.pop(new.job_id, None)
        self.removed.add(new.job_id)

    def _judge_move(self, event: Operated, old: Snapshot, new: Snapshot) -> None:
        if new.state == "running":
            self._judge_claim(event, old, new)
            return
        if event.name == "retry":
            return  # a new budget of attempts, by hand
        if (new.attempt, new.version, new.max_attempts) != (
            old.attempt,
            old.version,
            old.max_attempts,
        ):
            self._accuse("attempts", event, f"{event.name}: {old} became {new}")
        if old.state == "running" and event.name in ("claim", "recover"):
            self._judge_recovery(event, old, new)

    def _judge_claim(self, event: Operated, old: Snapshot, new: Snapshot) -> None:
        self._verdict.attempts += 1
        if new.token is None or new.token in self._tokens:
            self._accuse("token reused", event, f"{new}")
        self._tokens.add(new.token or "")
        if new.version != max(old.version + 1, event.now):
            self._accuse("version", event, f"{old} became {new}")
        if new.attempt != old.attempt + 1 or new.attempt > new.max_attempts:
            self._accuse("attempts", event, f"claimed, {old} became {new}")

    def _judge_recovery(self, event: Operated, old: Snapshot, new: Snapshot) -> None:
        has_run_out = old.ends_at is not None and event.now >= old.ends_at
        if new.state == "dead_letter" and event.now >= old.expires_at > 0:
            return  # its lifetime is over, lease or not
        if not has_run_out:
            self._accuse("overlap", event, f"a valid lease was taken back: {old}")
        if (new.state == "dead_letter") != (old.attempt >= old.max_attempts):
            self._accuse("attempts", event, f"recovered, {old} became {new}")

    def _judge_key(self, event: Operated, new: Snapshot) -> None:
        if new.key is None:
            return
        holders = self._keys[new.type, new.key]
        if new.state in TERMINAL:
            holders.discard(new.job_id)
            return
        holders.add(new.job_id)
        if len(holders) > 1:
            self._accuse("key", event, f"{new.key} is held by {sorted(holders)}")

    def _judge_limits(self, event: Operated, queues: set[str]) -> None:
        leased = [job.queue for job in self.running.values() if (job.ends_at or 0) > event.now]
        for queue in ("", *sorted(queues)):
            bound = self._limits.get(queue)
            count = len(leased) if queue == "" else leased.count(queue)
            if bound is not None and count > bound:
                self._accuse("limit", event, f"{count} run in {queue or 'all'}, not {bound}")

    # The end.

    def finish(self, at: float, acknowledged: set[str]) -> None:
        """Judge what is left when everything should have ended."""
        self._graphs.finish(at)
        for job in self.jobs.values():
            if job.state not in TERMINAL:
                self._verdict.accuse("unfinished", at, f"{job}")
        for job_id in sorted(acknowledged):
            if job_id not in self.jobs and job_id not in self.removed:
                self._verdict.lost += 1
                self._verdict.accuse("lost", at, f"job {job_id} was acknowledged")

    def _keep(self, new: Snapshot) -> None:
        self.jobs[new.job_id] = new
        if new.state == "running":
            self.running[new.job_id] = new
        else:
            self.running.pop(new.job_id, None)
            if new.key is not None and new.state in TERMINAL:
                self._keys[new.type, new.key].discard(new.job_id)

    def _accuse(self, rule: str, event: Operated, text: str) -> None:
        self._verdict.accuse(rule, event.at, text)


def is_leased(job: Snapshot, token: str, now: int) -> bool:
    """Tell whether *token* owns the job; at the very end of a lease nobody does."""
    return (
        job.state == "running"
        and job.token == token
        and job.ends_at is not None
        and now < job.ends_at
    )


def _lease_of(job: Snapshot) -> tuple[int, int, int, str | None, int | None]:
    return (job.attempt, job.max_attempts, job.version, job.token, job.ends_at)
