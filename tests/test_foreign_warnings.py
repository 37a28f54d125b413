"""Warnings of other libraries: under their names, once, and never the end of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import yaml
from support.command_line import BASE

ROOT = Path(__file__).parents[1]


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )


SCRIPT = """
    import sys
    sys.path.append("site-packages")
    import caller, older, lit_rl.trainer
    from lightning_utilities.core.rank_zero import rank_zero_warn
    lit_rl.trainer.silence_lightning()
    ours = {"__name__": "lit_rl.ours", "f": older.f, "warn": rank_zero_warn}
    for line in ("f()", "warn('too long')"):
        exec(compile(line, "lit_rl/ours.py", "exec"), ours)
    for _ in range(3):
        caller.call()
    older.f()
"""


def test_a_librarys_warning_has_its_name_and_is_shown_once_although_filters_are_reset(tmp_path: Path) -> None:
    """``stacklevel`` blames the line that called: in our code, in another library, and in the user's own script."""
    libraries = tmp_path / "site-packages"
    libraries.mkdir()
    (libraries / "older.py").write_text(
        "import warnings\ndef f(): warnings.warn('use g', FutureWarning, stacklevel=2)\n"
    )
    calls = "import warnings, older\ndef call():\n    with warnings.catch_warnings():\n        older.f()\n"
    (libraries / "caller.py").write_text(calls)
    (tmp_path / "script.py").write_text(dedent(SCRIPT))
    told = run(tmp_path, "script.py").stderr.splitlines()
    assert told[:2] == ["older: warning: use g", "lit-rl: warning: too long"]
    assert [line.rpartition("/")[2] for line in told[2:]] == ["script.py:12: FutureWarning: use g"]


def test_a_run_works_where_warnings_are_errors(tmp_path: Path) -> None:
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(BASE))
    adapted = ("--model.policy.lora.rank", "2", "--run_dir", "run")
    done = run(tmp_path, "-m", "lit_rl", "fit", "--config", "base.yaml", *adapted, PYTHONWARNINGS="error")
    assert done.returncode == 0, done.stderr
