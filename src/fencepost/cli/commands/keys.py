"""``fencepost keys``: make keys to encrypt jobs with."""

from __future__ import annotations

import click

from fencepost.cli.lines import echo
from fencepost.cli.options import json_option, option


@click.group()
def keys() -> None:
    """Make the keys that jobs are encrypted with."""


@keys.command("new")
@option("--id", "id_", metavar="ID", help="Its name in stored data; the day unless told.")
@json_option
def new(id_: str | None, as_json: bool) -> None:
    """Print a fresh key, as FENCEPOST_KEYS and App(keys=…) take it.

    To rotate, put it before the others: the first encrypts, all decrypt. A key is needed for as
    long as there are jobs that were encrypted with it.
    """
    from fencepost.clock import SystemClock
    from fencepost.core.bounds import KEY_BYTES
    from fencepost.core.crypto.keyring import EncryptionKey

    clock = SystemClock()
    name = id_ or f"{clock.now():%Y%m%d}-{clock.new_bytes(2).hex()}"
    key = EncryptionKey(name, clock.new_bytes(KEY_BYTES))
    if as_json:
        from fencepost.cli.output import echo_json

        echo_json({"id": key.id, "key": key.text})
        return
    echo(key.text)
