"""The bill of materials of a release, as CycloneDX JSON: what is installed with it, by extra.

The versions are those of the environment in which this runs, which are locked: the suite was run
with them. A user may get newer ones. What is compiled into the dashboard is in it too.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.contrib.this.builders import this_component
from cyclonedx.model import (
    ExternalReference,
    ExternalReferenceType,
    HashAlgorithm,
    HashType,
    Property,
    XsUri,
)
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentScope, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL
from packaging.utils import canonicalize_name

from tools.release.archives import ROOT, Archives, sha256
from tools.release.needs import PACKAGE, walk, wheel_metadata
from tools.release.report import FailedError

LICENCE_MAX = 60
"""Longer, and it is the text of a licence and not its name."""
LOCK = ROOT / "ui" / "package-lock.json"


def write_sbom(archives: Archives) -> str:
    """Write the bill beside the archives, and check it against the schema of CycloneDX."""
    bom = make_bom(archives)
    text = JsonV1Dot6(bom).output_as_string(indent=2)
    errors = JsonStrictValidator(SchemaVersion.V1_6).validate_str(text)
    if errors:
        raise FailedError(f"the bill is not valid: {errors}")
    path = archives.wheel.parent / f"fencepost-{archives.version}.cdx.json"
    path.write_text(text + "\n", encoding="utf-8")
    return f"valid CycloneDX 1.6, {len(bom.components)} components"


def make_bom(archives: Archives) -> Bom:
    """Return the bill: the same for the same commit, lock and system."""
    own = wheel_metadata(archives.wheel)
    needs, edges = walk(own)
    bom = Bom()
    root = root_component(archives, own)
    bom.metadata.component = root
    bom.metadata.timestamp = commit_time()
    bom.metadata.tools.components.add(this_component())
    system = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    bom.metadata.properties.add(Property(name="fencepost:resolved-on", value=system))
    parts = {name: python_component(name, extras) for name, extras in needs.items()}
    parts[canonicalize_name(own.name)] = root
    bundled = list(bundled_components())
    bom.components.update([*(part for part in parts.values() if part is not root), *bundled])
    for name, part in parts.items():
        found = [parts[each] for each in sorted(edges.get(name, ()))]
        bom.register_dependency(part, [*found, *(bundled if part is root else ())])
    content = [sha256(archives.sdist), sha256(archives.wheel)]
    content += sorted(str(part.purl) for part in bom.components)
    bom.serial_number = uuid5(NAMESPACE_URL, " ".join(content))
    return bom


# --- components -----------------------------------------------------------------------------------


def root_component(archives: Archives, own: metadata.Distribution) -> Component:
    """Return Fencepost itself, with the hashes of its files."""
    files = [
        ExternalReference(
            type=ExternalReferenceType.DISTRIBUTION,
            url=XsUri(path.name),
            hashes=[HashType(alg=HashAlgorithm.SHA_256, content=sha256(path))],
        )
        for path in (archives.sdist, archives.wheel)
    ]
    return Component(
        type=ComponentType.LIBRARY,
        name=own.name,
        version=own.version,
        bom_ref=f"pkg:pypi/{own.name}@{own.version}",
        purl=PackageURL("pypi", None, own.name, own.version),
        description=own.metadata["Summary"],
        licenses=[LicenseFactory().make_from_string(own.metadata["License-Expression"])],
        external_references=files,
    )


def python_component(name: str, extras: set[str]) -> Component:
    """Return an installed package, with the names of the extras that need it."""
    found = metadata.distribution(name)
    return Component(
        type=ComponentType.LIBRARY,
        name=name,
        version=found.version,
        bom_ref=f"pkg:pypi/{name}@{found.version}",
        purl=PackageURL("pypi", None, name, found.version),
        description=found.metadata["Summary"],
        licenses=[LicenseFactory().make_from_string(each) for each in license_of(found)],
        scope=ComponentScope.REQUIRED if PACKAGE in extras else ComponentScope.OPTIONAL,
        properties=[Property(name="fencepost:needed-by", value=each) for each in sorted(extras)],
    )


def license_of(found: metadata.Distribution) -> list[str]:
    """Return the licences that a package declares: an expression, or names of classifiers."""
    about = found.metadata
    if "License-Expression" in about:
        return [about["License-Expression"]]
    classifiers = [
        each.rpartition(" :: ")[2]
        for each in about.get_all("Classifier") or ()
        if each.startswith("License :: ") and each != "License :: OSI Approved"
    ]
    text = about["License"].strip() if "License" in about else ""
    return classifiers or [text for text in [text] if 0 < len(text) <= LICENCE_MAX]


def bundled_components() -> Iterator[Component]:
    """Yield the packages that are compiled into the dashboard, by the lock of ``ui/``."""
    packages: dict[str, dict[str, Any]] = json.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    for place, package in packages.items():
        if not place or package.get("dev"):
            continue
        name, version = place.removeprefix("node_modules/"), package["version"]
        algorithm, _, value = package["integrity"].partition("-")
        assert algorithm == "sha512", place
        group, _, short = name.rpartition("/")
        yield Component(
            type=ComponentType.LIBRARY,
            group=group or None,
            name=short,
            version=version,
            bom_ref=f"pkg:npm/{name}@{version}",
            purl=PackageURL("npm", group or None, short, version),
            licenses=[LicenseFactory().make_from_string(package["license"])],
            scope=ComponentScope.REQUIRED,
            hashes=[HashType(alg=HashAlgorithm.SHA_512, content=b64decode(value).hex())],
            properties=[Property(name="fencepost:bundled-in", value="dashboard")],
        )


def commit_time() -> datetime:
    """Return when the released commit was made; without git, the time of the archives' files."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH", "")
    if not re.fullmatch(r"\d+", epoch):
        command = ["git", "log", "-1", "--format=%ct"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=30)
        epoch = done.stdout.strip() or "1580601600"  # what hatchling takes
    return datetime.fromtimestamp(int(epoch), UTC)
