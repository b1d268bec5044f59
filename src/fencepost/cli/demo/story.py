"""What happens in ``fencepost demo``, in three acts, and the proof that it did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Protocol

from fencepost.cli.demo import tasks as demo_app
from fencepost.cli.demo.crew import Crew, WorkerProcess
from fencepost.core.job.job import Attempt, Job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.listener import Topic

if TYPE_CHECKING:
    from fencepost.app import App

LOOK_INTERVAL = 0.05
PATIENCE = 20.0
"""How long any one thing may take before the demo says that it did not happen."""
EVERYDAY = 12
"""Mails, and as many images."""
PAGES = 12
BATCHES = 10


class StoryError(Exception):
    """Something did not happen that should have."""


@dataclass
class Part:
    """One job of the story, and how it is to end."""

    title: str
    job_id: str
    state: State
    attempt: int
    job: Job | None = None

    @property
    def is_over(self) -> bool:
        return self.job is not None and self.job.state.is_terminal

    @property
    def is_right(self) -> bool:
        job = self.job
        return job is not None and (job.state, job.attempt) == (self.state, self.attempt)


@dataclass
class Check:
    """One claim of the summary, and whether it was seen to be true."""

    text: str
    is_true: bool
    detail: str = ""


class View(Protocol):
    """Where the story is shown."""

    def say(self, text: str) -> None: ...

    def look(self, story: Story) -> None: ...


@dataclass
class Story:
    """The parts so far, and what was measured."""

    app: App
    crew: Crew
    view: View
    lease_ttl: float
    parts: list[Part] = field(default_factory=list)
    everyday: list[Part] = field(default_factory=list)
    checks: list[Check] = field(default_factory=list)

    def play(self) -> bool:
        """Run the three acts; return whether all that was claimed was seen to be true."""
        self._start_workers()
        self._everyday_work()
        self._sudden_death()
        self._long_sleep()
        self._check_ends()
        return all(check.is_true for check in self.checks)

    @property
    def all_parts(self) -> list[Part]:
        return [*self.everyday, *self.parts]

    # Act one: what goes right, and what goes wrong in ordinary ways.

    def _start_workers(self) -> None:
        first, second = self.crew.hire(), self.crew.hire()
        self.view.say(
            f"started two worker processes, pid {first.pid} and {second.pid}, "
            f"with leases of {self.lease_ttl:g} s"
        )
        self._until("two workers are there", lambda: len(self.app.workers.list()) == 2)

    def _everyday_work(self) -> None:
        mails = demo_app.send_mail.submit_many([f"user{n}@example.org" for n in range(EVERYDAY)])
        images = demo_app.resize_image.submit_many(
            [(f"photo-{n}.jpg", 640) for n in range(EVERYDAY)]
        )
        for job in [*mails, *images]:
            self.everyday.append(Part("everyday work", job.id, State.COMPLETED, 1))
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
        self.view.say("cancelled a job that was to run in an hour")

    # Act two: a worker dies in mid-job.

    def _sudden_death(self) -> None:
        part = self._add(
            "worker killed", demo_app.build_report.submit(PAGES).id, State.COMPLETED, 2
        )
        holder = self._holder_half_way(part)
        done = part.job.progress.message if part.job and part.job.progress else ""
        self.crew.kill(holder)
        killed_at = self.app.session.clock.now()
        self.view.say(f"kill -9 {holder.pid}: {holder.name} dies in mid-job, at {done}")
        self._until("another worker has the job", lambda: _attempt(part) >= 2)
        self._until("the killed job is done", lambda: part.is_over)
        replacement = self.crew.hire()
        self.view.say(f"started {replacement.name} (pid {replacement.pid}) in its place")
        self._check_takeover("killed", part, holder, killed_at)
        self._check_checkpoint(part)

    # Act three: a worker sleeps past its lease, and wakes up believing that the job is its own.

    def _long_sleep(self) -> None:
        self._until("two workers are there", lambda: len(self._alive()) == 2)
        part = self._add(
            "worker frozen", demo_app.import_orders.submit(BATCHES).id, State.COMPLETED, 2
        )
        holder = self._holder_half_way(part)
        if not self.crew.freeze(holder):
            raise StoryError(f"could not stop {holder.name} between two writes")
        frozen_at = self.app.session.clock.now()
        self.view.say(f"SIGSTOP {holder.pid}: {holder.name} is frozen in mid-job")
        try:
            self._until("another worker has the job", lambda: _attempt(part) >= 2)
            self._until("the frozen job is done", lambda: part.is_over)
        finally:
            self.crew.thaw(holder)
        before = part.job
        self.view.say(f"SIGCONT {holder.pid}: {holder.name} wakes up and goes on writing")
        self._until("the stale write is refused", lambda: bool(self._refused(part)))
        self._look()
        self._check_takeover("frozen", part, holder, frozen_at)
        refused = self._refused(part)
        self._check(
            "the store refused what the sleeper wrote, and the job did not change",
            part.job == before,
            ", ".join(refused),
        )

    def _refused(self, part: Part) -> list[str]:
        return [str(e["event"]) for e in self.crew.refused_writes() if e.get("id") == part.job_id]

    def _alive(self) -> list[WorkerProcess]:
        """Return the processes that run and have announced themselves."""
        known = [hand for info in self.app.workers.list() if (hand := self.crew.holder_of(info.id))]
        return [hand for hand in known if hand.process.poll() is None]

    # What the acts share.

    def _add(self, title: str, job_id: str, state: State, attempt: int) -> Part:
        part = Part(title, job_id, state, attempt)
        self.parts.append(part)
        return part

    def _holder_half_way(self, part: Part) -> WorkerProcess:
        """Wait until a worker is in the middle of a job; return its process."""

        def is_half_way() -> bool:
            job = part.job
            return job is not None and job.progress is not None and job.progress.fraction >= 0.3

        self._until(f"{part.title}: half way", is_half_way)
        lease = part.job.lease if part.job is not None else None
        holder = None if lease is None else self.crew.holder_of(lease.worker)
        if holder is None:
            raise StoryError(f"{part.title}: its worker is none of ours")
        return holder

    def _check_takeover(
        self, verb: str, part: Part, holder: WorkerProcess, since: datetime
    ) -> None:
        """Check that a second worker ran the job as its second attempt, and measure how soon."""
        attempts = self.app.jobs.attempts(part.job_id)
        is_taken_over = _is_takeover(attempts, holder)
        detail = ""
        if is_taken_over:
            seconds = (attempts[1].started_at - since).total_seconds()
            taker = self.crew.name_of(attempts[1].worker)
            detail = f"{taker} took over after {seconds:.1f} s; the lease was {self.lease_ttl:g} s"
        self._check(
            f"the job of the {verb} worker was finished by another, on attempt 2",
            is_taken_over and part.is_right,
            detail,
        )

    def _check_checkpoint(self, part: Part) -> None:
        result = self.app.jobs.get(part.job_id).result(timeout=0) if part.is_right else {}
        first = result.get("first_page_of_this_attempt", 1)
        self._check(
            "it went on from the last checkpoint of the dead worker, not from the start",
            first > 1,
            f"from page {first} of {PAGES}",
        )

    def _check_ends(self) -> None:
        self._look()
        done = sum(part.is_right for part in self.everyday)
        total = len(self.everyday)
        self._check(f"{done} of {total} everyday jobs completed on attempt 1", done == total)
        wrong = [part.title for part in self.parts if not part.is_right]
        self._check(
            f"each of the {len(self.parts)} special jobs ended in its state and attempt",
            not wrong,
            ", ".join(wrong),
        )
        dead = {each.job_id for each in self.app.dead_letters.list() if each.failure.message}
        expected = {p.job_id for p in self.parts if p.state in (State.FAILED, State.DEAD_LETTER)}
        self._check(f"{len(expected)} dead letters are listed with reasons", expected <= dead)

    def _check(self, text: str, is_true: bool, detail: str = "") -> None:
        self.checks.append(Check(text, is_true, detail))

    def _until(self, what: str, is_so: Callable[[], bool]) -> None:
        """Look again and again until *is_so*; raise StoryError when that takes too long."""
        for _ in self.looks(PATIENCE):
            if is_so():
                return
        raise StoryError(f"waited {PATIENCE:g} s in vain: {what}")

    def looks(self, seconds: float) -> Iterator[None]:
        """Look at every job now and after each change, for so long at the most."""
        clock = self.app.session.clock
        deadline = clock.monotonic() + seconds
        listener = self.app.store.listen(Topic.SETTLED)
        try:
            while clock.monotonic() < deadline:
                self._look()
                yield
                listener.wait(LOOK_INTERVAL)
        finally:
            listener.close()

    def _look(self) -> None:
        parts = self.all_parts
        if parts:
            jobs = self.app.store.run(self.app.store.reader.get([part.job_id for part in parts]))
            for part, job in zip(parts, jobs, strict=True):
                part.job = job
        self.view.look(self)


def _attempt(part: Part) -> int:
    return 0 if part.job is None else part.job.attempt


def _is_takeover(attempts: list[Attempt], holder: WorkerProcess) -> bool:
    return (
        [attempt.number for attempt in attempts] == [1, 2]
        and f"-{holder.pid}-" in attempts[0].worker
        and f"-{holder.pid}-" not in attempts[1].worker
    )
