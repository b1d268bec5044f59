"""Mutants of what the command line writes of texts that others have stored."""

from __future__ import annotations

from lab.mutants.mutant import Mutant, Patch, Place

TESTS = ("tests/cli/test_hostile.py", "tests/cli/test_output.py")


def _mutant(name: str, about: str, module: str, old: str, new: str) -> Mutant:
    return Mutant(f"server-terminal-{name}", about, Place.SERVER, (Patch(module, old, new),), TESTS)


MUTANTS = (
    _mutant(
        "line-ends-pass",
        "a message forges a line of `jobs why`, `jobs watch` and every table",
        "fencepost.core.display",
        "c if c.isprintable() else repr(c)[1:-1]",
        'c if c.isprintable() or c == "\\n" else repr(c)[1:-1]',
    ),
    _mutant(
        "json-passes-controls",
        "a C1 control or a mark of direction in --json steers the terminal",
        "fencepost.core.display",
        "    return _BEYOND_ASCII.sub(_escaped, text)\n",
        "    return text\n",
    ),
    _mutant(
        "json-halves-a-character",
        "what is beyond the first plane is escaped as something else",
        "fencepost.core.display",
        "range(0, len(units), 4))",
        "range(0, 4, 4))",
    ),
    Mutant(
        "server-terminal-completes-code",
        "the name of a queue, completed by bash, is a command of the one who submitted a job to it",
        Place.SERVER,
        (
            Patch(
                "fencepost.cli.completion",
                "all(c.isalnum() or c in PLAIN for c in name)",
                "len(name.split()) == 1",
            ),
        ),
        ("tests/cli/test_names.py",),
    ),
)
