"""Jobs as pydantic models, for ``response_model=`` and the OpenAPI document of a site.

They show what a site's own users may see of their jobs: neither payload nor lease, nor the
traceback of a failure. ``Job.to_dict()`` has all of it.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Generic, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, model_validator

from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.handles.job import AsyncJobHandle, JobHandle

R = TypeVar("R")


class SubmittedJob(BaseModel):
    """A job that was stored, or the one that holds its key. Made of what ``submit`` returns."""

    model_config = ConfigDict(from_attributes=True)

    id: str = Field(description="The id of the job, with which to ask for its state.")
    type: str
    state: State = Field(description="The state at the submission.")
    duplicate: bool = Field(
        default=False, description="Whether an earlier job holds the key, and no new one was made."
    )

    @classmethod
    def of(cls, job: JobHandle[Any] | AsyncJobHandle[Any]) -> Self:
        """Return the model of a handle, of either face."""
        return cls.model_validate(job)


class FailureModel(BaseModel):
    """Why a job, or its last attempt, failed."""

    category: str
    message: str
    code: str | None = None


class ProgressModel(BaseModel):
    """How far the handler says it has come."""

    fraction: float = Field(description="From 0 to 1.")
    message: str = ""


class JobModel(BaseModel, Generic[R]):
    """A job and its result, as last read. ``JobModel[Invoice]`` checks the result.

    Made of what ``app.jobs.get(…)`` returns, or ``handle.refresh()``.
    """

    id: str
    type: str
    queue: str
    priority: int = Field(description="0 (critical) goes first, 4 (bulk) last.")
    state: State
    attempt: int = Field(description="The number of the present or last attempt; 0: it never ran.")
    max_attempts: int
    created_at: datetime
    run_at: datetime = Field(description="The job does not start before this.")
    started_at: datetime | None = None
    completed_at: datetime | None = Field(
        default=None, description="When it ended, in success or failure."
    )
    failure: FailureModel | None = None
    progress: ProgressModel | None = None
    key: str | None = None
    tags: dict[str, str] = {}
    correlation_id: str | None = None
    result: R | None = Field(default=None, description="Of a completed job; JSON.")

    @model_validator(mode="before")
    @classmethod
    def _read(cls, given: Any) -> Any:
        """Take a job in the form in which HTTP shows it: without bytes, and without secrets."""
        return given.to_dict() if isinstance(given, Job | JobHandle | AsyncJobHandle) else given

    @classmethod
    def of(cls, job: Job | JobHandle[Any] | AsyncJobHandle[Any]) -> Self:
        """Return the model of a job, or of a handle that has read it."""
        return cls.model_validate(job)
