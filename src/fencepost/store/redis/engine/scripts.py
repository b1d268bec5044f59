"""The scripts that the server runs, known to it by their hashes."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.resources import files
from typing import NamedTuple

PARTS = {
    "read": ("time", "read"),
    "claim": ("time", "lines", "limits", "choice", "claim"),
    "commit": ("time", "lines", "wake", "commit"),
    "enqueue": ("time", "lines", "wake", "enqueue"),
}
"""The files of which each script consists."""


class Script(NamedTuple):
    """The text of a script, and the hash by which the server knows it."""

    text: bytes
    sha: bytes


@cache
def script(name: str) -> Script:
    """Return the script of this name."""
    folder = files("fencepost.store.redis.scripts")
    text = b"\n".join(folder.joinpath(f"{each}.lua").read_bytes() for each in PARTS[name])
    return Script(text, hashlib.sha1(text, usedforsecurity=False).hexdigest().encode())
