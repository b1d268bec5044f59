"""``python -m bench``: this machine's figures beside its raw limit."""

from bench.command import bench

bench(prog_name="bench")
