"""What comes by half, at a wrong time or by a wrong name: the page answers with a sentence, and goes on."""

import json
import os
import socket
import time
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="the page needs the extra serve")

from serve_pages import served

TABLE = b"y,g,x\n" + b"yes,a,1\nno,b,2\n" * 5
OTHER = TABLE.replace(b"yes", b"si")
# Of the limits of `connections`, for tests that wait for them.
PATIENCE, MOST = 1.0, 8


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "jobs"


@pytest.fixture(scope="module")
def page(folder):
    with served("--folder", folder) as page:
        yield page


@pytest.fixture(scope="module")
def hurried():
    """A page that waits for a second, and holds few connections."""
    names = "c.PATIENCE, c.SLOWEST, c.MOST_CONNECTIONS"
    limits = f"import groupshift.serve.guard as c; {names} = {PATIENCE}, 1e9, {MOST}"
    with served("--max-upload", 1e-4, first=limits) as page:
        yield page


def half_upload(page, job, slot, content=OTHER):
    return page.raw(
        "PUT", f"jobs/{job}/files/{slot}?name=a.csv", content[:20], **{"Content-Length": len(content)}
    )


def status(raw):
    return int(raw.recv(1000).split()[1])


@pytest.mark.parametrize("task", ["look", "fit"])
def test_an_upload_that_ends_under_work_replaces_nothing(page, folder, task):
    job = page.new_job(labeled=("a.csv", TABLE))
    if task == "fit":
        # Work waits for this, so that the file is there to be replaced whatever the fit comes to.
        first = page.new_job(labeled=("b.csv", TABLE))
        page.json("POST", f"jobs/{first}/start/look")
        page.json("PUT", f"jobs/{job}/settings", {"roles": {"y": "target"}})
    with half_upload(page, job, "labeled") as raw:
        assert page.json("POST", f"jobs/{job}/start/{task}")[0] == 202
        if task == "look":
            page.until(job, task, lambda state: state["status"] == "running")
        raw.sendall(OTHER[20:])
        assert status(raw) == 409
    assert [path.read_bytes() for path in (folder / job / "files").iterdir()] == [TABLE]
    assert page.json("DELETE", f"jobs/{job}")[0] == 200


def test_uploads_of_one_name_at_the_same_time_are_two_files(page, folder):
    job = page.new_job()
    with half_upload(page, job, "labeled") as raw:
        assert page.put(job, "population", "a.csv", TABLE)[0] == 201
        raw.sendall(OTHER[20:])
        assert status(raw) == 201
    record = json.loads((folder / job / "job.json").read_text())["files"]
    kept = {slot: (folder / job / "files" / name).read_bytes() for slot, name in record.items()}
    assert kept == {"labeled": OTHER, "population": TABLE}


def test_what_a_done_job_was_made_of_is_not_looked_at_anew(page, folder):
    job = page.new_job(labeled=("a.csv", TABLE))
    record = folder / job / "job.json"
    found = json.loads(record.read_text())
    record.write_text(json.dumps(found | {"tasks": {"fit": {"status": "done"}}}))
    assert page.json("POST", f"jobs/{job}/start/look")[0] == 409
    assert page.put(job, "labeled", "a.csv", OTHER)[0] == 409


def test_a_report_cannot_leave_its_sandbox_by_a_policy_of_its_own(page, folder):
    job = page.new_job()
    policy = "sandbox allow-scripts allow-same-origin; default-src 'none'"
    (folder / job / "answer.json").write_text(json.dumps({"cautions": [], "report_policy": policy}))
    (folder / job / "files" / "report.html").write_text("<p>")
    found, headers, _ = page.ask("GET", f"jobs/{job}/report")
    # Of two directives of one name the first counts.
    assert (found, headers["content-security-policy"].split(";")[0]) == (200, "sandbox allow-scripts")


def test_unknown_names_of_jobs_and_tasks_have_one_answer(page, folder):
    job = page.new_job(labeled=("a.csv", TABLE))
    (folder / "x.jsonl").write_text('{"kind": "step", "text": "secret"}\n')
    odd = ["../../x", "%2e%2e%2f..%2fx", "/etc/x", "%00", "%ED%A0%80", "look%00", "look%0a", "..", "x" * 5000]
    odd += ["predict.pdf", "predict../x", "settings", "job", "Look", "%D9%A2", "-", "%20"]
    asked = [("GET", f"jobs/{job}/state?task={name}") for name in odd]
    for name in (name.replace("..", "%2e%2e") for name in odd):
        asked += [("POST", f"jobs/{job}/start/{name}"), ("PUT", f"jobs/{job}/files/{name}?name=a.csv")]
        asked += [
            ("GET", f"jobs/{name}/state"),
            ("PUT", f"jobs/{name}/settings"),
            ("POST", f"jobs/{name}/stop"),
        ]
    answers = set()
    for method, path in asked:
        found, _, body = page.ask(method, path, b"{}" if method == "PUT" else None)
        answers.add((found, body))
    assert len(answers) == 1
    [(found, body)] = answers
    assert (found, b"no such job or task" in body) == (404, True)


DEEP = 100_000


