"""Processes: children that run one handler each, and the supervisor of several workers."""
