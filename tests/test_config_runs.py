"""Every shipped configuration runs: its own YAML, a tiny policy and small rows of each task's format."""

from __future__ import annotations

import base64
import json
import pickle
import re
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support.json_rows import write_rows
from support.slow_cases import slow_but
from support.tiny_judge import write_judge
from support.tiny_models import TINY_QWEN2, loaded
from support.translated_rows import humanevalx, multiple

import lit_rl.cli.main  # noqa: F401  # short class names
from lit_rl.cli.main import Cli
from lit_rl.cli.replay import rejudge_recorded_run
from lit_rl.errors import UsageError
from lit_rl.modules import SFT
from lit_rl.run_files.files import read_rollouts
from lit_rl.signature_check import classes_by_name, constructor_parameters

Metrics = dict[str, float]
ROOT = Path(__file__).parents[1]
CHAT = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant: "


def human_eval(i: int) -> dict[str, Any]:
    """Rows with nothing before the function, with imports, and with a helper that the tests use, in turn."""
    before = ("", "import math\n\n\n", "def one():\n    return 1\n\n\n")[i % 3]
    return {
        "task_id": f"HumanEval/{i}",
        "prompt": f'{before}def add(x):\n    """Add {i}."""\n',
        "entry_point": "add",
        "canonical_solution": f"    return x + {i}\n",
        "test": f"def check(candidate):\n    assert candidate(1) == {i + 1}\n",
    }


def mbpp(task_id: int) -> dict[str, Any]:
    """Rows with and without code that the tests need, in turn."""
    return {
        "task_id": task_id,
        "text": f"Write a function to add {task_id}.",
        "code": f"def add(x):\n    return x + {task_id}\n",
        "test_list": [f"assert add(1) == {task_id + 1}"],
        "test_setup_code": "" if task_id % 2 else "one = 1",
        "challenge_test_list": [],
    }


def deep_coder(i: int) -> dict[str, Any]:
    """The kinds of rows that the set has, in turn: stdin, a function, a method with starter code, stdin in columns."""
    doubled = [{"input": f"{i}", "output": f"{2 * i}"}]
    kinds: list[dict[str, Any]] = [
        {"starter_code": "", "tests": json.dumps([{"input": f"{i}\n", "output": f"{i}\n", "testtype": "stdin"}])},
        {"tests": json.dumps([doubled[0] | {"type": "function_call", "fn_name": "double"}])},
        {
            "starter_code": "class Solution:\n    def double(self, x: int) -> int:\n",
            "tests": json.dumps([doubled[0] | {"testtype": "functional"}]),
            "metadata": {"func_name": "double"},
        },
        {"tests": json.dumps({"inputs": [f"{i}\n"], "outputs": [f"{i}\n"]})},
    ]
    return {"problem": f"Do it with the number {i}.", "solutions": []} | kinds[i % len(kinds)]


def live_code_bench(i: int) -> dict[str, Any]:
    """A function and a program on stdin in turn, a contest each month of 2024, hidden tests packed as in the set."""
    test = {"input": f"{i}", "output": f"{2 * i}", "testtype": "stdin" if i % 2 else "functional"}
    return {
        "question_content": f"Double the number {i}.",
        "question_id": f"{i}",
        "contest_date": f"2024-{1 + i:02}-01T00:00:00",
        "starter_code": "" if i % 2 else "class Solution:\n    def double(self, x: int) -> int:\n        ",
        "public_test_cases": json.dumps([test]),
        "private_test_cases": base64.b64encode(zlib.compress(pickle.dumps(json.dumps([test])))).decode(),
        "metadata": json.dumps({} if i % 2 else {"func_name": "double"}),
    }


