"""The scripts and the notebook of examples/ run, on a tiny model with random weights."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
import torch
from support.tiny_models import TINY_QWEN2, loaded

EXAMPLES = Path(__file__).parents[1] / "examples"
FEW = {"batch_size": 2, "num_train_problems": 26, "num_validation_problems": 26}
CHAT = "{% for m in messages %}{{ m['content'] }}\n{% endfor %}"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Folder of a model that has learned nothing; the scripts run beside it."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    longer = TINY_QWEN2 | {"max_position_embeddings": 512}
    loaded("package:lit_rl/data/basics/tokenizer", config=longer).save_pretrained(tmp_path / "model")
    return str(tmp_path / "model")


def test_the_three_formulas_of_grpo() -> None:
    from_scratch = script("grpo_from_scratch")
    rewards = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 1.0, 1.0], [1.0, 0.0, float("nan"), 1.0]])
    found = from_scratch.group_advantages(rewards)
    assert found[0].tolist() == pytest.approx([0.75 / 0.5, *3 * [-0.25 / 0.5]], rel=1e-5)
    assert found[1].tolist() == [0, 0, 0, 0]
    assert found[2].tolist() == pytest.approx([x * 3**0.5 for x in (1 / 3, -2 / 3, 0, 1 / 3)], rel=1e-5)

    old = torch.tensor([[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]).log()
    new = torch.tensor([[0.7, 0.55, 0.3], [0.7, 0.55, 0.3]]).log()
    losses = from_scratch.clipped_losses(new, old, torch.tensor([[2.0], [-1.0]]))
    assert losses.flatten().tolist() == pytest.approx([-2.4, -2.2, -1.2, 1.4, 1.1, 0.8])
    mask = torch.tensor([[True, True, False], [True, False, False]])
    assert from_scratch.token_mean(losses, mask).item() == pytest.approx((-2.4 - 2.2 + 1.4) / 3)


def test_grpo_from_scratch_runs_from_imitation_to_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    before, after = script("grpo_from_scratch").main(warm_start=3, rollouts=2, batch_size=2, problems=26)
    assert before == after == 0, "hardly trained, it solves nothing"
    assert "pass@1 on 26 held-out problems: 0.000 after imitation, 0.000 after 2 rollouts" in capsys.readouterr().out


def test_the_sandbox_rewards_programs_in_trl(model: str) -> None:
    for package in ("trl", "datasets"):
        pytest.importorskip(package, reason=f"{package} is not installed: pip install trl")
    small = {"num_generations": 2, "per_device_train_batch_size": 4, "max_completion_length": 6}
    assert script("sandbox_in_trl").main(model, steps=1, **small) == [0.0], "an untrained policy solves nothing"


def test_grpo_on_rows_of_ones_own(model: str, byte_tokenizer: str) -> None:
    """Four problems, eight completions each, one rollout."""
    loaded(byte_tokenizer, config=TINY_QWEN2 | {"max_position_embeddings": 256}).save_pretrained("byte_model")
    trained = script("own_rows_grpo").main("byte_model", rollouts=1, max_tokens=4, chat_template=CHAT)
    assert trained.clock.count == 1


def test_ppo_with_a_reward_of_ones_own(model: str) -> None:
    trained = script("own_reward_ppo").main(model, rollouts=1, max_tokens=6, **FEW)
    assert trained.clock.count == 1 and Path("runs/own_reward/last.ckpt").exists()


def test_the_reward_stands_on_the_word_that_earned_it() -> None:
    """In bytes, so that a letter of two bytes before it moves the span."""

    class Rows:
        texts = ("def f():\n    print(1)", "    return 'é' or print(2)", "    return 1")

    quiet, shifted, none = script("own_reward_ppo").NoPrinting().score(Rows(), [None] * 3)
    assert (quiet.value, shifted.value, none.value) == (-1.0, -1.0, 0.0) and none.spans == ()
    for text, score in zip(Rows.texts, (quiet, shifted), strict=False):
        (span,) = score.spans
        assert text.encode()[span.start : span.end] == b"print(" and span.value == score.value


def test_two_turns_of_repair(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    measured = script("two_turn_repair").main(model, rollouts=1, max_tokens=6, **FEW)
    assert len(measured.pass_at_turn) == 2
    assert "pass@1 after turn 2: 0.000" in capsys.readouterr().out, "an untrained policy solves nothing"


def test_pass_at_k_on_humaneval_and_mbpp(
    real_data: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIT_RL_DATA", str(real_data))
    measured = script("measure_pass_at_k").main(
        str(real_data / "lm/stories260K-hf"), samples=10, max_tokens=4, problems=2
    )
    assert set(measured) == {"humaneval", "mbpp"} and set(measured["mbpp"].pass_at) == {1, 10}
    assert "mbpp, 2 problems, completion, 10 samples: pass@1 0.000  pass@10 0.000" in capsys.readouterr().out


def test_the_notebook_runs(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its cells of code, one after the other, in one namespace, with fewer problems and one rollout."""
    notebook = json.loads((EXAMPLES / "learn.ipynb").read_text())
    assert notebook["nbformat"] == 4
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert all(not cell.get("outputs") for cell in notebook["cells"]), "outputs are not kept in the repository"
    space: dict[str, object] = {}
    for number, cell in enumerate(cells):
        for long, short in (
            ("UPDATES = 300", "UPDATES = 2"),
            ("ROLLOUTS = 60", "ROLLOUTS = 2"),
            ("TASK = {}", f"TASK = {FEW}"),
        ):
            cell = cell.replace(long, short)
        exec(compile(cell, f"learn.ipynb, cell {number}", "exec"), space)
    assert space["ROLLOUTS"] == space["UPDATES"] == 2 and space["TASK"] == FEW, "the test makes these small"
    assert "pass@1" in capsys.readouterr().out
