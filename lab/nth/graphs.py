"""What holds for jobs that wait for others: none starts too early, and none is forgotten."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from fencepost.core.flows.dependencies import Mode
from fencepost.core.job.job import Dependency, Job
from fencepost.core.job.lifecycle import State
from fencepost.store.interface.store import Store


def may_start(job: Job, awaited: Sequence[Dependency]) -> bool:
    """Tell whether what a job waits for has let it go."""
    if job.waits is None or not awaited:
        return True
    ended = [each.state.is_terminal for each in awaited]
    match job.waits.mode:
        case Mode.ALL:
            return all(each.state is State.COMPLETED for each in awaited)
        case Mode.ANY:
            return any(ended)
        case _:
            return all(ended)


def started_too_early(store: Store, job_id: str) -> Iterator[str]:
    """Say so if a job has been started that should still wait."""
    (job,) = store.run(store.reader.get([job_id]))
    (awaited,) = store.run(store.reader.dependencies([job_id]))
    if job is not None and not may_start(job, awaited):
        states = ", ".join(str(each.state) for each in awaited)
        yield f"{job.type} started while what it waits for was {states}"


def forgotten(store: Store, jobs: Iterable[Job]) -> Iterator[str]:
    """Name the jobs that wait for nobody any more, and wait."""
    pending = [job for job in jobs if job.state is State.PENDING]
    answers = store.run(store.reader.dependencies([job.id for job in pending]))
    for job, awaited in zip(pending, answers, strict=True):
        if all(each.state.is_terminal for each in awaited):
            yield f"{job.type} is forgotten: all that it waits for has ended"
        assert job.waits is not None
        left = sum(not each.state.is_terminal for each in awaited)
        if job.waits.missing != (1 if job.waits.mode is Mode.ANY else left):
            yield f"{job.type} misses {job.waits.missing} of {len(awaited)}, and {left} are left"
