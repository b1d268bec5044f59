"""The way in: apps, tasks and job handles, in a sync and an async face over the same scripts."""

from fencepost.app.app import App, AsyncApp
from fencepost.app.job import AsyncJobHandle, JobHandle
from fencepost.app.jobs import Page
from fencepost.app.task import AsyncTaskHandle, TaskHandle

__all__ = [
    "App",
    "AsyncApp",
    "AsyncJobHandle",
    "AsyncTaskHandle",
    "JobHandle",
    "Page",
    "TaskHandle",
]
