"""The ladder of real models, with a tiny random policy in place of the real ones."""

from __future__ import annotations

import gzip
import importlib
import json
from pathlib import Path
from typing import Any

import pytest
from support.tiny_models import TINY_QWEN2
from test_config_runs import CHAT, human_eval

from lit_rl.models import CausalLM

ROOT = Path(__file__).parents[1]


@pytest.fixture
def ladder(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    module = importlib.import_module("ladder")
    monkeypatch.setattr(module, "NUM_TRAINED", 52)
    return module


@pytest.fixture
def flags(byte_tokenizer: str, tmp_path: Path) -> list[str]:
    """Settings of a rung that takes seconds."""
    shape = TINY_QWEN2 | {"max_position_embeddings": 1024}
    policy = CausalLM(config=shape, tokenizer=byte_tokenizer, chat_template=CHAT)
    policy.load()
    policy.save_pretrained(tmp_path / "model")
    human = tmp_path / "human.jsonl.gz"
    human.write_bytes(gzip.compress("".join(json.dumps(human_eval(i)) + "\n" for i in range(3)).encode()))
    given = {"model": tmp_path / "model", "folder": tmp_path / "ladder", "humaneval": human, "imitation": 2}
    given |= {"tokens": 20, "problems": 2, "samples": 2, "max-tokens": 4, "held-out": 6, "problems-of-others": 2}
    given |= {"max-tokens-of-others": 4, "rank": 2, "seeds": 0, "rung": "tiny"}
    return [part for name, value in given.items() for part in (f"--{name}", str(value))]


def killed(*_: Any, **__: Any) -> None:
    raise KeyboardInterrupt


def test_a_cell_resumes_where_it_was_killed_and_the_table_marks_what_was_not_run(
    ladder: Any, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    rung = tmp_path / "ladder" / "tiny"
    ladder.main([*flags, "--tasks", "basics", "--arms", "published", "imitation"])
    with monkeypatch.context() as change, pytest.raises(KeyboardInterrupt):
        change.setattr(ladder, "write_model", killed)
        ladder.main([*flags, "--tasks", "basics", "--arms", "grpo"])
    assert not (rung / "grpo_0.json").exists()
    (last,) = (rung / "grpo_0" / "run").glob("rollout_*.ckpt")
    capsys.readouterr()
    ladder.main([*flags, "--tasks", "basics", "humaneval", "--arms", "grpo"])
    whole = json.loads((rung / "grpo_0.json").read_text())
    spent = whole["training"]
    assert spent["rollouts"] == int(last.stem[-6:]), "what was trained is not trained again"
    assert 20 <= spent["tokens"] < 36 and spent["cpu_seconds"] > 0
    assert list(whole["humaneval"]["answers"]) == ["HumanEval/0", "HumanEval/1"]
    assert len(whole["basics"]["answers"]) == 6
    table = capsys.readouterr().out.splitlines()
    done = next(line for line in table if line.startswith("| GRPO | 0 | "))
    assert done.split(" | ")[3] == str(spent["tokens"]) and done.count("not run") == 1
    lacking = next(line for line in table if line.startswith("| SDPO | 0 | "))
    assert lacking.count("not run") == 3
    with pytest.raises(SystemExit, match="other settings"):
        ladder.main([*flags, "--tokens", "40", "--arms", "grpo"])


@pytest.mark.slow
def test_every_arm_spends_its_tokens_and_expert_iteration_takes_up_its_batches(
    ladder: Any, flags: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def passing(rollouts: Any) -> list[tuple[str, dict[str, Any]]]:
        return [(name, one | {"verdict": "passed"}) for name, one in found(rollouts)]

    found, rung = ladder.answers, tmp_path / "ladder" / "tiny"
    monkeypatch.setattr(ladder, "answers", passing)
    start = [*flags, "--tasks", "basics", "--imitation", "0", "--rounds", "2", "--arms", "expert"]
    with monkeypatch.context() as change, pytest.raises(KeyboardInterrupt):
        change.setattr(ladder, "imitate", killed)
        ladder.main(start)
    log = rung / "expert_0" / "batches.jsonl"
    before = log.read_text()
    ladder.main([*start, "repair", "sdpo"])
    spent = {arm: json.loads((rung / f"{arm}_0.json").read_text())["training"] for arm in ("expert", "repair", "sdpo")}
    assert before and log.read_text().startswith(before)
    assert spent["expert"]["rollouts"] == len(log.read_text().splitlines()) and len(spent["expert"]["kept"]) == 2
    most = {"expert": 16, "sdpo": 16, "repair": 32}  # tokens of the last rollout; with repair it has two turns
    assert all(20 <= spent[arm]["tokens"] < 20 + most[arm] for arm in most)


def test_differences_are_paired_by_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    paired = importlib.import_module("ladder_tables").paired

    def cell(*passed: str) -> dict[str, Any]:
        verdicts = {name: "passed" if name in passed else "wrong_answer" for name in "abcd"}
        return {"basics": {"answers": {name: {"verdict": verdict} for name, verdict in verdicts.items()}}}

    assert paired([cell("a", "b", "c")], cell("a", "b", "c"), "basics") == "+0.000 [+0.000, +0.000]"
    # Differences +1, +1, 0, 0: mean 0.5, standard deviation 0.577.
    assert paired([cell("a", "b")], cell(), "basics") == "+0.500 [-0.066, +1.066]"
    assert paired([cell("a", "b"), cell()], cell(), "basics").startswith("+0.250")
