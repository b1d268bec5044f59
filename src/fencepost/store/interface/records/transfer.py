"""Moving whole jobs to another store."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from fencepost.core.job.job import JobRecord
from fencepost.store.interface.facet import Facet, operation
from fencepost.store.plan import Effect, Operation, Wakes


class Dump(msgspec.Struct, frozen=True):
    """Whole jobs, oldest first, and the position of the last."""

    records: list[JobRecord]
    last: int
    """Where the next page begins; what was asked for when there is nothing more."""


class Loaded(msgspec.Struct, gc=False, frozen=True):
    """The record is stored as it was given."""

    job_id: str


class Present(msgspec.Struct, gc=False, frozen=True):
    """A job of this id is there already; it was left as it is."""

    job_id: str


LoadReply = Loaded | Present


class TransferFacet(Facet, abstract=True):
    """Moving whole jobs to another store."""

    @operation(Effect.READ, has_content=True)
    def dump(self, after: int, limit: int) -> Operation[Dump]:
        """Return whole jobs in the order of submission, from position *after* (0 at first) on.

        Pages are bounded in bytes too. A live job that cannot be read raises StateConflictError.
        """

    @operation(Effect.WRITE, has_content=True, wakes=Wakes.READY)
    def load(self, records: Sequence[JobRecord]) -> Operation[list[LoadReply]]:
        """Store jobs as another store had them, in this order; one whose id is known is left alone.

        All or none: a running job raises StateConflictError, and a live one whose key another job
        holds here raises DuplicateJobError.
        """

    @operation(Effect.WRITE, has_content=False)
    def accept_jobs(self, is_accepted: bool) -> Operation[None]:
        """Refuse new jobs from now on, whichever way they come, or accept them again.

        A refused one raises StoreUnavailableError and nothing of its operation is stored. When
        this has returned, every job that was accepted before can be seen. The refusal outlives
        this process, costs nothing while there is none, and leaves the jobs that are there alone.
        """
