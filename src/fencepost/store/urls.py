"""Splitting the URL of a store, which may name several hosts."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit

_HOSTS = re.compile(r"[^/?#]*")


def split_url(url: str) -> SplitResult:
    """Return the parts of *url*; raise ValueError if it is none.

    As ``urlsplit``, which takes ``a,[::1]:7`` for a malformed host in some releases of Python.
    """
    scheme, mark, rest = url.partition("://")
    found = _HOSTS.match(rest)
    hosts = found[0] if found is not None else ""
    if "," not in hosts:
        return urlsplit(url)
    return urlsplit(f"{scheme}{mark}{rest[len(hosts) :]}")._replace(netloc=hosts)
