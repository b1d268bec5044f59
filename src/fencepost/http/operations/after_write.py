"""What is read after something was written: if that fails, what was written stays written."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TypeVar

from fencepost.errors import StoreUnavailableError, UnknownOutcomeError

T = TypeVar("T")


async def afterwards(reading: Awaitable[T]) -> T:
    """Return what is read, or raise UnknownOutcomeError: a 503 would say that nothing was done."""
    try:
        return await reading
    except StoreUnavailableError as error:
        raise UnknownOutcomeError(str(error)) from error
