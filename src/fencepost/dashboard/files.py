"""The built files of the dashboard, read once and kept in memory, plain and compressed."""

from __future__ import annotations

import gzip
from functools import cache
from pathlib import Path

import msgspec

STATIC = Path(__file__).parent / "static"
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}


class StaticFile(msgspec.Struct, frozen=True):
    """The content of a file; *packed* is the same by gzip."""

    data: bytes
    packed: bytes
    media_type: str


class Build(msgspec.Struct, frozen=True):
    """The page, and the files that it loads, by name; names have a hash of the content in them."""

    page: str
    assets: dict[str, StaticFile]


@cache
def read_build(folder: Path = STATIC) -> Build | None:
    """Return what is in *folder*; None if the dashboard was not built."""
    try:
        page = (folder / "index.html").read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    found = sorted((folder / "assets").iterdir())
    assets = {path.name: _read(path) for path in found if path.suffix in MEDIA_TYPES}
    return Build(page, assets)


def _read(path: Path) -> StaticFile:
    data = path.read_bytes()
    return StaticFile(data, gzip.compress(data, mtime=0), MEDIA_TYPES[path.suffix])
