"""Who may ask the page for what: this machine, this user, this page; and what an answer never holds."""

import os
import re
import signal
import socket
import stat
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the page needs the extra serve")

import groupshift.serve
from cli_files import run_cli
from groupshift.serve import start
from groupshift.serve.jobs import OUTPUTS, JobsFolder, safe_name
from serve_pages import served, workers_of

TABLE = b"y,g,x\n" + b"yes,a,1\nno,b,2\n" * 5
SOURCE = Path(groupshift.serve.__file__).parent


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("kept") / "jobs"


@pytest.fixture(scope="module")
def page(folder):
    """A page that takes files of at most 100 kB."""
    with served("--folder", folder, "--max-upload", 1e-4) as page:
        yield page


def test_it_listens_on_this_machine_alone(page):
    with start._socket(0) as listening:
        assert listening.getsockname()[0] == "127.0.0.1"
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), page.port, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        with pytest.raises(ConnectionRefusedError), socket.create_connection((address, page.port), timeout=2):
            pass


def test_without_the_token_nothing_is_there(page):
    token = page.root.strip("/")
    assert len(token) >= 40
    for root in ("/", "/x/", f"/{token[:-1]}/", f"/{token}x/", "//", "/static/", f"/{token.upper()}/"):
        status, _, body = page.ask("GET", "", root=root)
        assert status == 404
        assert token.encode() not in body


def test_the_token_is_in_no_list_of_processes(page):
    token = page.root.strip("/").encode()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            arguments = path.read_bytes()
        except OSError:
            continue
        assert token not in arguments


def test_a_name_that_leads_here_from_elsewhere_is_refused(page):
    for host in (
        "evil.example",
        f"evil.example:{page.port}",
        "127.0.0.1",
        f"127.0.0.1.evil.example:{page.port}",
    ):
        assert page.ask("GET", "", Host=host)[0] == 403
    assert page.ask("GET", "", Host=f"localhost:{page.port}")[0] == 200


@pytest.mark.parametrize(
    "origin", [None, "null", "http://evil.example", "https://127.0.0.1", "http://127.0.0.1:1"]
)
def test_nothing_changes_at_the_wish_of_another_site(page, origin):
    headers = {} if origin is None else {"Origin": origin}
    job = page.new_job()
    for method, path in [
        ("POST", "jobs"),
        ("PUT", f"jobs/{job}/files/labeled"),
        ("PUT", f"jobs/{job}/settings"),
        ("POST", f"jobs/{job}/start/look"),
        ("DELETE", f"jobs/{job}"),
    ]:
        assert page.ask(method, path, b"{}", origin=False, **headers)[0] == 403
    assert page.ask("GET", f"jobs/{job}")[0] == 200


