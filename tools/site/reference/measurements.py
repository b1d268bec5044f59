"""The reference of metrics and of log events, made from the names in ``fencepost.observe``."""

from __future__ import annotations

import re
from pathlib import Path

from fencepost.observe import names
from fencepost.observe.metrics import FAMILIES, Kind
from tools.site.nav import DOCS
from tools.site.reference.docstrings import one_line

GROUP = re.compile(r"^# (.+)$")
NAME = re.compile(r'^[A-Z_]+: Final = "([\w.]+)"$')
ROW = re.compile(r"^\| `(\w+(?:\.\w+)+)` \|(.*?)\|(.*?)\|(.*)\|$", re.MULTILINE)


def metrics_page() -> str:
    """Return every metric: its kind, its labels, and what it is made of."""
    lines = [
        "# All metrics\n",
        "Text format of Prometheus, at `/metrics` of a server and of a worker with `--metrics`."
        " [Metrics](../metrics.md) explains how to read them.\n",
    ]
    for kind in Kind:
        lines += [f"## {kind.value.capitalize()}s\n"]
        lines += ["| metric | labels | meaning | counts |", "| --- | --- | --- | --- |"]
        for family in FAMILIES:
            if family.kind is kind:
                labels = ", ".join(f"`{label}`" for label in family.labels) or "-"
                made = ", ".join(f"`{source}`" for source in family.sources) or "-"
                lines.append(f"| `{family.name}` | {labels} | {one_line(family.help)} | {made} |")
        lines.append("")
    return "\n".join(lines)


def log_events_page() -> str:
    """Return every event of the log and every counter, in the groups of the code."""
    operating = (DOCS / "operating.md").read_text(encoding="utf-8")
    explained = {name: [cell.strip() for cell in cells] for name, *cells in ROW.findall(operating)}
    lines = [
        "# Log events and counters\n",
        "A log line of Fencepost has an `event` with one of these names. *log* is its level, if"
        " there is a line; *counted by* are the labels of the counter."
        " [Logging](../logging.md) says how to get the lines.\n",
    ]
    for line in Path(str(names.__file__)).read_text(encoding="utf-8").splitlines():
        if group := GROUP.match(line):
            title = group[1].split(". ")[0].rstrip(".")
            lines += [
                f"\n## {title}\n",
                "| event | log | counted by | when |",
                "| --- | --- | --- | --- |",
            ]
        elif found := NAME.match(line):
            level, by, when = (cell.strip("\u2013") for cell in explained[found[1]])
            when = re.sub(r"\]\((?!http)#", "](../operating.md#", when)
            when = re.sub(r"\]\((?!http|\.\./)", "](../", when)
            lines.append(f"| `{found[1]}` | {level or '-'} | {by or '-'} | {when} |")
    return "\n".join(lines) + "\n"
