"""Job ids as users give them, and the rows they may name."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from fencepost.core.values.ids import id_bytes
from fencepost.errors import JobNotFoundError


def wanted_ids(job_ids: Sequence[str]) -> dict[bytes, str]:
    """Return stored form and lower-case text of each id; text that is no id names no row."""
    wanted = {}
    for job_id in job_ids:
        with suppress(JobNotFoundError):
            wanted[id_bytes(job_id)] = job_id.lower()
    return wanted
