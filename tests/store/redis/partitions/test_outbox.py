"""What partitions tell each other: once it was accepted nothing is lost, and nothing done twice."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.core.filter import JobFilter, PageRequest
from fencepost.core.flows.dependencies import Dependencies, Mode
from fencepost.core.flows.spawn import Numbers, keyed
from fencepost.core.job.idempotency import Key, OnDuplicate
from fencepost.core.job.job import Body, ClaimedJob, Job, NewJob
from fencepost.core.job.lifecycle import State
from fencepost.core.job.outcome import Settlement, Succeeded, decide
from fencepost.core.job.policy import Priority
from fencepost.errors import (
    DependencyError,
    DuplicateJobError,
    InvalidJobError,
    StoreUnavailableError,
    UnknownDependencyError,
)
from fencepost.generators import drive
from fencepost.store.interface.control import Edit, RetryRequest
from fencepost.store.interface.queue import ClaimRequest, Duplicate, LeaseLost, Spawn, Spawned
from fencepost.store.interface.upkeep import PruneRequest
from fencepost.store.plan import Operation, Plan
from fencepost.store.redis.documents.unit import Unit
from fencepost.store.redis.jobs.catalog import Env
from fencepost.store.redis.partitions.hub import LOOK, WRITE, Hub
from fencepost.store.redis.partitions.numbers import OUTBOX, partition_of
from fencepost.store.redis.partitions.outbox.entries import (
    COMMIT_WITHIN_US,
    INTENT,
    NEWS,
    NEWS_US,
    ORPHAN_US,
    REPORT,
    Part,
    intent_job,
    marks,
    pending,
    put,
    report_job,
    time_of,
)
from fencepost.store.redis.partitions.outbox.mirrors import apply, standing
from fencepost.store.redis.partitions.spawn import _store as store_spawn
from fencepost.store.redis.partitions.store import PartitionedStore
from fencepost.store.redis.partitions.submit import SplitSubmission
from fencepost.testing.clock import FakeClock

A, B, C = "a", "b", "c"
ALL_STATES = dict.fromkeys(State, 0.0)


class World:
    """A store with partitions, and a clock."""

    def __init__(self, open_: Callable[[FakeClock], PartitionedStore]) -> None:
        self.clock = FakeClock()
        self._open = open_
        self.store = open_(self.clock)

    @property
    def hub(self) -> Hub:
        return self.store._hub

    def run(self, operation: Operation[Any]) -> Any:
        return self.store.run(operation)

    def ask(self, queue: str, plan: Any, *args: Any, declaration: Any = WRITE) -> Any:
        store = self.hub.at(partition_of(queue))
        return store.run(store.plan(declaration, plan, *args).operation)

    def submit(self, queue: str, *on: str, mode: Mode = Mode.ALL, **fields: Any) -> str:
        after = Dependencies(on, mode) if on else None
        new = NewJob(type=f"t-{queue}", queue=queue, after=after, **fields)
        (reply,) = self.run(self.store.queue.enqueue([new]))
        return str(reply.job_id)

    def job(self, job_id: str) -> Job:
        (found,) = self.run(self.store.reader.get([job_id]))
        assert found is not None
        return found  # type: ignore[no-any-return]

    def state(self, job_id: str) -> State:
        return self.job(job_id).state

    def claim(self, queue: str) -> list[ClaimedJob]:
        request = ClaimRequest(worker="w", limit=1, queues={queue: 1})
        jobs: list[ClaimedJob] = self.run(self.store.queue.claim(request)).jobs
        return jobs

    def settle(self, claimed: ClaimedJob) -> None:
        decision = decide(claimed, Succeeded(Body(b'"done"')), self.clock.rng)
        settlement = Settlement(claimed.id, claimed.lease.token, decision)
        self.run(self.store.queue.settle([settlement]))

    def finish(self, queue: str) -> None:
        """Complete the next job of a queue."""
        (claimed,) = self.claim(queue)
        self.settle(claimed)

    def finish_untold(self, queue: str) -> None:
        """Complete the next job of a queue in a process that dies before it tells anyone."""
        partition = self.hub.at(partition_of(queue))
        request = ClaimRequest(worker="w", limit=1, queues={queue: 1})
        (claimed,) = partition.run(partition.queue.claim(request)).jobs
        decision = decide(claimed, Succeeded(Body(b'"done"')), self.clock.rng)
        settlement = Settlement(claimed.id, claimed.lease.token, decision)
        partition.run(partition.queue.settle([settlement]))

    def deliver(self) -> None:
        self.run(self.store.upkeep.promote(100))

    def entries(self, queue: str, type: str) -> list[Job]:
        store = self.hub.at(partition_of(queue))
        page = store.run(store.reader.find(JobFilter(queue=OUTBOX, type=type), PageRequest(50)))
        return page.jobs


@pytest.fixture
def world(runtime_url: str, redis_prefix: str) -> Iterator[World]:
    url = f"{runtime_url}{'&' if '?' in runtime_url else '?'}partition=queue"
    made = World(lambda clock: PartitionedStore(url, clock=clock, prefix=redis_prefix))
    yield made
    made.store.close()


def test_the_queues_of_these_tests_are_apart() -> None:
    assert len({partition_of(queue) for queue in (A, B, C)}) == 3


def test_a_job_waits_for_one_of_another_partition(world: World) -> None:
    first = world.submit(A)
    last = world.submit(B, first)
    assert world.state(last) is State.PENDING
    world.finish(A)
    assert world.state(last) is State.SCHEDULED
    (found,) = world.run(world.store.reader.dependencies([last], with_results=True))
    assert [(each.job_id, each.state, each.result) for each in found] == [
        (first, State.COMPLETED, Body(b'"done"'))
    ]
    assert world.run(world.store.reader.dependents([first])) == [[last]]
    assert not world.entries(A, REPORT)


def test_what_ended_untold_is_told_by_the_next_one(world: World) -> None:
    """The report is claimable by the commit that ends the job; whoever comes by delivers it."""
    first = world.submit(A)
    last = world.submit(B, first)
    world.finish_untold(A)
    assert [entry.state for entry in world.entries(A, REPORT)] == [State.SCHEDULED]
    assert world.state(last) is State.PENDING
    world.deliver()
    assert world.state(last) is State.SCHEDULED
    assert not world.entries(A, REPORT)


def test_a_claim_delivers_too(world: World) -> None:
    """So that an app without a leader goes on."""
    last = world.submit(B, world.submit(A))
    world.finish_untold(A)
    world.clock.advance(1)
    claim = world.run(world.store.queue.claim(ClaimRequest(worker="w", limit=1, queues={B: 1})))
    assert [job.id for job in claim.jobs] == [last]


def test_a_report_told_twice_lets_go_once(world: World) -> None:
    """A job that waits for two is not let go by one that is told of twice."""
    first, second = world.submit(A), world.submit(C)
    last = world.submit(B, first, second)
    world.finish_untold(A)
    (entry,) = world.ask(A, pending, declaration=LOOK)
    assert entry.report is not None
    for _ in range(2):
        world.ask(B, apply, [entry.report])
    assert world.job(last).waits is not None
    assert world.job(last).waits.missing == 1  # type: ignore[union-attr]
    world.deliver()
    assert world.state(last) is State.PENDING
    world.finish(C)
    assert world.state(last) is State.SCHEDULED


def test_a_report_whose_mirror_has_not_come_is_kept(world: World) -> None:
    """Its job may end before the one that waits for it is stored: then the report waits."""
    first = world.submit(A)
    number = partition_of(B)
    partition = world.hub.at(partition_of(A))
    partition.run(partition.queue.enqueue([report_job(first, first, number)]))
    (mirror,) = world.ask(A, standing, [first], declaration=LOOK)
    world.submit(B)
    now = world.ask(B, time_of, declaration=LOOK)
    world.finish_untold(A)
    world.deliver()
    assert world.entries(A, REPORT)
    after = Dependencies((first,))
    new = NewJob(type="late", queue=B, after=after)
    part = Part(number=number, jobs=[new], mirrors=[mirror])
    (reply,) = world.ask(B, put, part, None, now + COMMIT_WITHIN_US)
    assert world.state(reply.job_id) is State.PENDING
    world.clock.advance(1)
    world.deliver()
    assert world.state(reply.job_id) is State.SCHEDULED
    assert not world.entries(A, REPORT)


def test_a_report_for_nobody_goes_in_the_end(world: World) -> None:
    """A submission that died after its report: the job is kept for an hour, and no longer."""
    first = world.submit(A)
    world.submit(B)
    partition = world.hub.at(partition_of(A))
    partition.run(partition.queue.enqueue([report_job(first, first, partition_of(B))]))
    world.finish(A)
    prune = PruneRequest(keep=ALL_STATES, limit=100)
    world.run(world.store.upkeep.prune(prune))
    assert world.state(first) is State.COMPLETED
    world.clock.advance(ORPHAN_US / 1e6)
    world.deliver()
    assert not world.entries(A, REPORT)


def test_a_submission_that_takes_too_long_is_not_stored(world: World) -> None:
    """Nobody would tell it of the end of what it waits for."""
    world.submit(B)
    now = world.ask(B, time_of, declaration=LOOK)
    world.clock.advance(COMMIT_WITHIN_US / 1e6)
    part = Part(number=partition_of(B), jobs=[NewJob(type="late", queue=B)])
    with pytest.raises(StoreUnavailableError, match="took too long"):
        world.ask(B, put, part, None, now + COMMIT_WITHIN_US)


def test_what_is_known_late_does_not_count(world: World) -> None:
    """A submission saw its dependency alive, which has ended before the submission is stored."""
    first = world.submit(A)
    world.submit(B, first)
    (seen,) = world.ask(A, standing, [first], declaration=LOOK)
    world.finish(A)
    part = Part(
        number=partition_of(B),
        jobs=[NewJob(type="late", queue=B, after=Dependencies((first,)))],
        mirrors=[seen],
    )
    (reply,) = world.ask(B, put, part)
    assert world.state(reply.job_id) is State.SCHEDULED


def test_an_intent_that_is_delivered_twice_is_stored_once(world: World) -> None:
    """Also if its jobs have ended and were pruned: the mark remembers."""
    world.submit(A)
    world.submit(B)
    part = Part(number=partition_of(B), jobs=[NewJob(type="once", queue=B)])
    assert world.ask(B, put, part, "1 x")
    assert world.ask(B, put, part, "1 x") is None
    world.finish(B)
    world.finish(B)
    world.run(world.store.upkeep.prune(PruneRequest(keep=ALL_STATES, limit=100)))
    assert world.ask(B, put, part, "1 x") is None


def test_an_intent_of_one_who_died_is_delivered(world: World) -> None:
    world.submit(A)
    parts = [
        Part(number=partition_of(queue), jobs=[NewJob(type="x", queue=queue)]) for queue in (B, C)
    ]
    partition = world.hub.at(partition_of(A))
    partition.run(partition.queue.enqueue([intent_job(parts)]))
    world.deliver()
    assert world.run(world.store.reader.count(JobFilter(type="x"))) == 2
    assert not world.entries(A, INTENT)
    world.deliver()
    assert world.run(world.store.reader.count(JobFilter(type="x"))) == 2


def test_marks_are_forgotten_when_their_intents_are_long_gone(world: World) -> None:
    jobs = [NewJob(type="x", queue=queue) for queue in (A, B)]
    world.run(world.store.queue.enqueue(jobs))
    prune = PruneRequest(keep={}, limit=100)

    def sweep() -> int:
        after: int | None = 0
        while after is not None:
            request = PruneRequest(keep=prune.keep, limit=100, after=after)
            after = world.run(world.store.upkeep.prune(request)).next
        return len(world.ask(B, marks, declaration=LOOK))

    assert sweep() == 1
    assert sweep() == 1
    world.clock.advance(ORPHAN_US / 1e6)
    assert sweep() == 0


def test_jobs_of_several_partitions_are_accepted_together(world: World) -> None:
    flow = [
        NewJob(type="x", queue=A),
        NewJob(type="y", queue=B, after=Dependencies((0,))),
        NewJob(type="z", queue=A, after=Dependencies((0, 1))),
    ]
    first, second, third = world.run(world.store.queue.enqueue(flow, atomic=True))
    states = [world.state(each.job_id) for each in (first, second, third)]
    assert states == [State.SCHEDULED, State.PENDING, State.PENDING]
    for queue, following in ((A, second), (B, third)):
        world.finish(queue)
        assert world.state(following.job_id) is State.SCHEDULED
    world.finish(A)
    assert world.run(world.store.reader.count(JobFilter())) == 3


def test_nothing_is_stored_if_a_dependency_is_unknown(world: World) -> None:
    flow = [
        NewJob(type="x", queue=A),
        NewJob(type="y", queue=B, after=Dependencies((0, "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"))),
    ]
    with pytest.raises(UnknownDependencyError):
        world.run(world.store.queue.enqueue(flow, atomic=True))
    assert world.run(world.store.reader.count(JobFilter())) == 0


def test_failures_cross_partitions_and_back(world: World) -> None:
    first = world.submit(A)
    second = world.submit(B, first)
    third = world.submit(A, second)
    ended = world.submit(C, third, mode=Mode.ENDED)
    world.run(world.store.control.cancel([first]))
    assert [world.state(each) for each in (second, third)] == [State.CANCELLED] * 2
    assert world.job(third).failure.failed_dependency == first  # type: ignore[union-attr]
    assert world.state(ended) is State.SCHEDULED


def test_a_job_that_runs_again_is_waited_for_again(world: World) -> None:
    first, second = world.submit(A), world.submit(C)
    last = world.submit(B, first, second, mode=Mode.ENDED)
    world.run(world.store.control.cancel([first]))
    assert world.job(last).waits.missing == 1  # type: ignore[union-attr]
    world.run(world.store.control.retry([RetryRequest(first)]))
    assert world.job(last).waits.missing == 2  # type: ignore[union-attr]
    world.finish(C)
    assert world.state(last) is State.PENDING
    world.finish(A)
    assert world.state(last) is State.SCHEDULED


def test_priority_is_inherited_across_partitions(world: World) -> None:
    first = world.submit(A)
    last = world.submit(B, first)
    world.run(world.store.control.edit([Edit(first, priority=Priority.CRITICAL)]))
    assert world.job(last).priority is Priority.CRITICAL


def untold(world: World, queue: str, make: Callable[[Any], Operation[Any]]) -> None:
    """Do something in a process that dies before it tells anyone."""
    partition = world.hub.at(partition_of(queue))
    partition.run(make(partition.control))


def test_that_a_job_runs_again_is_told_by_the_next_one(world: World) -> None:
    """News are stored by the commit that reopens the job."""
    first, second = world.submit(A), world.submit(C)
    last = world.submit(B, first, second, mode=Mode.ENDED)
    world.run(world.store.control.cancel([first]))
    untold(world, A, lambda control: control.retry([RetryRequest(first)]))
    world.finish(C)
    world.deliver()
    assert world.state(last) is State.PENDING
    world.finish(A)
    assert world.state(last) is State.SCHEDULED


def test_a_report_that_was_not_delivered_waits_for_the_next_end(world: World) -> None:
    """Both the end and the reopening were told by nobody; what is spawned then is gathered."""
    first, second = world.submit(A), world.submit(C)
    after = Dependencies((first, second), Mode.ENDED, gathers=True)
    new = NewJob(type="gatherer", queue=B, after=after)
    (reply,) = world.run(world.store.queue.enqueue([new]))
    untold(world, A, lambda control: control.cancel([first]))
    untold(world, A, lambda control: control.retry([RetryRequest(first)]))
    world.settle(spawn_child(world))
    world.finish(C)
    world.deliver()
    assert world.state(reply.job_id) is State.PENDING
    world.finish(A)
    assert world.state(reply.job_id) is State.SCHEDULED


def test_a_gatherer_waits_again_for_a_job_whose_children_it_knew(world: World) -> None:
    """The job runs again; its revision alone decides, not the sum with those of its children."""
    first, second = world.submit(A), world.submit(C)
    after = Dependencies((first, second), Mode.ENDED, gathers=True)
    new = NewJob(type="gatherer", queue=B, after=after)
    (reply,) = world.run(world.store.queue.enqueue([new]))
    spawn_child(world)
    world.finish(A)
    world.run(world.store.control.cancel([first]))
    assert world.job(reply.job_id).waits.missing == 1  # type: ignore[union-attr]
    world.run(world.store.control.retry([RetryRequest(first)]))
    assert world.job(reply.job_id).waits.missing == 2  # type: ignore[union-attr]


def test_a_new_priority_is_told_by_the_next_one(world: World) -> None:
    """Also to jobs that wait for one which inherits it in its own partition."""
    first = world.submit(A)
    second = world.submit(A, first)
    last = world.submit(B, second)
    edit = Edit(first, priority=Priority.CRITICAL)
    untold(world, A, lambda control: control.edit([edit]))
    assert world.job(second).priority is Priority.CRITICAL
    world.deliver()
    assert world.job(last).priority is Priority.CRITICAL


def test_a_job_that_was_being_stored_hears_the_news_in_the_end(world: World) -> None:
    """Its process looked before, and stores it after the news were delivered."""
    first, second = world.submit(A), world.submit(B)
    world.run(world.store.control.cancel([first]))
    (seen,) = world.ask(A, standing, [first], declaration=LOOK)
    world.run(world.store.control.retry([RetryRequest(first)]))
    after = Dependencies((first, second), Mode.ENDED)
    part = Part(
        number=partition_of(B),
        jobs=[NewJob(type="late", queue=B, after=after)],
        mirrors=[seen],
    )
    (reply,) = world.ask(B, put, part)
    assert world.job(reply.job_id).waits.missing == 1  # type: ignore[union-attr]
    assert [entry.state for entry in world.entries(A, NEWS)] == [State.DELAYED]
    world.clock.advance(NEWS_US / 1e6)
    world.deliver()
    assert world.job(reply.job_id).waits.missing == 2  # type: ignore[union-attr]
    assert not world.entries(A, NEWS)
    world.finish(B)
    world.finish(A)
    assert world.state(reply.job_id) is State.SCHEDULED


def test_news_are_told_while_no_more_jobs_are_accepted(world: World) -> None:
    first, second = world.submit(A), world.submit(C)
    last = world.submit(B, first, second, mode=Mode.ENDED)
    world.run(world.store.control.cancel([first]))
    world.run(world.store.transfer.accept_jobs(False))
    world.run(world.store.control.retry([RetryRequest(first)]))
    assert world.job(last).waits.missing == 2  # type: ignore[union-attr]


def test_a_job_is_kept_until_those_that_wait_elsewhere_know_its_end(world: World) -> None:
    first = world.submit(A)
    last = world.submit(B, first)
    world.finish_untold(A)
    world.run(world.store.upkeep.prune(PruneRequest(keep=ALL_STATES, limit=100)))
    assert world.state(first) is State.COMPLETED
    world.deliver()
    after: int | None = 0
    while after is not None:
        request = PruneRequest(keep=ALL_STATES, limit=100, after=after)
        after = world.run(world.store.upkeep.prune(request)).next
    assert world.run(world.store.reader.get([first])) == [None]
    (found,) = world.run(world.store.reader.dependencies([last], with_results=True))
    assert [each.result for each in found] == [Body(b'"done"')]


def test_entries_and_mirrors_are_nobodys_business(world: World) -> None:
    first = world.submit(A)
    world.submit(B, first)
    world.finish_untold(A)
    store = world.store
    assert {view.name for view in world.run(store.overview.queues())} == {A, B}
    views = world.run(store.overview.types())
    assert {view.name: sum(view.counts.values()) for view in views} == {"t-a": 1, "t-b": 1}
    assert len(world.run(store.reader.find(JobFilter(), PageRequest(10))).jobs) == 2
    assert world.run(store.reader.count(JobFilter(type="t-a"))) == 1
    assert len(world.run(store.overview.ended(world.job(first).created_at, limit=9)).jobs) == 1
    claim = world.run(store.queue.claim(ClaimRequest(worker="w", limit=9)))
    assert [job.queue for job in claim.jobs] == [B]


def gathering_flow(world: World) -> tuple[str, str]:
    """Return a job, and one of another partition that also waits for what it spawns."""
    parent = world.submit(A)
    after = Dependencies((parent,), gathers=True)
    new = NewJob(type="gatherer", queue=B, after=after)
    (reply,) = world.run(world.store.queue.enqueue([new]))
    plain = world.submit(B, parent)
    assert world.state(plain) is State.PENDING
    return parent, reply.job_id


def spawn_child(world: World) -> ClaimedJob:
    """Have the next job of the first queue spawn one there; return it."""
    (claimed,) = world.claim(A)
    child = NewJob(type="child", queue=A, key=Key("k", None))
    (reply,) = world.run(
        world.store.queue.spawn([Spawn(claimed.id, claimed.lease.token, (child,))])
    )
    assert isinstance(reply, Spawned)
    return claimed


def test_what_is_spawned_is_gathered_in_another_partition(world: World) -> None:
    """One that gathers waits for what was spawned; one that does not is let go before."""
    parent, gatherer = gathering_flow(world)
    world.settle(spawn_child(world))
    dependents = world.run(world.store.reader.dependents([parent]))[0]
    assert len(dependents) == 2
    assert gatherer in dependents
    assert sorted(world.state(each) for each in dependents) == [State.PENDING, State.SCHEDULED]
    assert world.state(gatherer) is State.PENDING
    world.finish(A)
    assert world.state(gatherer) is State.SCHEDULED
    (found,) = world.run(world.store.reader.dependencies([gatherer], with_results=True))
    assert [(each.job_id, each.result) for each in found] == [(parent, Body(b'"done"'))]


def test_a_spawned_job_that_fails_ends_what_gathers_it_elsewhere(world: World) -> None:
    _, gatherer = gathering_flow(world)
    world.settle(spawn_child(world))
    (child,) = world.run(world.store.reader.find(JobFilter(type="child"), PageRequest(9))).jobs
    world.run(world.store.control.cancel([child.id]))
    assert world.state(gatherer) is State.CANCELLED
    assert world.job(gatherer).failure.failed_dependency == child.id  # type: ignore[union-attr]


def far_child(queue: str, *on: str | int, **fields: Any) -> NewJob:
    """Return a job that is always spawned under the same key."""
    after = Dependencies(on) if on else None
    return NewJob(type=f"of-{queue}", queue=queue, key=Key("k", None), after=after, **fields)


def spawn(world: World, parent: ClaimedJob, *jobs: NewJob) -> Any:
    (reply,) = world.run(world.store.queue.spawn([Spawn(parent.id, parent.lease.token, jobs)]))
    return reply


def test_what_is_spawned_into_another_partition_is_gathered_everywhere(world: World) -> None:
    parent = world.submit(A)
    gatherers = []
    for queue in (A, B):
        new = NewJob(
            type=f"gather-{queue}", queue=queue, after=Dependencies((parent,), gathers=True)
        )
        (reply,) = world.run(world.store.queue.enqueue([new]))
        gatherers.append(reply.job_id)
    (claimed,) = world.claim(A)
    replies = spawn(world, claimed, far_child(A), far_child(C), far_child(B, 1)).replies
    near, far, farther = [each.job_id for each in replies]
    states = [State.SCHEDULED, State.SCHEDULED, State.PENDING]
    assert [each.state for each in replies] == states
    assert [world.state(each) for each in (near, far, farther)] == states
    world.settle(claimed)
    for queue in (A, C, B):
        assert {world.state(each) for each in gatherers} == {State.PENDING}
        world.finish(queue)
    assert {world.state(each) for each in gatherers} == {State.SCHEDULED}
    (found,) = world.run(world.store.reader.dependencies([gatherers[0]]))
    assert {each.job_id for each in found} == {parent, near, far, farther}


def test_what_is_spawned_from_another_partition_is_gathered_too(world: World) -> None:
    """Children of children, each in a partition of its own."""
    _, gatherer = gathering_flow(world)
    (claimed,) = world.claim(A)
    spawn(world, claimed, far_child(C))
    world.settle(claimed)
    (middle,) = world.claim(C)
    spawn(world, middle, far_child(A))
    world.settle(middle)
    assert world.state(gatherer) is State.PENDING
    world.finish(A)
    assert world.state(gatherer) is State.SCHEDULED


def test_a_stale_lease_spawns_nothing_elsewhere(world: World) -> None:
    world.submit(A)
    world.submit(B)
    (claimed,) = world.claim(A)
    world.clock.advance(3600)
    assert isinstance(spawn(world, claimed, far_child(B)), LeaseLost)
    part = Part(number=partition_of(B), jobs=[far_child(B)])
    request = Spawn(claimed.id, claimed.lease.token, (far_child(B),))
    now = world.ask(A, time_of, declaration=LOOK)
    own = Part(number=partition_of(A))
    late = world.ask(A, store_spawn, request, own, [part], [], now + COMMIT_WITHIN_US, True)
    assert isinstance(late.lost, LeaseLost)
    world.deliver()
    assert not world.entries(A, INTENT)
    assert world.run(world.store.reader.count(JobFilter(type="of-b"))) == 0


def test_a_later_attempt_finds_what_was_spawned_elsewhere(world: World) -> None:
    """Also if it is still on its way; who gathers waits for it once."""
    _, gatherer = gathering_flow(world)
    (claimed,) = world.claim(A)
    (first,) = spawn(world, claimed, far_child(C)).replies
    (again,) = spawn(world, claimed, far_child(C)).replies
    assert isinstance(again, Duplicate)
    assert again.job_id == first.job_id
    world.settle(claimed)
    assert world.run(world.store.reader.count(JobFilter(type="of-c"))) == 1
    world.finish(C)
    assert world.state(gatherer) is State.SCHEDULED


def test_a_key_that_is_held_elsewhere_refuses_a_spawn_that_asks_for_it(world: World) -> None:
    """Nothing of the spawn is stored, neither here nor there."""
    key = Key("mine", None, OnDuplicate.REJECT)
    world.submit(A)
    world.submit(C, key=key)
    (claimed,) = world.claim(A)
    here = NewJob(type="here", queue=A)
    there = NewJob(type=f"t-{C}", queue=C, key=key)
    with pytest.raises(DuplicateJobError):
        spawn(world, claimed, here, there)
    assert world.run(world.store.reader.count(JobFilter(type="here"))) == 0
    assert world.run(world.store.reader.count(JobFilter(queue=C))) == 1


def test_a_spawn_of_one_who_died_is_delivered_and_found(world: World) -> None:
    """The intent is stored with the parent's write; the next attempt has the same child."""
    _, gatherer = gathering_flow(world)
    world.submit(C)
    (claimed,) = world.claim(A)
    request = Spawn(claimed.id, claimed.lease.token, (far_child(C),))
    now = world.ask(A, time_of, declaration=LOOK)
    part = Part(number=partition_of(C), jobs=[far_child(C)])
    own = Part(number=partition_of(A))
    world.ask(A, store_spawn, request, own, [part], [], now + COMMIT_WITHIN_US, True)
    assert world.run(world.store.reader.count(JobFilter(type="of-c"))) == 0
    (reply,) = spawn(world, claimed, far_child(C)).replies
    assert isinstance(reply, Duplicate)
    world.settle(claimed)
    world.finish(C)
    assert world.state(gatherer) is State.PENDING
    world.finish(C)
    assert world.state(gatherer) is State.SCHEDULED


