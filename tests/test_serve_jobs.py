"""What a page keeps of a job, and the commands that it makes of it."""

import json
import re
import shlex
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("starlette", reason="the page needs the extra serve")

from cli_files import ROLES, survey_tables, write_survey
from groupshift.cli import training
from groupshift.cli.errors import InputError, run
from groupshift.cli.screen import Screen
from groupshift.serve.jobs import ROLES as PAGE_ROLES
from groupshift.serve.jobs import (
    TASK_NAMES,
    Job,
    JobsFolder,
    Refused,
    Settings,
    TaskState,
    known_shares_file,
    main_arguments,
    predict_arguments,
    shown,
    writes,
)
from groupshift.serve.looking import look_at
from groupshift.serve.pages import JobView, on_page, templates, without_paths
from groupshift.serve.tasks import TASKS
from groupshift.serve.work_queue import outcome, read_events
from groupshift.tables.files import write_table, write_whole
from serve_pages import served

NAMES = (
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)
    .map(str.strip)
    .filter(bool)
)


def known_share(group, share, std_error=None):
    return {"group": group, "share": share, "std_error": std_error}


@st.composite
def settings(draw):
    names = draw(st.lists(NAMES, min_size=2, max_size=8, unique=True))
    roles = {names[0]: "target", names[1]: "group"}
    roles |= {name: draw(st.sampled_from(["feature", "exclude"])) for name in names[2:]}
    known = draw(
        st.lists(st.builds(known_share, NAMES, st.floats(0, 1), st.none() | st.floats(0, 1)), max_size=3)
    )
    chosen = draw(st.sampled_from(["unknown", "random", "by_label"]))
    return Settings(roles, draw(st.none() | NAMES), chosen, draw(st.none() | st.floats(0, 1)), tuple(known))


@given(settings())
def test_a_job_is_read_back_as_it_was_kept(settings):
    tasks = {"look": TaskState("done"), "fit": TaskState("failed", "why")}
    job = Job("1", "fit", "now", {"labeled": "a.csv"}, settings, tasks, "0")
    assert Job.from_json(job.to_json()) == job
    assert Settings.from_json(json.loads(job.to_json())["settings"]) == settings


@given(settings(), st.sets(st.sampled_from(["feature", "exclude"])))
def test_the_command_means_what_was_clicked(settings, usual):
    """Through the shell and the parser of the command line, every role comes back."""
    from unittest.mock import patch

    names = list(settings.roles)
    usual_roles = dict.fromkeys(names, "exclude" if usual == {"exclude"} else "feature")
    arguments = main_arguments(Job("1", "fit", "now", {"labeled": "a.csv"}, settings), usual_roles)
    assert shlex.split(shown([arguments])) == ["groupshift", *arguments]
    with patch("groupshift.cli.fit.fit") as fit:
        assert run(arguments) == 0
    options = fit.call_args.kwargs
    named = ("target", "group", "features", "exclude", "positive")
    roles = training.Roles(**{name: options[name] for name in named})
    assert (options["files"], options["out"]) == (["a.csv"], "model.gshift")
    assert (options["selection"] or "unknown").replace("-", "_") == settings.selection
    overall = options["known_overall"]
    assert (overall is None) == (settings.known_overall is None)
    assert overall is None or float(overall) == pytest.approx(settings.known_overall)
    assert (roles.target, roles.group, roles.positive) == (names[0], names[1], settings.positive)
    rest = names[2:]
    used = [
        name for name in rest if name in roles.features or (not roles.features and name not in roles.exclude)
    ]
    clicked = [name for name in rest if settings.roles[name] == "feature"]
    if roles.features or usual != {"exclude"}:
        assert used == clicked


def test_a_name_that_begins_with_a_dash_is_no_option():
    arguments = main_arguments(
        Job("1", "fit", "now", {"labeled": "a.csv"}, Settings({"--out": "target"})), {}
    )
    assert "--target=--out" in arguments


def test_no_target_is_a_sentence_before_anything_is_started():
    with pytest.raises(Refused, match="No column is the target yet"):
        main_arguments(Job("1", "fit", "now", {"labeled": "a.csv"}), {})


def test_updates_and_predictions_are_of_the_population():
    job = Job("1", "update", "now", {"labeled": "a.csv", "population": "b.csv"}, Settings({"w": "weight"}))
    assert main_arguments(Job("1", "update", "now", {"population": "b.csv"}, job.settings), {})[:4] == [
        "update", "before.gshift", "b.csv", "--weight",
    ]  # fmt: skip
    assert predict_arguments(job, ".csv")[2] == "b.csv"
    assert writes(".csv")


