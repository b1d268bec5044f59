"""Mutants of the worker, and of the decisions that it shares with every store."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"worker-{name}", about, Place.WORKER, patches, tests)


THREADS = "tests/worker/test_threads.py"
CANCELLING = "tests/worker/test_cancelling_run.py"
UNREADABLE = "tests/worker/test_unreadable.py"

STOPPING = (
    _mutant(
        "leaves-threads-alone",
        "a handler in a thread goes on past its timeout, and keeps its slot",
        "worker.run.executor",
        "        if not attempt.thread.stop():\n",
        "        if False:\n",
        THREADS,
    ),
    _mutant(
        "stops-the-next-job",
        "a thread is stopped though the call has ended for which it was meant",
        "store.interruption",
        "            self._has_ended = True\n",
        "",
        "tests/store/test_interruption.py",
    ),
    _mutant(
        "tears-the-store",
        "a handler is stopped in the middle of what it does for the store",
        "store.interruption",
        "            self._is_held_off = True\n",
        "            pass\n",
        "tests/store/test_interruption.py",
    ),
    _mutant(
        "keeps-a-stuck-process",
        "a process in which a thread does not stop is never replaced",
        "worker.run.executor",
        "self.shutdown.retire(attempt, len(self.slots.running)):",
        "False:",
        THREADS,
    ),
    _mutant(
        "replaces-in-haste",
        "a process is replaced although its other jobs run",
        "worker.shutdown",
        "        await _until_quiet(pipeline, None, lambda: shutdown.requests > 0 or "
        "shutdown.is_hasty())\n",
        "",
        THREADS,
    ),
    _mutant(
        "leaves-handlers-when-cancelled",
        "handlers go on when run() is cancelled, and their jobs stay in its hands",
        "worker.worker",
        "            await drain(pipeline, self._settings.grace, services[0])\n",
        "            await asyncio.sleep(0)\n",
        CANCELLING,
    ),
    _mutant(
        "tears-a-claim-when-cancelled",
        "jobs that a claim under way brings are lost when run() is cancelled",
        "worker.shutdown",
        'if self.cancels > 1 and task.get_name() == "fencepost-work":',
        'if task.get_name() == "fencepost-work":',
        CANCELLING,
    ),
    _mutant(
        "swallows-a-cancellation",
        "run() returns as if nobody had cancelled it",
        "worker.worker",
        "            raise asyncio.CancelledError\n",
        "            return\n",
        CANCELLING,
    ),
    _mutant(
        "fails-what-it-cannot-read",
        "a payload that this version cannot read is a permanent failure at once",
        "core.job.outcome",
        "    if outcome.waited >= UNREADABLE_MAX:\n",
        "    if True:\n",
        UNREADABLE,
        "tests/store/test_conformance.py::TestUnreadable",
    ),
    _mutant(
        "counts-what-it-cannot-read",
        "a payload that this version cannot read costs an attempt",
        "core.job.outcome",
        "        delay=min(UNREADABLE_DELAY_MIN * growth, UNREADABLE_DELAY_MAX),\n"
        "        is_counted=False,\n",
        "        delay=min(UNREADABLE_DELAY_MIN * growth, UNREADABLE_DELAY_MAX),\n",
        UNREADABLE,
        "tests/store/test_conformance.py::TestUnreadable",
    ),
    _mutant(
        "forgets-since-when",
        "a job that nobody can read goes round for ever: its past is not looked at",
        "worker.run.conclusion",
        "decide(job, with_past(outcome, attempts), self._store.clock.rng)",
        "decide(job, with_past(outcome, None), self._store.clock.rng)",
        UNREADABLE,
    ),
)

MUTANTS = (
    *STOPPING,
    _mutant(
        "beats-for-what-it-has-settled",
        "a job is heartbeated although its attempt has ended, by a timeout for one",
        "worker.run.settler",
        "        # Settled, settled before, or lost: in each case the job is no longer ours.\n"
        "        self._inflight.drop_all(batch)\n",
        "",
        "tests/worker/test_heartbeats_end.py",
    ),
    _mutant(
        "beats-for-what-it-has-lost",
        "a job is heartbeated although its lease was lost, or it was cancelled",
        "worker.run.heartbeater",
        "        if self._inflight.drop(held.job.id, held.job.lease.token) is not None:\n",
        "        if held.attempt is None or held.attempt.context.cancel_reason is None:\n",
        "tests/worker/test_heartbeats_end.py",
    ),
    _mutant(
        "beats-on-after-its-end",
        "a worker that has stopped goes on with its heartbeats",
        "worker.pipeline",
        "        await self.heartbeater.stop_async()\n",
        "",
        "tests/worker/test_heartbeats_end.py",
    ),
    _mutant(
        "asks-for-the-same-lease-again",
        "a heartbeat asks for no more than what is left of a lease",
        "worker.run.heartbeater",
        "        beats = [Beat(h.job.id, h.job.lease.token, h.job.lease_ttl) for h in batch]\n"
        "        replies = yield",
        "        beats = [Beat(h.job.id, h.job.lease.token, 0.0) for h in batch]\n"
        "        replies = yield",
        "tests/worker/test_context.py",
    ),
    _mutant(
        "beats-add-up",
        "a heartbeat extends a lease by its TTL from its end, not from now",
        "worker.run.heartbeater",
        "        beats = [Beat(h.job.id, h.job.lease.token, h.job.lease_ttl) for h in batch]\n"
        "        replies = yield",
        "        beats = [Beat(h.job.id, h.job.lease.token, 2 * h.job.lease_ttl) for h in batch]\n"
        "        replies = yield",
        "tests/worker/test_context.py",
    ),
    _mutant(
        "drains-nothing-at-its-start",
        "leases that ran out while nobody looked are left to claims and to the leader",
        "worker.run.fetcher",
        "        await recover_at_start(self._store, is_stopping=self._is_stopping)\n",
        "",
        "tests/worker/test_starting.py",
    ),
    _mutant(
        "drains-one-batch-at-its-start",
        "of leases that ran out while nobody looked, one batch is taken back",
        "worker.startup",
        "        while await store.run_async(store.upkeep.recover(RECOVER_BATCH)):\n",
        "        if await store.run_async(store.upkeep.recover(RECOVER_BATCH)):\n",
        "tests/worker/test_starting.py",
    ),
    _mutant(
        "settles-once-only",
        "a settlement whose outcome is unknown is not repeated",
        "worker.run.settler",
        "        except StoreError as error:\n"
        "            self._pending.extendleft(reversed(batch))\n",
        "        except StoreError as error:\n            self._inflight.drop_all(batch)\n",
        "tests/worker/test_settler.py",
    ),
    _mutant(
        "lets-go-before-the-answer",
        "a job is not heartbeated while its settlement waits for the store",
        "worker.run.settler",
        "        self._in_flight = len(batch)\n",
        "        self._in_flight = len(batch)\n        self._inflight.drop_all(batch)\n",
        "tests/worker/test_settler.py",
    ),
    _mutant(
        "claims-ahead",
        "a worker claims twice as many jobs as it has free slots",
        "worker.run.slots",
        "return min(max(self.count - self.taken, 0), CLAIM_MAX, self.reach.bound)",
        "return min(max(2 * self.count - self.taken, 0), CLAIM_MAX)",
        "tests/worker/test_fetcher.py",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "begins-late",
        "a job whose handler could not begin in time begins all the same",
        "worker.run.attempt",
        "if started_at > held.start_by:",
        "if False:",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "is-late-from-when-it-looked",
        "how long a job has waited is counted from when the loop saw it, not from the answer",
        "worker.run.claimer",
        "answered_at=self._answered_at",
        "answered_at=self._clock.monotonic()",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "always-too-late",
        "a worker whose loop is always late never starts a job",
        "worker.run.executor",
        "            jobs[0].start_by = math.inf\n",
        "            pass\n",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "begins-what-it-lost",
        "a job that was lost before its handler began is begun",
        "worker.run.attempt",
        "        if held.is_dropped:\n",
        "        if False:\n",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "forgets-what-waits",
        "jobs that wait for a slot are not heartbeated",
        "worker.run.heartbeater",
        "        held = self._inflight.everything()\n        due =",
        "        held = [h for h in self._inflight.everything() if h.attempt is not None]\n"
        "        due =",
        "tests/worker/test_heartbeater.py",
        "tests/worker/test_interruption.py",
    ),
    _mutant(
        "goes-on-after-losing-a-lease",
        "a handler whose lease was lost is not interrupted",
        "worker.run.inflight",
        "        held.attempt.interrupt(reason)\n",
        "        pass\n",
        "tests/worker/test_interruption.py",
        "tests/worker/test_outages.py",
    ),
    _mutant(
        "settles-after-losing-a-lease",
        "what a handler returns after its lease was lost is sent to the store",
        "worker.run.attempt",
        'return outcome if reason in (None, "shutdown") else self.outcome_of_interruption()',
        "return outcome",
        "tests/worker/test_interruption.py",
        "tests/worker/test_timeouts.py",
    ),
    _mutant(
        "trusts-a-dead-lease",
        "a handler goes on when the store cannot be reached for longer than its lease",
        "worker.run.heartbeater",
        "if now >= each.confirmed_at + each.job.lease_ttl:",
        "if now >= each.confirmed_at + 10 * each.job.lease_ttl:",
        "tests/worker/test_heartbeater.py",
    ),
    _mutant(
        "counts-a-lease-from-the-answer",
        "a lease is believed to last from when the store's answer came, not from the question",
        "worker.run.heartbeater",
        "                held.confirmed_at = sent_at\n                if held.attempt",
        "                held.confirmed_at = self._store.clock.monotonic()\n"
        "                if held.attempt",
        "tests/worker/test_heartbeater.py",
    ),
    _mutant(
        "drops-a-newer-lease",
        "a late answer about an old lease makes the worker let go of the new one",
        "worker.run.inflight",
        "            if held is None or held.job.lease.token != token:\n",
        "            if held is None:\n",
        "tests/worker/test_inflight.py",
    ),
    _mutant(
        "keeps-what-it-did-not-start",
        "jobs whose handlers have not begun at a shutdown are not given back",
        "worker.run.executor",
        "                decision = decide(held.job, Released(), self.rng)\n"
        "                self.settler.add(settlement_of(held.job, decision))\n",
        "                pass\n",
        "tests/worker/test_starts.py",
    ),
    _mutant(
        "release-is-a-failure",
        "a job that is interrupted by a shutdown has failed",
        "worker.run.attempt",
        '            case "shutdown":\n                return Released()\n',
        '            case "shutdown":\n                return timed_out(self.job.policy.timeout)\n',
        "tests/worker/test_stopping.py",
    ),
    _mutant(
        "claims-without-bound",
        "jobs that have ended but are not recorded pile up while more are claimed",
        "worker.run.slots",
        "        if self.is_held_up:\n            return 0\n",
        "",
        "tests/worker/test_fetcher.py",
    ),
    _mutant(
        "completes-what-was-rolled-back",
        "a handler that completed its job in a transaction it took back has succeeded",
        "worker.run.conclusion",
        "ended = not_committed() if isinstance(outcome, Succeeded) else outcome",
        "ended = outcome",
        "tests/worker/test_complete_in.py",
    ),
    _mutant(
        "one-attempt-too-many",
        "`>` for `>=`: a job has one attempt more than it may",
        "core.job.outcome",
        "if job.attempt >= job.max_attempts:",
        "if job.attempt > job.max_attempts:",
        "tests/core/test_outcome.py",
        "tests/store/test_conformance.py::TestRecovering",
    ),
    _mutant(
        "key-outlives-its-window",
        "`<=` for `<`: a key is held at the instant its window ends",
        "core.job.idempotency",
        "window_ends_us is not None and now_us < window_ends_us",
        "window_ends_us is not None and now_us <= window_ends_us",
        "tests/core/test_idempotency.py",
        "tests/store/test_conformance.py::TestKeys",
    ),
)
