"""The workflows in ``.github`` fit the project: versions, targets of make, and what they may do."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.deploy.test_tools import program, run

from fencepost.store.postgres.engine.schema import OLDEST_SERVER
from fencepost.store.redis.engine.durability import OLDEST

ROOT = Path(__file__).parent.parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
NEWEST_POSTGRES = 18
PINNED = re.compile(r"uses: [\w-]+/[\w.-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+$")


def workflow(name: str) -> dict[Any, Any]:
    found: dict[Any, Any] = yaml.safe_load((ROOT / ".github/workflows" / name).read_text())
    return found


def job(name: str) -> dict[str, Any]:
    found: dict[str, Any] = workflow("ci.yml")["jobs"][name]
    return found


def commands() -> list[str]:
    """Return every command of every workflow."""
    jobs = [each for path in WORKFLOWS for each in workflow(path.name)["jobs"].values()]
    return [step["run"] for each in jobs for step in each.get("steps", ()) if "run" in step]


def classified() -> list[str]:
    """Return the versions of Python that the package's classifiers name."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return [
        each.rpartition(" ")[2]
        for each in project["classifiers"]
        if re.search(r":: Python :: 3\.\d+$", each)
    ]


# What is run.


def test_every_version_of_python_that_the_package_names_is_run() -> None:
    matrix = job("test")["strategy"]["matrix"]
    assert matrix["python"] == classified()
    assert matrix["experimental"] == [False]


def test_every_other_version_that_make_knows_may_fail() -> None:
    [versions] = re.findall(r"^VERSIONS := (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    others = job("test")["strategy"]["matrix"]["include"]
    assert [each["python"] for each in others] == sorted({*versions.split()} - {*classified()})
    assert all(each["experimental"] for each in others)
    assert job("test")["continue-on-error"] == "${{ matrix.experimental }}"


def test_each_postgresql_is_run_from_the_oldest_that_is_not_refused() -> None:
    oldest = OLDEST_SERVER // 10_000
    wanted = [str(number) for number in range(oldest, NEWEST_POSTGRES + 1)]
    assert job("postgres")["strategy"]["matrix"]["postgres"] == wanted


def test_the_oldest_redis_that_is_not_refused_is_run() -> None:
    images = job("redis")["strategy"]["matrix"]["image"]
    numbers = [each.partition(":")[2] for each in images if each.startswith("redis:")]
    versions = [tuple(int(part) for part in number.split(".")) for number in numbers]
    assert min(versions) == OLDEST
    assert {version[0] for version in versions} == {6, 7, 8}
    assert any(each.startswith("valkey/") for each in images)


@pytest.mark.parametrize("name", ["macos", "windows"])
def test_a_system_that_was_never_run_may_fail_and_says_so(name: str) -> None:
    assert job(name)["continue-on-error"] is True
    assert "experimental" in job(name)["name"]
    page = (ROOT / "docs" / "platforms.md").read_text()
    assert re.search(rf"^\| {name} \| not yet run", page, re.MULTILINE | re.IGNORECASE)


def test_every_target_and_every_file_in_a_command_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE))
    called: set[str] = set()
    for command in commands():
        words = re.sub(r'\w+="[^"]*"|\w+=\S+', "", command).split()
        if words[0] == "make":
            called |= {*words[1:]}
        for name in re.findall(r"(?<![\w/])(?:tests|src)/[\w/.]+", command):
            assert (ROOT / name).exists(), command
    assert {"check", "test", "docs", "release"} <= called <= targets


# What they may do.


def test_actions_are_pinned_to_commits_whose_version_a_comment_names() -> None:
    for path in WORKFLOWS:
        lines = [line.strip(" -") for line in path.read_text().splitlines() if " uses: " in line]
        assert lines
        for line in lines:
            assert line.startswith("uses: ./.github/") or PINNED.fullmatch(line), line


def test_one_action_has_one_version() -> None:
    text = "\n".join(path.read_text() for path in WORKFLOWS)
    pins = set(re.findall(r"uses: ([\w/-]+)@(\w+)", text))
    assert len({name for name, _ in pins}) == len(pins)


def test_nothing_may_be_written_but_what_a_release_writes() -> None:
    may: dict[str, dict[str, str]] = {}
    for path in WORKFLOWS:
        read = workflow(path.name)
        assert read["permissions"] in ({}, {"contents": "read"})
        for name, each in read["jobs"].items():
            written = {k: v for k, v in each.get("permissions", {}).items() if v != "read"}
            if written:
                may[name] = written
    assert may == {
        "publish": {"id-token": "write", "attestations": "write"},
        "announce": {"contents": "write"},
    }


def test_jobs_end_and_keep_no_credentials() -> None:
    for path in WORKFLOWS:
        for name, each in workflow(path.name)["jobs"].items():
            if "uses" in each:
                continue
            assert 0 < each["timeout-minutes"] <= 40, name
            for step in each["steps"]:
                if "actions/checkout@" in step.get("uses", ""):
                    assert step["with"]["persist-credentials"] is False, name


def test_a_release_is_published_from_a_tag_after_everything_was_run_and_with_attestations() -> None:
    release = workflow("release.yml")
    assert release[True] == {"push": {"tags": ["v[0-9]*"]}}  # YAML takes `on` for a truth
    assert "workflow_call" in workflow("ci.yml")[True]
    publish = release["jobs"]["publish"]
    assert set(publish["needs"]) == {"ci", "version"}
    assert publish["environment"] == "pypi"
    [step] = [each for each in publish["steps"] if "pypi-publish" in each.get("uses", "")]
    assert step["with"]["attestations"] is True
    assert not {"password", "user"} & set(step["with"])
    assert "secrets." not in "".join(path.read_text() for path in WORKFLOWS)


def test_zizmor_finds_nothing_wrong_with_the_workflows() -> None:
    done = run(program("zizmor"), "--offline", "--no-progress", *map(str, WORKFLOWS))
    assert done.returncode == 0, done.stdout + done.stderr


def test_zizmor_would_find_something(tmp_path: Path) -> None:
    text = (ROOT / ".github/workflows/ci.yml").read_text()
    planted = tmp_path / ".github" / "workflows" / "ci.yml"
    planted.parent.mkdir(parents=True)
    planted.write_text(text.replace("make check", "make ${{ github.head_ref }} check"))
    done = run(program("zizmor"), "--offline", "--no-progress", str(planted))
    assert done.returncode != 0
    assert "template-injection" in done.stdout