def test_known_shares_are_a_table_that_the_command_reads(tmp_path):
    from groupshift.cli.fit import read_known_rates

    known = (known_share('a "b", c', 0.25), known_share("<b>", 0.5, 0.02))
    write_whole(tmp_path / "k.csv", known_shares_file(Settings(known_shares=known)))
    assert read_known_rates(f"{tmp_path}/k.csv", None, "state")["known_shares"] == {
        'a "b", c': (0.25, 0.0),
        "<b>": (0.5, 0.02),
    }
    write_whole(tmp_path / "l.csv", known_shares_file(Settings(known_shares=known[:1])))
    assert read_known_rates(f"{tmp_path}/l.csv", None, "state")["known_shares"] == {'a "b", c': 0.25}


def test_no_sentence_on_the_page_asks_to_type_an_option():
    """Sentences of the command line that reach the page, as they stand in its source."""
    source = Path(training.__file__).parent
    for name in ("training", "target", "groups", "check"):
        # What is said of --details is said on a terminal only.
        for option in set(re.findall(r"--[a-z-]+", (source / f"{name}.py").read_text())) - {
            "--details",
            "--selection",
        }:
            assert "--" not in on_page(f"Say it with {option} VALUE."), option
    assert on_page("a -- b --out c") == "a -- b --out c"


def test_a_folder_of_the_machine_is_taken_out_of_any_sentence():
    home = Path("/home/ann")
    assert without_paths("'/home/ann/jobs/x.csv' and /home/ann", home / "jobs", home) == "'x.csv' and …"


def test_what_a_process_said_last_is_its_outcome(tmp_path):
    events = tmp_path / "fit.jsonl"
    assert "exit code 3" in outcome(3, events).sentence
    assert "memory" in outcome(-9, events).sentence
    events.write_text('{"kind": "error", "text": "No."}\n{"kind": "st')
    assert read_events(events) == [{"kind": "error", "text": "No."}]
    assert outcome(2, events) == TaskState("failed", "No.")
    assert outcome(0, events) == TaskState("done")


def test_who_listens_hears_what_a_screen_would_show(tmp_path, capsys):
    write_survey(tmp_path)
    arguments = ["check", f"{tmp_path}/labeled.csv", f"{tmp_path}/unlabeled.parquet", *ROLES, "--quick"]
    assert run(arguments) == 0
    shown_there = " ".join(capsys.readouterr().err.split())
    heard = []
    with Screen.heard_by(lambda kind, text: heard.append((kind, text))):
        assert run(arguments) == 0
        assert run(["check", "nothing.csv", "--target", "y"]) == 2
    said = capsys.readouterr()
    assert said.err == ""
    notes = [text for kind, text in heard if kind == "note"]
    assert notes
    assert all(f"Note: {note}" in shown_there for note in notes)
    assert heard[-1] == ("error", "There is no file nothing.csv. Check the name and the folder.")
    assert ("step", "Reading") in heard


