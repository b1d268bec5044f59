"""``python -m bench.peers``: Fencepost beside other queues."""

from bench.peers.command import peers

peers(prog_name="bench.peers")
