"""A project whose task is stored with a transaction, and run by the command of the project."""

import django
from django.conf import settings

settings.configure(
    SECRET_KEY="for this program only",
    USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "shop.sqlite3"}},
    INSTALLED_APPS=["fencepost.django"],
)
django.setup()

from django.core.management import call_command  # noqa: E402 - after the settings
from django.db import transaction  # noqa: E402

from fencepost.django import app  # noqa: E402


@app.task
def add(a: int, b: int) -> int:
    return a + b


call_command("migrate", verbosity=0)
with transaction.atomic():
    job = add.submit(1, b=2)
app.worker().run(until_idle=True)
assert job.result() == 3
print(f"a job was submitted in a transaction of Django {django.get_version()}, and run")
