"""Mutants of the worker, and of the decisions that it shares with every store."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"worker-{name}", about, Place.WORKER, patches, tests)


MUTANTS = (
    _mutant(
        "settles-once-only",
        "a settlement whose outcome is unknown is not repeated",
        "worker.settler",
        "        except StoreError as error:\n"
        "            self._pending.extendleft(reversed(batch))\n",
        "        except StoreError as error:\n            self._hand.drop_all(batch)\n",
        "tests/worker/test_settler.py",
    ),
    _mutant(
        "lets-go-before-the-answer",
        "a job is not heartbeated while its settlement waits for the store",
        "worker.settler",
        "        self._in_flight = len(batch)\n",
        "        self._in_flight = len(batch)\n        self._hand.drop_all(batch)\n",
        "tests/worker/test_settler.py",
    ),
    _mutant(
        "starts-what-has-waited",
        "a job whose lease may have run out while it waited is started unasked",
        "worker.worker",
        "if held.heard_at < self._clock.monotonic() - FRESH_CLAIM:",
        "if False:",
        "tests/worker/test_interruption.py",
        "tests/worker/test_outages.py",
    ),
    _mutant(
        "starts-what-it-lost",
        "a job that was lost while it waited is started",
        "worker.worker",
        "            if not held.is_dropped:\n"
        "                if held.heard_at < self._clock.monotonic() - FRESH_CLAIM:\n",
        "            if True:\n"
        "                if held.heard_at < self._clock.monotonic() - FRESH_CLAIM:\n",
        "tests/worker/test_interruption.py",
        "tests/worker/test_outages.py",
    ),
    _mutant(
        "forgets-what-waits",
        "jobs that wait for a slot are not heartbeated",
        "worker.heartbeater",
        "        held = self._hand.everything()\n        due =",
        "        held = [each for each in self._hand.everything() if each.attempt is not None]\n"
        "        due =",
        "tests/worker/test_heartbeater.py",
        "tests/worker/test_interruption.py",
    ),
    _mutant(
        "goes-on-after-losing-a-lease",
        "a handler whose lease was lost is not interrupted",
        "worker.worker",
        "            held.attempt.interrupt(reason)\n",
        "            pass\n",
        "tests/worker/test_interruption.py",
        "tests/worker/test_outages.py",
    ),
    _mutant(
        "settles-after-losing-a-lease",
        "what a handler returns after its lease was lost is sent to the store",
        "worker.executor",
        'return outcome if reason in (None, "shutdown") else attempt.outcome_of_interruption()',
        "return outcome",
        "tests/worker/test_interruption.py",
        "tests/worker/test_timeouts.py",
    ),
    _mutant(
        "trusts-a-dead-lease",
        "a handler goes on when the store cannot be reached for longer than its lease",
        "worker.heartbeater",
        "if now >= each.confirmed_at + each.job.lease_ttl:",
        "if now >= each.confirmed_at + 10 * each.job.lease_ttl:",
        "tests/worker/test_heartbeater.py",
    ),
    _mutant(
        "counts-a-lease-from-the-answer",
        "a lease is believed to last from when the store's answer came, not from the question",
        "worker.heartbeater",
        "                held.confirmed_at = sent_at\n                if held.attempt",
        "                held.confirmed_at = self._store.clock.monotonic()\n"
        "                if held.attempt",
        "tests/worker/test_heartbeater.py",
    ),
    _mutant(
        "drops-a-newer-lease",
        "a late answer about an old lease makes the worker let go of the new one",
        "worker.hand",
        "            if held is None or held.job.lease.token != token:\n",
        "            if held is None:\n",
        "tests/worker/test_hand.py",
    ),
    _mutant(
        "keeps-what-it-did-not-start",
        "jobs that wait in hand at a shutdown are not given back",
        "worker.worker",
        "                decision = decide(held.job, Released(), self._clock.rng)\n"
        "                self._settler.add(settlement_of(held.job, decision))\n",
        "                decide(held.job, Released(), self._clock.rng)\n",
        "tests/worker/test_stopping.py",
    ),
    _mutant(
        "release-is-a-failure",
        "a job that is interrupted by a shutdown has failed",
        "worker.attempt",
        '            case "shutdown":\n                return Released()\n',
        '            case "shutdown":\n                return timed_out(self.job.policy.timeout)\n',
        "tests/worker/test_stopping.py",
    ),
    _mutant(
        "claims-without-bound",
        "jobs that have ended but are not recorded pile up while more are claimed",
        "worker.fetcher",
        "        if self.is_held_up:\n            return 0\n",
        "",
        "tests/worker/test_fetcher.py",
    ),
    _mutant(
        "completes-what-was-rolled-back",
        "a handler that completed its job in a transaction it took back has succeeded",
        "worker.concluder",
        "ended = not_committed() if isinstance(outcome, Succeeded) else outcome",
        "ended = outcome",
        "tests/worker/test_complete_in.py",
    ),
    _mutant(
        "one-attempt-too-many",
        "`>` for `>=`: a job has one attempt more than it may",
        "core.outcome",
        "if job.attempt >= job.max_attempts:",
        "if job.attempt > job.max_attempts:",
        "tests/core/test_outcome.py",
        "tests/store/test_conformance.py::TestRecovering",
    ),
    _mutant(
        "key-outlives-its-window",
        "`<=` for `<`: a key is held at the instant its window ends",
        "core.idempotency",
        "window_ends_us is not None and now_us < window_ends_us",
        "window_ends_us is not None and now_us <= window_ends_us",
        "tests/core/test_idempotency.py",
        "tests/store/test_conformance.py::TestKeys",
    ),
)
