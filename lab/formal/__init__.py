"""A formal model of the lease protocol (Promela), and what checks it with spin."""

from lab.formal.check import run

__all__ = ["run"]
