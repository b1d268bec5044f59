"""``fencepost recover`` and ``fencepost prune``: the leader's chores, by hand and now."""

from __future__ import annotations

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import DURATION, json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.bounds import PRUNE_BATCH, RECOVER_BATCH


@click.command()
@url_option
@json_option
@pass_settings
def recover(settings: Settings, as_json: bool) -> None:
    """Take jobs back from workers whose leases ran out; each counts as a failed attempt."""
    from fencepost.cli.output import echo_json, echo_table, progress_bar
    from fencepost.store.interface.replies import Moved

    moved: list[Moved] = []
    with settings.opened() as app, progress_bar("recovered", None) as bar:
        while batch := app.store.run(app.store.upkeep.recover(RECOVER_BATCH)):
            moved += batch
            bar.advance(len(batch))
    if as_json:
        echo_json(moved)
        return
    if moved:
        echo_table(("ID", "TYPE", "STATE"), [(m.job_id, m.type, m.state) for m in moved])
    echo(f"recovered {len(moved)} jobs")


@click.command()
@option(
    "--older-than",
    type=DURATION,
    help="Delete what ended longer ago; 7d for done and cancelled, 90d for failed unless told.",
)
@option(
    "--state",
    "states",
    multiple=True,
    help="Only in this terminal state (repeatable).",
)
@url_option
@json_option
@pass_settings
def prune(
    settings: Settings, older_than: float | None, states: tuple[str, ...], as_json: bool
) -> None:
    """Delete terminal jobs that have been kept long enough; dead letters go with their jobs.

    A job whose idempotency key is still held is kept.
    """
    from fencepost.cli.output import echo_json, progress_bar
    from fencepost.core.filter import parse_states
    from fencepost.core.retention import Retention
    from fencepost.store.interface.upkeep import PruneRequest

    wanted = parse_states(states) or tuple(Retention().by_state())
    live = [state for state in wanted if not state.is_terminal]
    if live:
        raise click.BadParameter(f"{live[0]} jobs are live; cancel them", param_hint="--state")
    keep = {s: k for s, k in Retention().by_state().items() if s in wanted}
    if older_than is not None:
        keep = dict.fromkeys(keep, older_than)
    total = 0
    position: int | None = 0
    with settings.opened() as app, progress_bar("pruned", None) as bar:
        while position is not None:
            request = PruneRequest(keep=keep, after=position, limit=PRUNE_BATCH)
            pruned = app.store.run(app.store.upkeep.prune(request))
            total += pruned.count
            bar.advance(pruned.count)
            position = pruned.next
    if as_json:
        echo_json({"count": total})
    else:
        echo(f"pruned {total} jobs")
