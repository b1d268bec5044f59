"""A group whose commands are imported when they are typed, so that ``--help`` is quick."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

Lazy = Mapping[str, tuple[str, str]]
"""By name: where the command is (``module:attribute``), and its line in the list."""


class LazyGroup(click.Group):
    """Knows its commands by name and one line of help; loads one when it is needed."""

    def __init__(self, *args: Any, lazy: Lazy | None = None, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.lazy = dict(lazy or {})

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*self.lazy, *super().list_commands(ctx)]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.lazy:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = self.lazy[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        rows = [(name, text) for name, (_, text) in self.lazy.items()]
        with formatter.section("Commands"):
            formatter.write_dl(rows)
