"""Job ids (UUID version 4) as text outside and sixteen bytes inside; attempt ids."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress

from fencepost.core.display import shown
from fencepost.errors import JobNotFoundError

_CANONICAL = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", re.ASCII
)


def id_text(raw: bytes) -> str:
    """Return sixteen bytes as the canonical text of a UUID."""
    return id_of_digits(raw.hex())


def id_of_digits(digits: str) -> str:
    """Return 32 hexadecimal digits as the canonical text of a UUID."""
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def id_bytes(text: object) -> bytes:
    """Return the sixteen bytes of a job id; what cannot be one is a job that does not exist."""
    lowered = text.lower() if isinstance(text, str) else ""
    if not _CANONICAL.fullmatch(lowered):
        raise JobNotFoundError(text if isinstance(text, str) else shown(text))
    return bytes.fromhex(lowered.replace("-", ""))


def is_id(text: str) -> bool:
    """Tell whether *text* could be the id of a job."""
    return _CANONICAL.fullmatch(text.lower()) is not None


def attempt_id(job_id: str, lease_version: int) -> str:
    """Return the id of the attempt that runs under lease *lease_version* of a job (S1-78)."""
    return f"{job_id}.{lease_version}"


def previous_attempt_id(job_id: str, last_version: int) -> str | None:
    """Return the id of the attempt under lease *last_version*, or None for 0, which none has."""
    return attempt_id(job_id, last_version) if last_version else None


def wanted_ids(job_ids: Sequence[str]) -> dict[bytes, str]:
    """Return stored form and lower-case text of each id; text that is no id names no row."""
    wanted = {}
    for job_id in job_ids:
        with suppress(JobNotFoundError):
            wanted[id_bytes(job_id)] = job_id.lower()
    return wanted