def test_another_site_can_lead_to_the_first_page_and_read_nothing(page):
    visit = {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate", "Sec_Fetch_Dest": "document"}
    assert page.ask("GET", "", origin=False, **visit)[0] == 200
    assert page.ask("GET", "", origin=False, **{**visit, "Sec_Fetch_Dest": "iframe"})[0] == 403
    for site in ("cross-site", "same-site"):
        for path in ("static/home.js", "jobs/x/shares", "report.css"):
            status = page.ask("GET", path, origin=False, Sec_Fetch_Site=site, Sec_Fetch_Mode="no-cors")[0]
            assert status == 403


def test_every_answer_carries_the_strict_headers(page):
    job = page.new_job()
    for path in ("", f"jobs/{job}", "static/home.js", "nowhere", "jobs/nothing", f"jobs/{job}/shares"):
        _, headers, _ = page.ask("GET", path)
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["cache-control"] == "no-store"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_pages_name_no_other_host_and_hold_no_script_or_style_of_their_own():
    for path in [*SOURCE.rglob("*.html"), *SOURCE.rglob("*.js"), *SOURCE.rglob("*.css")]:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")
        assert not re.search(r"https?://|//[a-z]+\.[a-z]", text), path
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(", text), path
        if path.suffix == ".html":
            assert not re.search(
                r"<script(?![^>]* src=)|<style| style=| on[a-z]+=|\| *safe|javascript:", text
            ), path


def test_uploads_are_bounded_whether_or_not_they_say_their_size(page, folder):
    job = page.new_job()
    large = b"x" * 200_000
    assert page.put(job, "labeled", "a.csv", large)[0] == 413
    pieces = (large[at : at + 10_000] for at in range(0, len(large), 10_000))
    try:
        status, _, body = page.ask("PUT", f"jobs/{job}/files/labeled?name=a.csv", pieces)
    except (ConnectionError, BrokenPipeError):
        pass  # the page did not wait for the rest
    else:
        assert status == 413
        assert b"--max-upload" in body
    assert list((folder / job / "files").iterdir()) == []


def test_an_upload_that_breaks_off_leaves_nothing(page, folder):
    job = page.new_job(labeled=("a.csv", TABLE))
    with socket.create_connection(("127.0.0.1", page.port)) as raw:
        head = (
            f"PUT {page.root}jobs/{job}/files/labeled?name=b.csv HTTP/1.1\r\nHost: 127.0.0.1:{page.port}\r\n"
        )
        raw.sendall(f"{head}Origin: {page.origin}\r\nContent-Length: 5000\r\n\r\nhalf of it".encode())
        time.sleep(0.2)
    for _ in range(50):
        if [path.name for path in (folder / job / "files").iterdir()] == ["a.csv"]:
            break
        time.sleep(0.05)
    assert [path.name for path in (folder / job / "files").iterdir()] == ["a.csv"]
    assert page.ask("GET", f"jobs/{job}")[0] == 200


@given(st.text(max_size=200))
def test_the_name_of_an_upload_is_a_plain_file_name(name):
    kept = safe_name(name, ("data.csv",))
    assert kept
    assert not re.search(r"[/\\\0\n\r<>\"'&|;`$*?:]", kept)
    assert kept[0] not in ".-"
    assert len(kept.encode()) <= 255
    assert kept.lower() not in {other.lower() for other in (*OUTPUTS, "data.csv")}
    assert safe_name(kept) == kept


@pytest.mark.parametrize("name", ["../../job.json", "..\\..\\job.json", "/etc/passwd", ".", "", "con/../x"])
def test_an_upload_stays_in_the_folder_of_its_job(page, folder, name):
    before = set(folder.rglob("*"))
    job = page.new_job(labeled=(name, TABLE))
    new = {path.relative_to(folder / job) for path in set(folder.rglob("*")) - before} - {Path()}
    kept = new - {Path("job.json"), Path("files")}
    assert {path.parent for path in kept} == {Path("files")}
    assert len(kept) == 1


def test_no_path_leads_out_of_a_job(page):
    job = page.new_job(labeled=("a.csv", TABLE))
    for path in [
        "jobs/../..",
        "jobs/%2e%2e",
        f"jobs/{job}/download/job.json",
        f"jobs/{job}/download/a.csv",
        f"jobs/{job}/download/..%2fjob.json",
        f"jobs/{job}/download/%2e%2e/job.json",
        "static/../web.py",
        "static/%2e%2e/web.py",
        "static/..%2fweb.py",
        "static//etc/passwd",
    ]:
        status, _, body = page.ask("GET", path)
        assert status in (404, 405), path
        assert b"created" not in body


def test_settings_that_make_no_sense_are_refused_with_a_sentence(page):
    job = page.new_job(labeled=("a.csv", TABLE))
    for wrong, words in [
        ({"roles": {"y": "king"}}, "is no role"),
        ({"roles": {"y": "target", "g": "target"}}, "Two columns"),
        ({"known_overall": 3}, "between 0 and 100 %"),
        ({"known_shares": [{"group": "a", "share": -1}]}, "known share of 'a'"),
        ({"known_shares": [{"group": 1, "share": 0.5}]}, "name was expected"),
        ({"selection": "--force"}, "these ways"),
        ({"roles": {"y": 1}}, "name was expected"),
        ({"roles": "target"}, "cannot be read"),
        ({"known_shares": ["a"]}, "cannot be read"),
        ({"known_shares": 3}, "cannot be read"),
        ([1], "cannot be read"),
    ]:
        status, answer = page.json("PUT", f"jobs/{job}/settings", wrong)
        assert (status, words in answer["sentence"]) == (400, True), answer
    assert page.ask("PUT", f"jobs/{job}/settings", b"{" * 5_000_000)[0] in (400, 413)
    assert page.ask("PUT", f"jobs/{job}/settings", b"\xff")[0] == 400


def test_the_folder_is_for_one_user_and_one_page(page, folder):
    page.new_job(labeled=("a.csv", TABLE))
    for path in folder.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) & 0o077 == 0, path
    done = run_cli("serve", "--no-browser", "--folder", folder)
    assert done.returncode == 2
    assert "Another `groupshift serve`" in done.stderr


def test_the_temporary_folder_is_gone_at_the_end_even_after_a_signal(tmp_path):
    with served(TMPDIR=str(tmp_path)) as page:
        page.new_job(labeled=("a.csv", TABLE))
        assert list(tmp_path.rglob("a.csv"))
        page.process.send_signal(signal.SIGTERM)
        page.process.wait(20)
    assert list(tmp_path.iterdir()) == []


def test_uploads_are_data_and_their_sentences_name_no_folder(page, folder, tmp_path):
    proof = tmp_path / "ran"
    code = f"open({str(proof)!r}, 'w')\n".encode()
    job = page.new_job(labeled=("numpy.py", code), population=("json.py", code))
    state = page.start(job, "look")
    assert not proof.exists()
    assert state["status"] == "failed" or page.json("GET", f"jobs/{job}/columns")[1]["alarms"]
    broken = page.new_job(labeled=("torn.parquet", b"PAR1" + b"\0" * 50))
    state = page.start(broken, "look")
    assert state["status"] == "failed"
    assert state["sentence"].startswith("torn.parquet begins like Parquet but")
    for path in ("", f"jobs/{job}", f"jobs/{broken}", f"jobs/{broken}/state", f"jobs/{job}/columns"):
        body = page.ask("GET", path)[2].decode()
        for secret in (str(folder), str(Path.home()), str(SOURCE.parent)):
            assert secret not in body


def test_work_ends_with_the_page_even_if_that_is_killed(tmp_path):
    with served("--folder", tmp_path / "jobs") as page:
        job = page.new_job(labeled=("a.csv", TABLE))
        page.json("POST", f"jobs/{job}/start/look")
        page.until(job, "look", lambda state: state["status"] == "running")
        while not (numbers := workers_of(page)):
            time.sleep(0.02)
        page.process.kill()
        page.process.wait()
        for _ in range(200):
            if not any(Path(f"/proc/{number}/cmdline").exists() for number in numbers):
                break
            time.sleep(0.05)
        assert not any(Path(f"/proc/{number}/cmdline").exists() for number in numbers)
    folder = JobsFolder.opened(tmp_path / "jobs")
    assert folder.get(job).tasks["look"].status == "stopped"
    assert os.listdir(folder.files(job)) == ["a.csv"]


def test_what_a_model_is_made_of_stays_as_it_is_while_it_is_made(page):
    job = page.new_job(labeled=("a.csv", TABLE))
    page.json("PUT", f"jobs/{job}/settings", {"roles": {"y": "target"}})
    assert page.json("POST", f"jobs/{job}/start/fit")[0] == 202
    for method, path in [("PUT", "settings"), ("PUT", "files/labeled?name=b.csv"), ("POST", "start/fit")]:
        status, answer = page.json(method, f"jobs/{job}/{path}", {"roles": {"g": "target"}})
        assert (status, "stays as it is" in answer["sentence"]) == (409, True)
    # Removing it ends its work first, and leaves nothing.
    assert page.json("DELETE", f"jobs/{job}")[0] == 200
    assert page.ask("GET", f"jobs/{job}")[0] == 404
    assert workers_of(page) == []


def test_the_browser_is_told_the_address_by_a_file_of_this_user_alone(tmp_path, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    mask = os.umask(0o077)
    try:
        start._open("http://127.0.0.1:1/secret/", tmp_path)
    finally:
        os.umask(mask)
    [address] = opened
    assert "secret" not in address
    path = Path(address.removeprefix("file://"))
    assert "url=http://127.0.0.1:1/secret/" in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
