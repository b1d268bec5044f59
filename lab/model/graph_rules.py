"""Rules for graphs: jobs that wait for others, come to their ends, and are begun again."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from fencepost.core.filter import JobFilter
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome
from fencepost.store.interface.control import RetryRequest
from fencepost.store.interface.queue import ClaimRequest, Spawn
from lab.model import choices
from lab.model.action import Acting, Reference
from lab.model.choices import Wished
from lab.model.rules import DEPTH_MAX, ENDED


class Weaving(Acting):
    """What happens to graphs of jobs."""

    # Submitting.

    @rule(wished=choices.graphs)
    def submit_a_graph(self, wished: list[Wished]) -> None:
        self.do("enqueue", self._wished(wished), is_atomic=True)

    @rule(job=choices.sturdy_jobs, mode=choices.modes, gathers=st.booleans())
    def submit_a_diamond(self, job: NewJob, mode: Mode, gathers: bool) -> None:
        job = replace(job, flow="f1")
        behind = [Dependencies((0,)), Dependencies((0,)), Dependencies((1, 2), mode, gathers)]
        self.do("enqueue", [job, *(replace(job, after=on) for on in behind)], is_atomic=True)

    @rule(job=choices.sturdy_jobs, length=st.integers(2, 5), gathers=st.booleans())
    def submit_a_chain(self, job: NewJob, length: int, gathers: bool) -> None:
        behind = [Dependencies((place,), gathers=gathers) for place in range(length - 1)]
        self.do("enqueue", [job, *(replace(job, after=on) for on in behind)], is_atomic=False)

    @rule(
        job=choices.new_jobs,
        reference=st.one_of(st.sampled_from(("unknown", "malformed")), st.sampled_from((1, 2, -1))),
        is_atomic=st.booleans(),
    )
    def submit_behind_nobody(self, job: NewJob, reference: Reference, is_atomic: bool) -> None:
        """S1-65, S1-68: refused, and nothing of it stored; no key is in it to be refused first."""
        job = replace(job, key=None)
        on = reference if isinstance(reference, int) else self._job_id(reference)
        jobs = [job, replace(job, after=Dependencies((0, on)))]
        self.do("enqueue", jobs, is_atomic=is_atomic)

    @rule(job=choices.sturdy_jobs)
    def submit_too_long_a_chain(self, job: NewJob) -> None:
        """S1-66: refused, and nothing of it stored."""
        behind = [Dependencies((place,)) for place in range(DEPTH_MAX)]
        self.do("enqueue", [job, *(replace(job, after=on) for on in behind)], is_atomic=True)

    # Running.

    @precondition(lambda self: self.comparison.model.world.jobs)
    @rule(limit=st.integers(1, 4), outcome=choices.outcomes)
    def work(self, limit: int, outcome: Outcome) -> None:
        """Claim some jobs and settle them, all in one way."""
        claimed = self.do("claim", ClaimRequest(worker="w1", limit=limit, lease_ttl=5.0)).jobs
        if claimed:
            self.do("settle", [self._settlement(each, outcome) for each in claimed])

    @precondition(lambda self: self.grips)
    @rule(
        number=choices.grips,
        wished=st.lists(
            st.tuples(choices.sturdy_jobs, st.one_of(st.none(), choices.wishes)),
            min_size=3,
            max_size=3,
        ),
        keys=choices.spawn_keys,
        on_duplicate=st.sampled_from((OnDuplicate.RETURN, OnDuplicate.REJECT)),
    )
    def spawn(
        self, number: int, wished: list[Wished], keys: list[str], on_duplicate: OnDuplicate
    ) -> None:
        """Spawn under a lease, valid or not; the same keys come again and again."""
        grip = self._grip(number)
        jobs = self._wished(wished[: len(keys)])
        keyed = [
            replace(job, key=Key(key, 30.0, on_duplicate))
            for job, key in zip(jobs, keys, strict=True)
        ]
        self.do("spawn", [Spawn(grip.id, grip.lease.token, tuple(keyed))])

    @rule(job=choices.sturdy_jobs, mode=choices.modes, keys=choices.spawn_keys)
    def fan_out_and_in(self, job: NewJob, mode: Mode, keys: list[str]) -> None:
        """Let a job that somebody gathers from spawn others, if it can be claimed."""
        behind = replace(job, after=Dependencies((0,), mode, gathers=True))
        first, _ = self.do("enqueue", [job, behind], is_atomic=True)
        request = ClaimRequest(worker="w1", limit=5, queues={job.queue: 1}, lease_ttl=5.0)
        for each in self.do("claim", request).jobs:
            if each.id == first.job_id:
                jobs = tuple(replace(job, key=Key(key, None)) for key in keys)
                self.do("spawn", [Spawn(each.id, each.lease.token, jobs)])

    # Steering.

    @precondition(lambda self: self.comparison.model.world.jobs)
    @rule(delay=choices.delays)
    def retry_all_that_ended(self, delay: float) -> None:
        """Begin everything again that has not succeeded, in the order of submission."""
        ended = [
            kept.id for kept in self.comparison.model.world.jobs.values() if kept.job.state in ENDED
        ]
        self.do("retry", [RetryRequest(each, delay=delay) for each in ended])

    @precondition(lambda self: self.comparison.model.world.jobs)
    @rule()
    def replay_all(self) -> None:
        self.do("replay", list(self.comparison.model.world.dead))

    @precondition(lambda self: self.comparison.model.world.jobs)
    @rule(number=choices.jobs)
    def cancel_what_waits(self, number: int) -> None:
        jobs = self.comparison.model.world.jobs.values()
        waiting = [kept.id for kept in jobs if kept.job.state is State.PENDING]
        if waiting:
            self.do("cancel", [waiting[number % len(waiting)]])

    # Looking.

    @rule(references=choices.references, flow=st.sampled_from(("f1", "f2", "no flow")))
    def look_along(self, references: list[Reference], flow: str) -> None:
        ids = self._job_ids(references)
        self.do("dependencies", ids)
        self.do("dependents", ids)
        self.do("find", JobFilter(flow=flow), 2)
        self.do("count", JobFilter(flow=flow))
