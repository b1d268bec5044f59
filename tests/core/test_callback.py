"""A callback_url is read strictly, and in one way only."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fencepost.core.bounds import CALLBACK_URL_LENGTH_MAX
from fencepost.core.webhooks.callback import (
    Callback,
    check_callback_url,
    parse_callback_url,
    parse_networks,
)
from fencepost.errors import InvalidCallbackError, InvalidJobError

SECRET = "hunter2"

hosts = st.from_regex(r"[a-z][a-z0-9]{0,8}(\.[a-z][a-z0-9]{0,8}){0,3}", fullmatch=True)
urls = st.builds(
    lambda scheme, host, port, path: f"{scheme}://{host}{port}{path}",
    st.sampled_from(["https", "HTTPS", "http"]),
    hosts | st.ip_addresses(v=4).map(str) | st.ip_addresses(v=6).map(lambda ip: f"[{ip}]"),
    st.sampled_from(["", ":443", ":80", ":8443", ":65535"]),
    st.sampled_from(["", "/", "/hook", "/a/b?c=d&e=%20", "?q", "/@:8080"]),
)


@pytest.mark.parametrize(
    ("url", "callback"),
    [
        ("https://example.com", Callback("https", "example.com", 443, "/")),
        ("HTTPS://Example.COM./A?b", Callback("https", "example.com", 443, "/A?b")),
        ("https://example.com?q=1", Callback("https", "example.com", 443, "/?q=1")),
        ("https://my_host:8443/h", Callback("https", "my_host", 8443, "/h")),
        ("https://xn--bcher-kva.example/", Callback("https", "xn--bcher-kva.example", 443, "/")),
        ("http://8.8.8.8:80/%41", Callback("http", "8.8.8.8", 80, "/%41")),
        ("https://[2606:4700:0:0::1111]/", Callback("https", "2606:4700::1111", 443, "/")),
        ("https://h/@user:p", Callback("https", "h", 443, "/@user:p")),
    ],
)
def test_a_url_is_taken_apart(url: str, callback: Callback) -> None:
    assert parse_callback_url(url) == callback


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("https://h/", "h"),
        ("http://h:80/", "h"),
        ("https://h:80/", "h:80"),
        ("https://[2606::1]:8443/x?token=t", "[2606::1]:8443"),
    ],
)
def test_a_receiver_is_named_without_its_path_which_may_hold_a_secret(
    url: str, authority: str
) -> None:
    callback = parse_callback_url(url)
    assert callback.authority == authority
    assert callback.origin == f"{callback.scheme}://{authority}"


@pytest.mark.parametrize(
    ("url", "why"),
    [
        (None, "not NoneType"),
        (7, "not int"),
        (b"https://example.com", "not bytes"),
        ("", "must begin with https://"),
        ("example.com/hook", "must begin with https://"),
        ("ftp://example.com", "must begin with https://"),
        ("file://localhost/x", "must begin with https://"),
        ("https:/example.com", "must begin with https://"),
        (" https://example.com", "must begin with https://"),
        ("https://", "names no host"),
        ("https:///hook", "names no host"),
        ("https://:443/", "names no host"),
        (f"https://user:{SECRET}@example.com/", "user or a password"),
        (f"https://{SECRET}@example.com/", "user or a password"),
        (f"https://example.com:443{SECRET}@evil.example/", "user or a password"),
        (f"https://example.com/#{SECRET}", "fragment"),
        ("https://example.com/#", "fragment"),
        ("https://bücher.example/", "ASCII form"),
        ("https://\u212aelvin.example/", "ASCII form"),
        ("https://ⓛocalhost/", "ASCII form"),
        ("https://exa mple.com/", "no host"),
        ("https://example.com\\@evil.example/", "user or a password"),
        ("https://example.com\\.evil.example/", "no host"),
        ("https://-a.example/", "no host"),
        ("https://a..example/", "no host"),
        (f"https://{'a' * 64}.example/", "no host"),
        (f"https://{'a.' * 127}example/", "no host"),
        ("https://%6cocalhost/", "no host"),
        ("https://exa\nmple.com/", "no host"),
        ("https://127.1/", "no IPv4 address"),
        ("https://2130706433/", "no IPv4 address"),
        ("https://0x7f000001/", "no IPv4 address"),
        ("https://0x7f.0.0.1/", "no IPv4 address"),
        ("https://0177.0.0.1/", "no IPv4 address"),
        ("https://1.2.3.4.5/", "no IPv4 address"),
        ("https://256.1.1.1/", "no IPv4 address"),
        ("https://example.0x/", "no IPv4 address"),
        ("https://[::1%25eth0]/", "no IPv6 address"),
        ("https://[127.0.0.1]/", "no IPv6 address"),
        ("https://[::1/", "names no host"),
        ("https://::1/", "names no host"),
        ("https://example.com:/", "the port must"),
        ("https://example.com:0/", "the port must"),
        ("https://example.com:22/", "the port must"),
        ("https://example.com:25/", "the port must"),
        ("https://example.com:0443/", "the port must"),
        ("https://example.com:65536/", "the port must"),
        ("https://example.com:+443/", "the port must"),
        ("https://example.com:\u0664\u0664\u0663/", "the port must"),
        (f"https://example.com:{'9' * 2_000}/", "the port must"),
        ("https://example.com/a b", "percent-encode"),
        ("https://example.com/\r\nx-evil: 1", "percent-encode"),
        ("https://example.com/é", "percent-encode"),
        ("https://example.com/%zz", "percent-encode"),
        ("https://example.com/\\evil", "percent-encode"),
        ("https://example.com/\n", "percent-encode"),
        (f"https://example.com/{'a' * CALLBACK_URL_LENGTH_MAX}", "2,048 characters"),
    ],
)
def test_what_two_readers_could_understand_differently_is_refused(url: Any, why: str) -> None:
    with pytest.raises(InvalidCallbackError, match=why) as caught:
        parse_callback_url(url)
    assert SECRET not in str(caught.value)
    assert isinstance(caught.value, InvalidJobError)


def test_https_is_asked_for_unless_http_is_allowed() -> None:
    with pytest.raises(InvalidCallbackError, match="allow_http=True"):
        check_callback_url("http://example.com/")
    assert check_callback_url("http://example.com/", allow_http=True).port == 80


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "10.0.0.1", "169.254.169.254", "[::1]", "[::ffff:10.0.0.1]", "[fd00::1]"],
)
def test_an_address_that_is_not_public_is_refused_unless_its_network_is_allowed(host: str) -> None:
    with pytest.raises(InvalidCallbackError, match="allow_networks"):
        check_callback_url(f"https://{host}/")
    allowed = parse_networks(["127.0.0.0/8", "10.0.0.0/8", "169.254.0.0/16", "::1", "fd00::/8"])
    assert check_callback_url(f"https://{host}/", allowed=allowed).address is not None


def test_a_name_is_not_looked_up_when_a_job_is_submitted() -> None:
    assert check_callback_url("https://localhost/").address is None


@given(urls)
def test_a_url_that_is_taken_means_the_same_to_the_standard_library(url: str) -> None:
    callback = parse_callback_url(url)
    parts = urlsplit(url)
    assert callback.scheme == parts.scheme
    assert callback.port == (parts.port or {"http": 80, "https": 443}[parts.scheme])
    assert callback.target == f"/{parts.path.removeprefix('/')}" + (
        f"?{parts.query}" if parts.query else ""
    )
    if callback.address is None:
        assert callback.host == parts.hostname
    # Written out again, it is read as the same.
    assert parse_callback_url(callback.origin + callback.target) == callback


@given(st.text(max_size=60) | st.text(max_size=40).map(lambda rest: f"https://{rest}"))
@example("https://a\u2028b/")
@example("https://a/\x7f")
def test_whatever_is_given_is_taken_or_refused_and_never_sent_on_as_it_is(url: str) -> None:
    try:
        callback = check_callback_url(url)
    except InvalidCallbackError:
        return
    sent = callback.authority + callback.target
    assert sent.isascii()
    assert sent.isprintable()
    assert " " not in sent
    assert callback.scheme == "https"
