"""Many rows in one statement.

``executemany`` gives up the interpreter's lock at every row, and gets it back only when the thread
that runs handlers lets go: five milliseconds a row at worst. One statement a chunk does it once.
Chunks are powers of two, so that few distinct texts are prepared and all of them stay prepared.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import Any

CHUNK_MAX = 256


def values(template: str, rows: Sequence[Sequence[Any]]) -> Iterator[tuple[str, list[Any]]]:
    """Yield statements and parameters that together cover *rows*; ``{values}`` is filled in."""
    start = 0
    while start < len(rows):
        size = min(CHUNK_MAX, 1 << (len(rows) - start).bit_length() - 1)
        chunk = rows[start : start + size]
        yield _text(template, len(chunk), len(chunk[0])), list(chain.from_iterable(chunk))
        start += size


@lru_cache(maxsize=256)
def _text(template: str, count: int, width: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return template.replace("{values}", "values " + ",".join([row] * count))
