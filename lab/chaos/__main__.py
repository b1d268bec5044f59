"""``python -m lab.chaos``: a run of chaos from a terminal."""

from __future__ import annotations

import argparse
import sys

import msgspec

from lab.chaos.faults import FLEETS, STORES, kinds_for
from lab.chaos.report import render
from lab.chaos.run import ChaosFailedError, run
from lab.chaos.settings import DURABILITIES, LAYOUTS


def _arguments() -> argparse.Namespace:
    kinds = "; ".join(f"{store}: {', '.join(kinds_for(store))}" for store in STORES)
    by_http = set(kinds_for(STORES[0], "node")) - set(kinds_for(STORES[0]))
    parser = argparse.ArgumentParser(
        prog="python -m lab.chaos",
        description="Hurt real processes and real servers, and check that every promise holds.",
        epilog=f"Kinds of fault: {kinds}; "
        f"and for node: {', '.join(sorted(by_http))}. Ends with 1 if a promise was broken.",
    )
    parser.add_argument("--store", choices=STORES, default="sqlite")
    parser.add_argument(
        "--layout", choices=LAYOUTS, default=LAYOUTS[0], help="how many Redis servers, and how"
    )
    parser.add_argument("--durability", choices=DURABILITIES, help="with such a layout")
    parser.add_argument("--seconds", type=float, default=60.0, help="how long faults are injected")
    parser.add_argument("--kinds", help="names of faults, separated by commas; default: all")
    parser.add_argument("--seed", type=int, default=0, help="which faults, when and to whom")
    parser.add_argument("--rate", type=float, default=240.0, help="jobs a second")
    parser.add_argument(
        "--fleet", choices=FLEETS, default="python", help="what the workers are written in"
    )
    parser.add_argument("--workers", type=int, default=3)
    parser.add_argument("--pause", type=float, default=1.0, help="seconds between two faults")
    parser.add_argument("--source", choices=("machine", "wheel"), help="which PostgreSQL")
    parser.add_argument("--keep", action="store_true", help="keep the ledgers in any case")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    return parser.parse_args()


def main() -> int:
    given = _arguments()
    try:
        found = run(
            store=given.store,
            layout=given.layout,
            durability=given.durability,
            seconds=given.seconds,
            kinds=given.kinds.split(",") if given.kinds else None,
            seed=given.seed,
            rate=given.rate,
            fleet=given.fleet,
            workers=given.workers,
            pause=given.pause,
            source=given.source,
            keep=given.keep,
        )
    except (ChaosFailedError, ValueError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        sys.stderr.write("interrupted; everything that was started has ended\n")
        return 130
    shown = msgspec.json.encode(found).decode() if given.json else render(found)
    sys.stdout.write(f"{shown}\n")
    return 0 if found.is_clean else 1


if __name__ == "__main__":
    sys.exit(main())
