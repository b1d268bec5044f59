"""The admin's pages about jobs: a list with search and filters, one job, and three actions.

They read through the project's app, so they show the same as the command line and the dashboard,
for any store. Who may see and do what is decided by Django's permissions of ``QueuedJob``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import django
from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import reverse
from django.utils.text import get_text_list

from fencepost.actions.replies import Page
from fencepost.core.filter import Conditions
from fencepost.core.job.job import Job
from fencepost.core.job.lifecycle import State
from fencepost.core.values.names import is_id
from fencepost.django.application import DjangoApp, project_app
from fencepost.django.models import QueuedJob
from fencepost.errors import FencepostError, JobNotFoundError

PAGE = 50
"""Jobs on a page."""
SHOWN_ERRORS = 3
"""Refused jobs whose reason is shown; there may be as many as on a page."""
FIELDS = ("state", "type", "queue", "q")
"""What the list can be filtered by; ``q`` is what was typed."""
TAG = "tag:"
BREADCRUMBS_ARE_A_LIST = django.VERSION >= (6, 1)


class JobAction(NamedTuple):
    """Something that can be done with the jobs that were ticked."""

    name: str
    label: str
    done: str
    run: Callable[[DjangoApp, str], Any]


ACTIONS = (
    JobAction("retry", "Retry the selected jobs", "retried", lambda app, id: app.jobs.retry(id)),
    JobAction(
        "cancel", "Cancel the selected jobs", "cancelled", lambda app, id: app.jobs.cancel(id)
    ),
    JobAction(
        "replay",
        "Replay the selected dead letters as new jobs",
        "replayed",
        lambda app, id: app.dead_letters.replay(id),
    ),
)


@admin.register(QueuedJob)
class JobAdmin(admin.ModelAdmin):  # type: ignore[misc]  # Django declares no types
    """Pages of our own under the addresses that the admin gives to a model."""

    def has_add_permission(self, request: Any) -> bool:
        return False  # a job is made by code

    def has_change_permission(self, request: Any, obj: Any = None) -> bool:
        return False  # there are actions instead

    def has_delete_permission(self, request: Any, obj: Any = None) -> bool:
        return False

    def changelist_view(self, request: Any, extra_context: Any = None) -> Any:
        """Show a page of jobs; with POST, run an action on those that were ticked."""
        self._check_view(request)
        if request.method == "POST":
            self._act(request)
            return HttpResponseRedirect(request.get_full_path())
        app, given = project_app(), given_fields(request.GET)
        page: Page[Job] = Page([])
        problem = None
        try:
            page = app.jobs.find(
                after=request.GET.get("after") or None, limit=PAGE, **conditions_of(given)
            )
        except FencepostError as error:
            problem = str(error)
        context = {
            **self.admin_site.each_context(request),
            **(extra_context or {}),
            "title": "Select job to see",
            "opts": self.opts,
            "breadcrumbs_are_a_list": BREADCRUMBS_ARE_A_LIST,
            "jobs": list(page),
            "problem": problem,
            "given": given,
            "states": list(State),
            "types": sorted(view.name for view in app.types.list()) if problem is None else [],
            "queues": sorted(view.name for view in app.queues.list()) if problem is None else [],
            "actions": self._allowed(request),
            "next": None if page.next is None else _query(request, after=page.next),
            "is_first": not request.GET.get("after"),
            "first": _query(request, after=None),
        }
        return TemplateResponse(request, "fencepost/jobs.html", context)

    def change_view(
        self, request: Any, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> Any:
        """Show one job with its attempts, and why it is in its state."""
        self._check_view(request)
        app = project_app()
        if request.method == "POST":
            self._act(request, [object_id])
            return HttpResponseRedirect(request.get_full_path())
        try:
            job = app.jobs.get(object_id).refresh()
            context = {
                **self.admin_site.each_context(request),
                **(extra_context or {}),
                "title": f"Job {job.id}",
                "opts": self.opts,
                "breadcrumbs_are_a_list": BREADCRUMBS_ARE_A_LIST,
                "job": job,
                "fields": job.to_dict(),
                "attempts": app.jobs.attempts(job.id),
                "reasons": app.jobs.why(job.id),
                "actions": self._allowed(request),
                "list": reverse("admin:fencepost_queuedjob_changelist"),
            }
        except JobNotFoundError as error:
            raise Http404(str(error)) from error
        return TemplateResponse(request, "fencepost/job.html", context)

    def history_view(self, request: Any, object_id: str, extra_context: Any = None) -> Any:
        """Show the job: what happened to it is on its page."""
        return HttpResponseRedirect(reverse("admin:fencepost_queuedjob_change", args=[object_id]))

    def _check_view(self, request: Any) -> None:
        if not self.has_view_permission(request):
            raise PermissionDenied

    def _allowed(self, request: Any) -> list[JobAction]:
        """Return the actions that this user may run."""
        may = request.user.has_perm
        return [each for each in ACTIONS if may(f"fencepost.{each.name}_queuedjob")]

    def _act(self, request: Any, ids: Sequence[str] | None = None) -> None:
        """Run an action on each job, and report what was done and what was refused."""
        wanted = request.POST.get("action", "")
        chosen = next((each for each in self._allowed(request) if each.name == wanted), None)
        if chosen is None:
            raise PermissionDenied
        refused: list[str] = []
        done = 0
        app = project_app()
        for id in ids or request.POST.getlist("id")[:PAGE]:
            try:
                chosen.run(app, id)
                done += 1
            except FencepostError as error:
                refused.append(str(error))
        if done:
            jobs = "1 job was" if done == 1 else f"{done} jobs were"
            messages.success(request, f"{jobs} {chosen.done}.")
        for text in refused[:SHOWN_ERRORS]:
            messages.error(request, text)
        if len(refused) > SHOWN_ERRORS:
            messages.error(request, f"{len(refused) - SHOWN_ERRORS} more were refused.")
        if not done and not refused:
            names = get_text_list([each.name for each in ACTIONS], "or")
            messages.warning(request, f"Tick the jobs to {names} first.")


def given_fields(query: Mapping[str, str]) -> dict[str, str]:
    """Return what the list is filtered by."""
    return {name: query.get(name, "").strip() for name in FIELDS}


def conditions_of(given: Mapping[str, str]) -> Conditions:
    """Return the conditions of a search.

    What was typed is an id or the beginning of one, a condition such as ``payload.kwargs.user=42``,
    a tag such as ``tag:tenant=7``, or an idempotency key.
    """
    conditions: Conditions = {}
    if given["state"]:
        conditions["state"] = given["state"]
    if given["type"]:
        conditions["type"] = given["type"]
    if given["queue"]:
        conditions["queue"] = given["queue"]
    text = given["q"]
    tag, _, value = text.removeprefix(TAG).partition("=")
    if text.startswith(TAG) and tag and value:
        conditions["tags"] = {tag: value}
    elif is_id(text) or (len(text) >= 4 and _is_hexadecimal(text)):
        conditions["id_prefix"] = text
    elif any(sign in text for sign in "=<>"):
        conditions["where"] = text
    elif text:
        conditions["key"] = text
    return conditions


def _is_hexadecimal(text: str) -> bool:
    return all(sign in "0123456789abcdef-" for sign in text.lower())


def _query(request: Any, **changes: str | None) -> str:
    """Return the query of this page with other parameters."""
    query = request.GET.copy()
    for name, value in changes.items():
        query.pop(name, None)
        if value is not None:
            query[name] = value
    return f"?{query.urlencode()}"
