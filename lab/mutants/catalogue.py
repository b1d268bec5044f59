"""Every mutant, by name."""

from __future__ import annotations

from lab.mutants import (
    catalogue_addresses,
    catalogue_batches,
    catalogue_bodies,
    catalogue_callbacks,
    catalogue_clocks,
    catalogue_contract,
    catalogue_crons,
    catalogue_encryption,
    catalogue_ends,
    catalogue_events,
    catalogue_failover,
    catalogue_files,
    catalogue_graphs,
    catalogue_hooks,
    catalogue_keys,
    catalogue_leases,
    catalogue_memory,
    catalogue_numbers,
    catalogue_partitions,
    catalogue_postgres,
    catalogue_rates,
    catalogue_redis,
    catalogue_replays,
    catalogue_roles,
    catalogue_scopes,
    catalogue_server,
    catalogue_sqlite,
    catalogue_starts,
    catalogue_terminal,
    catalogue_tokens,
    catalogue_worker,
)
from lab.mutants.mutant import Mutant

MUTANTS: tuple[Mutant, ...] = (
    *catalogue_memory.MUTANTS,
    *catalogue_sqlite.MUTANTS,
    *catalogue_files.MUTANTS,
    *catalogue_postgres.MUTANTS,
    *catalogue_redis.MUTANTS,
    *catalogue_partitions.MUTANTS,
    *catalogue_numbers.MUTANTS,
    *catalogue_worker.MUTANTS,
    *catalogue_starts.MUTANTS,
    *catalogue_hooks.MUTANTS,
    *catalogue_batches.MUTANTS,
    *catalogue_graphs.MUTANTS,
    *catalogue_crons.MUTANTS,
    *catalogue_events.MUTANTS,
    *catalogue_failover.MUTANTS,
    *catalogue_rates.MUTANTS,
    *catalogue_replays.MUTANTS,
    *catalogue_roles.MUTANTS,
    *catalogue_keys.MUTANTS,
    *catalogue_callbacks.MUTANTS,
    *catalogue_tokens.MUTANTS,
    *catalogue_scopes.MUTANTS,
    *catalogue_server.MUTANTS,
    *catalogue_bodies.MUTANTS,
    *catalogue_ends.MUTANTS,
    *catalogue_leases.MUTANTS,
    *catalogue_addresses.MUTANTS,
    *catalogue_clocks.MUTANTS,
    *catalogue_contract.MUTANTS,
    *catalogue_encryption.MUTANTS,
    *catalogue_terminal.MUTANTS,
)


def mutant(name: str) -> Mutant:
    """Return the mutant of this name."""
    for each in MUTANTS:
        if each.name == name:
            return each
    raise KeyError(f"no mutant is called {name!r}")
