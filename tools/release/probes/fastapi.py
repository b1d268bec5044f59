"""An application that submits a job and runs it, with the models and the API of jobs."""

import json
from socket import create_server
from threading import Thread
from urllib.request import Request, urlopen

import uvicorn
from fastapi import FastAPI

from fencepost import App
from fencepost.fastapi import JobModel, SubmittedJob, lifespan, mount

queue = App("sqlite:///jobs.db")


@queue.task
async def greet(name: str) -> str:
    return f"hello {name}"


site = FastAPI(lifespan=lifespan(queue, worker=True, concurrency=4))
mount(site, queue, "/queue")


@site.post("/greetings", status_code=202)
async def submit(name: str) -> SubmittedJob:
    return SubmittedJob.of(await greet.aio.submit(name))


@site.get("/greetings/{id}")
async def look(id: str) -> JobModel[str]:
    job = await queue.aio.jobs.get(id)
    await job.result(30)
    return JobModel[str].of(await job.refresh())


def get(url: str, method: str = "GET") -> dict[str, str]:
    with urlopen(Request(url, method=method), timeout=60) as reply:
        found: dict[str, str] = json.load(reply)
        return found


with create_server(("127.0.0.1", 0)) as listening:
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(uvicorn.Config(site, log_level="warning"))
    thread = Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    try:
        # Connections wait in the socket until the application has started.
        job = get(f"{base}/greetings?name=Ada", "POST")
        done = get(f"{base}/greetings/{job['id']}")
        assert (done["state"], done["result"]) == ("completed", "hello Ada"), done
        assert get(f"{base}/queue/health/live")
    finally:
        server.should_exit = True
        thread.join(60)
print("an application submitted a job, ran it, and showed it as a model")
