"""A site that submits a job, which runs in the context of the site."""

from flask import Flask, current_app

from fencepost.flask import Fencepost

queue = Fencepost()


@queue.task
def greet(name: str) -> str:
    return f"hello {name} from {current_app.config['TOWN']}"


site = Flask(__name__)
site.config.update(TOWN="Porto", FENCEPOST_URL="sqlite:///jobs.db")
queue.init_app(site)


@site.post("/greetings/<name>")
def submit(name: str) -> dict[str, str]:
    return {"id": greet.submit(name).id}


answer = site.test_client().post("/greetings/Ada").json
assert answer is not None
queue.worker().run(until_idle=True)
assert queue.jobs.get(answer["id"]).result() == "hello Ada from Porto"
print("a site submitted a job, which ran in its context")
