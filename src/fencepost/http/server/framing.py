"""Refuses heads of requests that two readers could read differently.

A proxy in front, the parser and the API each read the head. Where two of them disagree on where a
request ends, another can hide in it (request smuggling). The two parsers refuse most such heads,
though not the same ones; this refuses what either of them lets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fencepost.http.request.problems import HttpError

VERSIONS = frozenset([b"1.0", b"1.1"])
_LENGTHS = re.compile(rb"\ncontent-length[ \t]*:([^\n]*)", re.IGNORECASE)
_NOT_IN_PATHS = re.compile(rb"%(?:[01][0-9a-f]|7f|2f|5c)", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")
_BLANK_LINE = re.compile(rb"\n\r?\n")
_CHUNK_FOOT = re.compile(rb"\r?\n?")
_CHUNK_HEAD = re.compile(rb"([0-9a-f]{1,16})(?:;[\t\x20-\x7e]*)?", re.IGNORECASE)


def check_head(
    method: bytes, target: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Raise HttpError unless all readers agree on this head; names are in lower case."""
    if version not in VERSIONS:
        raise _invalid("this server speaks HTTP/1.1")
    if method == b"CONNECT":
        raise _invalid("this server is not a proxy")
    # A target with a host could contradict the Host header; a fragment is never sent.
    if not (target.startswith(b"/") or target == b"*") or b"#" in target:
        raise _invalid("the target of a request is a path that begins with a slash")
    hosts = lengths = upgrades = 0
    codings: list[bytes] = []
    for name, value in headers:
        if name == b"host":
            hosts += 1
        elif name == b"content-length":
            lengths += 1
        elif name == b"transfer-encoding":
            codings.append(value)
        elif name == b"upgrade":
            upgrades += 1
    if hosts > 1 or (hosts == 0 and version == b"1.1"):
        raise _invalid("a request has one Host header")
    if codings:
        _check_coding(codings, version, has_length=lengths > 0)
    if upgrades and (codings or lengths):
        # One parser reads the body, the other takes it for the requested protocol.
        raise _invalid("this server speaks no other protocol: send the body without Upgrade")


def _check_coding(codings: list[bytes], version: bytes, *, has_length: bool) -> None:
    if has_length:
        raise _invalid("Content-Length and Transfer-Encoding exclude each other")
    if len(codings) > 1 or codings[0].strip().lower() != b"chunked":
        raise _invalid("the only transfer encoding is chunked")
    if version == b"1.0":
        raise _invalid("HTTP/1.0 has no transfer encodings")


def check_lines(waiting: bytes) -> None:
    """Raise HttpError if readers could disagree on where lines end, once a head has arrived."""
    end = _BLANK_LINE.search(waiting)
    if end is None:
        return
    head = waiting[: end.end()]
    if head.count(b"\n") != head.count(b"\r\n"):
        raise _invalid("lines end with carriage return and line feed")
    if b"\n " in head or b"\n\t" in head:
        raise _invalid("a header must not continue on the next line")
    lengths = _LENGTHS.findall(head)
    if len(lengths) > 1 or (lengths and b"," in lengths[0]):
        raise _invalid("a request has one Content-Length")


class ChunkLines:
    """Checks the lines of a chunked body: the sizes of its chunks, and what follows the last."""

    def __init__(self) -> None:
        self._is_at_size = True
        self._is_in_trailers = False

    def chunk_ended(self) -> None:
        """Note that the size of the next chunk comes next."""
        self._is_at_size = True

    def check(self, waiting: bytes) -> None:
        """Raise HttpError if readers could disagree on the next line; *waiting* is unread."""
        if self._is_at_size:
            # The end of the chunk before it, or what the parser has left of that.
            start = _CHUNK_FOOT.match(waiting).end()  # type: ignore[union-attr]  # may be empty
            end = waiting.find(b"\r\n", start)
            if end < 0:
                return
            size = _CHUNK_HEAD.fullmatch(waiting, start, end)
            if size is None:
                raise _invalid("the line before a chunk is its size in hexadecimal")
            self._is_at_size = False
            self._is_in_trailers = int(size[1], 16) == 0
            waiting = waiting[end + 2 :]
        if self._is_in_trailers and not waiting.startswith(b"\r\n"):
            check_lines(b"\r\n" + waiting)


def is_plain(path: str, raw_path: bytes) -> bool:
    """Return whether a path has no encoded slash, backslash or control character.

    Where a proxy grants access by path, ``/v1%2fjobs`` must not mean ``/v1/jobs``, nor
    ``/v1/jobs%0a``. *raw_path* is empty where a server does not provide it.
    """
    if b"%" in raw_path and _NOT_IN_PATHS.search(raw_path):
        return False
    return _CONTROLS.search(path) is None


def _invalid(message: str) -> HttpError:
    return HttpError(message, code="invalid_http")
