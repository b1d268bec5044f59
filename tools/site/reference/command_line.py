"""The reference of the command line, made from the commands themselves."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from fencepost.cli.main import COMMANDS, cli


def command_line_page() -> str:
    """Return every command with its arguments, options and environment variables."""
    root = click.Context(cli, info_name="fencepost", auto_envvar_prefix="FENCEPOST")
    lines = [
        "# Command line\n",
        "Exit codes: 0 done, 1 refused or failed, 2 wrong usage. Options of `fencepost` itself"
        " stand before the command.\n",
        *_options(cli, root),
    ]
    for name in COMMANDS:
        command = cli.get_command(root, name)
        assert command is not None
        lines += _command(command, click.Context(command, root, name), level=2)
    return "\n".join(lines) + "\n"


def _command(command: click.Command, ctx: click.Context, level: int) -> Iterator[str]:
    yield f"\n{'#' * level} {ctx.command_path}\n"
    yield f"{_text(command.help)}\n"
    if isinstance(command, click.Group):
        for name in command.list_commands(ctx):
            each = command.get_command(ctx, name)
            assert each is not None
            yield from _command(each, click.Context(each, ctx, name), level=3)
        return
    pieces = " ".join(command.collect_usage_pieces(ctx))
    yield f"```sh\n{ctx.command_path} {pieces}\n```\n"
    yield from _options(command, ctx)


def _options(command: click.Command, ctx: click.Context) -> Iterator[str]:
    rows = []
    for option in command.get_params(ctx):
        if isinstance(option, click.Option) and not option.hidden and "--help" not in option.opts:
            record = option.get_help_record(ctx)
            assert record is not None
            rows.append(f"| `{_cell(record[0])}` | {_text(_cell(record[1]))} |")
    if rows:
        yield from ["| option | meaning |", "| --- | --- |", *rows, ""]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _text(text: str | None) -> str:
    """Return help as Markdown: what could be taken for markup is not."""
    paragraphs = inspect.cleandoc((text or "").replace("\f", "")).split("\n\n")
    return "\n\n".join(
        paragraph.replace("\b", "    ").replace("\n", "\n    ")
        if paragraph.startswith("\b")
        else _escaped(" ".join(paragraph.split()))
        for paragraph in paragraphs
    )


def _escaped(text: str) -> str:
    return text.replace("*", "\\*").replace("<", "&lt;").replace("_", "\\_")
