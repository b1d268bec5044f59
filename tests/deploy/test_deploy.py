"""What is in ``deploy/`` fits the code: commands, metrics, stop times."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from fencepost.cli.commands.worker import longest_stop
from fencepost.cli.main import cli
from fencepost.core.values.times import parse_duration
from fencepost.observe.metrics import FAMILIES, Kind

DEPLOY = Path(__file__).parent.parent.parent / "deploy"
UNITS = sorted((DEPLOY / "systemd").glob("*.service"))
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
DASHBOARD = json.loads((DEPLOY / "grafana" / "fencepost.json").read_text())
RULES = yaml.safe_load((DEPLOY / "prometheus" / "rules.yml").read_text())

SERIES = {
    f"{family.name}{suffix}"
    for family in FAMILIES
    for suffix in (["_bucket", "_sum", "_count"] if family.kind is Kind.HISTOGRAM else [""])
}
LABELS = {family.name: {*family.labels} for family in FAMILIES}
RUNTIME_DIR = "FENCEPOST_RUNTIME_DIR"
FROM_PROMETHEUS = {"instance", "job", "le"}


def objects() -> Iterator[dict[str, Any]]:
    for path in MANIFESTS:
        yield from yaml.safe_load_all(path.read_text())


def find(kind: str, name: str) -> dict[str, Any]:
    [found] = [each for each in objects() if each["kind"] == kind and named(each) == name]
    return found


def named(each: dict[str, Any]) -> str:
    return str(each.get("metadata", {}).get("name", ""))


# Metrics.


def expressions() -> list[str]:
    panels = [
        target["expr"] for panel in DASHBOARD["panels"] for target in panel.get("targets", [])
    ]
    rules = [rule["expr"] for group in RULES["groups"] for rule in group["rules"]]
    variables = [
        each["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"
    ]
    assert len(panels) > 30
    assert len(rules) > 8
    return [*panels, *rules, *variables]


@pytest.mark.parametrize("expression", expressions())
def test_every_metric_of_panels_and_rules_exists_with_its_labels(expression: str) -> None:
    used = re.findall(r"\bfencepost_\w+", expression)
    assert used
    assert set(used) <= SERIES
    families = {re.sub(r"_(bucket|sum|count)$", "", name) for name in used}
    known = set[str]().union(*(LABELS[name] for name in families)) | FROM_PROMETHEUS
    by = re.findall(r"\b(?:by|on) \(([^)]*)\)", expression)
    matched = re.findall(r'(\w+)(?:=~|!~|!=|=)"', expression)
    asked = {label.strip() for part in by for label in part.split(",")} | set(matched)
    assert asked <= known
    assert expression.count("(") == expression.count(")")
    assert expression.count("{") == expression.count("}")


def test_counters_are_looked_at_as_rates_and_store_gauges_never_summed_over_processes() -> None:
    """Every process tells the gauges of the store: a sum would count each job several times."""
    for expression in expressions():
        assert not re.search(
            r"sum[^(]*\((?:by[^)]*\) )?\(?fencepost_(queue|type|worker)", expression
        )


def test_every_alert_says_what_it_means_and_what_to_do() -> None:
    for group in RULES["groups"]:
        for rule in group["rules"]:
            assert rule["alert"].startswith("Fencepost")
            assert rule["labels"]["severity"] in {"info", "warning", "critical"}
            assert len(rule["annotations"]["runbook"]) > 80
            assert rule["annotations"]["summary"]


def test_panels_have_ids_and_places_of_their_own() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells


# Commands.


def unit(path: Path) -> dict[str, str]:
    lines = [line for line in path.read_text().splitlines() if "=" in line and line[0] != "#"]
    return dict(line.split("=", 1) for line in lines)


def commands() -> list[list[str]]:
    found = [shlex.split(unit(path)["ExecStart"]) for path in UNITS]
    for each in objects():
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        found += [container["command"] for container in pod.get("containers", [])]
    return found


def options_of(words: list[str]) -> dict[str, Any]:
    """Return what the command makes of its words; it raises for those that it does not know."""
    group: Any = cli
    context = click.Context(cli)
    command: click.Command | None = group.get_command(context, words[0])
    assert command is not None, f"there is no `fencepost {words[0]}`"
    return command.make_context(words[0], list(words[1:]), parent=context).params


@pytest.mark.parametrize("command", commands(), ids=" ".join)
def test_every_command_is_one_of_ours(command: list[str]) -> None:
    assert Path(command[0]).name == "fencepost"
    options_of(command[1:])


def test_stop_times_leave_a_worker_its_grace() -> None:
    worker = unit(DEPLOY / "systemd" / "fencepost-worker@.service")
    grace = options_of(shlex.split(worker["ExecStart"])[1:])["grace"]
    assert parse_duration(worker["TimeoutStopSec"], name="stop") >= longest_stop(grace)
    pod = find("Deployment", "fencepost-worker-default")["spec"]["template"]["spec"]
    grace = options_of(pod["containers"][0]["command"][1:])["grace"]
    assert pod["terminationGracePeriodSeconds"] >= longest_stop(grace)


def test_stop_times_leave_the_server_its_notice_and_its_grace() -> None:
    service = unit(DEPLOY / "systemd" / "fencepost-server.service")
    options = options_of(shlex.split(service["ExecStart"])[1:])
    stop = parse_duration(service["TimeoutStopSec"], name="stop")
    assert stop >= options["notice"] + options["grace"] + 5
    pod = find("Deployment", "fencepost-server")["spec"]["template"]["spec"]
    options = options_of(pod["containers"][0]["command"][1:])
    assert pod["terminationGracePeriodSeconds"] >= options["notice"] + options["grace"] + 5
    assert options["notice"] > 0  # the service goes on sending requests for a moment


def test_records_of_starts_outlive_a_worker_that_is_killed() -> None:
    """C41: each kind of service gives its worker an empty folder for temporary files otherwise."""
    worker = unit(DEPLOY / "systemd" / "fencepost-worker@.service")
    assert (worker["RuntimeDirectoryMode"], worker["RuntimeDirectoryPreserve"]) == ("0700", "yes")
    assert worker["RuntimeDirectory"] == "fencepost"
    pod = find("Deployment", "fencepost-worker-default")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [folder] = [each["value"] for each in container["env"] if each["name"] == RUNTIME_DIR]
    assert str(Path(folder).parent) in {each["mountPath"] for each in container["volumeMounts"]}
    image = (DEPLOY.parent / "Dockerfile").read_text()
    [volume] = re.findall(r"^VOLUME (\S+)$", image, re.MULTILINE)
    assert f"{RUNTIME_DIR}={volume}/" in image


@pytest.mark.parametrize("path", UNITS, ids=lambda path: path.name)
def test_systemd_finds_nothing_wrong_with_the_units(path: Path) -> None:
    """But for the program, which is not installed here."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd is not here")
    told = subprocess.run(
        ["systemd-analyze", "verify", str(path)], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in told.stderr.splitlines() if path.name in line]
    ours = [line for line in complaints if "not executable" not in line]
    assert [line for line in ours if "No such file" not in line] == []


