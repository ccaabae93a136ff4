"""The page for R users runs, with a real R and our command line."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="no R here")
def test_the_page_for_r_runs(tmp_path):
    pytest.importorskip("typer", reason="the command line needs the extra cli")
    page = (ROOT / "docs" / "howto" / "from_r.md").read_text()
    (tmp_path / "page.R").write_text("\n".join(re.findall(r"`{3}r\n(.*?)`{3}", page, flags=re.S)))
    command = tmp_path / "groupshift"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m groupshift.cli "$@"\n')
    command.chmod(0o755)
    path = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "src"),
        "OMP_NUM_THREADS": "1",
    }
    done = subprocess.run(
        ["Rscript", "--vanilla", "page.R"],
        cwd=tmp_path,
        env={**os.environ, **path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "(all)" in done.stdout
    assert "Alabama" in done.stdout
