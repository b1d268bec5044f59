"""Callers, workers and maintenance in simulated time, with seeded faults, on the product's code.

``python -m lab.simulation --seeds 1..200`` runs it; a seed that fails replays bit for bit.
"""

from lab.simulation.run import run

__all__ = ["run"]
