"""``python -m tools.release`` builds a release in ``dist/``, checks it, and says what it found."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tools.release.archives import DIST, Archives, build_archives, sha256
from tools.release.checkers import check_types
from tools.release.contents import check_contents
from tools.release.extras import check_extras
from tools.release.report import Report
from tools.release.sbom import write_sbom


def main() -> int:
    """Build and check; 1 if anything is not as it must be."""
    if sys.argv[1:]:
        sys.stderr.write("usage: python -m tools.release\n")
        return 2
    report = Report()
    report.section("Build")
    made: list[Archives] = []

    def build() -> str:
        made.append(build_archives())
        return "the sdist from the tree, the wheel from the sdist without Node.js"

    report.check("sdist and wheel", build)
    if made:
        check(report, made[0])
    report.section(f"dist/ ({report.counts()})")
    for path in sorted(DIST.glob("*")):
        sys.stdout.write(f"  {path.stat().st_size:>10,}  {sha256(path)}  {path.name}\n")
    if report.has_failed:
        sys.stdout.write("\nThis is not to be released.\n")
    return 1 if report.has_failed else 0


def check(report: Report, archives: Archives) -> None:
    """Run every check of the archives."""
    report.section("Contents")
    check_contents(report, archives)
    report.check("bill of materials", lambda: write_sbom(archives))
    with tempfile.TemporaryDirectory() as folder:
        report.section("Installed in empty environments")
        check_extras(report, archives, Path(folder))
        report.section("Types, as users' editors see them")
        check_types(report, archives, Path(folder) / "types")


if __name__ == "__main__":
    sys.exit(main())
