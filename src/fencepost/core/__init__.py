"""Decisions: states, retry maths, validation. Pure: no I/O, no clock, no unseeded randomness."""
