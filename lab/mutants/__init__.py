"""Planted protocol bugs, switched on one at a time: each must be caught by some suite."""
