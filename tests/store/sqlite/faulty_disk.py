"""A disk that really fails: a file system on a loop device whose backing memory runs out.

Writes to blocks that were never written before then fail as they do on a broken disk: the system
reports the error once to each open file, keeps what was written in memory, takes it for written,
and never tries again. A copy of the backing file is what a power cut leaves.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

SIZE_KIB = 64 << 10
IMAGE_MIB = 48
BLOCK = 4096


class FaultyDisk:
    """A folder on a disk that can be broken and mended."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._memory = place / "memory"
        self._image = self._memory / "image"
        self.folder = place / "disk"
        self._opened = ExitStack()

    def open(self) -> None:
        for each in (self._memory, self.folder):
            each.mkdir()
        self._mount("-t", "tmpfs", "-o", f"size={SIZE_KIB}k", "fencepost-test", str(self._memory))
        self._opened.callback(_run, "umount", "--lazy", str(self._memory))
        with self._image.open("wb") as image:
            image.truncate(IMAGE_MIB << 20)
        _run("mkfs.ext4", "-q", "-F", "-b", str(BLOCK), str(self._image))
        # All of it has memory of its own now; ``fail`` takes away that of the free blocks.
        _run("fallocate", "--length", f"{IMAGE_MIB}MiB", str(self._image))
        self._mount("-o", "loop,nodiscard", str(self._image), str(self.folder))
        self._opened.callback(_run, "umount", "--lazy", str(self.folder))

    def close(self) -> None:
        self._opened.close()

    def _mount(self, *words: str) -> None:
        _run("mount", *words)

    def fail(self) -> None:
        """From now on, no block that is free now can be written; the file system's own can."""
        os.sync()
        for first, last in self._free_blocks():
            where = ("--offset", str(first * BLOCK), "--length", str((last - first + 1) * BLOCK))
            _run("fallocate", "--punch-hole", *where, str(self._image))
        state = os.statvfs(self._memory)
        used = (state.f_blocks - state.f_bfree) * state.f_frsize // 1024
        self._mount("-o", f"remount,size={used}k", str(self._memory))

    def _free_blocks(self) -> Iterator[tuple[int, int]]:
        shown = _run("dumpe2fs", str(self._image))
        for line in re.findall(r"^  Free blocks: (.+)$", shown, re.MULTILINE):
            for part in line.split(", "):
                first, _, last = part.partition("-")
                yield int(first), int(last or first)

    def mend(self) -> None:
        self._mount("-o", f"remount,size={SIZE_KIB}k", str(self._memory))

    def cut_power(self) -> Path:
        """Return a folder with what is on the disk at this moment, and nothing of the memory."""
        copy, mounted, kept = (self._place / name for name in ("copy", "mounted", "kept"))
        shutil.copyfile(self._image, copy)
        mounted.mkdir()
        self._mount("-o", "loop", str(copy), str(mounted))
        try:
            kept.mkdir()
            for each in mounted.glob("jobs.db*"):
                if each.is_file() and not each.name.endswith("-shm"):
                    shutil.copyfile(each, kept / each.name)
        finally:
            _run("umount", str(mounted))
        return kept


def _run(*command: str) -> str:
    done = subprocess.run(command, check=True, capture_output=True, timeout=60, text=True)
    return done.stdout


@contextmanager
def faulty_disk(place: Path) -> Iterator[FaultyDisk]:
    """Open one, or skip the test where that is not allowed."""
    disk = FaultyDisk(place)
    try:
        disk.open()
    except (OSError, subprocess.SubprocessError) as error:
        disk.close()
        pytest.skip(f"no disk can be made to fail here: {error}")
    try:
        yield disk
    finally:
        disk.close()
