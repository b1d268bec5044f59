# syntax=docker/dockerfile:1
# An image with Fencepost and no app. Yours begins with `FROM fencepost`, and copies the app to /srv/app:
# see deploy/README.md.

# The wheel, with the dashboard, which Node.js builds: the one from PyPI, used here only.
FROM python:3.13-slim AS build
WORKDIR /build
COPY requirements.txt requirements-build.in ./
RUN pip install --no-cache-dir --require-hashes -r requirements.txt
COPY . .
RUN pip wheel --no-cache-dir --no-deps --no-build-isolation --wheel-dir /wheels .

FROM python:3.13-slim
# Process 1 has duties that no worker has: it waits for processes that a handler left behind.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends tini \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 10001 --home-dir /srv/app --shell /usr/sbin/nologin fencepost \
    && install --directory --owner fencepost --mode 0700 /var/lib/fencepost /srv/app
COPY --from=build /wheels /wheels
# The wheel is the one that was built above; what it needs is bounded in its metadata.
# hadolint ignore=DL3013
RUN wheel="$(echo /wheels/fencepost-*.whl)" \
    && pip install --no-cache-dir "${wheel}[postgres,redis,encryption,fast]" \
    && rm -rf /wheels

USER 10001
WORKDIR /srv/app
# A SQLite store goes to a volume there; with PostgreSQL and Redis it has only the notes of workers on
# what they have started, which have to outlive a container that is restarted.
VOLUME /var/lib/fencepost
ENV PYTHONUNBUFFERED=1 \
    FENCEPOST_LOG_FORMAT=json \
    FENCEPOST_URL=sqlite:////var/lib/fencepost/jobs.db \
    FENCEPOST_RUNTIME_DIR=/var/lib/fencepost/run \
    HEALTH_URL=http://127.0.0.1:9100/health/live
EXPOSE 8000 9100
# A worker ends on SIGTERM: it finishes what runs within its grace, and gives the rest back. Give it
# time: `docker stop --timeout 75`, or stop_grace_period.
STOPSIGNAL SIGTERM
# Live means that the event loop runs: an image is not restarted because a database is away.
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 \
    CMD ["python", "-c", "import os, urllib.request as r; r.urlopen(os.environ['HEALTH_URL'], timeout=4)"]
ENTRYPOINT ["tini", "--", "fencepost"]
CMD ["worker", "--metrics", "9100"]
