"""A worker for Holdfast over HTTP, with the standard library of Python 3.9 or later alone.

    from holdfast_worker import Worker, DropJob

    worker = Worker("http://127.0.0.1:3000", key="hf_...", queues=["mail"])

    @worker.job("send_email")
    def send_email(payload, job):
        job.log("sending")
        return {"sent": payload["to"]}

    worker.run()          # until SIGTERM or SIGINT: then running jobs finish or go back

Handlers run in threads. `job.stop` is set when the job was cancelled, ran out of time or lost its lease; look at it in long loops.
Delivery is at least once: a handler may run again after a crash, so make its effects safe to repeat.
"""

import http.client
import json
import os
import random
import signal
import socket
import threading
import time
import traceback
import urllib.parse


class DropJob(Exception):
    """Raised by a handler: the job is dead, and is not tried again."""


class RetryJob(Exception):
    """Raised by a handler: the attempt failed, and the next one comes after `delay` seconds."""

    def __init__(self, message, delay):
        super().__init__(message)
        self.delay = delay


class SnoozeJob(Exception):
    """Raised by a handler: run it again after `delay` seconds, without using up an attempt."""

    def __init__(self, delay):
        super().__init__("snoozed")
        self.delay = delay


class RateLimited(Exception):
    """Raised by a handler that was told to wait: the job, and the others of its limit or group, wait `delay` seconds."""

    def __init__(self, delay):
        super().__init__("rate limited")
        self.delay = delay


class Refused(Exception):
    """The server understood a request and refused it."""

    def __init__(self, status, problem):
        super().__init__("%s %s: %s" % (status, problem.get("code"), problem.get("detail")))
        self.status = status
        self.code = problem.get("code")


class Stopped(Exception):
    """Raised by `job.check()` when the job should stop."""


class Api:
    """One connection for each thread, opened again when it breaks."""

    def __init__(self, url, key):
        self._url = urllib.parse.urlsplit(url)
        self._key = key
        self._local = threading.local()

    def post(self, path, body, timeout=30.0):
        """The answer. Raises OSError or http.client.HTTPException when there is none, Refused when it is a refusal."""
        data = json.dumps(body, allow_nan=False).encode()
        headers = {"authorization": "Bearer " + self._key, "content-type": "application/json"}
        connection = self._connection(timeout)
        try:
            connection.request("POST", self._url.path.rstrip("/") + path, data, headers)
            response = connection.getresponse()
            text = response.read()
        except BaseException:
            connection.close()
            self._local.connection = None
            raise
        if response.status >= 500:
            raise OSError("the server answered %d" % response.status)
        answer = json.loads(text) if text else {}
        if response.status >= 400:
            raise Refused(response.status, answer)
        return answer

    def _connection(self, timeout):
        connection = getattr(self._local, "connection", None)
        if connection is None:
            https = self._url.scheme == "https"
            make = http.client.HTTPSConnection if https else http.client.HTTPConnection
            connection = make(self._url.hostname, self._url.port, timeout=timeout)
            self._local.connection = connection
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection


class Job:
    """A claimed job, as its handler sees it."""

    def __init__(self, worker, facts):
        self._worker = worker
        self.lease = facts["lease"]
        self.id = facts["id"]
        self.fence = facts["fence"]
        self.type = facts["type"]
        self.queue = facts["queue"]
        self.payload = facts["payload"]
        self.attempt = facts["attempt"]
        self.max_attempts = facts["maxAttempts"]
        self.tags = facts["tags"]
        self.group = facts["group"]
        self.stop = threading.Event()
        #: Why it should stop: 'cancelled', 'timed_out', 'lost' or 'shutdown'.
        self.reason = None
        self.given_up = False
        timeout = facts["timeoutMs"]
        self.deadline = None if timeout is None else time.monotonic() + timeout / 1000.0

    def check(self):
        """Raises Stopped when the job should stop."""
        if self.stop.is_set():
            raise Stopped(self.reason)

    def sleep(self, seconds):
        """Waits, and raises Stopped when the job should stop meanwhile."""
        self.stop.wait(seconds)
        self.check()

    def progress(self, value):
        self._worker.say("/v1/work/progress", {"lease": self.lease, "progress": value})

    def log(self, line):
        self._worker.say("/v1/work/log", {"lease": self.lease, "lines": [str(line)]})

    def abort(self, reason):
        if self.reason is None:
            self.reason = reason
        self.stop.set()


