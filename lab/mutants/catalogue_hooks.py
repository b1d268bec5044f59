"""Mutants of hooks and batches, and of the process that is replaced."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

FAULTY = "tests/worker/test_faulty_hooks.py"
BATCHES = "tests/worker/test_batches.py"
RETIREMENT = "tests/worker/test_retirement.py"


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.{module}", old, new),)
    return Mutant(f"worker-hooks-{name}", about, Place.WORKER, patches, tests)


MUTANTS = (
    _mutant(
        "cut-off-clean-up",
        "the timer of another job of a batch cancels it again, while it cleans up",
        "worker.run.attempt",
        "if self.has_ended or (self.is_interrupted and self.task.isolation is Isolation.LOOP):\n",
        "if self.has_ended:\n",
        FAULTY,
    ),
    _mutant(
        "start-what-was-stopped",
        "a handler begins after its attempt was stopped, because its hook called late",
        "worker.run.hooks",
        "        if is_stopped:  # before the hook had called\n",
        "        if False:\n",
        FAULTY,
    ),
    _mutant(
        "are-not-stopped",
        "a hook on the loop goes on past the timeout of its thread's handler",
        "worker.run.executor",
        "attempt.future.cancel()  # a hook on the loop, before its handler or after it\n",
        "pass\n",
        FAULTY,
    ),
    _mutant(
        "batch-makes-late",
        "a batch waits for as long as its first job may, and the others come late",
        "worker.run.batch",
        " or attempt.held.start_by < waiting[-2].held.start_by:",
        ":",
        BATCHES,
    ),
    _mutant(
        "count-what-never-started",
        "a handler that a closing loop cancels before its first step waits for its lease to expire",
        "worker.run.attempt",
        "        return self.outcome_of_interruption() if self.is_interrupted else Released()\n",
        "        return self.outcome_of_interruption()\n",
        BATCHES,
    ),
    _mutant(
        "store-anything",
        "what a submission hook changes is stored unchecked",
        "core.hooks",
        "        return checked_change(job, changed)\n",
        "        return changed\n",
        "tests/worker/test_hooks.py",
    ),
    _mutant(
        "forget-a-signal",
        "a signal that comes with the last turn of the loop is forgotten",
        "worker.worker",
        "SIGNAL_TURNS = 5\n",
        "SIGNAL_TURNS = 0\n",
        RETIREMENT,
    ),
    _mutant(
        "retire-without-settling",
        "a process that retires drops what it cannot record within its grace",
        "worker.shutdown",
        "max(grace, pipeline.lease_ttl) if is_retiring else grace",
        "grace",
        RETIREMENT,
    ),
)
