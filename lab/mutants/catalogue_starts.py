"""Mutants of the record of starts, and of who reads it when its worker has died."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place


def _mutant(name: str, about: str, module: str, old: str, new: str, *tests: str) -> Mutant:
    patches = (Patch(f"fencepost.worker.{module}", old, new),)
    return Mutant(f"worker-{name}", about, Place.WORKER, patches, tests)


RECORD = "tests/worker/test_start_record.py"
ORPHANS = "tests/worker/test_orphans.py"
OUTAGES = "tests/worker/test_outages.py"
PROMPTNESS = "tests/worker/test_promptness.py"

MUTANTS: tuple[Mutant, ...] = (
    _mutant(
        "releases-what-had-started",
        "all that a dead worker held is released, uncounted, started or not",
        "orphans",
        "if not dead[lease.worker].has_started(lease.token)]",
        "if lease.worker]",
        ORPHANS,
    ),
    _mutant(
        "starts-coroutines-off-the-record",
        "coroutines start without a word on the record",
        "run.attempt",
        "                if self.is_in_time() and self.note_start():\n",
        "                if self.is_in_time():\n",
        ORPHANS,
    ),
    _mutant(
        "notes-a-start-before-it-reads-the-payload",
        "a thread's job is on record while its arguments are read, before its handler is called",
        "run.attempt",
        "        handler = self._handler()\n"
        "        if not (self.is_in_time() and self.note_start()):\n            return TOO_LATE\n",
        "        if not (self.is_in_time() and self.note_start()):\n            return TOO_LATE\n"
        "        handler = self._handler()\n",
        ORPHANS,
    ),
    _mutant(
        "notes-a-batch-before-it-reads-the-payloads",
        "the jobs of a batch are on record while their payloads are read",
        "run.batch",
        "        given = [(attempt.context, attempt.job.payload) for attempt in self._begun]\n",
        "        self._note_starts()\n"
        "        given = [(attempt.context, attempt.job.payload) for attempt in self._begun]\n",
        ORPHANS,
    ),
    _mutant(
        "starts-threads-off-the-record",
        "handlers in threads, children and batches start without a word on the record",
        "run.attempt",
        "        return self._executor.starts.add(self.job.lease.token)\n",
        "        return True\n",
        ORPHANS,
    ),
    _mutant(
        "takes-a-starting-child-for-a-started-handler",
        "a job is on record while Python starts in the child that is to run it",
        "run.attempt",
        "            executor.slots.reach.vain = 0\n        if executor.is_verbose:\n",
        "            executor.starts.add(job.lease.token)\n        if executor.is_verbose:\n",
        ORPHANS,
    ),
    _mutant(
        "reads-the-record-of-the-living",
        "a worker that is alive is taken for dead",
        "starts",
        "        if try_lock(fd) and os.fstat(fd).st_nlink:\n",
        "        if os.fstat(fd).st_nlink:\n",
        RECORD,
    ),
    _mutant(
        "looks-while-its-store-hangs",
        "a worker whose store hangs keeps those of other stores from looking for their dead",
        "starts",
        "            unlock(fd)  # who has died does not come back\n",
        "",
        ORPHANS,
    ),
    _mutant(
        "threads-overtake-coroutines",
        "less urgent jobs start in threads before the more urgent coroutines of their claim",
        "run.executor",
        "            if urgency is not None and attempt.job.priority > urgency:\n",
        "            if urgency is None and attempt.job.priority > 100:\n",
        PROMPTNESS,
    ),
    _mutant(
        "starts-behind-a-stop",
        "what waited for more urgent coroutines starts although the worker stops",
        "run.executor",
        "        if self.shutdown.is_stopping:\n            self.give_back([attempt.held for",
        "        if not waiting:\n            self.give_back([attempt.held for",
        PROMPTNESS,
    ),
    _mutant(
        "believes-a-record-of-another-boot",
        "what the disk has of a record after a power cut is believed",
        "starts",
        " and then == boot()\n",
        "\n",
        RECORD,
    ),
    _mutant(
        "forgets-what-is-held",
        "a full record goes on without what is still held",
        "starts",
        """b"".join(b"%b\\n" % token.encode() for token in self._live()) + text""",
        "text",
        RECORD,
    ),
    _mutant(
        "reads-half-a-token",
        "a token that was being written when the process died counts as started",
        "starts",
        '.split(b"\\n")[:-1])',
        '.split(b"\\n"))',
        RECORD,
    ),
    _mutant(
        "forgets-lost-leases",
        "a started job whose lease seems to be lost is off the record",
        "run.inflight",
        "            return [*tokens, *self.lost]\n",
        "            return tokens\n",
        RECORD,
    ),
    _mutant(
        "keeps-what-does-not-fit-to-itself",
        "handlers that find no room on the record count as not started",
        "starts",
        "            self._map[WHICH] = UNKNOWN\n",
        "",
        RECORD,
    ),
    _mutant(
        "starts-after-its-end",
        "a thread starts its handler after the worker has let go of its record",
        "starts",
        "                return not self._is_over\n",
        "                return True\n",
        RECORD,
    ),
    _mutant(
        "leaves-its-lock-to-what-it-forks",
        "a child that a handler has forked keeps the record of a dead worker locked",
        "starts",
        "        record.forget()\n",
        "        pass\n",
        RECORD,
    ),
    _mutant(
        "counts-what-had-not-started-once-its-lease-has-ended",
        "a worker that comes after the end of a lease counts a job that had not started",
        "orphans",
        "            self._store.upkeep.recover(RECOVER_BATCH, unstarted)\n",
        "            self._store.upkeep.recover(RECOVER_BATCH)\n",
        ORPHANS,
    ),
    _mutant(
        "recovers-before-it-looks",
        "the leader takes back leases before those of dead workers of its machine are looked at",
        "pipeline",
        "        await self.fetcher.has_looked.wait()\n",
        "",
        ORPHANS,
    ),
    _mutant(
        "runs-again-under-the-name-it-left-jobs-under",
        "what a second run of a worker runs is released as not started by its first",
        "worker",
        "        if leaves_jobs and not self._settings.is_named:\n",
        "        if leaves_jobs and self._settings.is_named:\n",
        ORPHANS,
    ),
    _mutant(
        "forgets-that-a-claim-failed",
        "what a claim brought whose reply was lost runs out, and counts",
        "run.fetcher",
        "                    self._unheard.note()\n",
        "                    pass\n",
        OUTAGES,
    ),
    _mutant(
        "releases-what-it-holds",
        "after a claim has failed, all that the worker runs is released",
        "orphans",
        "            known = self._inflight.known()\n",
        "            known = set[str]()\n",
        OUTAGES,
    ),
    _mutant(
        "claims-before-it-looks",
        "a worker that starts takes new jobs before those of the dead are released",
        "run.fetcher",
        "await self._orphans.look_first(is_stopping=lambda: self._shutdown.is_stopping)\n",
        "pass\n",
        ORPHANS,
    ),
)
