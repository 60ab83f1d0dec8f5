"""The handlers that `holdfast conformance` asks of a worker, on top of holdfast_worker.py.

    holdfast conformance --worker 'python3 examples/python/conformance_worker.py'
"""

import os
import time

from holdfast_worker import DropJob, RetryJob, SnoozeJob, Worker

worker = Worker(
    os.environ["HOLDFAST_SERVER"],
    key=os.environ["HOLDFAST_KEY"],
    queues=os.environ["HOLDFAST_QUEUES"].split(","),
    concurrency=int(os.environ["HOLDFAST_CONCURRENCY"]),
    lease=int(os.environ["HOLDFAST_LEASE_MS"]) / 1000.0,
    drain=int(os.environ["HOLDFAST_DRAIN_MS"]) / 1000.0,
)


@worker.job("echo")
def echo(payload, job):
    return payload


@worker.job("facts")
def facts(payload, job):
    return {"id": job.id, "attempt": job.attempt, "queue": job.queue, "type": job.type, "tags": job.tags}


@worker.job("fail")
def fail(payload, job):
    if job.attempt <= payload["times"]:
        raise ValueError(payload["message"])
    return job.attempt


@worker.job("drop")
def drop(payload, job):
    raise DropJob(payload["message"])


@worker.job("retry")
def retry(payload, job):
    if job.attempt == 1:
        raise RetryJob("later", payload["delayMs"] / 1000.0)
    return job.attempt


snoozed = set()


@worker.job("snooze")
def snooze(payload, job):
    if job.id not in snoozed:
        snoozed.add(job.id)
        raise SnoozeJob(payload["delayMs"] / 1000.0)
    return job.attempt


@worker.job("sleep")
def sleep(payload, job):
    job.progress({"attempt": job.attempt})
    job.sleep(payload["ms"] / 1000.0)
    return job.attempt


@worker.job("block")
def block(payload, job):
    # Looks at nothing meanwhile, as a call that cannot be interrupted.
    job.progress({"attempt": job.attempt})
    time.sleep(payload["ms"] / 1000.0)
    return job.attempt


@worker.job("notes")
def notes(payload, job):
    job.progress(payload["progress"])
    for line in payload["lines"]:
        job.log(line)
    return None


worker.run()
