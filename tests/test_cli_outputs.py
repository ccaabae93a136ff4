"""Outputs are written whole or not at all, never over an existing file without --force, and stream."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("typer", reason="the command line needs the extra cli")
pytest.importorskip("pyarrow")
pytest.importorskip("skops")

import pyarrow as pa

from cli_files import ROLES, peaks_of
from groupshift.cli.errors import run
from groupshift.tables.files import write_table
from groupshift.tables.sources import open_source

pytestmark = pytest.mark.usefixtures("quick_fits")


@pytest.mark.parametrize("place", ["/proc/p.csv", "/dev/full"])
def test_outputs_that_cannot_be_written(world, tmp_path, capsys, place):
    if not Path(place).parent.exists():
        pytest.skip("only on Linux")
    assert run(["predict", f"{world}/m.gshift", f"{world}/new.csv", "-o", place]) == 2
    assert f"Cannot write {place}" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "update"])
def test_a_model_is_not_written_among_text(world, capsys, command):
    given = {
        "fit": [f"{world}/labeled.csv", f"{world}/unlabeled.parquet", *ROLES],
        "update": [f"{world}/m.gshift", f"{world}/new.csv"],
    }
    assert run([command, *given[command], "-o", "-"]) == 2
    assert "A model is no text" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["fit", "predict", "shares", "update", "report"])
def test_existing_outputs_are_kept_without_force(world, tmp_path, capsys, command):
    target = tmp_path / {"fit": "o.gshift", "update": "o.gshift", "report": "o.html"}.get(command, "o.csv")
    target.write_text("mine")
    arguments = {
        "fit": ["fit", f"{world}/labeled.csv", f"{world}/unlabeled.parquet", *ROLES, "--features", "age"],
        "predict": ["predict", f"{world}/m.gshift", f"{world}/new.csv"],
        "shares": ["shares", f"{world}/m.gshift"],
        "update": ["update", f"{world}/m.gshift", f"{world}/unlabeled.parquet"],
        "report": ["report", f"{world}/m.gshift"],
    }[command]
    assert run([*arguments, "-o", str(target)]) == 2
    assert "--force" in capsys.readouterr().err
    assert target.read_text() == "mine"
    assert run([*arguments, "-o", str(target), "--force"]) == 0
    assert target.read_bytes() != b"mine"
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_killed_run_leaves_nothing(world, tmp_path, ending):
    """After its third batch the run waits for a word that never comes, and is killed in the middle of writing."""
    new = open_source(world / "new.csv").read()
    write_table(pa.concat_tables([new] * 400), tmp_path / "big.csv")
    (tmp_path / "out").mkdir()
    waiting = (
        "import sys\n"
        "from groupshift.tables import csv_cells, files\n"
        "from groupshift.cli import main\n"
        "write = files.TableWriter.write\n"
        "def write_and_wait(writer, table):\n"
        "    write(writer, table)\n"
        "    sys.stderr.write('batch\\n')\n"
        "    sys.stderr.flush()\n"
        "    sys.stdin.readline()\n"
        "files.TableWriter.write = write_and_wait\n"
        "csv_cells.BLOCK_BYTES = 1 << 16\n"
        "main(sys.argv[1:])\n"
    )
    out = tmp_path / "out" / f"p.{ending}"
    arguments = ["predict", f"{world}/m.gshift", f"{tmp_path}/big.csv", "-o", str(out), "--keep", "person"]
    command = [sys.executable, "-c", waiting, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        for said in ("next\n", "next\n", ""):
            assert process.stderr.readline() == "batch\n"
            process.stdin.write(said)
            process.stdin.flush()
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert list((tmp_path / "out").iterdir()) == []


def test_predict_streams_in_bounded_memory(world, tmp_path):
    """Ten times the rows must not take much more memory."""
    new = open_source(world / "new.csv").read()
    commands = []
    for times in (300, 3000):
        write_table(pa.concat_tables([new] * times), tmp_path / f"{times}.parquet")
        commands.append(f"predict {world}/m.gshift {tmp_path}/{times}.parquet -o {tmp_path}/p{times}.parquet")
    few, many = peaks_of("from cli_files import print_peaks; print_peaks()", *commands)
    # 260,000 rows more are 10 MB of answers alone, and 40 MB of features; the margin is for the allocator.
    assert many - few < 50


def test_standard_output_carries_the_data_and_nothing_else(world, capfd):
    assert run(["predict", f"{world}/m.gshift", f"{world}/new.csv", "-o", "-", "--keep", "person"]) == 0
    out, err = capfd.readouterr()
    lines = out.splitlines()
    assert lines[0] == '"person","probability","low","high","cluster","pooled"'
    assert len(lines) == 1 + open_source(world / "new.csv").read().num_rows
    assert "Wrote" in err
