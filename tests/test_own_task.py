"""The page about one's own task is run as it stands, with a tiny policy in place of a real one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import TINY_QWEN2

import lit_rl.cli

PAGE = (Path(__file__).parents[1] / "docs" / "own_task.md").read_text()
CHAT = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


def test_the_page_runs(
    tmp_path: Path, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (rows,), (task,), (run,) = blocks("json"), blocks("python"), blocks("yaml")
    monkeypatch.chdir(tmp_path)
    for name, text in {"train.jsonl": rows, "held_out.jsonl": rows, "my_task.py": task}.items():
        (tmp_path / name).write_text(text)
    config: dict[str, Any] = yaml.safe_load(run)
    model = config["model"]["init_args"]
    tiny = TINY_QWEN2 | {"max_position_embeddings": 256}
    model["policy"]["init_args"] = {"config": tiny, "tokenizer": byte_tokenizer, "chat_template": CHAT}
    model |= {"max_rollouts": 1, "sampling": {"num_samples": 2, "max_tokens": 4}}
    config["data"]["init_args"]["batch_size"] = 2
    config["trainer"] |= {"accelerator": "cpu", "devices": 1, "val_check_interval": 1}
    (tmp_path / "my_run.yaml").write_text(yaml.safe_dump(config))
    check, fit = re.findall(r"^lit-rl (.*?)(?: *#.*)?$", blocks("bash")[0], re.MULTILINE)
    lit_rl.cli.main(check.split())
    assert "2 of 2 references pass" in capsys.readouterr().out, "equal rows of both files count once"
    lit_rl.cli.main(fit.split())
    assert (tmp_path / "runs" / "mine" / "best.ckpt").exists()
