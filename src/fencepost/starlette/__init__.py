"""Fencepost inside a Starlette application: opened and closed with it, a worker beside it, mounted.

Everything here is for FastAPI too, and is part of ``fencepost.fastapi``.
"""

from fencepost.starlette.api import mount
from fencepost.starlette.lifespan import lifespan
from fencepost.starlette.worker import EmbeddedOptions

__all__ = ["EmbeddedOptions", "lifespan", "mount"]
