"""Who may ask for what."""

from __future__ import annotations

from fencepost.core.access.tokens import Role

ANYBODY: tuple[Role, ...] = ()
SUBMIT = (Role.SUBMIT,)
READ = (Role.READ,)
WORK = (Role.WORK,)
OPERATE = (Role.OPERATE,)
ADMIN = (Role.ADMIN,)
FOLLOW = (Role.READ, Role.SUBMIT)
"""Whoever submitted a job and knows its id may see what becomes of it."""
