"""The differential test: random sequences, with rules for what random sequences alone miss.

Every rule makes calls on the model and on all stores alike; after each, the answers and what can be
seen are compared. Four kinds of trouble are rules of their own: a **zombie** writes under a lease
that ran out, the last call is **repeated**, the stores are **opened again**, and a call is **cut**
before or after its commit, after which its caller repeats it.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from msgspec.structs import replace

from fencepost.core.events import NewEvent
from fencepost.core.filter import JobFilter
from fencepost.core.job.job import Body, NewJob, Progress
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Outcome
from fencepost.core.job.policy import Priority
from fencepost.core.limits.rates import Rate
from fencepost.core.limits.type_limits import TypeLimits
from fencepost.store.interface.control import Edit, RetryRequest
from fencepost.store.interface.queue import Beat, ClaimRequest, Save
from fencepost.store.interface.records.cluster import WorkerInfo
from fencepost.store.interface.settings import Scope
from lab.model import choices
from lab.model.action import Fault, Reference
from lab.model.calls import Call
from lab.model.choices import INSTANT, Wished
from lab.model.key_rules import Contending


class StoresAgree(Contending):
    """One sequence on every store."""

    # The way of the data.

    @rule(wished=choices.submissions, is_atomic=st.booleans())
    def submit(self, wished: list[Wished], is_atomic: bool) -> None:
        self.do("enqueue", self._wished(wished), is_atomic=is_atomic)

    @rule(job=choices.sturdy_jobs)
    def submit_and_claim(self, job: NewJob) -> None:
        self.do("enqueue", [job], is_atomic=False)
        queues = {job.queue: 1}
        self.do("claim", ClaimRequest(worker="w2", limit=2, queues=queues, lease_ttl=5.0))

    @rule(
        worker=choices.workers,
        limit=choices.counts,
        queues=choices.maybe_queues,
        types=choices.maybe_types,
        turn=st.integers(0, 7),
        lease_ttl=choices.ttls,
        timeout_grace=choices.graces,
    )
    def claim(self, **given: Any) -> None:
        self.do("claim", ClaimRequest(**given))

    @rule(limit=choices.counts)
    def claim_anything(self, limit: int) -> None:
        self.do("claim", ClaimRequest(worker="w1", limit=limit, lease_ttl=5.0))

    @precondition(lambda self: self.grips)
    @rule(numbers=st.lists(choices.grips, min_size=1, max_size=3), lease_ttl=choices.maybe_ttls)
    def heartbeat(self, numbers: list[int], lease_ttl: float | None) -> None:
        held = [self._grip(number) for number in numbers]
        self.do("heartbeat", [Beat(grip.id, grip.lease.token, lease_ttl) for grip in held])

    @precondition(lambda self: self.grips)
    @rule(
        endings=st.lists(st.tuples(choices.grips, choices.outcomes), min_size=1, max_size=3),
    )
    def settle(self, endings: list[tuple[int, Outcome]]) -> None:
        grips = [(self._grip(number), outcome) for number, outcome in endings]
        self.do("settle", [self._settlement(grip, outcome) for grip, outcome in grips])

    @precondition(lambda self: self.grips)
    @rule(number=choices.grips, outcomes=st.lists(choices.outcomes, min_size=2, max_size=5))
    def settle_every_lease_of_a_job(self, number: int, outcomes: list[Outcome]) -> None:
        """Settle one job in one batch under the leases it ever had, the newest one somewhere."""
        of_job = [grip for grip in self.grips if grip.id == self._grip(number).id]
        batch = [
            self._settlement(of_job[(number + index) % len(of_job)], outcome)
            for index, outcome in enumerate(outcomes)
        ]
        self.do("settle", batch)

    @precondition(lambda self: self.grips)
    @rule(outcome=choices.outcomes)
    def settle_newest(self, outcome: Outcome) -> None:
        self._settle(self.grips[0], outcome)

    @precondition(lambda self: self.grips)
    @rule(number=choices.grips, checkpoint=choices.maybe_bodies, progress=choices.progresses)
    def save(self, number: int, checkpoint: Body | None, progress: Progress | None) -> None:
        grip = self._grip(number)
        self.do("save", [Save(grip.id, grip.lease.token, checkpoint, progress)])

    @precondition(lambda self: self.grips)
    @rule(
        reference=st.one_of(choices.jobs, choices.strangers),
        number=choices.grips,
        nonsense=st.sampled_from((None, None, "", "nonsense", "1.2.3", "1.1.x.y")),
        outcome=choices.outcomes,
    )
    def write_with_a_wrong_token(
        self, reference: Reference, number: int, nonsense: str | None, outcome: Outcome
    ) -> None:
        grip = self._grip(number)
        job_id = self._job_id(reference)
        token = grip.lease.token if nonsense is None else nonsense
        self.do("heartbeat", [Beat(job_id, token, 5.0), Beat(job_id.lower(), token, 5.0)])
        self.do("save", [Save(job_id, token, Body(b'"stolen"'))])
        settlement = replace(self._settlement(grip, outcome), job_id=job_id, token=token)
        self.do("settle", [settlement, replace(settlement, job_id=job_id.lower())])

    # Events.

    @rule(event=choices.new_events, jobs=choices.handlers)
    def send(self, event: NewEvent, jobs: list[NewJob]) -> None:
        self.do("send", event, jobs)

    @rule(name=st.one_of(st.none(), choices.event_names), limit=st.sampled_from((1, 2, 1000)))
    def look_at_events(self, name: str | None, limit: int) -> None:
        self.do("events", name, limit)

    @rule(keep=st.sampled_from((0.0, 1.0, 60.0)), limit=choices.limits)
    def prune_events(self, keep: float, limit: int) -> None:
        self.do("prune_events", keep, limit)

    @precondition(lambda self: self.comparison.model.world.events)
    @rule(is_known=st.booleans())
    def load_events(self, is_known: bool) -> None:
        """Load the records that are here, under their own ids or new ones."""
        events = [sent.event for sent in self.comparison.model.world.events.values()][-3:]
        if not is_known:
            events = [replace(event, id=self.comparison.model.new_id()) for event in events]
        self.do("load_events", events)

    # Control.

    @rule(references=choices.references)
    def cancel(self, references: list[Reference]) -> None:
        self.do("cancel", self._job_ids(references))

    @rule(
        references=choices.references,
        reset_attempts=st.booleans(),
        delay=choices.delays,
        priority=st.one_of(st.none(), choices.priorities),
    )
    def retry(
        self,
        references: list[Reference],
        reset_attempts: bool,
        delay: float,
        priority: Priority | None,
    ) -> None:
        ids = self._job_ids(references)
        self.do("retry", [RetryRequest(each, reset_attempts, delay, priority) for each in ids])

    @rule(references=choices.references)
    def replay(self, references: list[Reference]) -> None:
        self.do("replay", self._job_ids(references))

    @rule(references=choices.references)
    def discard(self, references: list[Reference]) -> None:
        self.do("discard", self._job_ids(references))

    @rule(references=choices.references, fields=choices.edits)
    def edit(self, references: list[Reference], fields: dict[str, Any]) -> None:
        self.do("edit", [Edit(each, **fields) for each in self._job_ids(references)])

    @rule(what=st.sampled_from(("pause", "resume")), scope=choices.scopes, name=choices.names)
    def pause_or_resume(self, what: str, scope: Scope, name: str) -> None:
        self.do(what, scope, name)

    @rule(scope=choices.scopes, name=choices.names, bound=choices.bounds)
    def limit(self, scope: Scope, name: str, bound: int | None) -> None:
        self.do("limit", scope, name, bound)

    @rule(limits=choices.type_limits)
    def limit_types(self, limits: dict[str, TypeLimits]) -> None:
        self.do("limit_types", limits)

    @rule(
        jobs=st.lists(choices.sturdy_jobs, min_size=3, max_size=8),
        count=st.integers(1, 3),
        limit=choices.counts,
        queues=choices.maybe_queues,
        offset=choices.offsets,
    )
    def claim_at_the_turn_of_a_window(
        self,
        jobs: list[NewJob],
        count: int,
        limit: int,
        queues: dict[str, int] | None,
        offset: int,
    ) -> None:
        """Use up a rate, and claim again when it opens, or just beside that."""
        type = jobs[0].type
        self.do("enqueue", jobs, is_atomic=False)
        self.do("limit_types", {type: TypeLimits(rate=Rate(count, 5.0))})
        request = ClaimRequest(worker="w1", limit=10, queues=queues, lease_ttl=30.0)
        self.do("claim", replace(request, limit=limit))
        self._advance_to(self.comparison.now + timedelta(seconds=2))
        self.do("claim", request)
        opens_at = self.comparison.model.opens_at(type)
        if opens_at is not None:
            self._advance_to(opens_at + offset * INSTANT)
        self.do("claim", request)

    # Upkeep.

    @rule(limit=choices.limits)
    def recover(self, limit: int) -> None:
        self.do("recover", limit)

    @precondition(lambda self: self.grips)
    @rule(limit=choices.limits, numbers=st.lists(choices.grips, min_size=1, max_size=3))
    def recover_unstarted(self, limit: int, numbers: list[int]) -> None:
        self.do("recover", limit, [self._grip(number).lease.token for number in numbers])

    @rule(limit=choices.limits)
    def promote(self, limit: int) -> None:
        self.do("promote", limit)

    @rule(limit=choices.limits)
    def expire(self, limit: int) -> None:
        self.do("expire", limit)

    @rule(keep=choices.keeps, other=choices.keeps, limit=st.sampled_from((1, 2, 100)))
    def prune(self, keep: dict[State, float], other: dict[State, float], limit: int) -> None:
        by_type = {} if other == keep else {choices.TYPES[0]: other}
        self.do("prune", keep, by_type, limit)

    @rule()
    def tidy(self) -> None:
        self.comparison.tidy()
        self.comparison.look()

    # Looking.

    @rule(filter=choices.filters, limit=st.sampled_from((1, 2, 1000)), is_up=st.booleans())
    def find(self, filter: JobFilter, limit: int, is_up: bool) -> None:
        self.do("find", filter, limit, is_up)
        self.do("count", filter)

    @rule(
        type=st.one_of(st.none(), choices.types),
        limit=st.sampled_from((1, 2, 1000)),
        reference=choices.strangers,
    )
    def look_around(self, type: str | None, limit: int, reference: Reference) -> None:
        self.do("dead_letters", type, limit)
        self.do("dump", limit)
        self.do("get", [self._job_id(reference)])
        self.do("attempts", self._job_id(reference))
        self.do("situation", self._job_id(reference))

    # Moving, workers, leading.

    @precondition(lambda self: self.comparison.model.world.jobs)
    @rule(
        numbers=st.lists(choices.jobs, min_size=1, max_size=3),
        is_known=st.booleans(),
        has_key=st.booleans(),
    )
    def load(self, numbers: list[int], is_known: bool, has_key: bool) -> None:
        """Load jobs as they are here, under their own ids (which changes nothing) or new ones."""
        records = {record.job.id: record for record in Call("dump", (1000,)).ask(self._ask_model)}
        ids = self._job_ids(numbers)
        if is_known:
            chosen = [records[job_id] for job_id in ids]
        else:  # each but once: no dump has two jobs that hold one key
            chosen = self._copies(
                [records[job_id] for job_id in records if job_id in ids], has_key=has_key
            )
        self.do("load", chosen)

    @rule(worker=choices.worker_infos)
    def announce(self, worker: WorkerInfo) -> None:
        self.do("announce", worker)

    @rule(worker=choices.workers)
    def retire(self, worker: str) -> None:
        self.do("retire", worker)

    @rule(worker=choices.workers, ttl=choices.ttls)
    def lead(self, worker: str, ttl: float) -> None:
        self.do("lead", "chores", worker, ttl)

    @rule(worker=choices.workers)
    def resign(self, worker: str) -> None:
        self.do("resign", "chores", worker)

    # Time.

    @rule(step=choices.steps)
    def wait(self, step: float) -> None:
        self._advance_to(self.comparison.now + timedelta(seconds=step))

    @rule(number=st.integers(0, 3), offset=choices.offsets)
    def wait_until_something_happens(self, number: int, offset: int) -> None:
        """Go to one of the next times at which something begins or ends, or just beside it."""
        ahead = [at for at in self.comparison.model.world.instants() if at > self.comparison.now]
        if ahead:
            self._advance_to(ahead[number % len(ahead)] + offset * INSTANT)

    # Trouble.

    @rule(
        job=choices.sturdy_jobs,
        offset=choices.offsets,
        outcome=choices.outcomes,
        is_recovered=st.booleans(),
    )
    def zombie(self, job: NewJob, offset: int, outcome: Outcome, is_recovered: bool) -> None:
        """Let a lease run out, or nearly; its job is claimed again; then use the old token."""
        self.do("enqueue", [job], is_atomic=False)
        request = ClaimRequest(worker="zombie", limit=1, queues={job.queue: 1}, lease_ttl=2.0)
        claimed = self.do("claim", request).jobs
        if not claimed:  # it is paused, or its queue is full
            return
        self.ledger.zombies += 1
        (grip,) = claimed
        self._advance_to(grip.lease.expires_at + offset * INSTANT)
        if is_recovered:
            self.do("recover", 100)
        again = self.comparison.model.world.jobs[grip.id].job
        if again.state is State.RETRYING:
            self._advance_to(again.run_at)
        self.do("claim", replace(request, worker="heir", limit=10))
        self._write_everything(grip, outcome)

    @precondition(lambda self: self.grips)
    @rule(number=choices.grips, outcome=choices.outcomes)
    def write_everything(self, number: int, outcome: Outcome) -> None:
        self._write_everything(self._grip(number), outcome)

    @precondition(lambda self: self.last is not None)
    @rule(times=st.integers(1, 2))
    def repeat(self, times: int) -> None:
        last = self.last
        assert last is not None
        for _ in range(times):
            self.do(last.name, *last.arguments, is_atomic=last.is_atomic)

    @rule(number=st.integers(0, 5))
    def reopen(self, number: int) -> None:
        """Open the stores again; now and then, since connecting and planning again takes time."""
        if number == 0:
            self.comparison.reopen()
            self.comparison.look()

    @rule(fault=st.sampled_from(Fault))
    def strike(self, fault: Fault) -> None:
        """Let the next call that writes meet with a fault."""
        self.fault = fault
