"""What the facets of an encrypted store have in common: new jobs are sealed, replies opened."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from msgspec.structs import replace

from fencepost.core.bounds import PAGE_MAX
from fencepost.core.job.job import Encoding, Job, NewJob
from fencepost.core.job.lifecycle import DEAD
from fencepost.core.values.names import id_text
from fencepost.errors import EncryptionError
from fencepost.store.interface.control import Replay, Sealed
from fencepost.store.interface.facet import Facet, Method, planned
from fencepost.store.interface.store import Store
from fencepost.store.plan import Declaration, Operation, Plan, part_of
from fencepost.store.wrappers.encrypted.decrypt import Opener
from fencepost.store.wrappers.encrypted.duplicates import SealedJobs
from fencepost.store.wrappers.encrypted.encrypt import Sealer, owner_of

F = TypeVar("F", bound=Facet)


class Encrypting(Facet, Generic[F], abstract=True):
    """Wraps a facet, and passes on what is declared to hold no content of users."""

    def __init__(self, inner: F, store: Store, sealer: Sealer, opener: Opener) -> None:
        self._inner = inner
        self._reader = store.reader
        self._clock = store.clock
        self._new_ids = store.new_ids
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
        pairs = zip(jobs, self._new_ids(jobs), strict=True)
        return [self._sealer.seal_new(job, job.id or id_) for job, id_ in pairs]

    def _new(self, jobs: Sequence[NewJob]) -> SealedJobs:
        return SealedJobs(jobs, self._seal(jobs), self._get, self._opener)

    def _get(self, job_ids: Iterable[str]) -> Plan[dict[str, Job]]:
        """Return those jobs that there are, as they are stored, by id."""
        asked = list(dict.fromkeys(job_ids))
        jobs: dict[str, Job] = {}
        for start in range(0, len(asked), PAGE_MAX):
            found = yield from part_of(self._reader.get(asked[start : start + PAGE_MAX]))
            jobs |= {job.id: job for job in found if job is not None}
        return jobs

    def _for_fresh(self, request: Replay, dead: Job | None) -> Replay | Sealed:
        """Give *request* the content of *dead*, encrypted for the fresh job, if it can be read."""
        if dead is None:
            return request
        fresh = request.id or self._clock.new_id()
        try:
            payload = request.payload or self._opener.open_payload(dead)
            url = request.callback_url or self._opener.open_callback(dead)
        except EncryptionError:
            # A store copies content only if it is not encrypted.
            is_copied = dead.payload_body.encoding is not Encoding.ENCRYPTED and dead.state in DEAD
            return Sealed(dead.id) if is_copied else Replay(request.job_id)
        owner = owner_of(dead)._replace(id=id_text(fresh))
        return Replay(
            request.job_id,
            fresh,
            self._sealer.seal_payload(payload, owner),
            self._sealer.seal_callback(url, owner),
        )


def opening(name: str, field: str, open_: Callable[[Opener, Any], Any]) -> Any:
    """Return the operation of this name, which opens each value in a field of its reply."""

    def plan(self: Encrypting[Any], /, *args: Any, **kwargs: Any) -> Plan[Any]:
        reply = yield from getattr(self._inner, name)(*args, **kwargs).start()
        opened = [open_(self._opener, each) for each in getattr(reply, field)]
        return replace(reply, **{field: opened})

    return planned(plan)
