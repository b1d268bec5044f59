"""What other programs say of ``deploy/`` and the Dockerfile, where they are on this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.test_deploy import DEPLOY, MANIFESTS, objects, options_of

from fencepost.cli.commands.worker import longest_stop
from fencepost.core.values.times import parse_duration

ROOT = DEPLOY.parent
DOCKERFILE = ROOT / "Dockerfile"
COMPOSE = DEPLOY / "compose" / "compose.yaml"
OTHERS = ("keda.sh/", "kustomize.config.k8s.io/")
"""Kinds of which nobody here has a schema."""


def program(name: str) -> str:
    """Return the path of a program, also of one that is in our environment; skip without it."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    found = shutil.which(name, path=path)
    if found is None:
        pytest.skip(f"{name} is not here")
    return found


def run(*command: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, env=os.environ | environment
    )


# Kubernetes and Prometheus.


def test_kubernetes_knows_every_field_of_the_manifests() -> None:
    """By the schemas of Kubernetes itself, of a version that is old enough to be in use."""
    validate = pytest.importorskip("kubernetes_validate")
    checked = 0
    for each in objects():
        if not each["apiVersion"].startswith(OTHERS):
            validate.validate(each, "1.29", strict=True)
            checked += 1
    assert checked >= 5


def test_a_planted_mistake_in_a_manifest_is_found() -> None:
    validate = pytest.importorskip("kubernetes_validate")
    [pod] = [each for each in objects() if each["kind"] == "Deployment"][:1]
    pod["spec"]["template"]["spec"]["containers"][0]["comand"] = ["fencepost"]
    with pytest.raises(validate.ValidationError):
        validate.validate(pod, "1.29", strict=True)


def test_kustomize_builds_the_manifests() -> None:
    done = run(program("kubectl"), "kustomize", str(DEPLOY / "kubernetes"))
    assert done.returncode == 0, done.stderr
    built = [each for each in yaml.safe_load_all(done.stdout) if each]
    assert len(built) == len([each for each in objects() if each["kind"] != "Kustomization"])
    assert len(MANIFESTS) > 3


def test_prometheus_takes_the_rules() -> None:
    done = run(program("promtool"), "check", "rules", str(DEPLOY / "prometheus" / "rules.yml"))
    assert done.returncode == 0, done.stderr
    assert "SUCCESS" in done.stdout


# Docker.


def compose() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(COMPOSE.read_text())
    return found


def test_docker_compose_takes_its_file() -> None:
    docker = program("docker")
    if run(docker, "compose", "version").returncode:
        pytest.skip("docker has no compose")
    done = run(docker, "compose", "-f", str(COMPOSE), "config", "-q", POSTGRES_PASSWORD="x")
    assert done.returncode == 0, done.stderr


def test_services_run_commands_of_ours_and_have_time_to_stop() -> None:
    services = compose()["services"]
    ours = {name: each for name, each in services.items() if "build" in each or "command" in each}
    assert set(ours) == {"migrate", "worker", "server"}
    for each in ours.values():
        options_of([str(word) for word in each["command"]])
    grace = options_of(services["worker"]["command"])["grace"]
    patience = parse_duration(services["worker"]["stop_grace_period"], name="stop")
    assert patience >= longest_stop(grace)
    for each in ours.values():
        assert {*each["depends_on"]} <= {*services}
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]


def test_nothing_but_this_machine_reaches_a_port_of_compose() -> None:
    ports = [port for each in compose()["services"].values() for port in each.get("ports", [])]
    assert ports
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert "POSTGRES_PASSWORD:?" in COMPOSE.read_text(), "and there is no password by default"


def test_hadolint_finds_nothing_wrong_with_the_dockerfile() -> None:
    done = run(program("hadolint"), str(DOCKERFILE))
    assert done.returncode == 0, done.stdout


def test_hadolint_would_find_something() -> None:
    done = subprocess.run(
        [program("hadolint"), "-"],
        input="FROM python:latest\nRUN cd /tmp && sudo true\n",
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode != 0


def instructions() -> dict[str, list[str]]:
    """Return what is behind each instruction of the last stage."""
    text = re.sub(r"^#.*\n", "", DOCKERFILE.read_text(), flags=re.MULTILINE)
    stage = text.replace("\\\n", " ").rsplit("\nFROM ", 1)[1]
    found: dict[str, list[str]] = {}
    for line in stage.splitlines()[1:]:
        name, _, rest = line.partition(" ")
        found.setdefault(name, []).append(rest.strip())
    return found


def test_an_image_is_nobodys_root_stops_by_sigterm_and_says_how_it_is() -> None:
    found = instructions()
    assert found["USER"] == ["10001"]
    assert found["STOPSIGNAL"] == ["SIGTERM"]
    assert yaml.safe_load(found["ENTRYPOINT"][0]) == ["tini", "--", "fencepost"]
    words = yaml.safe_load(found["CMD"][0])
    assert options_of(words)["metrics"].port == 9100
    assert "HEALTH_URL=http://127.0.0.1:9100/health/live" in found["ENV"][0]
    check = yaml.safe_load(found["HEALTHCHECK"][0].partition("CMD ")[2])
    compile(check[2], "healthcheck", "exec")


def test_the_user_of_the_image_is_the_one_of_the_manifests() -> None:
    users = {
        each["spec"]["template"]["spec"]["securityContext"]["runAsUser"]
        for each in objects()
        if each["kind"] in ("Deployment", "Job")
    }
    assert users == {int(instructions()["USER"][0])}


def test_an_image_gets_what_the_wheel_is_built_from_and_no_more() -> None:
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    taken = {line[1:] for line in lines if line.startswith("!")}
    assert "*" in lines
    assert all((ROOT / each).exists() for each in taken)
    project = (ROOT / "pyproject.toml").read_text()
    needed = {"pyproject.toml", "src", "ui", "hatch_build.py", "README.md", "LICENSE"}
    assert needed <= taken
    assert 'readme = "README.md"' in project
    copied = re.findall(r"^COPY ((?:[\w.-]+ )+)\./$", DOCKERFILE.read_text(), re.MULTILINE)
    assert {name for line in copied for name in line.split()} <= taken
    assert not {".git", ".venv", "tests", "lab"} & taken
