"""What a request's head must be so that everybody agrees where the request ends.

A proxy in front, the parser and the API each read the head. Where two of them can read it
differently, one request hides in another (smuggling). The two parsers refuse most of that by
themselves, though not the same; this is what either lets through.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from fencepost.http.request.problems import HttpError

VERSIONS = frozenset([b"1.0", b"1.1"])
_LENGTHS = re.compile(rb"\ncontent-length[ \t]*:([^\n]*)", re.IGNORECASE)
_NOT_IN_PATHS = re.compile(rb"%(?:[01][0-9a-f]|7f|2f|5c)", re.IGNORECASE)
_CONTROLS = re.compile(r"[\x00-\x1f\x7f]")


def check_head(
    method: bytes, target: bytes, version: bytes, headers: Iterable[tuple[bytes, bytes]]
) -> None:
    """Raise HttpError unless there is one way to read this head; names are in lower case."""
    if version not in VERSIONS:
        raise _invalid("this server speaks HTTP/1.1")
    if method == b"CONNECT":
        raise _invalid("this server is not a proxy")
    # What names a host by itself would stand against the Host header; a fragment is never sent.
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
        # One parser reads the body, the other takes it for the protocol that is asked for.
        raise _invalid("no other protocol is spoken here: send the body without Upgrade")


def _check_coding(codings: list[bytes], version: bytes, *, has_length: bool) -> None:
    if has_length:
        raise _invalid("Content-Length and Transfer-Encoding exclude each other")
    if len(codings) > 1 or codings[0].strip().lower() != b"chunked":
        raise _invalid("the only transfer encoding is chunked")
    if version == b"1.0":
        raise _invalid("HTTP/1.0 has no transfer encodings")


def check_lines(head: bytes) -> None:
    """Raise HttpError if the lines of a head end, or go on, as not every reader has it."""
    if head.count(b"\n") != head.count(b"\r\n"):
        raise _invalid("lines end with carriage return and line feed")
    if b"\n " in head or b"\n\t" in head:
        raise _invalid("a header does not go on in the next line")
    lengths = _LENGTHS.findall(head)
    if len(lengths) > 1 or (lengths and b"," in lengths[0]):
        raise _invalid("a request has one Content-Length")


def is_plain(path: str, raw_path: bytes) -> bool:
    """Tell whether a path has no slash, backslash or control character in disguise.

    Where a proxy decides by the path who may ask, ``/v1%2fjobs`` must not mean ``/v1/jobs``, nor
    ``/v1/jobs%0a``. Not every server of an application tells the raw path: then it is empty.
    """
    if b"%" in raw_path and _NOT_IN_PATHS.search(raw_path):
        return False
    return _CONTROLS.search(path) is None


def _invalid(message: str) -> HttpError:
    return HttpError(message, code="invalid_http")
