"""Spans of time, merged, that can be asked whether they touch another."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

Span = tuple[float, float]


class Windows:
    """Spans in order, none of which touches the next."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self.spans: list[Span] = []
        for began, until in sorted(spans):
            if self.spans and began <= self.spans[-1][1]:
                self.spans[-1] = (self.spans[-1][0], max(self.spans[-1][1], until))
            else:
                self.spans.append((began, until))
        self._starts = [began for began, _ in self.spans]

    def touch(self, began: float, until: float) -> bool:
        """Tell whether any moment from *began* to *until* lies in a span."""
        last = bisect_right(self._starts, until) - 1
        return last >= 0 and self.spans[last][1] >= began
