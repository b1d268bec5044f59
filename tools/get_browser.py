"""Put a Chromium into ``build/browser``, from a package of the npm registry; nothing else changes.

Tests of the dashboard use the machine's Chromium where there is one, and this one otherwise.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from hatch_build import BuildError, find_node, packages  # noqa: E402 - it is no package

SOURCE = ROOT / "ui" / "browser"
TARGET = ROOT / "build" / "browser"
# Node.js unpacks it: Python has no brotli of its own.
UNPACK = """
const [source, target] = process.argv.slice(1);
const zlib = require("zlib"), fs = require("fs");
for (const name of fs.readdirSync(source)) {
  const data = zlib.brotliDecompressSync(fs.readFileSync(`${source}/${name}`));
  fs.writeFileSync(`${target}/${name.replace(/\\.br$/, "")}`, data, { mode: 0o755 });
}
"""
FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig>
  <dir>{folder}/fonts</dir>
  <dir>/usr/share/fonts</dir>
  <cachedir>{folder}/cache</cachedir>
</fontconfig>
"""


def main() -> int:
    folder = find_node()
    if folder is None:
        sys.stderr.write("there is no Node.js with npm\n")
        return 1
    try:
        packages(folder, SOURCE)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    TARGET.mkdir(parents=True, exist_ok=True)
    packed = SOURCE / "node_modules" / "@sparticuz" / "chromium" / "bin"
    subprocess.run([folder / "node", "-e", UNPACK, packed, TARGET], check=True, timeout=300)
    for archive in TARGET.glob("*.tar"):
        subprocess.run(["tar", "xf", archive, "-C", TARGET], check=True, timeout=60)
        archive.unlink()
    (TARGET / "fonts.conf").write_text(FONTS.format(folder=TARGET), encoding="utf-8")
    sys.stdout.write(f"a Chromium is in {TARGET.relative_to(ROOT)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
