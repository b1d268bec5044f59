"""Ids of jobs on the command line: the beginning of one is enough if no other job shares it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.display import shown
from fencepost.core.values.names import check_id_prefix, is_id
from fencepost.errors import ConfigurationError, InvalidJobError

if TYPE_CHECKING:
    from fencepost.app import App

SHOWN_MAX = 5
"""How many jobs are named whose ids begin alike."""


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