def test_a_look_guesses_roles_and_says_what_looks_wrong(tmp_path, monkeypatch):
    labeled, unlabeled, _ = survey_tables()
    for name, table in (("a.csv", labeled), ("b.csv", unlabeled)):
        comma = pa.array([f"{i % 7},{i % 10}" for i in range(len(table))])
        write_table(table.append_column("km", comma), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    found = look_at(Job("1", "fit", "now", {"labeled": "a.csv", "population": "b.csv"}))
    assert found["guess"]["in_favour"] == "target"
    columns = {column["name"]: column for column in found["columns"]}
    assert columns["person"]["usual"] == "exclude"
    assert columns["km"]["written"] == "decimal comma"
    assert columns["in_favour"]["where"] == "only in a.csv"
    assert len(columns["age"]["first"]) == 4
    given = Settings({"in_favour": "target", "state": "group"})
    found = look_at(Job("1", "fit", "now", {"labeled": "a.csv", "population": "b.csv"}, given))
    assert found["values"] == ["yes", "no"]


def test_a_job_again_is_a_second_one_with_the_same_files(tmp_path):
    folder = JobsFolder(tmp_path)
    job = folder.new("fit")
    write_whole(folder.files(job.id) / "a.csv", "y\n1\n")
    settings = Settings({"y": "target"})
    job = folder.keep(Job(job.id, "fit", "now", {"labeled": "a.csv"}, settings, {"fit": TaskState("done")}))
    copy = folder.again(job)
    assert copy.id != job.id
    assert (copy.files, copy.settings, copy.is_done) == (job.files, settings, False)
    assert (folder.files(copy.id) / "a.csv").read_text() == "y\n1\n"
    folder.remove(job.id)
    assert (folder.files(copy.id) / "a.csv").exists()
    assert [kept.id for kept in folder.all()] == [copy.id]
    with pytest.raises(Refused, match="no model yet"):
        folder.update_of(copy)
    assert JobView(folder, copy).screen == "files"
    assert set(PAGE_ROLES) >= {"target", "group"}


@pytest.mark.parametrize("mode", [0o770, 0o720, 0o707])
@pytest.mark.parametrize("inside", [False, True])
def test_a_folder_that_a_group_or_all_can_write_to_is_refused(tmp_path, mode, inside):
    job = JobsFolder(tmp_path).new("fit")
    (JobsFolder(tmp_path).files(job.id) if inside else tmp_path).chmod(mode)
    with pytest.raises(InputError, match="Others can write"):
        JobsFolder.opened(tmp_path)


def test_a_folder_of_another_user_or_where_all_can_replace_it_is_refused(tmp_path, monkeypatch):
    (tmp_path / "open" / "jobs").mkdir(parents=True, mode=0o700)
    (tmp_path / "open").chmod(0o777)
    with pytest.raises(InputError, match="Everybody can write to"):
        JobsFolder.opened(tmp_path / "open" / "jobs")
    (tmp_path / "open").chmod(0o1777)
    JobsFolder.opened(tmp_path / "open" / "jobs")
    monkeypatch.setattr("os.getuid", lambda: tmp_path.stat().st_uid + 1)
    with pytest.raises(InputError, match="Others can write"):
        JobsFolder.opened(tmp_path)


@pytest.mark.parametrize(
    "place", ["files/a.csv", "files", "look.json", "fit.log", "", "../.groupshift-serve"]
)
def test_a_link_among_the_jobs_is_refused(tmp_path, place):
    jobs, elsewhere = tmp_path / "jobs", tmp_path / "elsewhere"
    jobs.mkdir(mode=0o700)
    link = jobs / "20260101-000000-00000000" / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a link or a device"):
        JobsFolder.opened(jobs)
    assert not elsewhere.exists()


@pytest.mark.parametrize(
    "changes",
    [
        {"files": {"labeled": "/etc/passwd"}},
        {"files": {"labeled": "../job.json"}},
        {"files": {"labeled": "model.gshift"}},
        {"files": {"labeled": "--out=x"}},
        {"files": {"../x": "a.csv"}},
        {"files": {"labeled": 1}},
        {"files": []},
        {"id": "20260101-000000-00000000"},
        {"parent": "../x"},
        {"parent": 1},
        {"kind": "../x"},
        {"tasks": {"../x": {"status": "running"}}},
        {"settings": {"selection": "--out=/tmp/x"}},
        {"settings": {"roles": {"a": "b"}}},
        {"unknown": 1},
    ],
)
def test_a_record_that_names_what_is_not_the_jobs_own_is_refused(tmp_path, changes):
    folder = JobsFolder(tmp_path)
    job = folder.new("fit")
    record = folder.home(job.id) / "job.json"
    record.write_text(json.dumps(json.loads(record.read_text()) | changes))
    with pytest.raises(Refused, match="damaged, or names files"):
        folder.get(job.id)
    assert folder.all() == []


def test_the_names_of_tasks_are_those_of_the_work():
    assert set(TASK_NAMES) == set(TASKS)


def test_an_upload_goes_through_the_page_without_staying_in_it(tmp_path):
    def high_water(page):
        status = Path(f"/proc/{page.process.pid}/status").read_text()
        return int(re.search(r"VmHWM:\s+(\d+)", status)[1]) / 1024

    with served("--folder", tmp_path / "jobs") as page:
        page.ask("GET", "")
        before = high_water(page)
        size = 100 * 1024**2
        page.new_job(population=("large.csv", b"x" * size))
        # Pieces of 64 kB on their way; a tenth of the file leaves room for the allocator.
        assert high_water(page) - before < size / 1024**2 / 10
        assert high_water(page) < 200


def test_the_first_question_of_the_page_is_how_rows_were_chosen():
    page, _, _ = templates().loader.get_source(templates(), "columns.html")
    asked = re.findall(r'name="(\w+)" value="(\w+)"|<table id="(columns)"|<select id="(positive)"', page)
    assert [next(filter(None, found[1:])) for found in asked] == [
        *("random", "by_label", "unknown"),
        *("columns", "positive"),
    ]
