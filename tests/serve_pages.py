"""What tests of the page share: a page in a process of its own, and a browser's or anybody's requests to it."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from urllib.parse import quote, urlsplit


class ServedPage:
    """A running `groupshift serve` and its address."""

    def __init__(self, process, address):
        self.process, self.address = process, address
        parts = urlsplit(address)
        self.port, self.root = parts.port, parts.path
        self.origin = f"http://127.0.0.1:{self.port}"

    def raw(self, method, path, body=b"", **headers):
        """A connection on which a request was begun; its body may be a part of what the headers say."""
        raw = socket.create_connection(("127.0.0.1", self.port), timeout=20)
        sent = {"Host": f"127.0.0.1:{self.port}", "Origin": self.origin} | headers
        lines = [
            f"{method} {self.root}{path} HTTP/1.1",
            *(f"{name}: {value}" for name, value in sent.items()),
        ]
        raw.sendall("\r\n".join([*lines, "", ""]).encode() + body)
        return raw

    def ask(self, method, path, body=None, *, origin=True, root=None, **headers):
        """(Status, headers, body) of a request; from the page itself unless told otherwise."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        sent = {"Origin": self.origin} if origin else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, (self.root if root is None else root) + path, body, sent)
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def json(self, method, path, found=None, **headers):
        status, _, body = self.ask(method, path, None if found is None else json.dumps(found), **headers)
        return status, json.loads(body)

    def new_job(self, **files):
        """A job with files: slot=(name, bytes)."""
        job = self.json("POST", "jobs")[1]["id"]
        for slot, (name, content) in files.items():
            status, answer = self.put(job, slot, name, content)
            assert status == 201, answer
        return job

    def put(self, job, slot, name, content):
        status, _, body = self.ask("PUT", f"jobs/{job}/files/{slot}?name={quote(name)}", content)
        return status, json.loads(body)

    def start(self, job, task):
        status, answer = self.json("POST", f"jobs/{job}/start/{task}")
        assert status == 202, answer
        return self.wait(job, task)

    def wait(self, job, task, seconds=120):
        """The state of a task that has come to an end."""
        return self.until(job, task, lambda state: state["status"] not in ("waiting", "running"), seconds)

    def until(self, job, task, holds, seconds=120):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = self.json("GET", f"jobs/{job}/state?task={task}")[1]
            if holds(state):
                return state
            time.sleep(0.05)
        raise AssertionError(f"still {state}")


@contextmanager
def served(*options, first="", **environment):
    """A page that is ended when the block is; what it wrote to standard error must be nothing. `first` is Python, run before."""
    start = ["-c", f"{first}; from groupshift.cli import main; main()"] if first else ["-m", "groupshift.cli"]
    process = subprocess.Popen(
        [sys.executable, *start, "serve", "--no-browser", *map(str, options)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1", **environment},
    )
    try:
        line = process.stdout.readline()
        if (found := re.search(r"http://\S+", line)) is None:
            raise AssertionError(process.communicate()[1])
        yield ServedPage(process, found[0])
    finally:
        if process.poll() is None:
            process.terminate()
        _, complaints = process.communicate(timeout=20)
        assert complaints == ""


def workers_of(page):
    """Numbers of the processes that work for a page."""
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(page.process.pid)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line.split()[0]) for line in listed.stdout.splitlines() if "job_process" in line]
