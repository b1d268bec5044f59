"""Charts as SVG, readable on a light and on a dark page: each stands on a ground of its own."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import msgspec

WIDTH = 880
MARGIN = 20
GAP = 28
ROW = 24
BAR = 14
LABEL = 132
VALUE = 92
"""Room for names, and for numbers behind the longest bar."""
HEAD = 46
PANEL_HEAD = 26
NOTE = 22

STYLE = """
svg { font-family: system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; font-size: 12.5px }
.ground { fill: #ffffff; stroke: #d7dbe0 }
.title { fill: #1c2128; font-size: 16px; font-weight: 600 }
.panel { fill: #1c2128; font-weight: 600 }
.name, .value { fill: #3d444d }
.note { fill: #656d76 }
.own { font-weight: 600 }
.ours { fill: #1f6feb }
.other { fill: #9aa4b0 }
.light { fill-opacity: 0.45 }
.never { fill: none; stroke: #9aa4b0; stroke-dasharray: 3 3 }
.axis { stroke: #d7dbe0 }
@media (prefers-color-scheme: dark) {
  .ground { fill: #14181d; stroke: #30363d }
  .title, .panel { fill: #e6edf3 }
  .name, .value { fill: #c2cad3 }
  .note { fill: #919aa4 }
  .ours { fill: #58a6ff }
  .other { fill: #68727d }
  .never { stroke: #68727d }
  .axis { stroke: #30363d }
}
""".strip()


class Bar(msgspec.Struct, frozen=True, kw_only=True):
    """One line of a panel."""

    name: str
    value: float | None = None
    """None draws no bar, only the label."""
    label: str
    is_ours: bool = False
    end: float | None = None
    """A second, paler part of the bar goes on to here."""
    is_never: bool = False
    """Dashed: what did not happen while one waited."""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """Bars with one scale."""

    title: str
    bars: list[Bar]
    note: str = ""


def chart(title: str, panels: Sequence[Panel], *, columns: int = 2) -> str:
    """Return a picture of *panels*, so many beside each other."""
    width = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) // columns
    parts, top = [], HEAD
    for start in range(0, len(panels), columns):
        line = panels[start : start + columns]
        for number, panel in enumerate(line):
            parts.append(_panel(panel, MARGIN + number * (width + GAP), top, width))
        top += max(_height(panel) for panel in line) + GAP // 2
    height = top + MARGIN // 2
    # The words are in the picture as text, but a reader of the screen is told what it is first.
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            f'width="{WIDTH}" height="{height}" role="img" aria-label="{escape(title)}">',
            f"<style>{STYLE}</style>",
            f'<rect class="ground" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" '
            'rx="8"/>',
            f'<text class="title" x="{MARGIN}" y="30">{escape(title)}</text>',
            *parts,
            "</svg>",
            "",
        ]
    )


def _height(panel: Panel) -> int:
    return PANEL_HEAD + ROW * len(panel.bars) + (NOTE if panel.note else 0)


def _panel(panel: Panel, left: int, top: int, width: int) -> str:
    ends = [value for bar in panel.bars for value in (bar.value, bar.end) if value is not None]
    longest = max(ends, default=0.0) or 1.0
    scale = (width - LABEL - VALUE) / longest
    parts = [f'<text class="panel" x="{left}" y="{top + 14}">{escape(panel.title)}</text>']
    for number, bar in enumerate(panel.bars):
        parts.append(_bar(bar, left, top + PANEL_HEAD + number * ROW, scale))
    bottom = top + PANEL_HEAD + ROW * len(panel.bars)
    parts.append(
        f'<line class="axis" x1="{left + LABEL}" x2="{left + LABEL}" '
        f'y1="{top + PANEL_HEAD - 3}" y2="{bottom}"/>'
    )
    if panel.note:
        parts.append(f'<text class="note" x="{left}" y="{bottom + 15}">{escape(panel.note)}</text>')
    return "\n".join(parts)


def _bar(bar: Bar, left: int, top: int, scale: float) -> str:
    side, middle = left + LABEL, top + ROW / 2
    own = " own" if bar.is_ours else ""
    parts = [
        f'<text class="name{own}" x="{side - 8}" y="{middle + 4}" text-anchor="end">'
        f"{escape(bar.name)}</text>"
    ]
    value = bar.value or 0.0
    kind = "ours" if bar.is_ours else "other"
    reach = max(value * scale, 1.5) if bar.value is not None else 0.0
    if bar.value is not None:
        shape = "never" if bar.is_never else kind
        parts.append(_rect(shape, side, middle, reach))
    if bar.end is not None and bar.end > value:
        parts.append(_rect(f"{kind} light", side + reach, middle, (bar.end - value) * scale))
        reach += (bar.end - value) * scale
    parts.append(
        f'<text class="value{own}" x="{side + reach + 6:.1f}" y="{middle + 4}">'
        f"{escape(bar.label)}</text>"
    )
    return "\n".join(parts)


def _rect(shape: str, left: float, middle: float, width: float) -> str:
    return (
        f'<rect class="{shape}" x="{left:.1f}" y="{middle - BAR / 2:.1f}" '
        f'width="{width:.1f}" height="{BAR}" rx="2"/>'
    )
