"""Fencepost beside other queues, on the same servers in the same minutes: ``make bench-peers``."""
