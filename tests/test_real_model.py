"""The script behind `make real`, with a tiny policy in place of the real one."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.tiny_models import TINY_QWEN2
from test_config_runs import CHAT

ROOT = Path(__file__).parents[1]
MARK = "<!-- measured: benchmarks/real_model.py -->\n"


@pytest.fixture
def real_model(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("real_model")


@pytest.mark.slow
def test_a_tiny_policy_is_measured_before_and_after_imitation_and_grpo(
    real_model: Any, byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    small = TINY_QWEN2 | {"max_position_embeddings": 1024}
    policy = {"config": small, "tokenizer": byte_tokenizer, "chat_template": CHAT, "lora": {"rank": 2}}
    files = {}
    for name, given in (("sft_lora", policy), ("grpo_lora", {"lora": {"rank": 2}})):
        config = yaml.safe_load((ROOT / "configs" / "real" / f"{name}.yaml").read_text())
        arguments = config["model"]["init_args"]
        arguments["policy"]["init_args"] = given
        arguments["evaluate"]["sampling"]["greedy"]["max_tokens"] = 4
        config["data"]["init_args"] |= {"batch_size": 2, "num_validation_problems": 4, "num_train_problems": 26}
        if name == "grpo_lora":
            arguments |= {"max_rollouts": 3, "sampling": {"num_samples": 2, "max_tokens": 4}}
        else:
            arguments["max_updates"] = 2
        files[name] = tmp_path / f"{name}.yaml"
        files[name].write_text(yaml.safe_dump(config))
    page = tmp_path / "page.md"
    page.write_text(f"{MARK}<!-- end of what was measured -->\n")
    run = ["--config", str(files["grpo_lora"]), "--imitation", str(files["sft_lora"]), "--page", str(page)]
    run += ["--minutes", "5", "--set", "model.max_rollouts=1"]
    real_model.main(run)
    assert "| held-out problems: 4 | as published | after imitation | after GRPO |" in page.read_text()
    assert "1 rollouts of 4 completions" in page.read_text()
    assert list(tmp_path.glob("runs/real/**/real_model.json"))
    said = capsys.readouterr().out
    assert said.count("greedy pass@1 0.") == 3 and "all of it" in said
    real_model.main(run)
    assert capsys.readouterr().out.count("greedy pass@1 0.") == 1, "a finished imitation is not done again"
