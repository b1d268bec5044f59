"""``flask fencepost …``: the commands of Fencepost, about the app of a Flask site."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import click
from flask.cli import ScriptInfo

from fencepost.cli.main import CommandGroup, cli
from fencepost.cli.options import Settings

if TYPE_CHECKING:
    from fencepost.app import App


class SiteCommands(CommandGroup):
    """The commands with the site's app in place of one that is named."""

    app: App

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        site = None if parent is None else parent.find_object(ScriptInfo)
        found = [] if site is None or not site.app_import_path else ["--app", site.app_import_path]
        extra["obj"] = Settings(
            url=self.app.url,
            app=self.app,
            program=("flask", *found, "fencepost"),
            child_program=(sys.executable, "-m", "flask", *found, "fencepost"),
        )
        return super().make_context(info_name, args, parent, **extra)


def commands_of(app: App) -> SiteCommands:
    """Return the group of all commands, about *app*."""
    group = SiteCommands(
        "fencepost",
        params=cli.params,
        callback=cli.callback,
        help=cli.help,
        context_settings=cli.context_settings,
    )
    group.app = app
    return group