def test_what_fails_elsewhere_ends_what_gathers_it(world: World) -> None:
    _, gatherer = gathering_flow(world)
    (claimed,) = world.claim(A)
    (child,) = spawn(world, claimed, far_child(C)).replies
    world.settle(claimed)
    world.run(world.store.control.cancel([child.job_id]))
    assert world.state(gatherer) is State.CANCELLED
    assert world.job(gatherer).failure.failed_dependency == child.job_id  # type: ignore[union-attr]


def test_what_is_spawned_elsewhere_waits_for_nobody_who_gathers(world: World) -> None:
    """They could wait for each other, which no single partition can tell (S1-65)."""
    _, gatherer = gathering_flow(world)
    behind = world.submit(C, gatherer)
    (claimed,) = world.claim(A)
    for on in (gatherer, behind):
        with pytest.raises(DependencyError, match="may itself wait"):
            spawn(world, claimed, far_child(C, on))
    assert world.run(world.store.reader.count(JobFilter(type="of-c"))) == 0


def test_one_type_is_spawned_into_queues_of_several_partitions(world: World) -> None:
    """Keys that a worker gives them name the queue, and bind the type to no partition."""
    world.submit(A)
    (claimed,) = world.claim(A)
    new = [NewJob(type="part", queue=queue) for queue in (A, B, C)]
    reply = spawn(world, claimed, *keyed(claimed, new, Numbers()).jobs)
    assert [each.state for each in reply.replies] == [State.SCHEDULED] * 3
    again = spawn(world, claimed, *keyed(claimed, new, Numbers()).jobs)
    assert {type(each) for each in again.replies} == {Duplicate}
    assert [each.job_id for each in again.replies] == [each.job_id for each in reply.replies]