def open_code(i: int) -> dict[str, str]:
    score = {"score": 5, "justification": ""}
    names = ("requirement_conformance", "logical_correctness", "edge_case_consideration")
    return {
        "id": f"{i:032x}",
        "input": f"Write add(x) that adds {i}.",
        "output": f"```python\ndef add(x):\n    return x + {i}\n```",
        "domain": "generic",
        "generation_algorithm": "self-instruct",
        "llm_judgement": json.dumps(dict.fromkeys(names, score)),
        "unit_tests": json.dumps([f"\nassert add(1) == {i + 1}\n"]),
        "tests_execution_status": json.dumps(["pass"]),
        "average_test_score": "1.0",
    }


def robo_instruct(i: int) -> dict[str, str]:
    return {"prompt": f"Say {i}.", "program": f'def task_program():\n    say("{i}")'}


def roboeval(i: int) -> dict[str, Any]:
    state = {"locations": ["start_loc"], "objects": {}, "agents": {}, "robot_location": "start_loc"}
    check = ["exists", "trace", ["Say", f"{i}"]]
    tests = [{"state": state, "should_timeout": False, "check": check}]
    return {"name": f"Say{i}", "prompts": [f"Say {i}.", f"Tell us {i}."], "tests": tests}


def pair(i: int) -> dict[str, Any]:
    chosen, rejected = f"def add(x):\n    return x + {i}", "def add(x):\n    return x"
    rewards = {"chosen_reward": 1.0, "rejected_reward": 0.0}
    return {"task_id": f"p/{i}", "prompt": f"Add {i}.\n", "chosen": chosen, "rejected": rejected, **rewards}


@pytest.fixture
def rows(tmp_path: Path) -> dict[str, str]:
    """A file of small rows for each hub id that the configurations name."""
    made: dict[str, Iterator[dict[str, Any]]] = {
        "openai/openai_humaneval": (human_eval(i) for i in range(164)),
        "google-research-datasets/mbpp": (mbpp(i) for i in (2, 3, 4, 11, 12, 511, 601, 602)),
        "evalplus/mbppplus": (mbpp(i) for i in (11, 12)),
        "evalplus/humanevalplus": (human_eval(i) for i in range(4)),
        "nvidia/OpenCodeInstruct": (open_code(i) for i in range(40)),
        "$LIT_RL_DATA/humaneval/HumanEval.jsonl.gz": (human_eval(i) for i in range(4)),
        "$LIT_RL_DATA/mbpp/mbpp.jsonl.gz": (mbpp(i) for i in (2, 3, 4, 11, 12, 511, 601, 602, 603, 604)),
        "$LIT_RL_DATA/humanevalx/humaneval_js.jsonl.gz": (humanevalx("javascript", i) for i in range(4)),
        "$LIT_RL_DATA/multiple/humaneval-js-reworded.jsonl": (multiple("javascript", i) for i in range(4)),
        **{f"$LIT_RL_DATA/livecodebench/test{n}.jsonl": map(live_code_bench, range(1, 5)) for n in ("", *range(2, 7))},
        "$LIT_RL_DATA/robo_instruct/robo_instruct.csv": (robo_instruct(i) for i in range(40)),
        "$LIT_RL_DATA/roboeval/roboeval.jsonl": (roboeval(i) for i in range(2)),
        "runs/basics/pairs.jsonl": (pair(i) for i in range(8)),
    }
    files = {
        name: write_rows(tmp_path, *content, name=f"{re.sub('[^A-Za-z0-9]', '_', name)}.jsonl")
        for name, content in made.items()
    }
    (tmp_path / "contests").mkdir()
    for part in ("primeintellect", "taco", "lcbv5", "codeforces"):
        write_rows(tmp_path / "contests", *map(deep_coder, range(4)), name=f"{part}.jsonl")
    return files | {"agentica-org/DeepCoder-Preview-Dataset": str(tmp_path / "contests")}


FEWER = {
    "Basics": {"num_train_problems": 64, "num_validation_problems": 26, "validation_batch_size": 4},
    "CodeCompletion": {"max_validation_problems": 1},
}
"""Arguments of the tasks that make their own rows."""


