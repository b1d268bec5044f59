"""``submitted``: what was submitted, in the words of the caller."""

from __future__ import annotations

import msgspec

from fencepost import App
from fencepost.core.bounds import PAGE_MAX
from fencepost.testing import drain, memory_store, submitted


class User(msgspec.Struct):
    id: int


def test_arguments_come_by_name_as_the_handler_gets_them() -> None:
    app = App("memory://")

    @app.task
    def welcome(user: User, *rest: int, subject: str = "hi", **more: str) -> None: ...

    @app.task
    def store(data: bytes) -> None: ...

    with memory_store(app):
        welcome.submit(User(1))
        welcome.submit(User(2), 5, 6, subject="ho", extra="x")
        store.submit(b"\xff")
        assert submitted(welcome) == [
            {"user": User(1)},
            {"user": User(2), "rest": (5, 6), "subject": "ho", "more": {"extra": "x"}},
        ]
        assert submitted(store) == [{"data": b"\xff"}]


def test_all_of_them_are_there_in_order_whatever_became_of_them() -> None:
    app = App("memory://")

    @app.task
    def count(n: int) -> None: ...

    with memory_store(app):
        assert submitted(count) == []
        count.submit_many(range(PAGE_MAX + 10))
        drain(app, limit=PAGE_MAX + 10)
        assert [each["n"] for each in submitted(count)] == list(range(PAGE_MAX + 10))
