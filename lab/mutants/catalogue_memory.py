"""Mutants of the memory store."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

STORE = "fencepost.store.memory"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"{STORE}.{module}", old, new),)
    return Mutant(f"memory-{name}", about, Place.MEMORY, patches, tests)


MUTANTS = (
    _mutant(
        "retrying-jobs-live-for-ever",
        "a job that waits for its retry does not expire",
        "moves",
        "    due = (jobs.roll[seq] for seq in jobs.lifetimes.before((now + 1,)))\n",
        "    due = [jobs.roll[seq] for seq in jobs.lifetimes.before((now + 1,))]\n"
        "    due = [each for each in due if each.state.value != 'retrying']\n",
        "TestExpiring",
    ),
    _mutant(
        "settle-ignores-the-token",
        "whoever settles a running job is believed",
        "leases",
        "if record.is_leased_by(settlement.token, now):",
        "if record.token is not None and record.is_leased_by(record.token, now):",
        "TestZombies",
        "TestFencing",
    ),
    _mutant(
        "stale-settle-ends-a-newer-lease",
        "a stale settlement is refused, and the lease of the job's new owner ends with it",
        "leases",
        "    return lost(record, settlement.job_id)\n",
        "    if record.lease_expires_at is not None:\n"
        "        jobs.change(record, lease_expires_at=now)\n"
        "    return lost(record, settlement.job_id)\n",
        "TestZombies",
    ),
    _mutant(
        "lease-lives-at-its-expiry",
        "`<=` for `<`: a lease is still good at the instant it ends",
        "record",
        "and now < self.lease_expires_at",
        "and now <= self.lease_expires_at",
        "TestLeases",
        "TestZombies",
    ),
    _mutant(
        "heartbeat-revives",
        "a heartbeat extends a lease that has run out",
        "leases",
        "not record.is_leased_by(beat.token, now)",
        "record.token != beat.token",
        "TestLeases",
    ),
    _mutant(
        "recovery-is-not-counted",
        "a lease that ran out costs no attempt",
        "moves",
        "        is_overdue = record.lease_expires_at == record.deadline\n",
        "        jobs.change(record, attempt=record.attempt - 1)\n"
        "        is_overdue = record.lease_expires_at == record.deadline\n",
        "TestRecovering",
    ),
    _mutant(
        "recovery-comes-an-instant-early",
        "a lease is taken back a microsecond before it ends",
        "moves",
        "_up_to(now, jobs, jobs.leases, limit)",
        "_up_to(now + 1, jobs, jobs.leases, limit)",
        "TestRecovering",
        "TestLeases",
    ),
    _mutant(
        "token-is-not-renewed",
        "every claim of a job hands out the same token",
        "moves",
        "        token=token,\n",
        '        token=f"token-{record.id}",\n',
        "TestZombies",
        "TestFencing",
    ),
    _mutant(
        "key-is-free-while-its-job-runs",
        "a key is released when its job is claimed",
        "jobs",
        "is_live = not record.state.is_terminal",
        "is_live = not record.state.is_terminal and record.state is not State.RUNNING",
        "TestKeys",
    ),
    _mutant(
        "key-window-is-forgotten",
        "a key is released when its job ends, though its window lasts",
        "jobs",
        "window_ends_us=record.key_ends_at",
        "window_ends_us=None",
        "TestKeys",
    ),
    _mutant(
        "promotes-too-early",
        "a job becomes claimable a second before it is due",
        "moves",
        "_up_to(now, jobs, jobs.due, limit)",
        "_up_to(now + 1_000_000, jobs, jobs.due, limit)",
        "TestPromoting",
        "TestOrdering",
    ),
    _mutant(
        "pause-is-ignored",
        "a paused queue is served",
        "claiming",
        "if self._settings.is_queue_paused(queue)",
        "if False",
        "TestPausing",
    ),
    _mutant(
        "claims-expire-nothing",
        "a claim hands out jobs past their lifetime",
        "claiming",
        "partial(expire, jobs, EXPIRE_BATCH, now)",
        "partial(expire, jobs, 0, now)",
        "TestExpiring",
    ),
    _mutant(
        "half-a-chore-is-kept",
        "what a chore did before it failed is not undone",
        "store",
        "            self._journal.undo_to(mark)\n",
        "",
        "TestChores",
    ),
    _mutant(
        "cancelled-while-running-may-complete",
        "cancelling a running job is answered, and not done",
        "control",
        "lambda record: moves.cancel(jobs, record, now))",
        "lambda record: moves.cancel(jobs, record, now) if record.state is not State.RUNNING "
        "else moves.Moved(record.id, record.type, State.CANCELLED, State.RUNNING))",
        "TestCancelling",
    ),
    _mutant(
        "repeat-is-called-settled",
        "the repeat of a settlement is answered as the first was",
        "leases",
        "return AlreadySettled(record.id, record.state)",
        "return Settled(record.id, record.type, record.state)",
        "TestRepeating",
    ),
    _mutant(
        "snooze-is-counted",
        "a snooze uses up an attempt",
        "moves",
        "if not decision.is_counted:",
        "if decision.event is Event.RELEASE:",
        "TestSettling",
    ),
    _mutant(
        "release-goes-to-the-end-of-the-line",
        "a job that is given back loses its place",
        "moves",
        'return {"scheduled_at": now}',
        'return {"scheduled_at": now, "run_at": now}',
        "TestSettling",
        "TestOrdering",
    ),
    Mutant(
        "memory-prune-takes-live-jobs",
        "pruning deletes jobs that have not ended",
        Place.MEMORY,
        (
            Patch(
                f"{STORE}.control",
                "if not record.state.is_terminal or record.state not in keep:",
                "if record.state.is_terminal and record.state not in keep:",
            ),
            Patch(
                f"{STORE}.control",
                "    assert record.completed_at is not None\n",
                "    if record.completed_at is None:\n        return True\n",
            ),
        ),
        ("TestPruning",),
    ),
    _mutant(
        "prune-takes-held-keys",
        "pruning deletes a job whose key is still held",
        "control",
        "return record.key_ends_at is None or record.key_ends_at <= now",
        "return True",
        "TestPruning",
    ),
    _mutant(
        "replay-leaves-the-record",
        "a dead letter that was replayed can be replayed again",
        "submission",
        "    jobs.change(dead, dead_number=None)\n",
        "",
        "TestReplaying",
    ),
    _mutant(
        "retry-adds-no-attempt",
        "a job that is opened again without a reset has no attempt left",
        "submission",
        '"max_attempts": record.attempt + 1,',
        '"max_attempts": record.max_attempts,',
        "TestReopening",
    ),
    _mutant(
        "stale-checkpoint-is-kept",
        "a worker that lost its lease can still save",
        "leases",
        "not record.is_leased_by(save.token, now)",
        "record.state.is_terminal",
        "TestZombies",
    ),
    _mutant(
        "priority-is-inverted",
        "the least urgent job comes first",
        "record",
        "(int(self.priority), self.run_at, self.seq)",
        "(-int(self.priority), self.run_at, self.seq)",
        "TestOrdering",
    ),
    _mutant(
        "limit-is-one-too-many",
        "W + 1 jobs of a queue may run",
        "claiming",
        "limit - self.of_queue(queue)), 0)",
        "limit + 1 - self.of_queue(queue)), 0)",
        "TestLimits",
    ),
    _mutant(
        "refused-batch-is-half-stored",
        "what an operation did before it raised stays",
        "store",
        "self._journal.undo()",
        "self._journal.keep()",
        "TestEnqueueing",
        "TestKeys",
    ),
    _mutant(
        "two-lead-at-once",
        "a term is given to whoever asks",
        "presence",
        "if holder != worker and now < expires_at:",
        "if False:",
        "TestLeading",
    ),
    _mutant(
        "recovered-token-counts-as-settled",
        "a worker whose job was recovered is told that it had settled it",
        "moves",
        "apply(jobs, record, decision, now=now, settled_token=None)",
        "apply(jobs, record, decision, now=now, settled_token=record.token)",
        "TestRecovering",
        "TestRepeating",
        "TestZombies",
    ),
)
