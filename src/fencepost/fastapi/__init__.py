"""Fencepost in FastAPI: a lifespan, jobs in the request's transaction, models of jobs, the API.

What needs no FastAPI is ``fencepost.starlette``, and is here as well.
"""

try:
    from fencepost.fastapi.models import FailureModel, JobModel, ProgressModel, SubmittedJob
    from fencepost.fastapi.transaction import Joining, joining
except ModuleNotFoundError as error:
    if error.name != "fastapi":
        raise
    raise ModuleNotFoundError(
        "fencepost.fastapi needs FastAPI: pip install 'fencepost[fastapi]'", name="fastapi"
    ) from None

from fencepost.starlette import EmbeddedOptions, lifespan, mount

__all__ = [
    "EmbeddedOptions",
    "FailureModel",
    "JobModel",
    "Joining",
    "ProgressModel",
    "SubmittedJob",
    "joining",
    "lifespan",
    "mount",
]
