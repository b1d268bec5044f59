"""What a submission is to wait for, as users say it: handles, ids, names of nodes."""

from __future__ import annotations

from collections.abc import Iterable

from fencepost.core.bounds import CORRELATION_ID_LENGTH_MAX
from fencepost.core.display import shown
from fencepost.core.flows.dependencies import Dependencies, Mode, check_dependencies
from fencepost.core.values.names import check_name
from fencepost.errors import InvalidJobError


class JobReference:
    """Stands for one job by its id; handles do."""

    id: str


AwaitedJob = JobReference | str
Awaited = AwaitedJob | Iterable[AwaitedJob]


def dependencies_of(
    after: Awaited | None,
    after_any: Awaited | None,
    *,
    accept_failures: bool | None,
    before: Dependencies | None,
) -> Dependencies | None:
    """Return what is to be waited for; *before* stays unless something else is named.

    Raises InvalidJobError for what is no job and for both ways at once, NoDependencyError for any
    of none, and DependencyBreadthError.
    """
    if after is not None and after_any is not None:
        raise InvalidJobError("give after or after_any, not both; put a job in between")
    if after_any is not None:
        return check_dependencies(ids_of(after_any), mode=Mode.ANY)
    mode = Mode.ENDED if accept_failures else Mode.ALL
    if after is not None:
        return check_dependencies(ids_of(after), mode=mode)
    if before is None:
        if accept_failures:
            raise InvalidJobError("accept_failures says how to wait; say with after= for what")
        return None
    if accept_failures is None or before.mode is Mode.ANY:
        return before
    return check_dependencies(before.on, mode=mode)


def ids_of(awaited: Awaited) -> list[str]:
    """Return the ids or names that *awaited* stands for."""
    if isinstance(awaited, (str, JobReference)):
        return [_id(awaited)]
    if not isinstance(awaited, Iterable):
        raise _no_job(awaited)
    return [_id(each) for each in awaited]


def _id(each: object) -> str:
    if isinstance(each, JobReference):
        return each.id
    if not isinstance(each, str):
        raise _no_job(each)
    return check_name(each, what="what a job waits for", limit=CORRELATION_ID_LENGTH_MAX)


def _no_job(value: object) -> InvalidJobError:
    return InvalidJobError(
        f"a job waits for handles, ids, or nodes of its flow by name, not for {shown(value)}"
    )
