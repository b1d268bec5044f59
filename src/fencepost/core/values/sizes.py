"""Amounts of memory, as people write them: ``512MB``, ``1.5GiB``."""

from __future__ import annotations

import re

from fencepost.core.display import shown
from fencepost.errors import ConfigurationError

_UNITS = {"KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"(\d{1,12}(?:\.\d{1,6})?) ?([KMG]i?B)?", re.ASCII | re.IGNORECASE)


def parse_size(value: object, name: str, minimum: int, maximum: int) -> int:
    """Return *value* in bytes, or raise ConfigurationError; a number without a unit is in MB."""
    found = None if isinstance(value, bool) else _SIZE.fullmatch(str(value).strip())
    if found is None:
        raise ConfigurationError(f"{name} is a size such as 512MB or 2GB, got {shown(value)}")
    size = round(float(found[1]) * _UNITS[(found[2] or "MB").upper()])
    if not minimum <= size <= maximum:
        raise ConfigurationError(
            f"{name} must lie between {as_megabytes(minimum)} and {as_megabytes(maximum)}, "
            f"got {shown(value)}"
        )
    return size


def as_megabytes(size: int) -> str:
    """Return a number of bytes for people."""
    return f"{size / 10**6:,.0f} MB"
