"""The shape of JSON, found out before it is decoded: how deep it is, and of how many values.

What is decoded becomes objects in memory, ten times as large as the text and more, in one go that
nothing else gets in between. So what is too much is refused by counting, which takes a fraction of
that; and counting goes piece by piece, so that a thread that does it holds nobody up.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from fencepost.core.bounds import JSON_DEPTH_MAX, JSON_VALUES_MAX
from fencepost.errors import InvalidPayloadError

PIECE = 65_536
ITEM_DEPTH = 3
"""Where the jobs of ``{"jobs": [{…}, {…}]}`` are, counted from the outside."""
_BACKSLASH = b"\\"[0]
_BACKSLASHES = re.compile(rb"\\*")
_OPENING = frozenset(b"[{")
_NO_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


def check_shape(data: bytes) -> int:
    """Return how many objects and lists are at ITEM_DEPTH at the most, or raise if it is too much.

    Raises InvalidPayloadError for what is nested deeper than JSON_DEPTH_MAX, or has more values
    than JSON_VALUES_MAX. Whether it is JSON at all, the decoder says.
    """
    opened = data.count(b"[") + data.count(b"{")
    # Brackets and commas in texts are counted here, too: if there are few even so, all is well.
    if opened <= JSON_DEPTH_MAX and opened + data.count(b",") <= JSON_VALUES_MAX:
        return opened
    depth = items = values = 0
    for piece in _without_texts(data):
        values += piece.count(b",") + piece.count(b"[") + piece.count(b"{")
        if values > JSON_VALUES_MAX:
            raise InvalidPayloadError(f"a body may have {JSON_VALUES_MAX:,} values, this has more")
        for byte in piece.translate(None, _NO_BRACKETS):
            if byte in _OPENING:
                depth += 1
                if depth > JSON_DEPTH_MAX:
                    raise InvalidPayloadError(
                        f"JSON may be nested {JSON_DEPTH_MAX} levels deep, this is deeper"
                    )
                if depth == ITEM_DEPTH:
                    items += 1
            else:
                depth -= 1
    return items


def _without_texts(data: bytes) -> Iterator[bytes]:
    """Yield *data* piece by piece, without what stands between quotes."""
    start, is_text = 0, False
    while start < len(data):
        end = min(start + PIECE, len(data))
        if data[end - 1] == _BACKSLASH:
            # What a backslash stands before belongs to it, and several are read from the first on.
            run = _BACKSLASHES.match(data, end)
            end = end + 1 if run is None else run.end() + 1
        piece = data[start:end]
        if _BACKSLASH in piece:
            piece = piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        parts = piece.split(b'"')
        yield b"".join(parts[is_text::2])
        is_text ^= len(parts) % 2 == 0
        start = end
