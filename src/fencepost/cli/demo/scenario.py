"""What ``fencepost demo`` does, in three parts, and the checks that it happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from fencepost.cli.demo import tasks as demo_app
from fencepost.cli.demo.processes import DemoWorkers, WorkerProcess
from fencepost.core.job.job import Attempt, AttemptOutcome, Job
from fencepost.core.job.lifecycle import State
from fencepost.platform.system import current
from fencepost.store.interface.store import Topic

if TYPE_CHECKING:
    from fencepost.app import App

POLL_INTERVAL = 0.05
STEP_TIMEOUT = 20.0
"""Seconds after which a step counts as failed."""
EVERYDAY = 12
"""How many mails, and how many images."""
PAGES = 12
BATCHES = 10


class ScenarioError(Exception):
    """A step did not happen in time."""


@dataclass
class DemoJob:
    """One job of the scenario, and how it has to end."""

    title: str
    job_id: str
    state: State
    attempt: int
    job: Job | None = None

    @property
    def attempts(self) -> int:
        return 0 if self.job is None else self.job.attempt

    @property
    def is_over(self) -> bool:
        return self.job is not None and self.job.state.is_terminal

    @property
    def is_right(self) -> bool:
        job = self.job
        return job is not None and (job.state, job.attempt) == (self.state, self.attempt)


@dataclass
class DemoCheck:
    """One line of the summary, and whether it was true."""

    text: str
    is_true: bool
    detail: str = ""


class View(Protocol):
    """Shows the scenario."""

    def say(self, text: str) -> None: ...

    def refresh(self, scenario: DemoScenario) -> None: ...


@dataclass
class DemoScenario:
    """The jobs so far, and the results of the checks."""

    app: App
    workers: DemoWorkers
    view: View
    lease_ttl: float
    parts: list[DemoJob] = field(default_factory=list)
    everyday: list[DemoJob] = field(default_factory=list)
    checks: list[DemoCheck] = field(default_factory=list)

    def play(self) -> bool:
        """Run the three parts; return whether every check passed."""
        self._start_workers()
        self._everyday_work()
        self._kill_a_worker()
        if current().has_suspension:
            self._freeze_a_worker()
        else:
            self.view.say("no worker is frozen: this system cannot suspend a process")
        self._check_ends()
        return all(check.is_true for check in self.checks)

    @property
    def all_parts(self) -> list[DemoJob]:
        return [*self.everyday, *self.parts]

    # Part one: jobs that succeed, and ordinary failures.

    def _start_workers(self) -> None:
        first, second = self.workers.start(), self.workers.start()
        self.view.say(
            f"started two worker processes, pid {first.pid} and {second.pid}, "
            f"with leases of {self.lease_ttl:g} s"
        )
        self._until("two workers are live", lambda: len(self.app.workers.list()) == 2)

    def _everyday_work(self) -> None:
        mails = demo_app.send_mail.submit_many([f"user{n}@example.org" for n in range(EVERYDAY)])
        images = demo_app.resize_image.submit_many(
            [(f"photo-{n}.jpg", 640) for n in range(EVERYDAY)]
        )
        for job in [*mails, *images]:
            self.everyday.append(DemoJob("everyday work", job.id, State.COMPLETED, 1))
        self.view.say(f"submitted {len(self.everyday)} everyday jobs to two queues")
        self._add("fails once", demo_app.fetch_rates.submit("EUR").id, State.COMPLETED, 2)
        self._submit_twice()
        self._add("fails always", demo_app.sync_stock.submit("north").id, State.DEAD_LETTER, 2)
        self._submit_and_cancel()
        self._until("the everyday work is done", lambda: all(p.is_over for p in self.all_parts))

    def _submit_twice(self) -> None:
        """The same key twice: the second submission returns the first job."""
        key = f"order-{self.app.session.clock.new_token()}"
        charge = demo_app.charge_card.using(key=key)
        first, second = charge.submit("4242"), charge.submit("4242")
        self._add("cannot succeed", first.id, State.FAILED, 1)
        self.view.say("submitted a charge twice under one idempotency key: one job")
        self._check(
            "an idempotency key made one job of two submissions",
            first.id == second.id and second.duplicate and not first.duplicate,
        )

    def _submit_and_cancel(self) -> None:
        job = demo_app.send_newsletter.using(delay="1h").submit(7)
        self._add("cancelled", job.id, State.CANCELLED, 0)
        job.cancel()
        self.view.say("cancelled a job that was due in an hour")

    # Part two: a worker is killed during a job.

    def _kill_a_worker(self) -> None:
        part = self._add(
            "worker killed", demo_app.build_report.submit(PAGES).id, State.COMPLETED, 2
        )
        holder = self._holder_half_way(part)
        done = part.job.progress["message"] if part.job and part.job.progress else ""
        self.workers.kill(holder)
        killed_at = self.app.session.clock.now()
        self.view.say(f"kill -9 {holder.pid}: {holder.name} dies during a job, at {done}")
        self._until("another worker has the job", lambda: part.attempts >= 2)
        self._until("the killed job is done", lambda: part.is_over)
        replacement = self.workers.start()
        self.view.say(f"started {replacement.name} (pid {replacement.pid}) in its place")
        self._check_takeover("killed", part, holder, killed_at)
        self._check_checkpoint(part)

    # Part three: a worker is frozen past its lease, and continues to write when it wakes up.

    def _freeze_a_worker(self) -> None:
        self._until("two workers are live", lambda: len(self._alive()) == 2)
        part = self._add(
            "worker frozen", demo_app.import_orders.submit(BATCHES).id, State.COMPLETED, 2
        )
        holder = self._holder_half_way(part)
        if not self.workers.freeze(holder):
            raise ScenarioError(f"could not stop {holder.name} between two writes")
        frozen_at = self.app.session.clock.now()
        self.view.say(f"SIGSTOP {holder.pid}: {holder.name} is frozen during a job")
        try:
            self._until("another worker has the job", lambda: part.attempts >= 2)
            self._until("the frozen job is done", lambda: part.is_over)
        finally:
            self.workers.thaw(holder)
        before = part.job
        self.view.say(f"SIGCONT {holder.pid}: {holder.name} wakes up and continues to write")
        refused = self.workers.refused_writes
        self._until("the stale write is refused", lambda: bool(refused(part.job_id)))
        self._refresh()
        self._check_takeover("frozen", part, holder, frozen_at)
        self._check(
            "the store refused the writes of the stale worker, and the job did not change",
            part.job == before,
            ", ".join(refused(part.job_id)),
        )

    def _alive(self) -> list[WorkerProcess]:
        """Return the running processes whose workers have announced themselves."""
        known = (self.workers.process_of(info.id) for info in self.app.workers.list())
        return [process for process in known if process and process.popen.poll() is None]

    # Shared by the parts.

    def _add(self, title: str, job_id: str, state: State, attempt: int) -> DemoJob:
        part = DemoJob(title, job_id, state, attempt)
        self.parts.append(part)
        return part

    def _holder_half_way(self, part: DemoJob) -> WorkerProcess:
        """Wait until a worker is in the middle of a job; return its process."""

        def is_half_way() -> bool:
            job = part.job
            return job is not None and job.progress is not None and job.progress["fraction"] >= 0.3

        self._until(f"{part.title}: half way", is_half_way)
        lease = part.job.lease if part.job is not None else None
        holder = None if lease is None else self.workers.process_of(lease.worker)
        if holder is None:
            raise ScenarioError(f"{part.title}: its worker was not started by the demo")
        return holder

    def _check_takeover(
        self, verb: str, part: DemoJob, holder: WorkerProcess, since: datetime
    ) -> None:
        """Check that another worker ran the job as attempt 2, and measure how soon."""
        attempts = counted(self.app.jobs.attempts(part.job_id))
        is_taken_over = _is_takeover(attempts, holder)
        detail = ""
        if is_taken_over:
            seconds = (attempts[1].started_at - since).total_seconds()
            taker = self.workers.name_of(attempts[1].worker)
            detail = f"{taker} took over after {seconds:.1f} s; the lease was {self.lease_ttl:g} s"
        self._check(
            f"the job of the {verb} worker was finished by another one, on attempt 2",
            is_taken_over and part.is_right,
            detail,
        )

    def _check_checkpoint(self, part: DemoJob) -> None:
        result = self.app.jobs.get(part.job_id).result(timeout=0) if part.is_right else {}
        first = result.get("first_page_of_this_attempt", 1)
        self._check(
            "it continued from the last checkpoint of the dead worker, not from the start",
            first > 1,
            f"from page {first} of {PAGES}",
        )

    def _check_ends(self) -> None:
        self._refresh()
        done = sum(part.is_right for part in self.everyday)
        total = len(self.everyday)
        self._check(f"{done} of {total} everyday jobs completed on attempt 1", done == total)
        wrong = [part.title for part in self.parts if not part.is_right]
        self._check(
            f"each of the {len(self.parts)} special jobs ended in the expected state and attempt",
            not wrong,
            ", ".join(wrong),
        )
        dead = {each.job_id for each in self.app.dead_letters.list() if each.failure.message}
        expected = {p.job_id for p in self.parts if p.state in (State.FAILED, State.DEAD_LETTER)}
        self._check(f"{len(expected)} dead letters are listed with reasons", expected <= dead)

    def _check(self, text: str, is_true: bool, detail: str = "") -> None:
        self.checks.append(DemoCheck(text, is_true, detail))

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Refresh until *is_so*; raise ScenarioError when that takes too long."""
        for _ in self._refreshes(STEP_TIMEOUT):
            if is_so():
                return
        raise ScenarioError(f"waited {STEP_TIMEOUT:g} s for: {what}")

    def _refreshes(self, seconds: float) -> Iterator[None]:
        """Refresh every job now and after each change, for at most *seconds*."""
        clock = self.app.session.clock
        deadline = clock.monotonic() + seconds
        listener = self.app.store.listen(Topic.SETTLED)
        try:
            while clock.monotonic() < deadline:
                self._refresh()
                yield
                listener.wait(POLL_INTERVAL)
        finally:
            listener.close()

    def _refresh(self) -> None:
        parts = self.all_parts
        if parts:
            jobs = self.app.store.run(self.app.store.reader.get([part.job_id for part in parts]))
            for part, job in zip(parts, jobs, strict=True):
                part.job = job
        self.view.refresh(self)


def counted(attempts: list[Attempt]) -> list[Attempt]:
    """Leave out those that were given back: a busy machine may be late to start a handler."""
    return [attempt for attempt in attempts if attempt.outcome is not AttemptOutcome.RELEASED]


def _is_takeover(attempts: list[Attempt], holder: WorkerProcess) -> bool:
    return (
        [attempt.number for attempt in attempts] == [1, 2]
        and f"-{holder.pid}-" in attempts[0].worker
        and f"-{holder.pid}-" not in attempts[1].worker
    )
