"""The pages come with the package, and whatever a message names is found."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from lit_rl import __main__ as entry
from lit_rl.cli import shipped_configs, shipped_docs

ROOT = Path(__file__).parents[1]


def printed(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    entry.main(["docs", *arguments])
    return capsys.readouterr().out


def test_the_list_names_every_page_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed([], capsys).splitlines()
    assert {line.split()[0] for line in lines} == {file.stem for file in (ROOT / "docs").glob("*.md")}
    assert "monitoring         Looking at a run" in lines


def test_a_page_is_printed_as_it_is_and_a_section_ends_where_the_next_one_begins(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name in ("sandbox", "docs/sandbox.md"):
        assert printed([name], capsys) == (ROOT / "docs" / "sandbox.md").read_text() + "\n"
    text = printed(["monitoring#flat_reward"], capsys)
    assert text.startswith("### flat_reward\n") and text.endswith("too easy.\n")
    for name in ("monitorng", "sandbox#flat_reward"):
        assert f"no page or section is called {name}: lit-rl docs lists the pages" in error_of(["docs", name], capsys)


TEXT = """# Page
## One thing
```yaml
# a comment
```
### Inside
## Two, things!
end
"""


def test_a_section_has_those_inside_and_comments_in_code_are_no_headings() -> None:
    cut = shipped_docs.sections_by_anchor(TEXT)
    assert list(cut) == ["page", "one-thing", "inside", "two-things"]
    assert cut["page"] == TEXT.strip()
    assert cut["one-thing"] == "## One thing\n```yaml\n# a comment\n```\n### Inside"
    assert cut["inside"] == "### Inside" and cut["two-things"] == "## Two, things!\nend"


def test_whatever_the_code_names_is_a_page_or_a_section() -> None:
    sources = [*(ROOT / "lit_rl").rglob("*.py"), *(ROOT / "callbacks").glob("*.py")]
    named = {name for file in sources for name in re.findall(r"lit-rl docs ([a-z_]+(?:#[\w-]+)?)", file.read_text())}
    named -= {"lists"}  # "lit-rl docs lists the pages"
    assert {"monitoring", "sandbox", "engines"} <= named
    assert [name for name in named if not shipped_docs.find_page_or_section(name).startswith("#")] == []


def test_the_wheel_alone_has_the_pages(wheel: Path, tmp_path: Path, from_wheel: Callable[[str], list[str]]) -> None:
    (tmp_path / "docs").mkdir()  # of a project of one's own: it is not looked into
    code = "from lit_rl.cli.shipped_docs import *\nprint(*docs_pages_by_name())\n"
    code += "print(find_page_or_section('monitoring#flat_reward'))"
    first, second, *_ = from_wheel(code)
    pages = sorted(file.stem for file in (ROOT / "docs").glob("*.md"))
    assert first == " ".join(pages) and second == "### flat_reward"


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
    shipped = f"--config={ROOT / 'configs' / 'basics_grpo.yaml'}"
    for arguments in (
        ["fit", "--config", "basics_grpo"],
        ["fit", "-c", "basics_grpo.yaml"],
        ["fit", "--config", "configs/basics_grpo.yaml"],
    ):
        assert shipped_configs.replace_config_names(arguments)[-1] == shipped
    assert shipped_configs.replace_config_names(["fit", "--config=basics_grpo"])[-1] == shipped
    (tmp_path / "basics_grpo.yaml").write_text("a: 1\n")
    mine = ["fit", "--config=basics_grpo.yaml", "--model", "GRPO"]
    assert shipped_configs.replace_config_names(mine) == mine, "one's own file goes before the shipped one"
    assert (
        shipped_configs.replace_config_names(["fit", "--config", '{"model": null}'])[-1] == '--config={"model": null}'
    )


def test_copying_writes_a_file_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    entry.main(["configs", "copy", "basics_sft", str(tmp_path)])
    assert (tmp_path / "basics_sft.yaml").read_text() == (ROOT / "configs" / "basics_sft.yaml").read_text()
    assert "File exists" in error_of(["configs", "copy", "basics_sft", str(tmp_path)], capsys)
    entry.main(["configs", "copy", "strategy/fsdp2", str(tmp_path / "new" / "mine.yaml")])
    assert (tmp_path / "new" / "mine.yaml").is_file()
    entry.main(["configs", "copy", "slurm/fit.sbatch", str(tmp_path)])
    assert (tmp_path / "fit.sbatch").is_file()


def test_the_wheel_alone_finds_its_configurations(wheel: Path, from_wheel: Callable[[str], list[str]]) -> None:
    printed = from_wheel(
        "from lit_rl.cli.shipped_configs import shipped_config_files as found\nprint(*found().values(), sep='\\n')"
    )
    found = {Path(line).relative_to(wheel / "lit_rl").as_posix() for line in printed}
    assert {"configs/basics_grpo.yaml", "configs/strategy/fsdp2.yaml", "configs/slurm/fit.sbatch"} <= found
