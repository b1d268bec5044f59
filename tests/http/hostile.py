"""Requests that two readers could read differently, each with another request behind it.

Whoever can make a proxy send such bytes hides the second request in the first. Whatever becomes of
the first, the second must not be answered where the table says so.
"""

from __future__ import annotations

HOST = b"host: localhost\r\n"
JSON = b"content-type: application/json\r\n"
CHUNKED = b"transfer-encoding: chunked\r\n"
HIDDEN = b"GET /health/ready HTTP/1.1\r\nhost: localhost\r\n\r\n"
"""What is hidden behind each; nothing else is answered with ``ready``."""
CHUNKS = b"2\r\n{}\r\n0\r\n\r\n"


def _claim(*headers: bytes, body: bytes = CHUNKS, version: bytes = b"1.1") -> bytes:
    head = b"POST /v1/claims HTTP/" + version + b"\r\n" + HOST + JSON
    return head + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body


def _live(target: bytes = b"/health/live", *lines: bytes, version: bytes = b"1.1") -> bytes:
    head = b"GET " + target + b" HTTP/" + version + b"\r\n" + HOST
    return head + b"".join(lines) + b"\r\n"


LENGTH = b"content-length: 2"
CODING = CHUNKED.removesuffix(b"\r\n")

REFUSED: dict[str, bytes] = {
    "a length, then an encoding": _claim(b"content-length: 4", CODING),
    "an encoding, then a length": _claim(CODING, b"content-length: 4"),
    "a length of nothing and an encoding": _claim(b"content-length: 0", CODING),
    "both in a request without a body": _live(b"/health/live", CHUNKED, b"content-length: 5\r\n")
    + b"0\r\n\r\n",
    "both, in odd letters": _claim(b"Content-LENGTH: 4", b"tRANSFER-eNCODING: CHUNKED"),
    "both, the encoding below a fold": _claim(LENGTH, b"x: 1", b" " + CODING, body=b"{}"),
    "both, the encoding behind a line feed": _claim(LENGTH, b"x: 1\n" + CODING, body=b"{}"),
    "both, the encoding behind a carriage return": _claim(LENGTH, b"x: 1\r" + CODING, body=b"{}"),
    "an encoding within an encoding": _claim(b"transfer-encoding: gzip, chunked"),
    "an encoding twice in a line": _claim(b"transfer-encoding: chunked, chunked"),
    "an encoding twice": _claim(CODING, CODING),
    "two encodings": _claim(b"transfer-encoding: gzip", CODING),
    "an encoding that is none": _claim(b"transfer-encoding: identity", body=b"{}"),
    "an unknown encoding": _claim(b"transfer-encoding: xchunked"),
    "an encoding behind a tab of another kind": _claim(b"transfer-encoding: \x0bchunked"),
    "a space before the colon of an encoding": _claim(b"transfer-encoding : chunked"),
    "a space before the colon of a length": _claim(b"content-length : 2", body=b"{}"),
    "an encoding in HTTP/1.0": _claim(b"connection: keep-alive", CODING, version=b"1.0"),
    "two lengths": _claim(LENGTH, b"content-length: 3", body=b"{}"),
    "a length twice": _claim(LENGTH, LENGTH, body=b"{}"),
    "a list of lengths": _claim(b"content-length: 2, 2", body=b"{}"),
    "a length with a sign": _claim(b"content-length: +2", body=b"{}"),
    "a negative length": _claim(b"content-length: -2", body=b"{}"),
    "a length in hexadecimal": _claim(b"content-length: 0x2", body=b"{}"),
    "a length with a space": _claim(b"content-length: 2 2", body=b"{}"),
    "an empty length": _claim(b"content-length: ", body=b"{}"),
    "a body with an upgrade": _claim(b"connection: upgrade", b"upgrade: h2c", LENGTH, body=b"{}"),
    "chunks with an upgrade": _claim(b"connection: upgrade", b"upgrade: x", CODING),
    "a chunk of negative size": _claim(CODING, body=b"-2\r\n{}\r\n0\r\n\r\n"),
    "a chunk of a size with a prefix": _claim(CODING, body=b"0x2\r\n{}\r\n0\r\n\r\n"),
    "chunks between line feeds": _claim(CODING, body=b"2\n{}\n0\n\n"),
    "bytes behind a chunk": _claim(CODING, body=b"2\r\n{}XX0\r\n\r\n"),
    "a line feed in an extension": _claim(CODING, body=b"2;a\nb\r\n{}\r\n0\r\n\r\n"),
    "a carriage return in an extension": _claim(CODING, body=b"2;a\rb\r\n{}\r\n0\r\n\r\n"),
    "a tab behind the size of a chunk": _claim(CODING, body=b"2\t\r\n{}\r\n0\r\n\r\n"),
    "a space behind the size of the last chunk": _claim(CODING, body=b"2\r\n{}\r\n0 \r\n\r\n"),
    "a line feed behind the last chunk": _claim(CODING, body=b"2\r\n{}\r\n0\r\n\n"),
    "a trailer that ends with a line feed": _claim(CODING, body=b"0\r\nx: 1\n\r\n"),
    "trailers that end with a line feed": _claim(CODING, body=b"0\r\nx: 1\r\n\n"),
    "a trailer that goes on": _claim(CODING, body=b"0\r\nx: 1\r\n y: 2\r\n\r\n"),
    "lines that end with a line feed": b"GET /health/live HTTP/1.1\nhost: localhost\n\n",
    "one line that ends with a line feed": _live(b"/health/live", b"x: 1\ny: 2\r\n"),
    "one line that ends with a carriage return": _live(b"/health/live", b"x: 1\ry: 2\r\n"),
    "a header that goes on": _live(b"/health/live", b"x: 1\r\n y: 2\r\n"),
    "a zero byte in a header": _live(b"/health/live", b"x: a\x00b\r\n"),
    "two hosts": _live(b"/health/live", b"host: evil.example\r\n"),
    "no host": b"GET /health/live HTTP/1.1\r\n\r\n",
    "a host in the target": _live(b"http://evil.example/health/live"),
    "our own host in the target": _live(b"http://localhost/health/live"),
    "a fragment": _live(b"/health/live#x"),
    "a space in the target": _live(b"/health/live x"),
    "bytes past ASCII in the target": _live(b"/v1/jobs/\xff"),
    "a tunnel": b"CONNECT localhost:80 HTTP/1.1\r\n" + HOST + b"\r\n",
    "a tunnel to a path": b"CONNECT /health/live HTTP/1.1\r\n" + HOST + b"\r\n",
    "HTTP/2.0": _live(version=b"2.0"),
    "HTTP/1.2": _live(version=b"1.2"),
    "HTTP/0.9": b"GET /health/live\r\n\r\n",
    "the preface of HTTP/2": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}
"""Refused with 400, and nothing behind it is read."""

DISGUISES = (
    b"%2f",
    b"%2F",
    b"%5c",
    b"%5C",
    *(b"%%%02x" % number for number in (*range(32), 127)),
)
"""Characters that must not be in a path, encoded."""
DISGUISED = [
    b"/health%b",
    b"/health/live%b",
    b"/health%blive",
    b"%b/health/live",
    b"/v1%bjobs",
    b"/v1/jobs%b",
    b"/v1/jobs/count%b",
    b"/v1/jobs%bcount",
    b"/v1/queues/a%bpause",
    b"/v1/queues/a%bb/pause",
    b"/v1/queues/%b/pause",
]
"""Where they may stand."""
