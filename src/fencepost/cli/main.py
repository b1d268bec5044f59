"""The ``fencepost`` command: the group, its global options, and what becomes of errors.

Exit codes: 0 done, 1 refused or failed, 2 usage.
"""

from __future__ import annotations

import sys
from typing import Any

import click
from click.core import ParameterSource

from fencepost import __version__
from fencepost.cli.errors import refusal
from fencepost.cli.lazy import LazyGroup
from fencepost.cli.lines import clean
from fencepost.cli.options import LEVELS, option
from fencepost.cli.settings import Settings
from fencepost.store.environment import (
    DEFAULT_URL,
    SHARED_VARIABLE,
    URL_VARIABLE,
    url_from_environment,
)

COMMANDS = {
    "demo": ("fencepost.cli.demo.command:demo", "Watch jobs run, crash, recover and finish."),
    "dev": ("fencepost.cli.commands.dev:dev", "Run a worker and the API, anew when code changes."),
    "worker": ("fencepost.cli.worker.command:worker", "Run jobs."),
    "server": ("fencepost.cli.commands.server:server", "Serve the HTTP API."),
    "submit": ("fencepost.cli.commands.submit:submit", "Submit a job."),
    "events": (
        "fencepost.cli.commands.events:events",
        "Events: send one, list those that were sent.",
    ),
    "jobs": ("fencepost.cli.jobs.command:jobs", "Find jobs, look at them, steer them."),
    "dlq": ("fencepost.cli.commands.dlq:dlq", "Dead letters: list, replay, discard."),
    "queues": ("fencepost.cli.commands.queues:queues", "Queues: list, pause, resume, limit."),
    "types": ("fencepost.cli.commands.types:types", "Types: list, pause, resume."),
    "cron": ("fencepost.cli.commands.cron:cron", "Crons: list, run, pause, resume, next times."),
    "workers": ("fencepost.cli.commands.workers:workers", "Workers: who is there."),
    "webhooks": (
        "fencepost.cli.commands.webhooks:webhooks",
        "Webhooks: make a secret to sign them.",
    ),
    "top": ("fencepost.cli.top.command:top", "Everything at a glance, live."),
    "recover": ("fencepost.cli.commands.upkeep:recover", "Take jobs back from expired leases now."),
    "prune": ("fencepost.cli.commands.upkeep:prune", "Delete old terminal jobs now."),
    "migrate": ("fencepost.cli.commands.migrate:migrate", "Bring the store's schema up to date."),
    "move": ("fencepost.cli.move.command:move", "Move all jobs to another store."),
    "keys": ("fencepost.cli.commands.keys:keys", "Encryption keys: make a new one."),
    "tokens": ("fencepost.cli.commands.tokens:tokens", "Bearer tokens: create, list, revoke."),
    "audit": ("fencepost.cli.commands.audit:audit", "The audit log: who did what."),
    "doctor": ("fencepost.cli.commands.doctor:doctor", "Say what an operator should know."),
    "bench": ("fencepost.cli.bench.command:bench", "Measure the speed of your store."),
    "version": ("fencepost.cli.commands.version:version", "Show versions."),
}


class Fencepost(LazyGroup):
    """The top of the command: shows errors as one line, never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            if type(error) is not click.UsageError or error.message.isprintable():
                raise
            # It repeats an argument, which a script may have taken from a job.
            raise click.UsageError(clean(error.message), error.ctx) from error
        except (click.ClickException, click.exceptions.Exit, click.Abort, BrokenPipeError):
            raise
        except Exception as error:
            settings = ctx.ensure_object(Settings)
            if settings.debug:
                raise
            raise refusal(error, settings) from error


@click.group(
    cls=Fencepost,
    lazy=COMMANDS,
    context_settings={
        "auto_envvar_prefix": "FENCEPOST",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@option(
    "--url",
    envvar=URL_VARIABLE,
    default=url_from_environment,
    show_default=f"a PostgreSQL {SHARED_VARIABLE}, else {DEFAULT_URL}",
    help="The store.",
)
@option(
    "--log-level",
    type=click.Choice(LEVELS, case_sensitive=False),
    help="How much to log; info unless told.",
)
@option("--log-json", is_flag=True, help="Log one JSON object a line.")
@option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.version_option(__version__, message="fencepost %(version)s")
@click.pass_context
def cli(ctx: click.Context, url: str, log_level: str | None, log_json: bool, debug: bool) -> None:
    """The job queue in which a job cannot be lost and a stale worker cannot write."""
    is_given = ctx.get_parameter_source("url") is ParameterSource.COMMANDLINE
    ctx.obj = Settings(
        url=url, is_url_given=is_given, log_level=log_level, log_json=log_json, debug=debug
    )


def main() -> None:
    """Run the command."""
    sys.exit(cli(prog_name="fencepost"))
