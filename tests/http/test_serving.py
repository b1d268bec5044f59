"""The server that the tests of the API run against is a real one."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from tests.http.serving import serving

from fencepost import App


def test_a_served_app_answers_until_it_is_stopped(tmp_path: Path) -> None:
    with App(f"sqlite:///{tmp_path}/jobs.db") as app:
        with serving(app) as server:
            assert httpx.get(f"{server.url}/health/ready").json() == {"status": "ready"}
            made = httpx.post(f"{server.url}/v1/jobs", json={"type": "work"})
            assert made.status_code == 201
            assert server.api.app is app
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{server.url}/health/live")
        assert app.jobs.get(made.json()["id"]).type == "work"
