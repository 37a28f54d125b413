"""The configurations that come with the package are found by name, from wherever one works."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import lit_rl
from lit_rl import __main__ as entry
from lit_rl.cli import shipped_configs

ROOT = Path(__file__).parents[1]


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as left:
        entry.main(arguments)
    assert left.value.code
    error = capsys.readouterr().err
    assert error.startswith("lit-rl: error: ") and error.count("\n") == 1, error
    return error


def test_the_list_names_every_configuration_with_what_it_is_about(capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["configs"])
    lines = capsys.readouterr().out.splitlines()
    in_the_tree = {f.relative_to(ROOT / "configs").as_posix() for f in (ROOT / "configs").rglob("*.yaml")}
    listed = {line.split()[0] + ".yaml" for line in lines if ".sbatch" not in line}
    assert listed == in_the_tree
    assert all(len(line.split()) > 3 and len(line) < 160 for line in lines), (
        "a configuration without a comment at its head"
    )


def test_a_name_becomes_its_file_and_a_file_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    shipped = str(ROOT / "configs" / "basics_grpo.yaml")
    for arguments in (
        ["fit", "--config", "basics_grpo"],
        ["fit", "-c", "basics_grpo.yaml"],
        ["fit", "--config", "configs/basics_grpo.yaml"],
    ):
        assert shipped_configs.with_paths(arguments)[-1] == shipped
    assert shipped_configs.with_paths(["fit", "--config=basics_grpo"])[-1] == f"--config={shipped}"
    (tmp_path / "basics_grpo.yaml").write_text("a: 1\n")
    mine = ["fit", "--config", "basics_grpo.yaml", "--model", "GRPO"]
    assert shipped_configs.with_paths(mine) == mine, "one's own file goes before the shipped one"
    assert shipped_configs.with_paths(["fit", "--config", '{"model": null}'])[-1] == '{"model": null}'


def test_an_unknown_name_is_one_line_with_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "did you mean basics_grpo" in error_of(["fit", "--config", "basic_grpo"], capsys)
    assert "did you mean basics_ppo" in error_of(["configs", "copy", "basics_pp"], capsys)
    assert "needs a NAME" in error_of(["configs", "copy"], capsys)


def test_copying_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["configs", "copy", "basics_sft", str(tmp_path)])
    assert (tmp_path / "basics_sft.yaml").read_text() == (ROOT / "configs" / "basics_sft.yaml").read_text()
    assert "is there already" in error_of(["configs", "copy", "basics_sft", str(tmp_path)], capsys)
    entry.main(["configs", "copy", "strategy/fsdp2", str(tmp_path / "new" / "mine.yaml")])
    assert (tmp_path / "new" / "mine.yaml").is_file()
    entry.main(["configs", "copy", "slurm/fit.sbatch", str(tmp_path)])
    assert (tmp_path / "fit.sbatch").is_file()


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["--version"])
    assert capsys.readouterr().out == f"lit-rl {lit_rl.__version__}\n"


@pytest.mark.parametrize("arguments", [["--version"], ["configs"], ["report", "--help"], ["configs", "--help"]])
def test_what_needs_no_training_loads_no_torch(arguments: list[str]) -> None:
    code = (
        "import sys\nfrom lit_rl.__main__ import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "print(sorted(m for m in ('torch', 'lightning', 'transformers', 'tensorboard') if m in sys.modules))"
    )
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"


def test_the_wheel_alone_finds_its_configurations(wheel: Path, from_wheel: Callable[[str], list[str]]) -> None:
    printed = from_wheel("from lit_rl.cli.shipped_configs import files\nprint(*files().values(), sep='\\n')")
    found = {Path(line).relative_to(wheel / "lit_rl").as_posix() for line in printed}
    assert {"configs/basics_grpo.yaml", "configs/strategy/fsdp2.yaml", "configs/slurm/fit.sbatch"} <= found
