"""Many jobs of an app's store at once, by conditions or by ids: cancel, retry and edit them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from fencepost.actions.backend import Script
from fencepost.actions.local.look import LookPage, find
from fencepost.actions.local.steps import StoreActions
from fencepost.actions.options import RetryChoice
from fencepost.actions.replies import EditCount
from fencepost.core.bounds import LOOK_ALL_MAX, PAGE_MAX
from fencepost.core.filter import JobFilter, JobQuery, PageRequest
from fencepost.core.job.lifecycle import LIVE, WAITING, ManyEdits, State, check_names
from fencepost.core.job.policy import parse_priority
from fencepost.core.job.timeouts import check_run_at
from fencepost.core.values.names import check_tags, reserved_tags
from fencepost.errors import ConfigurationError, InvalidJobError, JobNotFoundError
from fencepost.errors import StateConflictError as Refused
from fencepost.store.interface.control import (
    CancelReply,
    Edit,
    Edited,
    EditReply,
    NotFound,
    RetryRequest,
    TooLate,
)
from fencepost.store.interface.queue import Moved

RETRIED = (State.FAILED, State.DEAD_LETTER, State.CANCELLED)
RETRIED_IF_NAMED = (*RETRIED, State.DELAYED, State.RETRYING)


class ManyJobs(StoreActions):
    """What an operator does to many jobs."""

    def cancel_all(self, query: JobQuery, *, queues: Collection[str] | None = None) -> Script[int]:
        """Cancel every live job that meets *query*; return how many, including dependents.

        Dependents can no longer run and are cancelled in any queue; with *queues*, only jobs in
        these are counted.
        """
        check_selective(query)
        live = query.within(LIVE)
        if live is None:
            return 0
        if not live.look.is_any:
            ids = yield from self.selected(live)
            return (yield from self.cancel_some(ids, queues=queues))
        cancelled: set[str] = set()
        position: int | None = None
        while True:
            page = yield self._store.control.select(live.filter, PageRequest(PAGE_MAX, position))
            if page.ids:
                replies = yield self._store.control.cancel(page.ids)
                cancelled.update(_cancelled(replies))
            position = page.next
            if position is None:
                return (yield from self._count_within(sorted(cancelled), queues))

    def _count_within(self, job_ids: Sequence[str], queues: Collection[str] | None) -> Script[int]:
        """Return how many of these jobs are in *queues*; None means all."""
        if queues is None:
            return len(job_ids)
        count = 0
        for start in range(0, len(job_ids), PAGE_MAX):
            located = yield self._store.reader.locate(job_ids[start : start + PAGE_MAX])
            count += sum(queue in queues for queue in located)
        return count

    def cancel_some(
        self, job_ids: Sequence[str], *, queues: Collection[str] | None = None
    ) -> Script[int]:
        """Cancel these jobs, if they are live; return how many, as ``cancel_all`` does."""
        cancelled: set[str] = set()
        for start in range(0, len(job_ids), PAGE_MAX):
            replies = yield self._store.control.cancel(job_ids[start : start + PAGE_MAX])
            cancelled.update(_cancelled(replies))
        return (yield from self._count_within(sorted(cancelled), queues))

    def retry_some(self, job_ids: Sequence[str], choice: RetryChoice) -> Script[int]:
        """Run these jobs again, the oldest first as they are given; return how many are.

        One stays as it is if its state or its key forbids it, or it waits for one that has failed.
        """
        count = 0
        for start in range(0, len(job_ids), PAGE_MAX):
            replies = yield self._store.control.retry(
                [
                    RetryRequest(job_id, choice.reset_attempts, choice.delay, choice.priority)
                    for job_id in job_ids[start : start + PAGE_MAX]
                ]
            )
            count += sum(isinstance(reply, Moved) for reply in replies)
        return count

    def selected(self, query: JobQuery, limit: int | None = None) -> Script[list[str]]:
        """Return the ids of the jobs that meet *query*, the oldest first; the newest *limit*.

        Raise ConfigurationError if too many had to be read to know them all: a part of them is not
        what was asked for.
        """
        found: list[str] = []
        position: int | None = None
        left = LOOK_ALL_MAX
        while limit is None or len(found) < limit:
            size = PAGE_MAX if limit is None else min(PAGE_MAX, limit - len(found))
            page: LookPage = yield from find(
                self._store, query, PageRequest(size, position), bound=left
            )
            found += [job.id for job in page.jobs]
            position, left = page.next, left - (page.looked or 0)
            if position is None:
                break
            if left <= 0:
                raise ConfigurationError(
                    f"more than {LOOK_ALL_MAX:,} jobs would have to be read for these conditions; "
                    f"add a state, a type, a queue, a tag, a flow or a time. Nothing was changed"
                )
        return found[::-1]

    def edit_all(self, query: JobQuery, edits: ManyEdits) -> Script[EditCount]:
        """Edit every job that meets *query* and may be edited so; return how many, and why not."""
        check_selective(query)
        part = query.within(edited_states(edits))
        if part is None:
            return EditCount(0)
        if not part.look.is_any:
            ids = yield from self.selected(part)
            return (yield from self.edit_some(ids, edits))
        count, refused = 0, Counter[str]()
        position: int | None = None
        while True:
            page = yield self._store.control.select(part.filter, PageRequest(PAGE_MAX, position))
            done = yield from self.edit_some(page.ids, edits)
            count += done.count
            refused.update(done.refused)
            position = page.next
            if position is None:
                return EditCount(count, dict(refused))

    def edit_some(self, job_ids: Sequence[str], edits: ManyEdits) -> Script[EditCount]:
        """Edit these jobs, each as ``edit`` does; count those that are, and the refusals by code.

        A repeat is safe: it gives the same values to those that have them already.
        """
        change = _change(edits)
        count, refused = 0, Counter[str]()
        for start in range(0, len(job_ids), PAGE_MAX):
            part = job_ids[start : start + PAGE_MAX]
            kept: dict[str, dict[str, str]] = {}
            if change["tags"] is not None:
                jobs = yield self._store.reader.get(part)
                kept = {job.id: reserved_tags(job.tags) for job in jobs if job is not None}
            requests = [_edit_of(job_id, change, kept.get(job_id, {})) for job_id in part]
            replies: Sequence[EditReply] = yield self._store.control.edit(requests)
            count += sum(isinstance(reply, Edited) for reply in replies)
            refused.update(_code(reply) for reply in replies if not isinstance(reply, Edited))
        return EditCount(count, dict(refused))


def edited_states(edits: ManyEdits) -> Collection[State]:
    """Return the states in which a job may be edited so."""
    _change(edits)
    others = (edits.get("priority"), edits.get("run_at"))
    return WAITING if any(each is not None for each in others) else tuple(State)


def _change(edits: ManyEdits) -> dict[str, Any]:
    """Check what is to change, or raise."""
    check_names(edits, ManyEdits)
    priority, run_at, tags = edits.get("priority"), edits.get("run_at"), edits.get("tags")
    if all(each is None for each in (priority, run_at, tags)):
        raise InvalidJobError("say what to change: priority, run_at or tags")
    return {
        "priority": None if priority is None else parse_priority(priority),
        "run_at": None if run_at is None else check_run_at(run_at),
        "tags": None if tags is None else check_tags(tags),
    }


def _edit_of(job_id: str, change: Mapping[str, Any], kept: Mapping[str, str]) -> Edit:
    tags = change["tags"]
    return Edit(
        job_id,
        priority=change["priority"],
        tags=None if tags is None else {**tags, **kept},
        run_at=change["run_at"],
    )


def _code(reply: EditReply) -> str:
    """Return the code of the error with which the same edit of one job is refused."""
    match reply:
        case NotFound():
            return JobNotFoundError.code
        case TooLate():
            return InvalidJobError.code
        case _:
            return Refused.code


def check_selective(query: JobQuery) -> None:
    """Raise ConfigurationError if *query* matches every job."""
    if query.filter == JobFilter() and query.look.is_any:
        raise ConfigurationError(
            "this would change every job; name an id, a type, a queue, a flow, a tag or a time"
        )


def retried_part(query: JobQuery) -> JobQuery | None:
    """Return *query* restricted to jobs that a retry applies to; None if it matches none."""
    return query.within(RETRIED_IF_NAMED if query.filter.states else RETRIED)


def _cancelled(replies: Sequence[CancelReply]) -> Iterator[str]:
    """Yield the ids of the cancelled jobs and of their cancelled dependents."""
    for reply in replies:
        if isinstance(reply, Moved):
            yield reply.job_id
            yield from (each.job_id for each in reply.followed if each.state is State.CANCELLED)
