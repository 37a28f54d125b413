"""Runs side by side: which settings differ, in the terminal and on the page, and which runs count as seeds of one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from support.recorded_runs import write_run

from lit_rl.html_report import read_runs
from lit_rl.html_report.page import OVERVIEW, page
from lit_rl.report import read_events, report
from lit_rl.run_files import differences, read_settings

LR = ("model", "init_args", "optimizer", "init_args", "lr")


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
                "optimizer": {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.0004}},
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
    folders = [run(tmp_path / name, one) for name, one in zip("abc", configs, strict=False)]
    return [(one.name, dict(one.runs)) for one in differences({f.name: read_settings(f) for f in folders})]


def test_settings_have_the_names_of_the_command_line(tmp_path: Path) -> None:
    settings = read_settings(run(tmp_path / "a", config()))
    assert settings == {
        "seed_everything": "0",
        "trainer.callbacks": "Checkpointing",
        "trainer.callbacks.Checkpointing.keep": "2",
        "model": "GRPO",
        "model.seed": "0",
        "model.policy": "CausalLM",
        "model.policy.model": "m",
        "model.objective.kl_coef": "0.0",
        "model.optimizer": "AdamW",
        "model.optimizer.lr": "0.0004",
    }


def test_where_a_run_is_saved_and_seeds_that_follow_do_not_count(tmp_path: Path) -> None:
    other = config(1, model__init_args__optimizer__init_args__lr=0.0008)
    assert found(tmp_path, config(0), other, other) == [
        ("model.optimizer.lr", {"0.0004": ["a"], "0.0008": ["b", "c"]}),
        ("seed_everything", {"0": ["a"], "1": ["b", "c"]}),
    ]


def test_a_seed_of_its_own_counts(tmp_path: Path) -> None:
    own = config(0, model__init_args__seed=7)
    assert found(tmp_path, config(0), own) == [("model.seed", {"0": ["a"], "7": ["b"]})]


def test_another_class_speaks_for_its_arguments(tmp_path: Path) -> None:
    """Adam's betas say nothing beside SGD, whose learning rate can be compared; a policy is no part of the method."""
    sgd = {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.1, "momentum": 0.9}}
    other = config(model__init_args__optimizer=sgd, model__init_args__policy__init_args__lora={"rank": 16})
    other["model"]["class_path"] = "lit_rl.modules.PPO"
    other["model"]["init_args"]["gae_lambda"] = 0.95
    assert found(tmp_path, config(), other) == [
        ("model", {"GRPO": ["a"], "PPO": ["b"]}),
        ("model.optimizer", {"AdamW": ["a"], "SGD": ["b"]}),
        ("model.optimizer.lr", {"0.0004": ["a"], "0.1": ["b"]}),
        ("model.policy.lora.rank", {"": ["a"], "16": ["b"]}),
    ]


@pytest.mark.parametrize("text", [None, "[", "a: !!python/object:os.system x", "\udcff"])
def test_a_run_whose_settings_cannot_be_read_is_not_compared(tmp_path: Path, text: str | None) -> None:
    folders = [run(tmp_path / name, config(i)) for i, name in enumerate("ab")]
    file = folders[1] / "config.yaml"
    file.unlink() if text is None else file.write_bytes(text.encode("utf-8", "surrogateescape"))
    assert differences({folder.name: read_settings(folder) for folder in folders}) == []


def test_the_terminal_and_the_page_say_what_differs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = config(model__init_args__policy__init_args__model="<b>")
    folders = [str(run(tmp_path / "a", config())), str(run(tmp_path / "b", other))]
    report(folders)
    assert "model.policy.model  m in a; <b> in b" in capsys.readouterr().out.splitlines()
    text = page(read_runs(folders, read_events, 5), OVERVIEW)
    row = "<tr><td>model.policy.model</td><td>m</td><td>a</td></tr><tr><td></td><td>&lt;b&gt;</td><td>b</td></tr>"
    assert row in text and text.index("What differs") < text.index("Learning curves")


def test_one_run_differs_from_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = str(run(tmp_path / "a", config()))
    report([folder])
    assert "seed_everything" not in capsys.readouterr().out
    assert "What differs" not in page(read_runs([folder], read_events, 5), OVERVIEW)


@pytest.mark.parametrize(("kl", "bands"), [(0.0, 1), (0.1, 0)])
def test_runs_of_other_settings_are_no_seeds_of_one(tmp_path: Path, kl: float, bands: int) -> None:
    """A KL coefficient is nothing that the numbers of a run name: only its settings tell."""
    other = config(1, model__init_args__objective__kl_coef=kl)
    folders = [str(run(tmp_path / "a", config(0), seed=0)), str(run(tmp_path / "b", other, seed=1))]
    text = page(read_runs(folders, read_events, 5), OVERVIEW)
    assert ("(2 seeds)" in text) is bool(bands)
