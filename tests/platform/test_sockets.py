"""Waiting for sockets: `select` answers as `poll` does."""

from __future__ import annotations

import errno
import select
import socket
from collections.abc import Iterator
from typing import Any, cast

import pytest

from fencepost.platform.sockets import READABLE, WRITABLE, SelectPoller, drain, poller
from fencepost.platform.system import System

Pair = tuple[socket.socket, socket.socket]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ends = socket.socketpair()
    yield ends
    for end in ends:
        end.close()


def test_the_bits_are_those_of_poll() -> None:
    assert (READABLE, WRITABLE) == (select.POLLIN, select.POLLOUT)


def test_each_system_has_its_poller(system: System, pair: Pair) -> None:
    waiting = poller()
    assert isinstance(waiting, SelectPoller) is not system.has_poll
    fd = pair[0].fileno()
    waiting.register(fd, READABLE)
    assert waiting.poll(0) == []
    waiting.modify(fd, READABLE | WRITABLE)
    assert waiting.poll(0) == [(fd, WRITABLE)]
    pair[1].send(b"!")
    assert waiting.poll(0) == [(fd, READABLE | WRITABLE)]
    waiting.modify(fd, READABLE)
    assert waiting.poll(None) == [(fd, READABLE)]


def test_the_end_of_the_other_side_is_seen(system: System, pair: Pair) -> None:
    waiting = poller()
    waiting.register(pair[0].fileno(), READABLE)
    pair[1].close()
    ((_, events),) = waiting.poll(1_000)
    assert events & READABLE


def test_all_that_has_come_is_read(pair: Pair) -> None:
    pair[0].setblocking(False)
    for word in (b"a", b"b"):
        pair[1].send(word)
    assert drain(pair[0])
    assert not drain(pair[0])


def test_what_cannot_be_read_any_more_ends_the_reading(pair: Pair) -> None:
    """A listener that another thread has closed: its reader must not go round for ever."""
    pair[0].close()
    with pytest.raises(OSError, match="Bad file"):
        drain(pair[0])


@pytest.mark.parametrize("number", [errno.EMSGSIZE, errno.ECONNRESET])
def test_a_datagram_that_is_lost_does_not_end_the_reading(number: int) -> None:
    """Windows says so of one that was too long, and of one that nobody has received."""
    answers: list[Any] = [OSError(number, "lost"), b"ours", BlockingIOError()]

    class Listening:
        def recv(self, _: int) -> bytes:
            answer = answers.pop(0)
            if isinstance(answer, OSError):
                raise answer
            return bytes(answer)

    assert drain(cast(socket.socket, Listening()))
