"""The tables of ``docs/support.md`` agree with the package, with CI, and with what is refused."""

from __future__ import annotations

import re
import sqlite3
import tomllib
from typing import Any

import yaml
from tests.documentation import DOCS, README, ROOT, table_rows

from fencepost.store.postgres.engine.schema import OLDEST_SERVER
from fencepost.store.redis.engine.durability import OLDEST
from fencepost.store.sqlite.engine.connection import SQLITE_OLDEST

PAGE = (DOCS / "support.md").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
JOBS: dict[str, Any] = yaml.safe_load((ROOT / ".github/workflows/ci.yml").read_text())["jobs"]
SUPPORTED = "supported"


def versions(store: str) -> list[str]:
    return [row[1] for row in table_rows(PAGE, "store") if row[0] == store]


def matrix(name: str, key: str) -> list[str]:
    found: list[str] = JOBS[name]["strategy"]["matrix"][key]
    return found


def test_a_python_is_supported_if_and_only_if_a_classifier_names_it() -> None:
    named = {
        found[1]
        for each in PROJECT["classifiers"]
        if (found := re.search(r":: Python :: (3\.\d+)$", each))
    }
    rows = table_rows(PAGE, "Python")
    assert {row[0] for row in rows if row[1] == SUPPORTED} == named
    assert PROJECT["requires-python"] == f">={rows[0][0]}"
    others = [each["python"] for each in matrix("test", "include")]  # type: ignore[index]
    assert [row[0] for row in rows] == [*matrix("test", "python"), *others]


def test_the_oldest_of_each_store_is_what_the_code_does_not_refuse() -> None:
    oldest = {row[0]: row[1] for row in table_rows(PAGE, "store") if row[2].startswith("oldest")}
    assert oldest == {
        "SQLite": ".".join(map(str, SQLITE_OLDEST[:2])),
        "PostgreSQL": str(OLDEST_SERVER // 10_000),
        "Redis": ".".join(map(str, OLDEST)),
    }
    status = re.sub(r"\s+", " ", README.read_text(encoding="utf-8"))
    for store, version in oldest.items():
        assert versions(store)[0] == version
        assert f"{store} {version} or newer" in status


def test_each_version_of_a_server_is_one_of_ci() -> None:
    assert versions("PostgreSQL") == matrix("postgres", "postgres")
    images = [re.sub(r"^valkey/", "", each) for each in matrix("redis", "image")]
    listed = [f"{store.lower()}:{v}" for store in ("Redis", "Valkey") for v in versions(store)]
    assert listed == images


def test_each_job_that_is_named_exists_and_may_fail_only_if_that_is_said() -> None:
    rows = [(row[2], row[3]) for row in table_rows(PAGE, "Python")]
    rows += [(row[3], row[4]) for row in table_rows(PAGE, "store")]
    rows += [(row[2], row[3]) for row in table_rows(PAGE, "system")]
    for job, seen in rows:
        assert seen, "what was run, or that nothing was"
        names = re.findall(r"`(\w+)`", job)
        assert names or job.startswith(("none", "all"))
        assert {*names} <= JOBS.keys()
        may_fail = any(JOBS[name].get("continue-on-error") is True for name in names)
        assert not may_fail or "allowed to fail" in job


def test_each_extra_has_its_requirements() -> None:
    rows = {row[0].strip("`"): row for row in table_rows(PAGE, "extra")}
    assert rows.keys() == PROJECT["optional-dependencies"].keys()
    for extra, wanted in PROJECT["optional-dependencies"].items():
        if extra != "all":
            assert re.findall(r"`([^`]+)`", rows[extra][1]) == [
                each.partition(";")[0] for each in wanted
            ]
    [everything] = PROJECT["optional-dependencies"]["all"]
    brought = {*re.split(r"[\[\],]", everything)} - {"fencepost", ""}
    assert brought == rows.keys() - {"all", "django"}


def test_the_versions_that_extras_were_tested_with_are_locked() -> None:
    locked = (ROOT / "requirements-dev.txt").read_text(encoding="utf-8")
    for extra, row in ((row[0], row) for row in table_rows(PAGE, "extra")):
        for version in re.findall(r"\d+(?:\.\d+)+", row[2]):
            assert re.search(rf"=={re.escape(version)}\b", locked), f"{extra}: {version}"


def test_the_machine_that_runs_this_has_a_supported_sqlite() -> None:
    assert sqlite3.sqlite_version_info >= SQLITE_OLDEST


def test_the_readme_leads_to_the_page() -> None:
    _, _, status = README.read_text(encoding="utf-8").partition("## Status")
    assert "(docs/support.md)" in status
