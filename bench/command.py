"""``make bench``: this machine's figures beside its raw limit."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec
from click.core import ParameterSource

from bench import http, machine, postgres, redis, report, suite
from bench.bench import Bench, Sizes
from bench.figures import Failed, Figure
from bench.progress import StatusLine
from bench.sqlite_bench import SqliteBench
from fencepost.cli.options import option
from fencepost.cli.output import echo_json
from fencepost.clock import SystemClock
from fencepost.core.bounds import BULK_MAX
from fencepost.errors import ConfigurationError
from fencepost.store.sqlite.engine.database import DURABILITIES
from fencepost.store.url import names_postgres

if TYPE_CHECKING:
    from bench.postgres.bench import ServerSizes

ROUNDS_MAX = 100

NAMES = [name for group in suite.GROUPS for name in group.names]
REDIS_SCHEMES = ("redis://", "rediss://", "unix://")

FULL = Sizes(
    jobs=20_000,
    backlog=1_000_000,
    singles=2_000,
    samples=300,
    stored=100_000,
    starts=7,
    rounds=3,
)
QUICK = Sizes(
    jobs=5_000,
    backlog=50_000,
    singles=300,
    samples=50,
    stored=20_000,
    starts=3,
    rounds=1,
)
HTTP_FULL = msgspec.structs.replace(FULL, jobs=2_000, rounds=9)
"""Requests come in short rounds: echo and submission take turns every second."""
HTTP_QUICK = msgspec.structs.replace(QUICK, jobs=500, rounds=3)
PASSING, PASSING_QUICK = 300_000, 50_000
"""Jobs that pass while an old snapshot is held."""


@click.command()
@option(
    "--store",
    metavar="URL",
    help="Measure PostgreSQL, in this database, which must be empty and is left empty; or Redis, "
    "under keys of its own, which are removed. SQLite unless given.",
)
@option("--http", "is_http", is_flag=True, help="Measure the HTTP API on that store instead.")
@option(
    "--only",
    multiple=True,
    type=click.Choice(list(dict.fromkeys([*NAMES, *postgres.NAMES, *redis.NAMES, *http.NAMES]))),
    help="Measure this (repeatable).",
)
@option("--quick", is_flag=True, help="Smaller sizes, one round: seconds instead of minutes.")
@option(
    "--jobs",
    type=click.IntRange(1, BULK_MAX),
    help="Jobs of a drain and of a bulk, requests of a round; a small number makes all else small "
    "as well.",
)
@option(
    "--backlog",
    type=click.IntRange(1),
    help="Jobs in line in the big drain. On PostgreSQL a larger one than usual is measured "
    "beside the usual one. With --http, ended jobs that are kept.",
)
@option("--repeat", type=click.IntRange(1, ROUNDS_MAX), help="Rounds; the median is shown.")
@option(
    "--path",
    type=click.Path(exists=True, file_okay=False, writable=True, path_type=Path),
    default=".",
    help="Where the databases are made and removed again; a disk, not tmpfs.",
)
@option(
    "--durability",
    type=click.Choice(DURABILITIES),
    default="power",
    show_default=True,
    help="What an acknowledged write survives, on SQLite; PostgreSQL is measured as it is set up.",
)
@option("--json", "as_json", is_flag=True, envvar="FENCEPOST_JSON", help="Print JSON.")
@click.pass_context
def bench(
    ctx: click.Context,
    store: str | None,
    is_http: bool,
    only: tuple[str, ...],
    quick: bool,
    jobs: int | None,
    backlog: int | None,
    repeat: int | None,
    path: Path,
    durability: str,
    as_json: bool,
) -> None:
    """Measure this machine: Fencepost beside the raw limit, in one run.

    The raw limit of SQLite is the same statements on the same tables with the same promise to the
    disk, without Fencepost; that of PostgreSQL, batched claims and completions on two plain tables
    of the same server; that of Redis, scripts that do the same over plain keys. Targets are
    reported, not enforced: the exit code is 1 only if a measurement failed.
    """
    sizes = _sizes(_preset(quick, is_http), jobs=jobs, backlog=backlog, rounds=repeat)
    _check(ctx, store, only, is_http=is_http)
    has_backlog = not is_http and (not only or "backlog" in only)
    if has_backlog and sizes.backlog < sizes.jobs * sizes.rounds:
        raise click.UsageError(
            f"a backlog of {sizes.backlog:,} is not enough for {sizes.rounds} rounds of "
            f"{sizes.jobs:,} jobs; give a larger --backlog or fewer --jobs"
        )
    with (
        tempfile.TemporaryDirectory(prefix=".fencepost-bench-", dir=path.resolve()) as folder,
        StatusLine() as progress,
    ):
        if store is None:
            workbench = SqliteBench(
                Path(folder),
                sizes=sizes,
                durability=durability,
                clock=SystemClock(),
                progress=progress,
            )
            result = _on_sqlite(workbench, only, is_http=is_http)
        elif store.startswith(REDIS_SCHEMES):
            result = _on_redis(Path(folder), progress, sizes, only, store, is_http=is_http)
        else:
            grown = _server_sizes(sizes, quick=quick)
            result = _on_postgres(Path(folder), progress, grown, only, store, is_http=is_http)
    if as_json:
        echo_json(report.plain(result))
    else:
        report.show(result)
    if result.failed:
        sys.exit(1)


def _preset(quick: bool, is_http: bool) -> Sizes:
    if is_http:
        return HTTP_QUICK if quick else HTTP_FULL
    return QUICK if quick else FULL


def _on_sqlite(
    workbench: SqliteBench, only: tuple[str, ...], *, is_http: bool
) -> report.BenchReport:
    found = machine.look(workbench.folder, workbench.clock)
    if is_http:
        figures, failed = _over_http(workbench, only)
    else:
        figures, failed = suite.run(workbench, suite.GROUPS, only)
    return report.BenchReport(
        machine=found,
        durability=workbench.durability,
        sizes=workbench.sizes,
        figures=figures,
        failed=failed,
    )


def _over_http(workbench: Bench, only: tuple[str, ...]) -> tuple[list[Figure], list[Failed]]:
    from bench.http.suite import GROUPS  # imports a server

    return suite.run(workbench, GROUPS, only)


def _on_postgres(
    folder: Path,
    progress: StatusLine,
    sizes: ServerSizes,
    only: tuple[str, ...],
    url: str,
    *,
    is_http: bool,
) -> report.BenchReport:
    try:
        from bench.postgres import machine as server
        from bench.postgres import suite as server_suite
        from bench.postgres.bench import PostgresBench
    except ImportError as error:
        raise ConfigurationError(
            f"the driver of PostgreSQL is missing ({error}); install fencepost[postgres]"
        ) from None
    with PostgresBench(
        folder, url=url, sizes=sizes, clock=SystemClock(), progress=progress
    ) as workbench:
        found = server.look(workbench)
        if is_http:
            figures, failed = _over_http(workbench, only)
        else:
            figures, failed = suite.run(workbench, server_suite.GROUPS, only)
    return report.BenchReport(
        machine=found, durability=found.durability, sizes=sizes, figures=figures, failed=failed
    )


def _on_redis(
    folder: Path,
    progress: StatusLine,
    sizes: Sizes,
    only: tuple[str, ...],
    url: str,
    *,
    is_http: bool,
) -> report.BenchReport:
    try:
        from bench.redis import machine as server
        from bench.redis import suite as server_suite
        from bench.redis.bench import RedisBench, RedisSizes
    except ImportError as error:
        raise ConfigurationError(
            f"the driver of Redis is missing ({error}); install fencepost[redis]"
        ) from None
    grown = RedisSizes(**msgspec.structs.asdict(sizes), steady=sizes.samples * 10)
    with RedisBench(
        folder, url=url, sizes=grown, clock=SystemClock(), progress=progress
    ) as workbench:
        found = server.look(workbench)
        if is_http:
            figures, failed = _over_http(workbench, only)
        else:
            figures, failed = suite.run(workbench, server_suite.GROUPS, only)
    return report.BenchReport(
        machine=found, durability=found.durability, sizes=grown, figures=figures, failed=failed
    )


def _check(ctx: click.Context, url: str | None, only: tuple[str, ...], *, is_http: bool) -> None:
    """Refuse what does not go together."""
    known: Sequence[str]
    known, place = (NAMES, "SQLite") if url is None else (postgres.NAMES, "PostgreSQL")
    if url is not None and url.startswith(REDIS_SCHEMES):
        known, place = redis.NAMES, "Redis"
    if is_http:
        known, place = http.NAMES, "HTTP"
    unknown = [name for name in only if name not in known]
    if unknown:
        raise click.UsageError(f"{unknown[0]!r} is not measured on {place}; {', '.join(known)} are")
    if url is None:
        return
    if not (names_postgres(url) or url.startswith(REDIS_SCHEMES)):
        raise click.UsageError(
            "--store takes postgresql://… or redis://…; SQLite is measured without it"
        )
    if ctx.get_parameter_source("durability") is ParameterSource.COMMANDLINE:
        raise click.UsageError("--durability is for SQLite; a server has its own settings")


def _server_sizes(sizes: Sizes, *, quick: bool) -> ServerSizes:
    """Return *sizes* with those that only a server has."""
    from bench.postgres.bench import ServerSizes

    usual = (QUICK if quick else FULL).backlog
    return ServerSizes(
        **msgspec.structs.asdict(sizes),
        backlogs=(usual, sizes.backlog) if sizes.backlog > usual else (sizes.backlog,),
        passing=min(PASSING_QUICK if quick else PASSING, sizes.jobs * 15),
        steady=sizes.samples * 10,
        limited=max(sizes.jobs // 4, 1),
    )


def _sizes(preset: Sizes, *, jobs: int | None, backlog: int | None, rounds: int | None) -> Sizes:
    """Return *preset* with what was asked for."""
    jobs = jobs or preset.jobs
    return msgspec.structs.replace(
        preset,
        jobs=jobs,
        singles=min(preset.singles, jobs),
        samples=min(preset.samples, jobs),
        stored=min(preset.stored, jobs * 5),
        backlog=backlog or preset.backlog,
        rounds=rounds or preset.rounds,
    )
