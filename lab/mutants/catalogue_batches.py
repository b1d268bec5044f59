"""Mutants of batch handlers, and of processes that are replaced at a limit."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"worker-{name}", about, Place.WORKER, patches, tests)


BATCHES = "tests/worker/test_batches.py"
RETIREMENT = "tests/worker/test_retirement.py"

BATCHING = (
    _mutant(
        "one-outcome-for-a-batch",
        "every job of a batch gets the outcome of the first",
        "worker.run.batch",
        "each: _outcome(each, it) for each, it in zip(self._begun, results, strict=True)",
        "each: _outcome(each, results[0]) for each in self._begun",
        BATCHES,
    ),
    _mutant(
        "overfills-a-batch",
        "a handler gets more jobs than its batch= says",
        "worker.run.batch",
        "min(task.batch, self._executor.slots.count)",
        "self._executor.slots.count",
        BATCHES,
    ),
    _mutant(
        "mixes-queues-in-a-batch",
        "jobs of two queues share a batch, and the hooks of one of them",
        "worker.run.batch",
        "        key = (attempt.job.type, attempt.job.queue)\n",
        '        key = (attempt.job.type, "")\n',
        BATCHES,
    ),
    _mutant(
        "keeps-a-batch-at-a-stop",
        "jobs that wait for their batch are not given back when the worker stops",
        "worker.run.executor",
        "        waiting = (self._loader, self._relay, self._batches)\n",
        "        waiting = (self._loader, self._relay)\n",
        BATCHES,
    ),
    _mutant(
        "stops-a-batch-for-one",
        "one cancelled job stops the handler for all jobs of its batch",
        "worker.run.batch",
        'return bool(others) and reason in ("cancelled", "lease_lost")',
        "return False",
        BATCHES,
    ),
    _mutant(
        "runs-a-batch-for-nobody",
        "the handler of a batch goes on although all of its jobs are lost",
        "worker.run.batch",
        'return bool(others) and reason in ("cancelled", "lease_lost")',
        'return reason in ("cancelled", "lease_lost")',
        BATCHES,
    ),
    _mutant(
        "times-out-one-of-a-batch",
        "only the job with the shortest timeout has timed out, though all were stopped",
        "worker.run.batch",
        "            for other in others:\n                other.interrupt(reason)\n",
        "",
        BATCHES,
    ),
    _mutant(
        "takes-any-number-of-results",
        "results of a batch are taken though there are more or fewer than jobs",
        "core.values.batch",
        "isinstance(returned, (list, tuple)) and len(returned) == count:",
        "isinstance(returned, (list, tuple)):",
        BATCHES,
    ),
    _mutant(
        "hides-that-batches-are-small",
        "nobody is told that a batch is larger than the slots of its worker",
        "worker.run.batch",
        "if task.batch is not None and task.batch > slots:",
        "if task.batch is not None and task.batch > slots * 1000:",
        BATCHES,
    ),
)

RECYCLING = (
    _mutant(
        "claims-past-its-share",
        "a process claims more jobs than max_jobs before it is replaced",
        "worker.run.slots",
        "min(free, CLAIM_MAX, self.reach.bound, share)",
        "min(free, CLAIM_MAX, self.reach.bound)",
        RETIREMENT,
    ),
    _mutant(
        "starts-again-though-stopped",
        "a process that was stopped is replaced because it had also reached its limit",
        "worker.shutdown",
        "return self._retires and not self.requests and not self.cancels",
        "return self._retires",
        RETIREMENT,
    ),
    _mutant(
        "retires-all-at-once",
        "all processes reach max_jobs at the same time, and none is left to work",
        "worker.retirement",
        "return limit - int(limit * RETIREMENT_JITTER * rng.random())",
        "return limit",
        RETIREMENT,
    ),
    Mutant(
        "worker-cuts-off-what-runs-at-its-limit",
        "jobs that run when a process reaches its limit have only the grace of a stop",
        Place.WORKER,
        (
            Patch(
                "fencepost.worker.run.fetcher",
                "if slots.taken <= len(self._executor.leaked):",
                "if True:",
            ),
            Patch(
                "fencepost.worker.shutdown",
                "    if shutdown.is_retiring:\n        # Not stopped",
                "    if False:\n        # Not stopped",
            ),
        ),
        (RETIREMENT,),
    ),
)

MUTANTS = (*BATCHING, *RECYCLING)
