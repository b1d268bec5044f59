"""Apps, and handles on their tasks, jobs, flows and events, in a blocking and an awaited face."""

from fencepost.actions.replies import BoundedCount, EditCount, Page
from fencepost.app.app import App, AsyncApp
from fencepost.handles.events import AsyncEventHandle, EventHandle, SentHandle
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
    "BoundedCount",
    "EditCount",
    "EventHandle",
    "Flow",
    "FlowHandle",
    "JobHandle",
    "Page",
    "SentHandle",
    "TaskHandle",
]