def test_an_entry_that_cannot_be_read_hinders_nobody(world: World) -> None:
    """Also one whose payload was deleted by another one who delivers, between two reads."""
    world.submit(A)
    big = [NewJob(type="x", queue=B, payload=Body(b"1" * 5000))]
    partition = world.hub.at(partition_of(A))
    intent = intent_job([Part(number=partition_of(B), jobs=big)])
    partition.run(partition.queue.enqueue([intent]))
    world.ask(A, _forget_payloads)
    last = world.submit(B, world.submit(A))
    world.finish(A)
    world.finish(A)
    assert world.state(last) is State.SCHEDULED
    assert "outbox" not in {each.code for each in world.run(world.store.overview.inspect())}
    world.clock.advance(ORPHAN_US / 1e6)
    assert "outbox" in {each.code for each in world.run(world.store.overview.inspect())}


def _forget_payloads(env: Env) -> Plan[None]:
    unit = Unit(env)
    unit.do(b"DEL", env.key("payload"))
    yield from unit.commit()


def test_what_makes_a_job_invalid_is_found_before_any_is_accepted(world: World) -> None:
    jobs = [NewJob(type="x", queue=A), NewJob(type="x", queue=B, delay=1e9)]
    with pytest.raises(InvalidJobError):
        world.run(world.store.queue.enqueue(jobs))
    world.deliver()
    assert world.run(world.store.reader.count(JobFilter())) == 0


