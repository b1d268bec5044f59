"""``python -m tools.site build`` makes the site in ``build/site``; ``serve`` shows it."""

from __future__ import annotations

import contextlib
import functools
import http.server
import sys

from tools.site.build import SITE, build

ADDRESS = ("127.0.0.1", 8001)


def serve() -> None:
    """Show the site on loopback until Ctrl-C."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(SITE))
    with http.server.ThreadingHTTPServer(ADDRESS, handler) as server:
        sys.stdout.write("http://{}:{}/ (Ctrl-C ends it)\n".format(*ADDRESS))
        sys.stdout.flush()
        with contextlib.suppress(KeyboardInterrupt):
            server.serve_forever()


def main() -> int:
    """Do what the argument says; 1 if the site is not as it must be."""
    if sys.argv[1:] == ["serve"]:
        serve()
        return 0
    if sys.argv[1:] != ["build"]:
        sys.stderr.write("usage: python -m tools.site build|serve\n")
        return 2
    found = build()
    for problem in found:
        sys.stderr.write(f"{problem}\n")
    if not found:
        sys.stdout.write("the site is in build/site; `make docs-serve` shows it\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
