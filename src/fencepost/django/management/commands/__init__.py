"""One: ``fencepost``, which has all the others."""
