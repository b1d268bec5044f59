"""The schema: tables, views and types in numbered migrations, functions in files by subject.

States stand in these files by name, ``:RUNNING``, and are replaced by their numbers when a file is
read. So what the server runs has constants, which its planner and its partial indexes know.
"""

from __future__ import annotations

import re
from importlib.resources import files

from fencepost.store.sql.codec import BY_NUMBER

_NUMBERS = {state.name: f"{number} /* {state.name} */" for number, state in enumerate(BY_NUMBER)}
_NAME = re.compile(rf"(?<!:):({'|'.join(_NUMBERS)})\b")


def read_scripts(package: str) -> list[tuple[str, str]]:
    """Return name and SQL of every script in *package*, in the order of their names."""
    folder = files(package)
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".sql"))
    return [
        (name.removesuffix(".sql"), with_numbers((folder / name).read_text("utf-8")))
        for name in names
    ]


def with_numbers(sql: str) -> str:
    """Return *sql* with the numbers of states in the place of their names."""
    return _NAME.sub(lambda found: _NUMBERS[found[1]], sql)
