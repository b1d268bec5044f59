"""The way in: apps, tasks and job handles, in a sync and an async face over the same scripts."""

from fencepost.actions.pages import Page
from fencepost.app.app import App, AsyncApp
from fencepost.handles.event import AsyncEventHandle, EventHandle
from fencepost.handles.events import Sent
from fencepost.handles.flows import AsyncFlow, AsyncFlowHandle, Flow, FlowHandle
from fencepost.handles.job import AsyncJobHandle, JobHandle
from fencepost.handles.task import AsyncTaskHandle, TaskHandle

__all__ = [
    "App",
    "AsyncApp",
    "AsyncEventHandle",
    "AsyncFlow",
    "AsyncFlowHandle",
    "AsyncJobHandle",
    "AsyncTaskHandle",
    "EventHandle",
    "Flow",
    "FlowHandle",
    "JobHandle",
    "Page",
    "Sent",
    "TaskHandle",
]
