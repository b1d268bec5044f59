"""One line of the route table: all that there is to know of a route, code and documentation."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from fencepost.core.access.tokens import Role
from fencepost.core.bounds import HTTP_BODY_MAX
from fencepost.http.request.call import Nothing, Operation

ANYBODY: tuple[Role, ...] = ()
SUBMIT = (Role.SUBMIT,)
READ = (Role.READ,)
WORK = (Role.WORK,)
OPERATE = (Role.OPERATE,)
ADMIN = (Role.ADMIN,)
FOLLOW = (Role.READ, Role.SUBMIT)
"""Whoever submitted a job and knows its id may see what becomes of it."""


class OneOrMany(msgspec.Struct, frozen=True):
    """A body that is one thing, or many under ``items``."""

    one: Any
    many: Any


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """What a route takes, who may ask, and what can be answered."""

    method: Literal["GET", "POST", "PUT", "PATCH", "DELETE"]
    path: str
    operation: Operation
    summary: str
    roles: tuple[Role, ...]
    """What a token must allow, any one of these; none: anybody may ask."""
    body: Any = None
    """The struct that the body is read as; None: there is none."""
    is_body_optional: bool = False
    body_max: int = HTTP_BODY_MAX
    """Beyond HTTP_BODY_MAX: it carries payloads, and the app says how large those may be."""
    is_batch: bool = False
    query: type = Nothing
    replies: dict[int, Any]
    """What comes back, by status."""
    errors: tuple[str, ...] = ()
    """The codes of the problems that this route, unlike others, can answer with."""
    tag: str
    is_store_wide: bool = False
    """A token that is bound to queues may not ask: the answer is about all of them."""
    action: str | None = None
    """What the audit log calls it; None: it is not an operator's."""
    headers: tuple[str, ...] = ()
    example: Any = None
    """A body that a reader can try."""
    media_type: str = "application/json"

    @property
    def name(self) -> str:
        """The operation's name, as clients that are made from the document call it."""
        return getattr(self.operation, "__name__", self.path)
