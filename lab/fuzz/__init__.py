"""Fuzzing of everything that reads what people and other programs write.

A target is one parser: what it is fed, which errors it may answer with, and what must hold of what
it accepts. Each is fed values that are valid, valid but for a mutation, and of any kind whatever.
"""