class Worker:
    def __init__(self, url, key, queues, concurrency=4, lease=30.0, name=None, drain=15.0):
        self._api = Api(url, key)
        self._queues = list(queues)
        self._concurrency = concurrency
        self._lease = lease
        self._drain = drain
        self._name = name or "%s-%d" % (socket.gethostname(), os.getpid())
        self._handlers = {}
        self._jobs = {}
        self._lock = threading.Lock()
        self._free = threading.Semaphore(concurrency)
        self._stopping = threading.Event()
        self._drained = threading.Event()

    def job(self, type):
        """Registers the handler of a type, as a decorator."""

        def register(handler):
            self._handlers[type] = handler
            return handler

        return register

    def stop(self, *_):
        """Claims no more. `run` returns when the running jobs have ended."""
        self._stopping.set()

    def run(self):
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, self.stop)
            signal.signal(signal.SIGINT, self.stop)
        keeper = threading.Thread(target=self._keep, daemon=True)
        keeper.start()
        # In a thread of its own: it may be waiting for an answer when the worker is told to stop.
        threading.Thread(target=self._claim_forever, daemon=True).start()
        while not self._stopping.wait(0.2):
            pass
        self._finish()
        self._drained.set()
        keeper.join(2.0)

    # Claiming

    def _claim_forever(self):
        pause = 0.1
        while not self._stopping.is_set():
            if not self._free.acquire(timeout=0.2):
                continue
            room = 1
            while room < self._concurrency and self._free.acquire(blocking=False):
                room += 1
            taken = 0
            try:
                jobs = self._claim(room)
                taken = len(jobs)
                for facts in jobs:
                    self._start(facts)
                pause = 0.1
            except Refused as error:
                # A key that was revoked, or queues it may not work on, stay so until somebody changes that.
                print("holdfast: cannot claim: %s" % error, flush=True)
                pause = min(pause * 2, 10.0)
                self._stopping.wait(pause * (0.5 + random.random() / 2))
            except (OSError, http.client.HTTPException, ValueError):
                pause = min(pause * 2, 5.0)
                self._stopping.wait(pause * (0.5 + random.random() / 2))
            finally:
                for _ in range(room - taken):
                    self._free.release()

    def _claim(self, room):
        with self._lock:
            running = len(self._jobs)
        # A short wait, so that a worker that stops is soon answered.
        wait = 5.0
        body = {
            "worker": self._name,
            "queues": self._queues,
            "types": sorted(self._handlers),
            "limit": min(room, 100),
            "lease": int(self._lease * 1000),
            "wait": int(wait * 1000),
            "concurrency": self._concurrency,
            "running": running,
            "host": socket.gethostname()[:100],
        }
        return self._api.post("/v1/work/claim", body, timeout=wait + 15.0)["jobs"]

    def _start(self, facts):
        job = Job(self, facts)
        with self._lock:
            self._jobs[job.lease] = job
        if self._stopping.is_set():
            # Claimed while it was told to stop: given back below, with its attempt.
            job.given_up = True
            self._end(job, {"outcome": "released"})
            return
        threading.Thread(target=self._run, args=(job,), daemon=True).start()

    # Running

    def _run(self, job):
        end = self._outcome(job)
        self._end(job, end)

    def _outcome(self, job):
        try:
            result = self._handlers[job.type](job.payload, job)
            json.dumps(result, allow_nan=False)
            return {"outcome": "succeeded", "result": result}
        except DropJob as error:
            return {"outcome": "dropped", "error": _error(error)}
        except SnoozeJob as error:
            return {"outcome": "snoozed", "delay": int(error.delay * 1000)}
        except RateLimited as error:
            return {"outcome": "rate_limited", "delay": int(error.delay * 1000)}
        except RetryJob as error:
            return {"outcome": "failed", "error": _error(error), "delay": int(error.delay * 1000)}
        except BaseException as error:  # whatever a handler raises is the end of its attempt, and not of the worker
            if job.reason == "cancelled":
                return {"outcome": "cancelled"}
            if job.reason == "shutdown":
                return {"outcome": "released"}
            if job.reason == "timed_out":
                timeout = {"name": "TimedOut", "message": "the attempt ran out of time", "code": "timed_out"}
                return {"outcome": "failed", "error": timeout}
            return {"outcome": "failed", "error": _error(error)}

    def _end(self, job, end):
        """Settles, again and again until the server has answered. The lease is kept meanwhile."""
        pause = 0.1
        while job.reason != "lost":
            try:
                (answer,) = self._api.post("/v1/work/settle", {"jobs": [dict(end, lease=job.lease)]})["jobs"]
                if answer["result"] != "locked":
                    break
            except Refused as error:
                print("holdfast: job %s was not settled: %s" % (job.id, error), flush=True)
                if end["outcome"] in ("released", "failed") and "error" not in end:
                    break
                # What the server refuses to keep must not keep the job: it goes without it.
                end = {"outcome": "failed", "error": {"name": "Refused", "message": str(error)[:1000]}}
                if error.status in (401, 403):
                    break
            except (OSError, http.client.HTTPException, ValueError):
                pass
            time.sleep(pause * (0.5 + random.random() / 2))
            pause = min(pause * 2, 2.0)
        with self._lock:
            self._jobs.pop(job.lease, None)
        self._free.release()

    def say(self, path, body):
        """Progress and log lines: worth one try, and nothing depends on them."""
        try:
            self._api.post(path, body)
        except (Refused, OSError, http.client.HTTPException, ValueError):
            pass

    # Keeping leases

    def _keep(self):
        every = min(self._lease / 3.0, 5.0)
        at = time.monotonic()
        while not self._drained.is_set():
            self._drained.wait(max(0.05, min(0.25, at - time.monotonic())))
            now = time.monotonic()
            with self._lock:
                jobs = list(self._jobs.values())
            for job in jobs:
                if job.deadline is not None and now > job.deadline:
                    job.abort("timed_out")
            if now < at:
                continue
            at = now + every
            for first in range(0, len(jobs), 1000):
                self._extend(jobs[first : first + 1000])

    def _extend(self, jobs):
        body = {"leases": [job.lease for job in jobs], "lease": int(self._lease * 1000)}
        try:
            states = self._api.post("/v1/work/extend", body, timeout=max(2.0, self._lease / 3.0))["leases"]
        except (Refused, OSError, http.client.HTTPException, ValueError):
            return
        for job, answer in zip(jobs, states):
            if answer["state"] != "held":
                job.abort(answer["state"])

    # Stopping

    def _finish(self):
        """Lets running jobs end. What is left after the time goes back."""
        self._wait_for_jobs(self._drain)
        with self._lock:
            left = list(self._jobs.values())
        for job in left:
            job.abort("shutdown")
        self._wait_for_jobs(2.0)
        with self._lock:
            stuck = [job.lease for job in self._jobs.values()]
        if stuck:
            self.say("/v1/work/release", {"leases": stuck})
        self.say("/v1/work/leave", {"worker": self._name})

    def _wait_for_jobs(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with self._lock:
                if not self._jobs:
                    return
            time.sleep(0.02)


def _error(error):
    return {
        "name": type(error).__name__,
        "message": str(error)[:50000],
        "stack": "".join(traceback.format_exception(type(error), error, error.__traceback__))[-50000:],
    }
