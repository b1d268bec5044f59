"""A way to the server that can be cut at a chosen answer, which no server does on request."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Self

from psycopg.conninfo import conninfo_to_dict

CHUNK = 65_536


class Proxy:
    """Passes bytes on until told to swallow the next answer, or request, and hang up."""

    def __init__(self, url: str) -> None:
        self._server = self._place(url)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._is_cutting = threading.Event()
        self._is_cutting_request = threading.Event()
        self._marked: tuple[tuple[bytes, ...], bool] | None = None
        self._is_flowing = threading.Event()
        self._is_flowing.set()
        self._threads: list[threading.Thread] = []
        self.connection_count = 0
        self._start(self._accept)

    def _place(self, url: str) -> tuple[str, int]:
        """Return where the server listens."""
        place = conninfo_to_dict(url)
        self._user, self._database = place["user"], place["dbname"]
        return str(place["host"]), int(str(place["port"]))

    @property
    def port(self) -> int:
        port: int = self._listening.getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"postgresql://{self._user}@127.0.0.1:{self.port}/{self._database}"

    def cut_next_answer(self) -> None:
        """Let the next request reach the server, and its answer nobody."""
        self._is_cutting.set()

    def cut_next_request(self) -> None:
        """Let the next request not even reach the server."""
        self._is_cutting_request.set()

    def cut_request_with(self, *texts: str, is_heard: bool) -> None:
        """Cut at the next request that holds one of *texts*: before the server hears it, or its
        answer."""
        self._marked = (tuple(text.encode() for text in texts), is_heard)

    def spare(self) -> None:
        """Cut nothing after all."""
        self._marked = None
        self._is_cutting.clear()
        self._is_cutting_request.clear()

    def hold(self) -> None:
        """Pass nothing on, and cut nothing, as a server does that hangs."""
        self._is_flowing.clear()

    def go_on(self) -> None:
        """Pass on what came meanwhile, and what comes."""
        self._is_flowing.set()

    @property
    def is_about_to_cut(self) -> bool:
        orders = (self._is_cutting, self._is_cutting_request)
        return self._marked is not None or any(order.is_set() for order in orders)

    def close(self) -> None:
        self.go_on()
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start(self, target: Callable[..., None], *args: socket.socket) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        with suppress(OSError):  # closed
            while True:
                client, _ = self._listening.accept()
                self.connection_count += 1
                self._start(self._pass_on, client, socket.create_connection(self._server))

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as selector, suppress(OSError):
            selector.register(client, selectors.EVENT_READ, server)
            selector.register(server, selectors.EVENT_READ, client)
            is_cut = False
            while True:
                for key, _ in selector.select():
                    self._is_flowing.wait()
                    origin, target = key.fileobj, key.data
                    assert isinstance(origin, socket.socket)
                    data = origin.recv(CHUNK)
                    order = self._is_cutting if origin is server else self._is_cutting_request
                    if not data or order.is_set() or (is_cut and origin is server):
                        order.clear()
                        return
                    marked = self._marked if origin is client else None
                    if marked and any(text in data for text in marked[0]):
                        (_, is_cut), self._marked = marked, None
                        if not is_cut:
                            return
                    target.sendall(data)
