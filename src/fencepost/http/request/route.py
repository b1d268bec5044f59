"""Routes: an operation becomes one by a decorator, which says what the API and its document need.

What a route reads is not repeated there: ``Call[Submission, Nothing]`` in the operation's signature
names the structs of its body and of its query.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, get_args, get_type_hints

import msgspec

from fencepost.core.access.tokens import Role
from fencepost.http.request.call import Nothing, Operation
from fencepost.wire.bounds import HTTP_BATCH_BYTES_MAX, HTTP_BODY_MAX
from fencepost.wire.leases import LeaseReplies, LeaseReply

ANYBODY: tuple[Role, ...] = ()
SUBMIT = (Role.SUBMIT,)
READ = (Role.READ,)
WORK = (Role.WORK,)
OPERATE = (Role.OPERATE,)
ADMIN = (Role.ADMIN,)
FOLLOW = (Role.READ, Role.SUBMIT)
"""A token that submitted a job may follow it."""


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What a route accepts, from which roles, and what it can answer."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    operation: Operation
    summary: str
    roles: tuple[Role, ...]
    """The token needs one of these; none: no token is needed."""
    body: Any = None
    """The struct that the body is read as, or a union of one and many; None: there is no body."""
    is_body_optional: bool = False
    body_max: int = HTTP_BODY_MAX
    """Above HTTP_IDS_BODY_MAX: the body carries payloads, whose size the app limits."""
    is_batch: bool = False
    query: type = Nothing
    replies: dict[int, Any]
    """The struct that is answered, by status."""
    errors: tuple[str, ...] = ()
    """Codes of problems that are special to this route."""
    is_store_wide: bool = False
    """A token for some queues is refused: the answer concerns all of them."""
    action: str | None = None
    """Its name in the audit log; None: it is not an operator's action."""
    headers: tuple[str, ...] = ()
    media_type: str = "application/json"

    @property
    def name(self) -> str:
        """The operation's name, which generated clients use."""
        return getattr(self.operation, "__name__", self.path)

    @property
    def bodies(self) -> tuple[Any, ...]:
        """The structs that the body may be: none, one, or one of it and many."""
        return () if self.body is None else get_args(self.body) or (self.body,)

    @property
    def tag(self) -> str:
        """The heading of the route in the document: the first part of its path, or another."""
        subject = self.path.removeprefix("/v1").split("/")[1]
        return _TAGS.get(subject, subject)


_TAGS = {
    "claims": "work",
    "dead-letters": "dead letters",
    "leases": "work",
    "limit": "queues",
    "metrics": "health",
    "openapi.json": "health",
    "scale": "stats",
    "stream": "jobs",
}
_NAME_REFUSED = {
    "crons": "cron_not_found",
    "dead-letters": "job_not_found",
    "flows": "flow_not_found invalid_job",
    "jobs": "job_not_found",
    "queues": "invalid_job",
    "replays": "replay_not_found",
    "types": "invalid_job",
}
"""Codes of problems with the id or the name in a path, by subject."""
_SUBMISSION_REFUSED = (
    "duplicate_key payload_too_large invalid_job invalid_key invalid_payload invalid_duration "
    "invalid_callback dependency too_many_lanes"
)


Declare = Callable[[Operation], Route]


def route(target: str, summary: str, reply: Any, errors: str = "", **rest: Any) -> Declare:
    """Make an operation a route.

    *target* is ``"METHOD path"``, and *errors* are the codes that are special to it, with spaces
    between them, beside those of the id or name in its path.
    """
    method, _, path = target.partition(" ")
    if "{" in path:
        errors += " " + _NAME_REFUSED.get(path.split("/")[2], "")
    rest = {"roles": READ, "replies": {200: reply}, "errors": tuple(errors.split()), **rest}

    def declare(operation: Operation) -> Route:
        call = next(iter(get_type_hints(operation).values()))
        body, query = get_args(call)
        return Route(
            method=method,  # type: ignore[arg-type]  # written in a table of ours
            path=path,
            operation=operation,
            summary=summary,
            body=None if body is Nothing else body,
            query=query,
            **rest,
        )

    return declare


def store_route(*args: Any, **rest: Any) -> Declare:
    """Make an operation a route whose answer concerns all queues."""
    return route(*args, is_store_wide=True, **rest)


def submit_route(target: str, summary: str, replies: dict[int, Any], **rest: Any) -> Declare:
    """Make an operation a route that stores jobs."""
    rest = {"errors": _SUBMISSION_REFUSED, "body_max": HTTP_BATCH_BYTES_MAX, **rest}
    return route(target, summary, None, roles=SUBMIT, replies=replies, **rest)


def lease_route(target: str, summary: str, errors: str, **rest: Any) -> Declare:
    """Make an operation a route for one write under a lease, or many."""
    rest = {"body_max": HTTP_BATCH_BYTES_MAX, **rest}
    reply = LeaseReply | LeaseReplies
    return route(target, summary, reply, f"stale_lease {errors}", roles=WORK, **rest)


def action(
    target: str, name: str, summary: str, reply: Any, errors: str = "", **rest: Any
) -> Declare:
    """Make an operation a route for an operator's action, which the audit log calls *name*."""
    replies = {rest.pop("status", 204 if reply is None else 200): reply}
    rest = {"roles": OPERATE, "replies": replies, "action": name, **rest}
    return route(target, summary, reply, errors, **rest)


def store_action(*args: Any, **rest: Any) -> Declare:
    """Make an operation a route for an operator's action that concerns all queues."""
    return action(*args, is_store_wide=True, **rest)
