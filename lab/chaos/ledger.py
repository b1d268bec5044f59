"""Append-only files outside of every store, one a process: a kill can tear its last line only.

A line is one ``write`` to a descriptor opened with O_APPEND: whatever was written before a SIGKILL
is in the system's hands, and stays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from fencepost.clock import SystemClock
from lab.chaos.entries import Entry

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(Entry)


class Ledger:
    """What one process notes."""

    def __init__(self, place: Path, name: str) -> None:
        folder = place / "ledgers"
        folder.mkdir(exist_ok=True)
        self.clock = SystemClock()
        path = folder / f"{name}-{os.getpid()}.jsonl"
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)

    def now(self) -> float:
        """Return the time that lines carry."""
        return self.clock.now_us() / 1_000_000

    def note(self, entry: Entry) -> None:
        line = _encoder.encode(entry) + b"\n"
        written = os.write(self._file, line)
        assert written == len(line), "the ledger's disk is full"


def paths(place: Path, name: str = "") -> list[Path]:
    """Return the ledgers of those whose name begins so, in the order of their names."""
    return sorted((place / "ledgers").glob(f"{name}*.jsonl"))


def read(path: Path) -> Iterator[Entry]:
    """Return what is whole of a ledger."""
    return decode(path.read_bytes())


def decode(data: bytes) -> Iterator[Entry]:
    """Return the entries of whole lines; what a kill tore off has no end of line."""
    for line in data.splitlines(keepends=True):
        if line.endswith(b"\n"):
            yield _decoder.decode(line)


class Follower:
    """Reads what is new in some ledgers, again and again."""

    def __init__(self, place: Path, name: str) -> None:
        self._place = place
        self._name = name
        self._read: dict[Path, int] = {}

    def news(self) -> Iterator[Entry]:
        for path in paths(self._place, self._name):
            with path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read[path] = self._read.get(path, 0) + len(whole)
            yield from decode(whole)
