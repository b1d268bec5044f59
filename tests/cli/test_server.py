"""``fencepost server`` as a command: where it listens, whom it lets in, and what it looks after."""

from __future__ import annotations

import json
import os
import re
import socket
import ssl
import subprocess
from pathlib import Path

import httpx
import pytest
from tests.cli.support import Command, end, wait_until

from fencepost import App

ADD = {"type": "add", "payload": {"a": 1, "b": 2}}


def url_of(command: Command) -> str:
    """Return where the server is, once it says so."""
    return str(wait_until(lambda: re.search(r"server on (\S+),", command.log), "a server")[1])


def test_it_says_where_it_is_and_what_it_serves(command: Command) -> None:
    child = command.start("server", "--port", "0")
    url = url_of(command)
    assert f"{url}/openapi.json" in command.log
    assert "types: add, bad, leak, leak_in_child, overdue, shout, stuck" in command.log
    answer = httpx.post(f"{url}/v1/jobs", json={"type": "add", "payload": {"a": "one"}})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_payload")
    assert end(child) == 0


def test_without_an_app_the_store_is_served_and_nothing_checked(command: Command) -> None:
    (command.folder / "app.py").unlink()
    child = command.start("server", "--port", "0")
    url = url_of(command)
    wait_until(lambda: "no app" in command.log, "the line about the app")
    job = {"type": "elsewhere", "payload": [1]}
    assert httpx.post(f"{url}/v1/jobs", json=job).status_code == 201
    assert end(child) == 0


def test_a_log_in_json_says_where_it_is(command: Command) -> None:
    child = command.start("server", "--port", "0", "--log-format", "json")
    wait_until(lambda: "http.started" in command.log, "a server")
    lines = [json.loads(line) for line in command.log.splitlines()]
    assert [line["url"] for line in lines if line["event"] == "http.started"]
    assert end(child) == 0


def test_a_port_that_is_taken_is_an_error_that_helps(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        result = command("server", "--port", str(port))
    assert result.exit_code == 1
    assert f"cannot listen on 127.0.0.1 port {port}: Address already in use" in result.stderr
    assert "--port" in result.stderr


def test_a_host_that_is_none_is_an_error_that_helps(command: Command) -> None:
    command.ok("tokens", "create", "t", "--role", "admin")
    result = command("server", "--host", "no.such.host.invalid", "--port", "0")
    assert result.exit_code == 1
    assert "cannot listen on no.such.host.invalid" in result.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_nobody_beyond_this_machine_is_let_in_without_a_token(command: Command, host: str) -> None:
    result = command("server", "--host", host, "--port", "0")
    assert result.exit_code == 1
    assert "fencepost tokens create NAME --role admin" in result.stderr


def test_every_option_has_a_variable(command: Command) -> None:
    result = command("server", "--port", "0", env={"FENCEPOST_SERVER_HOST": "0.0.0.0"})
    assert "there is no token" in result.stderr
    text = command.ok("server", "--help")
    for name in ("HOST", "PORT", "GRACE", "NOTICE", "TLS_CERT", "NO_MAINTENANCE"):
        assert f"FENCEPOST_SERVER_{name}" in text


def test_a_server_alone_promotes_and_fires(command: Command) -> None:
    """Where all workers come by HTTP, nobody else would."""
    path = command.folder / "app.py"
    path.write_text(path.read_text() + "\n\n@app.cron('* * * * *')\ndef tick() -> None: ...\n")
    child = command.start("server", "--port", "0")
    url = url_of(command)
    with httpx.Client(base_url=url, timeout=30) as client:
        job_id = client.post("/v1/jobs", json={**ADD, "delay": 0.2}).json()["id"]

        def is_promoted() -> bool:
            return bool(client.get(f"/v1/jobs/{job_id}").json()["state"] == "scheduled")

        wait_until(is_promoted, "promoted")

        def is_declared() -> bool:
            crons = client.get("/v1/crons").json()["crons"]
            return [cron["name"] for cron in crons] == ["tick"]

        wait_until(is_declared, "the cron")
    assert end(child) == 0
    with App(command.url) as app:  # the term was given up
        assert app.store.run(app.store.cluster.lead("maintenance", "next", 5.0)) is not None


def test_told_so_it_leaves_the_chores_to_others(command: Command) -> None:
    child = command.start("server", "--port", "0", "--no-maintenance")
    assert httpx.get(f"{url_of(command)}/health/ready").status_code == 200
    with App(command.url) as app:
        assert app.store.run(app.store.cluster.lead("maintenance", "somebody", 5.0)) is not None
    assert end(child) == 0


def test_the_dashboard_is_at_its_root_unless_it_is_told_otherwise(command: Command) -> None:
    child = command.start("server", "--port", "0")
    url = url_of(command)
    assert httpx.get(f"{url}/").headers["content-type"].startswith("text/html")
    wait_until(lambda: f"dashboard: {url}/" in command.log, "its address")
    assert end(child) == 0


def test_told_so_it_serves_the_api_alone(command: Command) -> None:
    child = command.start("server", "--port", "0", "--no-dashboard")
    url = url_of(command)
    assert httpx.get(f"{url}/").status_code == 404
    assert httpx.get(f"{url}/v1/jobs").status_code == 200
    assert "dashboard" not in command.log
    assert end(child) == 0


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """A certificate for this machine, and its key, in one file."""
    path, cert = tmp_path / "server.pem", tmp_path / "cert.pem"
    options = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1"]
    made = subprocess.run(
        ["openssl", "req", *options, *names, "-keyout", path, "-out", cert],
        capture_output=True,
        check=False,
    )
    if made.returncode:
        pytest.skip("openssl cannot make a certificate here")
    path.write_bytes(path.read_bytes() + cert.read_bytes())
    return path


def test_it_speaks_tls(command: Command, certificate: Path) -> None:
    child = command.start("server", "--port", "0", "--tls-cert", os.fspath(certificate))
    url = url_of(command)
    assert url.startswith("https://")
    context = ssl.create_default_context(cafile=os.fspath(certificate))
    assert httpx.get(f"{url}/health/ready", verify=context).status_code == 200
    assert end(child) == 0


def test_a_certificate_that_cannot_be_read_is_an_error_that_helps(command: Command) -> None:
    result = command("server", "--tls-cert", "nowhere.pem")
    assert result.exit_code == 1
    assert "the certificate nowhere.pem cannot be used: No such file" in result.stderr
    result = command("server", "--tls-key", "app.py")
    assert result.exit_code == 1
    assert "--tls-cert" in result.stderr
