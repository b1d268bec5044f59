"""Which packages are installed with Fencepost, and which extra needs each of them."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.release.report import FailedError

PACKAGE = "package"
"""In the place of an extra: what everybody gets."""
Needs = dict[str, set[str]]


def wheel_metadata(wheel: Path) -> metadata.Distribution:
    """Return what the wheel says of itself."""
    folder = "-".join(wheel.name.split("-")[:2])
    return metadata.PathDistribution(zipfile.Path(wheel, f"{folder}.dist-info/"))


def walk(own: metadata.Distribution) -> tuple[Needs, Needs]:
    """Return which extras need a package, and which packages a package needs, on this system.

    Raises FailedError if one is not installed here.
    """
    needs: Needs = {}
    edges: Needs = {}
    for extra in (PACKAGE, *sorted(own.metadata.get_all("Provides-Extra") or ())):
        todo = [(own, "" if extra == PACKAGE else extra)]
        seen: set[tuple[str, str]] = set()
        while todo:
            found, wanted = todo.pop()
            name = canonicalize_name(found.name)
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            for requirement in _requirements(found, wanted):
                target = canonicalize_name(requirement.name)
                other = own if target == canonicalize_name(own.name) else _installed(target)
                todo += [(other, each) for each in requirement.extras]
                if other is not own:  # `all` names other extras of the package itself
                    needs.setdefault(target, set()).add(extra)
                    edges.setdefault(name, set()).add(target)
                    todo.append((other, ""))
    return needs, edges


def _requirements(found: metadata.Distribution, extra: str) -> Iterator[Requirement]:
    for text in found.requires or ():
        requirement = Requirement(text)
        if requirement.marker is None:
            if not extra:
                yield requirement
        elif requirement.marker.evaluate({"extra": extra}):
            yield requirement


def _installed(name: str) -> metadata.Distribution:
    try:
        return metadata.distribution(name)
    except metadata.PackageNotFoundError:
        raise FailedError(f"{name} is required and not in requirements-dev.txt") from None
