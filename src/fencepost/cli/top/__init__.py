"""``fencepost top``."""