def test_an_intent_that_a_partition_refuses_hinders_nobody(world: World) -> None:
    """It is tried again; what else there is to deliver is delivered."""
    gone = "7f1cbd3e-6e8d-4f0a-9c55-0d2b8a1e4c11"
    bad = [NewJob(type="x", queue=B, after=Dependencies((gone,)))]
    good = [NewJob(type="y", queue=B)]
    world.submit(A)
    partition = world.hub.at(partition_of(A))
    for jobs in (bad, good):
        intent = intent_job([Part(number=partition_of(B), jobs=jobs)])
        partition.run(partition.queue.enqueue([intent]))
    world.deliver()
    assert world.run(world.store.reader.count(JobFilter(type="y"))) == 1
    assert [entry.state for entry in world.entries(A, INTENT)] == [State.DELAYED]


def test_accepted_jobs_are_stored_while_no_more_are_accepted(world: World) -> None:
    world.submit(A)
    world.submit(B)
    partition = world.hub.at(partition_of(A))
    intent = intent_job([Part(number=partition_of(B), jobs=[NewJob(type="y", queue=B)])])
    partition.run(partition.queue.enqueue([intent]))
    world.run(world.store.transfer.accept_jobs(False))
    assert world.run(world.store.reader.count(JobFilter(type="y"))) == 1


def test_a_dependency_that_is_pruned_before_a_part_is_stored_counts(world: World) -> None:
    """Who waits for a job of its own partition is stored later than it was accepted."""
    first = world.submit(A)
    after = Dependencies((first,))
    jobs = [NewJob(type="x", queue=B), NewJob(type="y", queue=A, after=after)]
    world.finish(A)
    submission = SplitSubmission(
        world.hub, jobs, [partition_of(job.queue) for job in jobs], is_atomic=False
    )
    times = {partition_of(job.queue): world.clock.now_us() for job in jobs}
    parts = drive(submission.parts(times), world.store._perform)
    world.run(world.store.upkeep.prune(PruneRequest(keep=ALL_STATES, limit=100)))
    partition = world.hub.at(partition_of(B))
    world.submit(B)
    partition.run(partition.queue.enqueue([intent_job(parts)]))
    world.deliver()
    (found,) = world.run(world.store.reader.find(JobFilter(type="y"), PageRequest(9))).jobs
    assert found.state is State.SCHEDULED
