"""From a submission on the wire to a job that can be enqueued."""

from __future__ import annotations

from operator import attrgetter
from typing import Any, cast

from fencepost.actions.options import Options, UsingOptions, merge, new_job
from fencepost.actions.session import Session
from fencepost.core.access.tokens import Principal
from fencepost.core.bounds import DEPENDENCY_COUNT_MAX
from fencepost.core.job.job import Body, NewJob
from fencepost.core.job.retry import Retry
from fencepost.core.job.task import ForeignTask, Task
from fencepost.core.values.names import RESERVED_TYPES, check_own_type
from fencepost.core.values.payload import check_size
from fencepost.errors import DependencyBreadthError
from fencepost.http.auth.scope import submitted_by
from fencepost.wire.bodies import body_of, check_json
from fencepost.wire.jobs import RetryOptions, Submission

_PLAIN = tuple(
    name for name in Submission.__struct_fields__ if name in UsingOptions.__annotations__
)
_values = attrgetter(*_PLAIN)
_NOTHING = (None,) * len(_PLAIN)
_NO_OPTIONS = Options()


def prepare(session: Session, submission: Submission, principal: Principal) -> NewJob:
    """Return the job that *submission* asks for, or raise InvalidJobError or ForbiddenError."""
    task = task_for(session, submission.type)
    payload = body_of("payload", submission.payload, submission.payload_base64)
    check_size(payload, session.max_payload)
    job = new_job(task, _checked(task, payload), _options(session, submission))
    return submitted_by(principal, job)


def task_for(session: Session, type: str) -> Task | ForeignTask:
    """Return the task of this name; one that the app does not know, its workers may."""
    known = session.tasks.get(type)
    if known is not None and not type.startswith(RESERVED_TYPES):
        return known
    return ForeignTask(type=check_own_type(type), policy=session.policy)


def _checked(task: Task | ForeignTask, payload: Body) -> Body:
    """Return *payload* if the handler can read it; what it says is stored as it was written."""
    if isinstance(task, Task):
        task.signature.decode(payload)
        return payload
    return check_json(payload)


def _options(session: Session, submission: Submission) -> Options:
    values = _values(submission)
    if values == _NOTHING:
        return _NO_OPTIONS
    for ids in (submission.after, submission.after_any):
        if ids is not None and len(ids) > DEPENDENCY_COUNT_MAX:  # before each of them is looked at
            raise DependencyBreadthError(len(ids))
    given = {name: value for name, value in zip(_PLAIN, values, strict=True) if value is not None}
    if "retry" in given:
        given["retry"] = _retry(given["retry"])
    options = cast(UsingOptions, given)
    return merge(_NO_OPTIONS, options, session.timeouts, webhooks=session.webhooks)


def _retry(options: RetryOptions) -> Retry:
    given: dict[str, Any] = {
        name: value
        for name in RetryOptions.__struct_fields__
        if (value := getattr(options, name)) is not None
    }
    return Retry(**given)
