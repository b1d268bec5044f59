"""Runs of the differential test: as many operations as are asked for, from one seed."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager

import msgspec
from hypothesis import HealthCheck, Phase, Verbosity, seed, settings
from hypothesis.stateful import run_state_machine_as_test
from tests.servers.postgres import PostgresServer, given

from fencepost.clock import SystemClock
from lab.model.action import Ledger
from lab.model.comparison import Difference
from lab.model.machine import StoresAgree
from lab.model.partitions import SpreadStoresAgree
from lab.model.subjects import SUBJECTS, Subject, subjects
from lab.redis import server_url

STEPS = 50
"""Rules in a sequence, at the most; some make several calls."""
ROUND = 50
"""Sequences between two looks at how far the run has come, at the most."""
ROUND_MIN = 5
"""The first of a round is the simplest there is, which makes no call at all."""
OPERATIONS_A_SEQUENCE = 40
"""More or less."""
ROUNDS_MAX = 1_000_000
"""So many rounds have a seed of their own before they are those of the next seed."""
DATABASE = "fencepost_model"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What a run compared, and what it found."""

    seed: int
    stores: tuple[str, ...]
    operations: int
    """Calls whose answer was compared on every store."""
    looks: int
    """Comparisons of everything that can be seen."""
    sequences: int
    faults: int
    """Calls that failed, were cut or were not heard, and were then repeated."""
    zombies: int
    """Leases that were let run out, and then used."""
    seconds: float
    differences: list[str]
    """Each with a sequence that shows it."""


Progress = Callable[[Ledger, float], None]


def run(
    *,
    operations: int,
    seed: int = 0,
    stores: tuple[str, ...] = SUBJECTS,
    postgres_url: str | None = None,
    redis_url: str | None = None,
    progress: Progress | None = None,
    is_shortened: bool = True,
) -> Report:
    """Compare until so many *operations* are compared, or a difference is found.

    *postgres_url* names a database that may be emptied, *redis_url* a server on which keys may be
    written; without one a server is started. To find the shortest sequence that shows a difference
    takes minutes; to have it as it was found, none.
    """
    clock = SystemClock()
    started = clock.monotonic()
    ledger = Ledger()
    differences: list[str] = []
    number = 0
    with ExitStack() as stack:
        url = stack.enter_context(_database(stores, postgres_url))
        if redis_url is None and {"redis", "partitions"} & {*stores}:
            redis_url = server_url(stack)
        opened = stack.enter_context(subjects(stores, url, redis_url))
        machine = machine_of(opened, ledger)
        while ledger.operations < operations and not differences:
            left = (operations - ledger.operations) // OPERATIONS_A_SEQUENCE + 1
            differences += compare(
                machine,
                seed=seed * ROUNDS_MAX + number,
                sequences=min(max(left, ROUND_MIN), ROUND),
                is_shortened=is_shortened,
            )
            number += 1
            if progress is not None:
                progress(ledger, clock.monotonic() - started)
    return Report(
        seed=seed,
        stores=stores,
        operations=ledger.operations,
        looks=ledger.looks,
        sequences=ledger.sequences,
        faults=ledger.faults,
        zombies=ledger.zombies,
        seconds=round(clock.monotonic() - started, 1),
        differences=differences,
    )


def machine_of(opened: Sequence[Subject], ledger: Ledger) -> type[StoresAgree]:
    """Return the test of some stores; what one of them does not keep is asked of none."""
    is_spread = any(subject.is_spread for subject in opened)
    base = SpreadStoresAgree if is_spread else StoresAgree
    return type("StoresAgreeHere", (base,), {"subjects": opened, "ledger": ledger})


def compare(
    machine: type[StoresAgree],
    *,
    seed: int | None,
    sequences: int,
    steps: int = STEPS,
    is_shortened: bool = True,
) -> list[str]:
    """Run some sequences; return the difference that was found, if any.

    Without a *seed* the sequences are always the same.
    """
    chosen = settings(
        max_examples=sequences,
        stateful_step_count=steps,
        derandomize=seed is None,
        database=None,
        deadline=None,
        print_blob=False,
        verbosity=Verbosity.quiet,
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if is_shortened else (Phase.generate,),
        suppress_health_check=(HealthCheck.too_slow, HealthCheck.data_too_large),
    )
    if seed is not None:
        _seeded(seed, machine)
    try:
        run_state_machine_as_test(machine, settings=chosen)
    except Difference as difference:
        return [str(difference)]
    except Exception:  # noqa: BLE001 - a store that breaks is a difference too
        return ["\n".join([traceback.format_exc(), "after:", *machine.ledger.history])]
    return []


def _seeded(number: int, machine: type[StoresAgree]) -> None:
    seed(number)(machine)


@contextmanager
def _database(stores: tuple[str, ...], url: str | None) -> Iterator[str | None]:
    """Return a database for the run, on a server of its own if none is given."""
    if "postgres" not in stores or url is not None:
        yield url
        return
    server = given()
    if server is not None:
        server.drop_database(DATABASE)
        yield server.create_database(DATABASE)
        return
    with PostgresServer() as own:
        yield own.create_database(DATABASE)