# Kubernetes.


def test_manifests_are_whole_and_name_each_other_rightly() -> None:
    listed = yaml.safe_load((DEPLOY / "kubernetes" / "kustomization.yaml").read_text())
    files = {path.name for path in MANIFESTS} - {"kustomization.yaml"}
    assert set(listed["resources"]) == files
    for each in objects():
        assert each["apiVersion"]
        assert each["kind"]
    scaled = find("ScaledObject", "fencepost-worker-default")["spec"]
    assert find("Deployment", scaled["scaleTargetRef"]["name"])
    assert find("TriggerAuthentication", scaled["triggers"][0]["authenticationRef"]["name"])
    keys = set(find("Secret", "fencepost")["stringData"])
    refs = re.findall(r"name: fencepost, key: ([\w-]+)", "".join(p.read_text() for p in MANIFESTS))
    assert set(refs) <= keys


def test_a_worker_is_scaled_by_the_slots_that_it_has() -> None:
    pod = find("Deployment", "fencepost-worker-default")["spec"]["template"]["spec"]
    concurrency = options_of(pod["containers"][0]["command"][1:])["concurrency"]
    trigger = find("ScaledObject", "fencepost-worker-default")["spec"]["triggers"][0]["metadata"]
    assert int(trigger["targetValue"]) == concurrency


def test_pods_can_do_no_more_than_they_must_and_secrets_are_placeholders() -> None:
    for each in objects():
        pod = each.get("spec", {}).get("template", {}).get("spec", {})
        for container in pod.get("containers", []):
            assert container["image"] == "fencepost:latest"
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert container["securityContext"]["readOnlyRootFilesystem"]
            assert pod["securityContext"]["runAsNonRoot"]
            assert "memory" in container["resources"]["limits"]
    assert set(find("Secret", "fencepost")["stringData"].values()) == {"REPLACE"}


@pytest.mark.parametrize("name", ["fencepost-server", "fencepost-worker-default"])
def test_probes_ask_paths_that_are_there_on_ports_that_are_open(name: str) -> None:
    pod = find("Deployment", name)["spec"]["template"]["spec"]
    [container] = pod["containers"]
    ports = {port["name"] for port in container["ports"]}
    for kind, path in (("livenessProbe", "/health/live"), ("readinessProbe", "/health/ready")):
        assert container[kind]["httpGet"]["path"] == path
        assert container[kind]["httpGet"]["port"] in ports
