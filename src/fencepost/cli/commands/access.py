"""Who may do what, and who did it: ``fencepost tokens``, ``audit``, ``keys`` and ``webhooks``."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from fencepost.cli.errors import Refusal
from fencepost.cli.options import (
    DURATION,
    Settings,
    json_options,
    option,
    page_options,
    store_options,
)
from fencepost.cli.output import (
    Cell,
    Columns,
    echo,
    echo_json,
    echo_list,
    echo_reply,
    moment,
    when,
)
from fencepost.core.access.bounds import TOKEN_CACHE_SECONDS
from fencepost.core.access.tokens import Role, TokenRecord
from fencepost.core.bounds import KEY_BYTES
from fencepost.errors import SchemaError, StoreError

if TYPE_CHECKING:
    from fencepost.core.access.audit import Action

TOKEN_FIELDS = ["id", "name", "roles", "queues", "rate", "created_at", "expires_at", "revoked_at"]
"""What is shown of a token: not its digest, nor what may be added one day."""
AUDIT_COLUMNS: Columns[Action] = {
    "AT (UTC)": lambda action: when(action.at),
    "WHO": lambda action: action.principal,
    "TOKEN": lambda action: action.principal_id,
    "ACTION": lambda action: action.action,
    "TARGET": lambda action: action.target,
    "STATUS": lambda action: action.status,
    "REQUEST": lambda action: action.request_id,
}


def token_columns(now: datetime) -> Columns[TokenRecord]:
    """Return the columns of a list of tokens at this time."""
    return {
        "ID": lambda token: Cell.of(token.id),
        "NAME": lambda token: token.name,
        "ROLES": lambda token: ", ".join(token.roles),
        "QUEUES": lambda token: "all" if token.queues is None else ", ".join(token.queues),
        "RATE": lambda token: "" if token.rate is None else f"{token.rate:g}/s",
        "CREATED (UTC)": lambda token: moment(token.created_at),
        "EXPIRES (UTC)": lambda token: moment(token.expires_at),
        "STATE": lambda token: state_of(token, now),
    }


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
    help="A role that it has (repeatable).",
)
@option("--queue", "queues", multiple=True, help="Valid for this queue only (repeatable).")
@option("--expires", type=DURATION, help="Valid for this long, such as 90d; else until revoked.")
@option("--rate", type=float, help="Requests per second, for each server.")
@store_options
def create(settings: Settings, /, name: str, queues: tuple[str, ...], **options: Any) -> None:
    """Create a token and print it, once: the store keeps only its hash."""
    with settings.opened(must_exist=False) as app:
        try:
            token = app.tokens.create(name, queues=queues or None, **options)
        except SchemaError:
            raise
        except StoreError as error:
            lost = f"{error}; if it was created, its text is lost: revoke it"
            raise Refusal(lost, error.code, settings.say("tokens", "ls")) from error
    if settings.as_json:
        view = view_of(token.record, token.record.created_at)
        echo_json({"token": token.text, **view})
        return
    echo(token.text)
    echo(
        f"this is token {token.record.id}; it is not shown again; to revoke it: "
        f"{settings.say('tokens', 'revoke', token.record.id)}",
        err=True,
    )


@tokens.command("ls")
@store_options
def ls(settings: Settings) -> None:
    """List every token: its roles and queues, and whether it is still valid."""
    with settings.opened() as app:
        records = app.tokens.list()
        now = app.session.clock.now()
    view = {"tokens": [view_of(record, now) for record in records]}
    make = settings.say("tokens", "create", "NAME", "--role", "submit")
    empty = f"no tokens; to create one: {make}"
    echo_list(settings, view, token_columns(now), records, empty=empty)


def state_of(record: TokenRecord, now: datetime) -> str:
    """Return ``live``, ``revoked`` or ``expired``."""
    if record.is_live(now):
        return "live"
    return "expired" if record.revoked_at is None else "revoked"


def view_of(record: TokenRecord, now: datetime) -> dict[str, Any]:
    """Return a token as JSON shows it, without its digest."""
    view = {name: getattr(record, name) for name in TOKEN_FIELDS}
    return {**view, "state": state_of(record, now)}


@tokens.command("revoke")
@click.argument("name", metavar="ID_OR_NAME")
@store_options
def revoke(settings: Settings, name: str) -> None:
    """Revoke a token; servers refuse it within seconds."""
    with settings.opened() as app:
        token_id = app.tokens.revoke(name)
    line = f"revoked token {token_id}; servers refuse it within {TOKEN_CACHE_SECONDS:g} s"
    echo_reply(settings, {"id": token_id, "state": "revoked"}, line)


@click.group()
def audit() -> None:
    """The audit log: list what operators did."""


@audit.command("ls")
@page_options
@store_options
def ls_actions(settings: Settings, limit: int, after: str | None) -> None:
    """List what operators did, newest first."""
    with settings.opened() as app:
        page = app.audit.list(after=after, limit=limit)
    more = settings.next_page(page.next)
    echo_list(settings, page, AUDIT_COLUMNS, page, empty="no actions yet", more=more)


@click.group()
def keys() -> None:
    """Encryption keys: make a new one."""


@keys.command("new")
@option("--id", "id_", metavar="ID", help="Its name in stored data; by default from the date.")
@json_options
def new(settings: Settings, id_: str | None) -> None:
    """Print a new key, as FENCEPOST_KEYS and App(keys=…) accept it.

    To rotate, put it before the others: the first encrypts, all decrypt. Keep an old key for as
    long as there are jobs that were encrypted with it.
    """
    from fencepost.clock import SystemClock
    from fencepost.core.encryption import EncryptionKey

    clock = SystemClock()
    name = id_ or f"{clock.now():%Y%m%d}-{clock.new_bytes(2).hex()}"
    key = EncryptionKey(name, clock.new_bytes(KEY_BYTES))
    echo_reply(settings, {"id": key.id, "key": key.text}, key.text)


@click.group()
def webhooks() -> None:
    """Webhooks: make a secret to sign them."""


@webhooks.command("secret")
@json_options
def secret(settings: Settings) -> None:
    """Print a new secret, for the app and for receivers.

    Put it into FENCEPOST_WEBHOOK_SECRETS or Webhooks(secrets=[…]). To replace an old one, add the
    new one beside it, update the receivers, and then remove the old one.
    """
    from fencepost.webhooks import new_secret

    made = new_secret()
    echo_reply(settings, {"secret": made}, made)
