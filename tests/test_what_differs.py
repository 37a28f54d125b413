"""Runs side by side: which settings differ, in the terminal and on the page, and which runs count as seeds of one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.recorded_runs import write_run

from lit_rl.cli.report import report_on_runs
from lit_rl.reports.html.page import render_html_report
from lit_rl.reports.runs import read_runs
from lit_rl.run_files.settings import read_settings, settings_that_differ


def config(seed: int = 0, **changed: Any) -> dict[str, Any]:
    """A run's configuration as LightningCLI saves it; names with ``__`` for dots."""
    made: dict[str, Any] = {
        "seed_everything": seed,
        "run_dir": f"runs/{seed}",
        "trainer": {
            "logger": {"class_path": "lightning.pytorch.loggers.TensorBoardLogger", "init_args": {"name": str(seed)}},
            "callbacks": [
                {"class_path": "lit_rl.callbacks.Checkpointing", "init_args": {"folder": f"runs/{seed}", "keep": 2}},
            ],
        },
        "model": {
            "class_path": "lit_rl.modules.GRPO",
            "init_args": {
                "seed": seed,
                "policy": {"class_path": "lit_rl.models.CausalLM", "init_args": {"model": "m", "lora": None}},
                "objective": {"kl_coef": 0.0},
                "update": {"optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.0004}}},
            },
        },
    }
    for path, value in changed.items():
        *parents, last = path.split("__")
        part = made
        for name in parents:
            part = part[name]
        part[last] = value
    return made


def run(folder: Path, settings: dict[str, Any], **kind: Any) -> Path:
    write_run(folder, {1: [], 2: []}, **kind)
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    return folder


def found(tmp_path: Path, *configs: dict[str, Any]) -> list[tuple[str, dict[str, list[str]]]]:
    folders = [tmp_path / name for name, _ in zip("abc", configs, strict=False)]
    for folder, one in zip(folders, configs, strict=True):
        folder.mkdir(exist_ok=True)
        (folder / "config.yaml").write_text(yaml.safe_dump(one))
    return [*settings_that_differ({f.name: read_settings(f) for f in folders}).items()]


def test_where_a_run_is_saved_and_seeds_that_follow_do_not_count(tmp_path: Path) -> None:
    other = config(1, model__init_args__update__optimizer__init_args__lr=0.0008)
    assert found(tmp_path, config(0), other, other) == [
        ("model.update.optimizer.lr", {"0.0004": ["a"], "0.0008": ["b", "c"]}),
        ("seed_everything", {"0": ["a"], "1": ["b", "c"]}),
    ]


def test_another_class_speaks_for_its_arguments(tmp_path: Path) -> None:
    """Adam's betas say nothing beside SGD, whose learning rate can be compared; a policy is no part of the method."""
    sgd = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1, "momentum": 0.9}}
    other = config(model__init_args__update__optimizer=sgd, model__init_args__policy__init_args__lora={"rank": 16})
    other["model"]["class_path"] = "lit_rl.modules.PPO"
    other["model"]["init_args"]["credit"] = "tokens"
    assert found(tmp_path, config(), other) == [
        ("model", {"GRPO": ["a"], "PPO": ["b"]}),
        ("model.update.optimizer", {"AdamW": ["a"], "SGD": ["b"]}),
        ("model.update.optimizer.lr", {"0.0004": ["a"], "0.1": ["b"]}),
        ("model.policy.lora.rank", {"null": ["a"], "16": ["b"]}),
    ]


@pytest.mark.parametrize(
    ("other", "differs"),
    [
        (config(model__init_args__seed=7), [("model.seed", {"0": ["a"], "7": ["b"]})]),
        (config(model__init_args__update__epochs=2), [("model.update.epochs", {"not set": ["a"], "2": ["b"]})]),
        (config(ckpt_path="there"), []),
        (config(run_dir="there"), []),
    ],
    ids=["a seed of its own", "not given", "a start", "a folder"],
)
def test_a_setting_that_one_run_has_counts_unless_it_says_where_it_is_saved(
    tmp_path: Path, other: dict[str, Any], differs: list[tuple[str, dict[str, list[str]]]]
) -> None:
    assert found(tmp_path, config(), other) == differs


@pytest.mark.parametrize("text", [None, "[", "a: !!python/object:os.system x", "\udcff", "&a [*a]", "[" * 800])
def test_a_run_whose_settings_cannot_be_read_is_not_compared(
    tmp_path: Path, text: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [run(tmp_path / name, config(i)) for i, name in enumerate("ab")]
    file = folders[1] / "config.yaml"
    file.unlink() if text is None else file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert settings_that_differ({folder.name: read_settings(folder) for folder in folders}) == {}
    report_on_runs([str(folder) for folder in folders])
    assert "no config.yaml can be read beside the numbers: b\n" in capsys.readouterr().out


def test_the_terminal_and_the_page_say_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = config(model__init_args__policy__init_args__model="<b>")
    folders = [str(run(tmp_path / "a", config())), str(run(tmp_path / "b", other))]
    report_on_runs(folders)
    assert "  model.policy.model  m in a; <b> in b" in capsys.readouterr().out.splitlines()
    text = render_html_report(read_runs(folders))
    cells = re.findall(r"<td[^>]*>(.*?)</td>", text.partition("What differs")[2])[:6]
    assert cells == ["model.policy.model", "m", "a", "", "&lt;b&gt;", "b"]
    assert text.index("What differs") < text.index("All that validation measured")


def test_each_given_folder_needs_a_run(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="typo"):
        read_runs([str(run(tmp_path / "a", config())), str(tmp_path / "typo")])


@pytest.mark.parametrize(("kl", "bands"), [(0.0, 1), (0.1, 0)])
def test_runs_of_other_settings_are_no_seeds_of_one(tmp_path: Path, kl: float, bands: int) -> None:
    """A KL coefficient is nothing that the numbers of a run name: only its settings tell."""
    other = config(1, model__init_args__objective__kl_coef=kl)
    folders = [str(run(tmp_path / "a", config(0), seed=0)), str(run(tmp_path / "b", other, seed=1))]
    text = render_html_report(read_runs(folders))
    assert ("(2 seeds)" in text) is bool(bands)