def task_arguments(path: str, rows: dict[str, str]) -> dict[str, Any]:
    """Small rows in place of the hub's that a task reads by default; none for another class."""
    cls = classes_by_name().get(path.rpartition(".")[2])
    defaults = {name: one.default for name, one in (constructor_parameters(cls) if cls else {}).items()}
    return {name: rows[given] for name, given in defaults.items() if isinstance(given, str) and given in rows}


def shrink(node: Any, rows: dict[str, str], tokenizer: str) -> Any:
    """The same configuration with a tiny policy, small rows and short completions."""
    if isinstance(node, list):
        return [shrink(item, rows, tokenizer) for item in node]
    if isinstance(node, str) and node in classes_by_name():
        return shrink({"class_path": node}, rows, tokenizer)
    if not isinstance(node, dict):
        return rows.get(node, node) if isinstance(node, str) else node
    small = {key: value if key == "class_path" else shrink(value, rows, tokenizer) for key, value in node.items()}
    if small.get("class_path", "").endswith("CausalLM"):
        given = small["init_args"]
        adapted = given.get("lora") or "humaneval/sft" in str(given.get("model"))
        kept = {"lora": {"rank": 2, "alpha": 4}} if adapted else {}
        if given.get("model") in rows.values():
            return small | {"init_args": {"model": given["model"], **kept}}
        config = TINY_QWEN2 | {"max_position_embeddings": 4096}
        return small | {"init_args": {"config": config, "tokenizer": tokenizer, **kept}}
    if task := small.get("class_path", "").rpartition(".")[2]:
        return small | {"init_args": task_arguments(task, rows) | small.get("init_args", {}) | FEWER.get(task, {})}
    for key, value in (("max_tokens", 12), ("num_samples", 2), ("max_rollouts", 1), ("max_updates", 1)):
        if key in small:
            small[key] = min(int(small[key]), value)
    if "ks" in small:
        small["ks"] = [1]
    for key in ("batch_size", "num_problems", "num_train", "num_validation", "max_validation_problems"):
        if key in small:
            small[key] = min(int(small[key]), 8 if key.startswith("num") else 4)
    return small


EXPERIMENTS = ["humaneval_sft", "humaneval_reinforce", "humaneval_ppo", "deepcoder_grpo", "mbpp_ppo_dense"]
EXPERIMENTS += ["roboeval_ppo_dense"]
BASICS = ["basics_sft", "basics_grpo", "basics_reinforce", "basics_ppo", "basics_dpo", "basics_distillation"]
BASICS += ["basics_repair_sft", "basics_repair_sdpo", "basics_repair_grpo"]
SAMPLED = {"basics_completions": "basics_expert_iteration"}
SAMPLED["basics_repair_completions"] = "basics_repair_expert_iteration"
DELTAS = ["rewards", "centered_rewards", "normalized_rewards", "max_rewards"]
SORTING = [f"sorting_{kind}" for kind in (*DELTAS, "clipped", "unclipped")]
REAL = ["real/sft_lora", "real/grpo_lora", "real/grpo", "real/ppo"]
OTHERS = [*BASICS[:-1], *SORTING, *REAL, "corridor_ppo", "mbpp_grpo", "mbpp_stories_sft", "mbpp_stories_ppo_dense"]


