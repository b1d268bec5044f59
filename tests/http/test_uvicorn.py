"""What is used of uvicorn beyond its documentation is still there, and its versions are pinned."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
import tomllib
from importlib import metadata
from pathlib import Path
from typing import Any

import h11
import pytest
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from fencepost.http.server import uvicorn_protocols

ROOT = Path(__file__).parent.parent.parent
SERVER = ROOT / "src/fencepost/http/server"

CALLED_BY_UVICORN = ["send_400_response", "shutdown"]
"""Of both protocol classes, what uvicorn calls and we replace."""
CALLBACKS = [
    "on_message_begin",
    "on_header",
    "on_headers_complete",
    "on_body",
    "on_message_complete",
]
"""Of the httptools class, what the parser calls and we extend."""
ATTRIBUTES = {H11Protocol: ["conn"], HttpToolsProtocol: ["parser", "url", "headers"]}
SERVER_MEMBERS = ["serve", "capture_signals"]
SERVER_ATTRIBUTES = ["should_exit", "force_exit"]


async def nothing(scope: Any, receive: Any, send: Any) -> None: ...


def made(kind: Any) -> Any:
    config = uvicorn.Config(nothing, interface="asgi3", lifespan="off", log_config=None)
    return kind(config=config, server_state=ServerState(), app_state={})


@pytest.mark.parametrize("kind", [H11Protocol, HttpToolsProtocol])
async def test_the_protocol_classes_have_what_is_used(kind: Any) -> None:
    assert issubclass(kind, asyncio.Protocol)
    names = CALLED_BY_UVICORN + (CALLBACKS if kind is HttpToolsProtocol else [])
    for name in names:
        assert inspect.isfunction(getattr(kind, name)), name
    connection = made(kind)
    if kind is HttpToolsProtocol:
        connection.server = connection.client = connection.scheme = None
        connection.on_message_begin()
    for name in ATTRIBUTES[kind]:
        assert hasattr(connection, name), name
    if kind is H11Protocol:
        assert isinstance(connection.conn, h11.Connection)
    source = inspect.getsource(kind)
    assert "self.send_400_response(" in source, "what is not HTTP is refused by that"


def test_the_server_has_what_is_used() -> None:
    server = uvicorn.Server(uvicorn.Config(nothing, interface="asgi3", log_config=None))
    for name in SERVER_MEMBERS:
        assert callable(getattr(server, name)), name
    for name in SERVER_ATTRIBUTES:
        assert getattr(server, name) is False, name


def test_the_list_of_members_is_the_whole_list() -> None:
    """What the file declares of uvicorn's classes is what this test looks for."""
    tree = ast.parse(inspect.getsource(uvicorn_protocols))
    declared = {
        node.name: {
            ast.unparse(each.target) if isinstance(each, ast.AnnAssign) else each.name
            for each in node.body
            if isinstance(each, ast.AnnAssign | ast.FunctionDef)
        }
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef) and node.name.endswith("Members")
    }
    assert declared == {
        "H11Members": {*ATTRIBUTES[H11Protocol]},
        "HttptoolsMembers": {*ATTRIBUTES[HttpToolsProtocol], *CALLBACKS},
    }


def test_one_file_knows_uvicorns_insides() -> None:
    inside = re.compile(r"uvicorn\.(?:protocols|server|lifespan|_\w+)|server_state|\.cycle\b")
    found = [
        path.name
        for path in (ROOT / "src/fencepost").rglob("*.py")
        if inside.search(path.read_text(encoding="utf-8"))
    ]
    assert found == ["uvicorn_protocols.py"]
    assert not re.search(r"\bcycle\b|server_state", (SERVER / "uvicorn_protocols.py").read_text())


def test_the_installed_version_is_one_that_is_allowed() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    [required] = [each for each in project["dependencies"] if each.startswith("uvicorn")]
    found = re.fullmatch(r"uvicorn>=(\d+)\.(\d+),<(\d+)\.(\d+)", required)
    assert found is not None, "both ends are named"
    lowest, below = [int(each) for each in found.groups()[:2]], [int(x) for x in found.groups()[2:]]
    installed = [int(each) for each in metadata.version("uvicorn").split(".")[:2]]
    assert lowest <= installed < below
