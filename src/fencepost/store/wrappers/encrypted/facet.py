"""What the facets of an encrypting store have in common."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Generic, TypeVar

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.job.job import Job, NewJob
from fencepost.store.interface.facet import Facet, Method
from fencepost.store.interface.store import Store
from fencepost.store.plan import Declaration, Operation, Plan, part_of
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.encrypt import Sealer

F = TypeVar("F", bound=Facet)


class Encrypting(Facet, Generic[F], abstract=True):
    """Wraps a facet, and passes on what is declared to hold no content of users."""

    def __init__(self, inner: F, store: Store, sealer: Sealer, opener: Opener) -> None:
        self._inner = inner
        self._reader = store.reader
        self._clock = store.clock
        self._sealer = sealer
        self._opener = opener

    @classmethod
    def supply(cls, name: str, declaration: Declaration) -> Method | None:
        if declaration.has_content:
            return None

        def pass_on(self: Encrypting[F], /, *args: Any, **kwargs: Any) -> Operation[Any]:
            operation: Operation[Any] = getattr(self._inner, name)(*args, **kwargs)
            return operation

        return pass_on

    def _seal(self, jobs: Sequence[NewJob]) -> list[NewJob]:
        pairs = zip(jobs, self._clock.new_ids(len(jobs)), strict=True)
        return [self._sealer.seal_new(job, id_) for job, id_ in pairs]

    def _get(self, job_ids: Iterable[str]) -> Plan[dict[str, Job]]:
        """Return those jobs that there are, as they are stored, by id."""
        asked = list(dict.fromkeys(job_ids))
        jobs: dict[str, Job] = {}
        for start in range(0, len(asked), PAGE_MAX):
            found = yield from part_of(self._reader.get(asked[start : start + PAGE_MAX]))
            jobs |= {job.id: job for job in found if job is not None}
        return jobs
