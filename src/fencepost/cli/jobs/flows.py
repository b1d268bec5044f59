"""``fencepost flows``: list flows; ``fencepost jobs`` acts on their jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from fencepost.cli.options import Settings, option, page_options, store_options
from fencepost.cli.output import Columns, echo_list, moment

if TYPE_CHECKING:
    from fencepost.core.flows.listing import FlowKind, FlowSummary

COLUMNS: Columns[FlowSummary] = {
    "FLOW": lambda flow: flow.id,
    "TYPE": lambda flow: flow.type,
    "CORRELATION": lambda flow: flow.correlation_id or "",
    "JOBS": lambda flow: _counts(flow),
    "CREATED (UTC)": lambda flow: moment(flow.created_at),
    "ENDED (UTC)": lambda flow: moment(flow.ended_at),
}


@click.group()
def flows() -> None:
    """Flows: list them with their counts."""


@flows.command("ls")
@option("--live", "kind", flag_value="live", help="Only those with jobs that have not ended.")
@option("--failed", "kind", flag_value="failed", help="Only those with jobs that failed for good.")
@page_options
@store_options
def ls(settings: Settings, kind: FlowKind | None, limit: int, after: str | None) -> None:
    """List flows, newest first."""
    with settings.opened() as app:
        page = app.flows.find(kind, after=after, limit=limit)
    view = {"flows": page.flows, "next": page.next}
    more = settings.next_page(page.next)
    echo_list(settings, view, COLUMNS, page.flows, empty="no such flows", more=more)


def _counts(flow: FlowSummary) -> str:
    parts = [f"{count} {state}" for state, count in flow.counts.items()]
    return ", ".join(parts) + ("" if flow.is_complete else ", and more")
