"""Who may come in without a token, and where a server may listen without one."""

from __future__ import annotations

import pytest

from fencepost.errors import ConfigurationError, ForbiddenError
from fencepost.http.origin import check_exposure, check_local, is_loopback

HOME = ["localhost", "LOCALHOST", "app.localhost", "127.0.0.1", "127.8.8.8", "[::1]", "::1"]
ABROAD = [
    *("0.0.0.0", "::", "[::]", "", "10.0.0.1", "192.168.1.2", "example.com", "localhost.evil.com"),
    *("127.0.0.1.evil.com", "evil-localhost", "1.127.0.0", "127.1", "0x7f000001", "2130706433"),
]


@pytest.mark.parametrize("host", HOME)
def test_this_machine_needs_no_token(host: str) -> None:
    assert is_loopback(host)
    check_exposure(host, False)


@pytest.mark.parametrize("host", ABROAD)
def test_beyond_this_machine_a_server_refuses_to_listen_without_a_token(host: str) -> None:
    """The refusal says what to type."""
    assert not is_loopback(host)
    with pytest.raises(ConfigurationError, match="fencepost tokens create NAME --role admin"):
        check_exposure(host, False)
    check_exposure(host, True)


def headers(*pairs: tuple[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode("latin-1")) for name, value in pairs]


@pytest.mark.parametrize("host", ["localhost", "localhost:8000", "127.0.0.1:8000", "[::1]:8000"])
def test_a_request_of_this_machine_is_let_in(host: str) -> None:
    check_local(headers(("host", host), ("accept", "*/*")))
    check_local(headers(("host", host), ("origin", f"http://{host}")))


@pytest.mark.parametrize(
    "pairs",
    [
        (),
        (("host", ""),),
        (("host", "evil.example:8000"),),
        (("host", "localhost@evil.example"),),
        (("host", "localhost:8000:1"),),
        (("host", "localhost\x00"),),
        (("host", "localhost"), ("host", "evil.example")),
        (("host", "192.168.1.2:8000"),),
        (("host", "é"),),
    ],
    ids=str,
)
def test_a_foreign_name_for_this_machine_is_refused(pairs: tuple[tuple[str, str], ...]) -> None:
    """A name that a stranger has made to mean 127.0.0.1."""
    with pytest.raises(ForbiddenError, match="localhost"):
        check_local(headers(*pairs))


@pytest.mark.parametrize(
    "origin",
    [
        *("null", "", "http://evil.example", "http://localhost", "http://localhost:9000"),
        *("http://localhost:8000.evil.example", "http://localhost:8000/x", "localhost:8000"),
        *("ftp://localhost:8000", "http://127.0.0.1:8000", "http://a@localhost:8000"),
    ],
)
def test_a_page_of_another_site_is_refused(origin: str) -> None:
    """Also of another port of this machine, where anything may run."""
    with pytest.raises(ForbiddenError, match="pages of other sites are refused"):
        check_local(headers(("host", "localhost:8000"), ("origin", origin)))


def test_a_page_of_this_site_may_leave_out_the_usual_port() -> None:
    check_local(headers(("host", "localhost:80"), ("origin", "http://localhost")))
    check_local(headers(("host", "LocalHost"), ("origin", "HTTP://localhost:80")))
    check_local(headers(("host", "localhost"), ("origin", "https://localhost")))
