"""A provider whose methods are effects, and a short form of what was found."""

from __future__ import annotations

import asyncio

from fencepost.testing import Report


class Bank:
    """A provider: each method is an effect."""

    def __init__(self) -> None:
        self.charges: list[tuple[int, int]] = []
        self.balance = 0

    def charge(self, order: int, amount: int, key: str | None = None) -> str:
        self.charges.append((order, amount))
        self.balance += amount
        return f"receipt {order}"

    async def charge_async(self, order: int) -> None:
        await asyncio.sleep(0)
        self.charges.append((order, 0))

    @staticmethod
    def refund(order: int) -> None: ...

    @classmethod
    def audit(cls, order: int) -> None: ...


def found(report: Report) -> set[tuple[str, str]]:
    """Return what happened and when it crashed, without the places."""
    return {(str(flaw), flaw.point.moment) for flaw in report.flaws}


TWICE = "charge(7, 100) happened 2 times instead of 1"
