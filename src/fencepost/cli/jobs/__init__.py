"""``fencepost jobs``."""
