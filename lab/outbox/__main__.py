"""``python -m lab.outbox``: death between any two steps, from the command line."""

from __future__ import annotations

import argparse
import sys
from contextlib import ExitStack

import msgspec

from lab.outbox.story import Death, Kind
from lab.outbox.suite import STORIES, play, run
from lab.redis import server_url


def main(argv: list[str] | None = None) -> int:
    """Run what the command line asks for; return 1 if a promise did not hold."""
    parser = argparse.ArgumentParser(prog="python -m lab.outbox", description=__doc__)
    parser.add_argument("--stride", type=int, default=1, help="only each so manieth call")
    parser.add_argument("--offset", type=int, default=0, help="of the first of them")
    parser.add_argument("--call", type=int, help="repeat one death: the call (0: none)")
    parser.add_argument("--story", choices=[*STORIES], default="outbox")
    parser.add_argument("--kind", choices=[each.value for each in Kind], default="before")
    options = parser.parse_args(argv)
    with ExitStack() as stack:
        url = server_url(stack)
        if options.call is None:
            report = run(url, stride=options.stride, offset=options.offset, name=options.story)
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(report)).decode() + "\n")
            return 1 if report.failures else 0
        death = Death(options.call, Kind(options.kind)) if options.call else None
        story = play(url, death, options.story)
    for number, call in enumerate(story.calls, 1):
        sys.stdout.write(f"{number:5} {call}\n")
    for each in story.wrong:
        sys.stdout.write(f"wrong: {each}\n")
    return 1 if story.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
