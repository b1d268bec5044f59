"""Names and ids that a user types: a name that nothing uses may be a typo, and the beginning of an
id is enough if no other job shares it.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from fencepost.cli.completion import Kind, known_names
from fencepost.cli.errors import Refusal
from fencepost.cli.options import Settings, option
from fencepost.cli.output import clean
from fencepost.core.display import did_you_mean, shown
from fencepost.core.values.names import (
    DEFAULT_QUEUE,
    check_id_prefix,
    check_queue,
    check_type,
    is_id,
)
from fencepost.core.webhooks.delivery import DELIVERY_QUEUE, DELIVERY_TYPE
from fencepost.errors import ConfigurationError, InvalidJobError

if TYPE_CHECKING:
    from fencepost.app import App

SHOWN_MAX = 5
"""How many jobs are named whose ids begin alike."""
OWN_NAMES = {"queue": {DEFAULT_QUEUE, DELIVERY_QUEUE}, "type": {DELIVERY_TYPE}}
"""Names that are valid even if nothing uses them yet."""

yes_option = option("--yes", is_flag=True, help="Do not ask about a name that nothing uses.")


def unused_names(app: App, **names: str | None) -> list[str]:
    """Return a line for each *queue* or *type* of a search that nothing uses: perhaps a typo."""
    lines: list[str] = []
    kinds: tuple[Kind, ...] = ("queue", "type")
    for kind in kinds:
        name = names.get(kind)
        if name is not None and name not in (known := known_names(app, kind)):
            lines.append(_unused(kind, name, known))
    return lines


def _unused(kind: Kind, name: str, known: Iterable[str]) -> str:
    return f"no job and no live worker names {kind} {shown(name)}{did_you_mean(name, known)}"


def confirm_name(
    settings: Settings, app: App, kind: Kind, name: str, *, verb: str, yes: bool
) -> None:
    """Ask before *verb* is done to a name that nothing uses; refuse where nobody can answer.

    Such a setting is stored and has no effect, which nobody would notice after a typo.
    """
    (check_queue if kind == "queue" else check_type)(name)
    if yes:
        return
    known = known_names(app, kind)
    if name in known | OWN_NAMES[kind]:
        return
    fact = _unused(kind, name, known)
    if not sys.stdin.isatty():
        raise Refusal(fact, f"unknown_{kind}", settings.repeated("--yes"))
    end = "" if fact.endswith("?") else ";"
    click.confirm(clean(f"{fact}{end} {verb} it anyway?"), abort=True, err=True)


class AmbiguousIdError(ConfigurationError, code="ambiguous_id"):
    """Several jobs have ids that begin like this."""


def whole_id(app: App, text: str) -> str:
    """Return the id that begins with *text*; *text* itself if no job has one, to be refused.

    Raises AmbiguousIdError, which names the candidates.
    """
    if is_id(text):
        return text
    try:
        prefix = check_id_prefix(text)
    except InvalidJobError:
        return text
    found = app.jobs.find(id_prefix=prefix, limit=SHOWN_MAX + 1)
    match [job.id for job in found]:
        case []:
            return text
        case [id]:
            return id
    named = [f"{job.id} ({job.type}, {job.state})" for job in found][:SHOWN_MAX]
    rest = " and more" if len(found) > SHOWN_MAX else ""
    raise AmbiguousIdError(
        f"several ids begin with {shown(text)}: {', '.join(named)}{rest}; type more of it"
    )
