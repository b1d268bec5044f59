"""The ``fencepost`` command: its subcommands, its global options, and how errors are shown.

Exit codes: 0 done, 1 refused or failed, 2 usage.
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click
from click.shell_completion import CompletionItem

from fencepost import __version__
from fencepost.cli.errors import refusal
from fencepost.cli.options import WORDS, Settings, log_options, option, remember
from fencepost.cli.output import clean
from fencepost.core.display import did_you_mean
from fencepost.store.url import (
    DEFAULT_URL,
    SHARED_VARIABLE,
    URL_VARIABLE,
    url_from_environment,
)

COMMANDS = {
    "demo": ("demo.command", "Watch jobs run, crash, recover and finish."),
    "dev": ("commands.dev", "Run a worker and the API; restart both when code changes."),
    "worker": ("commands.worker", "Run jobs."),
    "server": ("commands.server", "Serve the HTTP API."),
    "submit": ("commands.submit", "Submit a job."),
    "events": ("commands.submit", "Events: send one, list those that were sent."),
    "jobs": ("jobs.command", "Jobs: find, show, cancel, retry, edit, watch."),
    "flows": ("jobs.flows", "Flows: list them with their counts."),
    "dlq": ("jobs.dead_letters", "Dead letters: list, replay, discard; replays at a rate."),
    "queues": ("commands.queues", "Queues: list, pause, resume, limit."),
    "types": ("commands.queues", "Types: list, pause, resume, limit."),
    "cron": ("commands.cron", "Crons: list, run, pause, resume, next times."),
    "workers": ("commands.queues", "Workers: list the live ones."),
    "webhooks": ("commands.access", "Webhooks: make a secret to sign them."),
    "top": ("commands.top", "Show queues, jobs, failures and workers, live."),
    "recover": ("commands.upkeep", "Take jobs back from expired leases now."),
    "prune": ("commands.upkeep", "Delete old terminal jobs now."),
    "migrate": ("commands.upkeep", "Bring the store's schema up to date."),
    "move": ("commands.move", "Move all jobs to another store."),
    "keys": ("commands.access", "Encryption keys: make a new one."),
    "tokens": ("commands.access", "Bearer tokens: create, list, revoke."),
    "audit": ("commands.access", "The audit log: list what operators did."),
    "doctor": ("commands.upkeep", "Check the store and report problems."),
    "bench": ("commands.bench", "Measure the speed of your store."),
    "version": ("commands.upkeep", "Show versions."),
}
"""By name: the module of ``fencepost.cli`` that defines the command, and its line of help."""


class CommandGroup(click.Group):
    """Imports a command when it is typed, and shows errors as one line, never a traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"fencepost.cli.{COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        ctx.meta[WORDS] = list(args)
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            # ``click`` would compare with commands that are imported, and none is yet.
            ctx.fail(f"No such command {args[0]!r}{did_you_mean(args[0], COMMANDS) or '.'}")
        return super().resolve_command(ctx, args)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete the names of commands without importing any of them, so that Tab is quick."""
        return [
            CompletionItem(name, help=text)
            for name, (_, text) in COMMANDS.items()
            if name.startswith(incomplete)
        ] + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them, so that ``--help`` is quick."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if type(error) is not click.UsageError or error.message.isprintable():
                raise
            # It quotes an argument, which a script may have taken from a job.
            raise click.UsageError(clean(error.message), error.ctx) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            settings = ctx.ensure_object(Settings)
            if settings.debug:
                raise
            raise refusal(error, settings) from error


@click.group(
    cls=CommandGroup,
    context_settings={
        "auto_envvar_prefix": "FENCEPOST",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@option(
    "--url",
    expose_value=False,
    callback=remember,
    envvar=URL_VARIABLE,
    default=url_from_environment,
    show_default=f"a PostgreSQL {SHARED_VARIABLE}, else {DEFAULT_URL}",
    help="The store.",
)
@log_options
@option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=remember,
    help="Show the traceback of an error.",
)
@click.version_option(__version__, message="fencepost %(version)s")
def cli() -> None:
    """The job queue in which a job cannot be lost and a stale worker cannot write."""


def main() -> None:
    """Run the command."""
    sys.exit(cli(prog_name="fencepost"))