@pytest.mark.parametrize(
    "body",
    [
        b"[" * DEEP,
        b'{"roles": ' + b'{"a": ' * DEEP,
        b'{"roles": {"a": ' + b"[" * DEEP + b"]" * DEEP + b"}}",
        rb'{"roles": {"\ud800": "target"}}',
        b'{"roles": {"\xed\xa0\x80": "target"}}',
        rb'{"roles": {"a\u0000b": "target"}}',
        rb'{"roles": {"a": "\udfff"}}',
        rb'{"positive": "\udc80"}',
        rb'{"positive": "\u0000"}',
        rb'{"selection": "\ud800"}',
        rb'{"known_shares": [{"group": "\ud800", "share": 0.5}]}',
        rb'{"known_shares": [{"group": "\u0000", "share": 0.5}]}',
        '{"positive": "\ud800"}'.encode("utf-16", "surrogatepass"),
        b'{"known_overall": ' + b"9" * 5000 + b"}",
        b'{"known_overall": 1e999}',
        b'{"known_overall": NaN}',
    ],
    ids=range(16),
)
def test_settings_that_no_file_can_hold_are_refused_with_one_sentence(page, body):
    job = page.new_job(labeled=("a.csv", TABLE))
    before = page.ask("GET", f"jobs/{job}")[2]
    found, _, answer = page.ask("PUT", f"jobs/{job}/settings", body)
    assert (found, list(json.loads(answer))) == (400, ["sentence"])
    assert page.ask("GET", f"jobs/{job}")[2] == before


@pytest.mark.parametrize("name", ["a%00b.csv", "%ED%A0%80.csv", "%FF.csv", "%00", "x" * 20_000])
def test_names_that_no_file_can_have_are_refused_with_one_sentence(page, name):
    job = page.new_job()
    found, _, answer = page.ask("PUT", f"jobs/{job}/files/labeled?name={name}", TABLE)
    assert (found, list(json.loads(answer))) == (400, ["sentence"])


def ended_after(raw, drop):
    """Seconds until the other side closes; a drop comes now and then, so that it is no matter of silence."""
    begun = time.monotonic()
    raw.settimeout(0.1)
    while time.monotonic() - begun < 10:
        try:
            raw.sendall(drop)
            if not raw.recv(65536):
                break
        except TimeoutError:
            pass
        except ConnectionError:
            break
    return time.monotonic() - begun


@pytest.mark.parametrize("answered", [False, True])
def test_half_a_head_is_not_waited_for(hurried, answered):
    with socket.create_connection(("127.0.0.1", hurried.port)) as raw:
        if answered:
            raw.sendall(f"GET /x HTTP/1.1\r\nHost: 127.0.0.1:{hurried.port}\r\n\r\n".encode())
            assert status(raw) == 404
        raw.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nA: ")
        assert PATIENCE / 2 < ended_after(raw, b"x") < 5 * PATIENCE


@pytest.mark.parametrize("length", [{"Content-Length": 1000}, {"Transfer-Encoding": "chunked"}])
@pytest.mark.parametrize("path", ["settings", "files/labeled?name=a.csv"])
def test_half_a_body_is_answered_when_its_time_is_over(hurried, path, length):
    job = hurried.new_job()
    part = b"1\r\nx\r\n" if "Transfer-Encoding" in length else b"x"
    with hurried.raw("PUT", f"jobs/{job}/{path}", part, **length) as raw:
        begun = time.monotonic()
        raw.settimeout(0.1)
        answer = b""
        while b"arrive" not in answer and time.monotonic() - begun < 10:
            raw.sendall(part)
            with suppress(TimeoutError):
                answer += raw.recv(1000)
        assert answer.startswith(b"HTTP/1.1 408 ")
        # The rest is not waited for either.
        assert ended_after(raw, part) < 5 * PATIENCE


def test_an_answer_that_nobody_takes_is_given_up(hurried):
    def sockets():
        links = Path(f"/proc/{hurried.process.pid}/fd").iterdir()
        return sum("socket:" in os.path.realpath(link) for link in links)

    with hurried.raw("GET", "report.css") as raw:
        head = f"GET {hurried.root}report.css HTTP/1.1\r\nHost: 127.0.0.1:{hurried.port}\r\n\r\n".encode()
        assert status(raw) == 200
        there = sockets()
        # More than the system keeps for a reader.
        raw.sendall(head * 2000)
        begun = time.monotonic()
        while sockets() >= there and time.monotonic() - begun < 20:
            time.sleep(0.05)
        assert sockets() < there


def test_idle_connections_keep_nobody_out_and_are_few(hurried):
    with ExitStack() as stack:
        idle = [stack.enter_context(hurried.raw("GET", "")) for _ in range(MOST)]
        for raw in idle:
            raw.settimeout(20)
            assert status(raw) == 200
        half = [stack.enter_context(hurried.raw("GET", "")) for _ in range(MOST)]
        assert [status(raw) for raw in half] == [200] * MOST
        # Those that waited longest have made room.
        for raw in idle:
            raw.settimeout(PATIENCE / 2)
            with suppress(ConnectionError):
                while raw.recv(65536):
                    pass
        assert hurried.ask("GET", "")[0] == 200
