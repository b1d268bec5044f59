"""``fencepost version``."""

from __future__ import annotations

import platform

import click

from fencepost import __version__
from fencepost.cli.lines import echo
from fencepost.cli.options import json_option


@click.command()
@json_option
def version(as_json: bool) -> None:
    """Show the versions of Fencepost and of what it stands on."""
    import sqlite3

    versions = {
        "fencepost": __version__,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "platform": platform.platform(),
    }
    if as_json:
        from fencepost.cli.output import echo_json

        echo_json(versions)
        return
    for name, text in versions.items():
        echo(f"{name} {text}")
