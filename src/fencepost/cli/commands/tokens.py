"""``fencepost tokens``: who may use the HTTP API, and for what."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.errors import Refusal
from fencepost.cli.lines import echo
from fencepost.cli.options import DURATION, json_option, option, pass_settings, url_option
from fencepost.cli.settings import Settings
from fencepost.core.access.tokens import Role, TokenRecord
from fencepost.errors import SchemaError, StoreError

if TYPE_CHECKING:
    from fencepost.core.access.tokens import NewToken

COLUMNS = ("ID", "NAME", "ROLES", "QUEUES", "RATE", "CREATED (UTC)", "EXPIRES (UTC)", "STATE")


@click.group()
def tokens() -> None:
    """Bearer tokens: create, list, revoke."""


@tokens.command("create")
@click.argument("name")
@option(
    "--role",
    "roles",
    multiple=True,
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What it allows (repeatable).",
)
@option("--queue", "queues", multiple=True, help="Good for this queue alone (repeatable).")
@option("--expires", type=DURATION, help="Good for so long, such as 90d; else until revoked.")
@option("--rate", type=float, help="So many requests a second, for each server.")
@url_option
@json_option
@pass_settings
def create(
    settings: Settings,
    name: str,
    roles: tuple[str, ...],
    queues: tuple[str, ...],
    expires: float | None,
    rate: float | None,
    as_json: bool,
) -> None:
    """Make a token and print it, once: the store keeps only its hash."""
    from fencepost.cli.output import echo_json

    with settings.opened(must_exist=False) as app:
        try:
            token: NewToken = app.tokens.create(
                name, roles=roles, queues=queues or None, expires=expires, rate=rate
            )
        except SchemaError:
            raise
        except StoreError as error:
            lost = f"{error}; if it was made, nobody has its text: revoke it"
            raise Refusal(lost, error.code, settings.say("tokens", "ls")) from error
    if as_json:
        view = view_of(token.record, token.record.created_at)
        echo_json({"token": token.text, **view})
        return
    echo(token.text)
    echo(
        f"this is token {token.record.id}, shown this once; to end it: "
        f"{settings.say('tokens', 'revoke', token.record.id)}",
        err=True,
    )


@tokens.command("ls")
@url_option
@json_option
@pass_settings
def ls(settings: Settings, as_json: bool) -> None:
    """List every token: what it is good for, and whether it still is."""
    from fencepost.cli.output import echo_json, echo_table

    with settings.opened() as app:
        records = app.tokens.list()
        now = app.session.clock.now()
    if as_json:
        echo_json({"tokens": [view_of(record, now) for record in records]})
        return
    make = settings.say("tokens", "create", "NAME", "--role", "submit")
    rows = [_row(record, now) for record in records]
    echo_table(COLUMNS, rows, empty=f"no tokens; to make one: {make}")


def state_of(record: TokenRecord, now: datetime) -> str:
    """Return ``live``, ``revoked`` or ``expired``."""
    if record.is_live(now):
        return "live"
    return "expired" if record.revoked_at is None else "revoked"


def view_of(record: TokenRecord, now: datetime) -> dict[str, Any]:
    """Return a token as JSON shows it, without its digest."""
    return {
        "id": record.id,
        "name": record.name,
        "roles": record.roles,
        "queues": record.queues,
        "rate": record.rate,
        "state": state_of(record, now),
        "created_at": record.created_at,
        "expires_at": record.expires_at,
        "revoked_at": record.revoked_at,
    }


def _row(record: TokenRecord, now: datetime) -> tuple[object, ...]:
    from fencepost.cli.output import when

    return (
        record.id,
        record.name,
        ", ".join(record.roles),
        "all" if record.queues is None else ", ".join(record.queues),
        "" if record.rate is None else f"{record.rate:g}/s",
        when(record.created_at),
        when(record.expires_at),
        state_of(record, now),
    )


@tokens.command("revoke")
@click.argument("name", metavar="ID_OR_NAME")
@url_option
@json_option
@pass_settings
def revoke(settings: Settings, name: str, as_json: bool) -> None:
    """Make a token good for nothing; servers refuse it within seconds."""
    from fencepost.cli.output import echo_json
    from fencepost.core.bounds import TOKEN_CACHE_SECONDS

    with settings.opened() as app:
        token_id = app.tokens.revoke(name)
    if as_json:
        echo_json({"id": token_id, "state": "revoked"})
    else:
        echo(f"revoked token {token_id}; servers refuse it in {TOKEN_CACHE_SECONDS:g} s")