@pytest.fixture
def fit_small(
    rows: dict[str, str], byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Metrics]:
    """Fits a shipped configuration, made small, in an empty folder; gives its metrics."""
    from transformers import PreTrainedTokenizerFast

    monkeypatch.chdir(tmp_path)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(byte_tokenizer, chat_template=CHAT)
    tokenizer.save_pretrained(tmp_path / "tokenizer")

    def run(name: str, verb: str = "fit", *arguments: str, **given: str) -> Metrics:
        config = yaml.safe_load((ROOT / "configs" / f"{name}.yaml").read_text())
        config = shrink(config, rows | given, str(tmp_path / "tokenizer"))
        config["trainer"] |= {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
        config["trainer"] |= {"val_check_interval": 1, "check_val_every_n_epoch": None, "limit_val_batches": 1}
        (tmp_path / "run.yaml").write_text(yaml.safe_dump(config))
        cli = Cli([verb, "--config", str(tmp_path / "run.yaml"), *arguments])
        return {name: float(value) for name, value in cli.trainer.callback_metrics.items()}

    return run


@pytest.mark.parametrize("name", slow_but(("humaneval_ppo",), EXPERIMENTS))
def test_a_documents_experiment_runs(name: str, fit_small: Callable[..., Metrics], tmp_path: Path) -> None:
    pytest.importorskip("sacrebleu", reason="reward terms need the extra `rewards`")
    metrics = fit_small(name)
    assert any(key.endswith("pass@1") for key in metrics), sorted(metrics)
    assert list(tmp_path.glob("runs/*/*/last.ckpt")), "the run saved a checkpoint"


def test_sft_of_the_humaneval_experiment_holds_its_base_in_4_bits(
    fit_small: Callable[..., Metrics], byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("bitsandbytes", reason="bitsandbytes is not installed (extra qlora)")
    wide = TINY_QWEN2 | {"hidden_size": 64, "intermediate_size": 128}
    loaded(byte_tokenizer, config=wide).save_pretrained(tmp_path / "base")
    layers: list[str] = []
    monkeypatch.setattr(SFT, "on_fit_end", lambda self: layers.extend(type(one).__name__ for one in self.modules()))
    overlay = ["--config", str(ROOT / "configs/strategy/qlora.yaml"), "--model.policy.dtype", "bfloat16"]
    given = {"deepseek-ai/deepseek-coder-1.3b-base": str(tmp_path / "base")}
    metrics = fit_small("humaneval_sft", "fit", *overlay, **given)
    assert metrics["sft/loss"] > 0 and "val/greedy/pass@1" in metrics
    base_and_adapter = 2  # PEFT calls its layer as bitsandbytes does
    assert layers.count("Linear4bit") == base_and_adapter * 7 * TINY_QWEN2["num_hidden_layers"]


IN_SHORT = {"basics_dpo", "basics_distillation", "sorting_clipped", "real/grpo_lora", "mbpp_stories_ppo_dense"}
"""One of each method and task; the variants are slow."""


@pytest.mark.parametrize("name", slow_but(IN_SHORT, OTHERS))
def test_another_configuration_runs(name: str, fit_small: Callable[..., Metrics]) -> None:
    pytest.importorskip("ruff", reason="reward terms need the extra `rewards`")
    metrics = fit_small(name)
    assert metrics.keys() & {"reward/mean", "sft/loss", "dpo/loss"}, sorted(metrics)
    assert any(key.startswith("val/") for key in metrics), sorted(metrics)


MEASURED = ["humaneval_validate", "humanevalx_validate", "multiple_validate"]


@pytest.mark.parametrize("name", slow_but(MEASURED[:1], MEASURED))
def test_humaneval_is_measured(name: str, fit_small: Callable[..., Metrics]) -> None:
    """Item 68: the name of the metric is that of the sampling, greedy here."""
    metrics = fit_small(name, "validate")
    assert metrics["val/greedy/num_problems"] == 4
    assert metrics["val/greedy/pass@1"] == 0.0, "random weights write no program"


LEADERBOARDS = {
    "humaneval_plus_validate": ([], "greedy", 4),
    "mbpp_plus_validate": ([], "greedy", 2),
    "livecodebench_validate": (["--data.start_date=2024-03-01", "--data.end_date=2024-04-15"], "sampled", 12),
}
"""Arguments, name of the sampling and problems: LiveCodeBench has six files of four contests, of which two are held."""


@pytest.mark.parametrize("name", slow_but(("mbpp_plus_validate", "livecodebench_validate"), LEADERBOARDS))
@pytest.mark.filterwarnings("ignore:left out")
def test_a_leaderboards_configuration_writes_every_completion_and_replay_judges_it_again(
    name: str, fit_small: Callable[..., Metrics], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments, sampling, num_problems = LEADERBOARDS[name]
    path = tmp_path / "completions.jsonl.gz"
    writer = ["--trainer.callbacks+=CompletionWriter", f"--trainer.callbacks.path={path}"]
    metrics = fit_small(name, "validate", *arguments, *writer, "--trainer.limit_val_batches=1.0")
    assert metrics[f"val/{sampling}/num_problems"] == num_problems
    rows = [row for rollout in read_rollouts(path) for row in rollout.rows]
    num_samples = 2 if sampling == "sampled" else 1
    assert Counter(Counter(row.task_id for row in rows).values()) == {num_samples: num_problems}
    assert all(row.verdict for row in rows)
    rejudge_recorded_run([str(path), "--config", str(tmp_path / "run.yaml"), *arguments])
    said = capsys.readouterr().out
    assert f"verdicts: 0 differ, {len(rows)} are as before" in said


def test_pairs_are_written(fit_small: Callable[..., Metrics], tmp_path: Path) -> None:
    fit_small("basics_pairs", "predict", **{"runs/basics/pairs.jsonl": "pairs.jsonl"})
    assert (tmp_path / "pairs.jsonl").read_text() == "", "no two programs of random weights differ in their reward"


@pytest.mark.parametrize("name", slow_but(["basics_completions"], SAMPLED))
def test_what_one_configuration_samples_the_next_one_learns(
    name: str, fit_small: Callable[..., Metrics], tmp_path: Path
) -> None:
    """Nothing that random weights write passes, so everything is kept."""
    fit_small(name, "predict", "--trainer.limit_predict_batches=3")
    short = ["--trainer.max_epochs=1", "--trainer.limit_train_batches=1"]
    metrics = fit_small(SAMPLED[name], "fit", "--data.init_args.keep", "all", *short)
    assert metrics["sft/loss"] > 0 and "val/greedy/pass@1" in metrics
    with pytest.raises(UsageError, match=r"none of its \d+ completions can be kept \(passed\)"):
        fit_small(SAMPLED[name])


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("g++") is None or shutil.which("make") is None, reason="no g++ or make")
def test_thorns_are_learned_from_likeness_and_a_judge_and_measured_by_building(
    fit_small: Callable[..., Metrics], byte_tokenizer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sacrebleu", reason="reward terms need the extra `rewards`")
    thorn = tmp_path / "arrangements" / "Made" / "Up"
    (thorn / "src").mkdir(parents=True)
    (thorn / "interface.ccl").write_text("implements: up\n")
    for number in range(3):
        (thorn / "src" / f"up{number}.c").write_text(f"int up{number}(void) {{ return {number}; }}\n")
    monkeypatch.setenv("CACTUS_THORNS", str(tmp_path / "arrangements"))
    judge = write_judge(tmp_path / "judge", byte_tokenizer, "Score: 7")
    metrics = fit_small("einstein_ppo", "fit", **{"Qwen/Qwen2.5-Coder-1.5B-Instruct": judge})
    assert metrics["reward/invalid_fraction"] == 0.0
    assert metrics["reward/judge"] == pytest.approx(0.7)
    assert 0.0 <= metrics["reward/bleu"] < 0.5
    assert metrics["reward/mean"] == pytest.approx(0.6 * metrics["reward/bleu"] + 0.4 * 0.7)
    assert metrics["val/compilation"] < metrics["val/empty/compilation"] <= 1.0, "noise does not even build"
    assert list(tmp_path.glob("runs/einstein/ppo/last.ckpt")), "the run saved a checkpoint"
