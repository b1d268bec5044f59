"""An app that notes which of its jobs ran, for tests in which a server dies or moves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Self

from tests.worker.support import working_in_thread

from fencepost import App, JobHandle
from fencepost.errors import StoreError


class Notebook:
    """Its jobs have numbers; ``ran`` has those of the jobs that ran."""

    def __init__(self, url: str) -> None:
        self.app = App(url)
        self.ran: list[int] = []

        @self.app.task(name="note")
        def note(number: int) -> None:
            self.ran.append(number)

        self.note = note

    @contextmanager
    def working(self) -> Iterator[Self]:
        """Run its jobs meanwhile, and close the app afterwards."""
        with self.app, working_in_thread(self.app):
            yield self

    def submit(self, numbers: Iterable[int]) -> list[JobHandle[Any]]:
        return [self.note.submit(number=number) for number in numbers]

    def insist(self, numbers: Iterable[int]) -> list[JobHandle[Any]]:
        """Submit each until it is stored, as a caller does while the store is away."""
        jobs = []
        for number in numbers:
            keyed = self.note.using(key=str(number))
            while True:
                try:
                    jobs.append(keyed.submit(number=number))
                    break
                except StoreError:
                    continue
        return jobs
