"""Compare GRPO with TRL's, on the same model, prompts, lengths and reward, turn by turn in one run.

    python benchmarks/trl.py --peer-python PEER_VENV/bin/python [--work executed] [--words 49152]
    python benchmarks/trl.py --peer-python PEER_VENV/bin/python --shape 135m --clock cpu --threads 1 --steps 2
    python benchmarks/trl.py --peer-python PEER_VENV/bin/python --work basics --model runs/basics/sft/model

The peer runs in a virtual environment of its own (`pip install torch==2.13.0 trl==1.16.0`). Both start from the same
weights and take one update of Adam per step, without a KL term.

* `--work plain`: short prompts, completions of up to 64 tokens, and the share of even ids as the reward. Nothing is
  executed, so sampling and update are what is measured.
* `--work executed`: prompts of about 160 tokens; the model ends a completion after 48 tokens in the mean, at most 128.
  Each completion decides a small program, which is executed: here in the sandbox, there by `subprocess.run` or,
  so that the rest can be compared, in the same sandbox.
* `--work basics`: the embedded task from the model that `make demo` exports after its warm start, until greedy pass@1
  on 260 held-out problems, measured every 10 steps outside the clock, is 0.9. Both have the same problems in the same
  order and the sandbox of this repository.

Models are random, with 16 prompts x 8 completions a step; with `--shape 135m` one in the shape of SmolLM2-135M, with 4
prompts of about 100 tokens x 8 completions of 93 (plain).

Prints seconds per step (basics: until the goal), memory, the matrix products in our sampling (plain), settings of both
sides and the median ratio of the rounds.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from transformers.utils.logging import disable_progress_bar

from lit_rl.data import Basics

HERE = Path(__file__).parent / "beside_trl"
sys.path.insert(0, str(HERE))
from both import Task  # noqa: E402

TOKENIZER = Path(__file__).parents[1] / "lit_rl" / "data" / "basics" / "tokenizer"
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
SHAPES: dict[str, dict[str, Any]] = {
    "tiny": {
        "model_type": "qwen2",
        "hidden_size": 128,
        "intermediate_size": 384,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "vocab_size": 1024,
    },
    "135m": {
        "model_type": "llama",
        "hidden_size": 576,
        "intermediate_size": 1536,
        "num_hidden_layers": 30,
        "num_attention_heads": 9,
        "num_key_value_heads": 3,
        "vocab_size": 49152,
    },
}
# Cut at 128, completions that end with this chance at each token are 48 tokens long in the mean.
END_CHANCE = 1 / 52.5
GOAL = 0.9
ARMS = {
    "plain": (("lit_rl", "even"), ("trl", "even")),
    "executed": (("lit_rl", "sandbox"), ("trl", "subprocess"), ("trl", "sandbox")),
    "basics": (("lit_rl", "basics"), ("trl", "basics")),
}
Turn = dict[str, Any]
"""The report of one side on its run; see ``Watch.report``."""


def write_policy_folder(folder: Path, shape: dict[str, Any], end_chance: float | None, prompts: Sequence[str]) -> None:
    """Write the random model that both sides start from, and its tokenizer."""
    disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    ends = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id, "bos_token_id": None}
    settings = {"max_position_embeddings": 512, "tie_word_embeddings": True} | ends | shape
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(**settings)).eval()
    if end_chance is not None:
        ids = torch.tensor([one[-128:] for one in tokenizer(list(prompts)).input_ids])
        end_sooner(model, tokenizer.eos_token_id, end_chance, ids)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


@torch.no_grad()
def end_sooner(model: Any, end: int, chance: float, prompts: torch.Tensor) -> None:
    """Change the weights until the end of text has this chance in random texts after these prompts.

    One feature is made the same for all tokens, so that the output row of the end can count on it.
    """
    embeddings = model.get_input_embeddings().weight
    embeddings[:, 0] = 0.3
    written = torch.randint(8, len(embeddings), (len(prompts), 64), generator=torch.Generator().manual_seed(0))
    texts = torch.cat([prompts, written], 1)
    low, high = 0.0, 10.0
    for _ in range(30):
        embeddings[end, 0] = (low + high) / 2
        found = float(model(texts, logits_to_keep=64).logits.softmax(-1)[..., end].mean())
        low, high = (low, (low + high) / 2) if found > chance else ((low + high) / 2, high)


def write_problems(path: Path, seed: int, batch: int, steps: int) -> None:
    """Write training problems in the order in which lit_rl takes them, and the held-out ones of `make demo`."""
    data = Basics(batch_size=batch, seed=seed, num_validation_problems=260)
    batches = iter(data.train_dataloader())
    train = [problem for _ in range(steps) for problem in next(batches)]
    parts = [[Task(one.prompt, one.check) for one in part] for part in (train, data.problems("validation"))]
    path.write_bytes(pickle.dumps(parts))


def specification(given: argparse.Namespace, folder: Path, seed: int) -> dict[str, Any]:
    """Return the settings that both sides get."""
    large = given.shape == "135m"
    spec = {"batch": 4 if large else 16, "group": 8, "steps": given.steps or (180 if given.work == "basics" else 6)}
    spec |= {"seed": seed, "threads": given.threads, "clock": given.clock, "dtype": given.dtype}
    spec |= {"problems": None, "prompts": None}
    if given.work == "basics":
        problems = folder / f"{seed}.pickle"
        write_problems(problems, seed, spec["batch"], spec["steps"])
        basics = {"model": str(Path(given.model).resolve()), "problems": str(problems), "peer_rows": 128}
        return spec | basics | {"every": 10, "goal": GOAL, "tokens": 40, "lr": 4e-4}
    executed = given.work == "executed"
    least, spread = (37, 9) if executed else (23, 5) if large else (3, 7)
    counts = [least + i % spread for i in range(spec["batch"] * spec["steps"])]
    spec["prompts"] = [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(n)) for i, n in enumerate(counts)]
    if not (folder / "config.json").exists():
        shape = SHAPES[given.shape] | ({"vocab_size": given.words} if given.words else {})
        write_policy_folder(folder, shape, END_CHANCE if executed else None, spec["prompts"][: spec["batch"]])
    spec |= {"model": str(folder), "tokens": 128 if executed else 93 if large else 64, "peer_rows": 32}
    return spec | {"lr": 1e-6 if executed or large else 1e-4}  # lengths must stay as they are


def turn(python: str, script: str, spec: dict[str, Any]) -> Turn:
    """Run one side in a fresh process and return its results."""
    environment = os.environ | {
        "HF_HUB_OFFLINE": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "OMP_NUM_THREADS": str(spec["threads"]),
        "PYTHONPATH": str(HERE.parents[1]),
    }
    run = subprocess.run(
        [python, str(HERE / script), json.dumps(spec)], capture_output=True, text=True, env=environment
    )
    if run.returncode:
        raise SystemExit(f"{script} under {python} ended with {run.returncode}:\n{run.stderr[-2000:]}")
    result: Turn = json.loads(run.stdout.strip().splitlines()[-1])
    return result


def seconds_of(one: Turn) -> float:
    """Return the seconds until the last measurement or, if nothing is measured, the seconds of a step."""
    return float(one["points"][-1]["seconds"] if one["points"] else statistics.median(one["seconds"]))


def cell(one: Turn) -> str:
    """Return the text of a turn in the table."""
    last = one["points"][-1] if one["points"] else None
    return f"{seconds_of(one):.3f}" + (f" {last['steps']} {last['pass@1']:.2f}" if last else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--work", choices=sorted(ARMS), default="plain")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="tiny", help="of the random model")
    parser.add_argument("--words", type=int, help="of the vocabulary; the texts use the first 1,000")
    parser.add_argument("--model", help="folder that both start from (basics)")
    parser.add_argument("--steps", type=int, help="of a round, of which the first is not measured; at most (basics)")
    parser.add_argument("--rounds", type=int, default=3, help="each with another seed")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="float32", help="of both models")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: where other programs run too")
    given = parser.parse_args()
    if given.steps is not None and given.steps < 2:
        parser.error("--steps counts the first, which is not measured: give at least 2")
    arms = ARMS[given.work]
    names = [f"{side}, {reward}" for side, reward in arms]
    turns: dict[str, list[Turn]] = {name: [] for name in names}
    until = f"until pass@1 {GOAL}, steps, pass@1" if given.work == "basics" else "a step"
    print(f"seconds ({given.clock}) {until}, {given.threads} thread(s)")
    print(f"{'round':<8}" + "".join(f"{name:>20}" for name in names))
    with tempfile.TemporaryDirectory() as folder:
        for number in range(given.rounds):
            print(f"{number:<8}", end="", flush=True)
            spec = specification(given, Path(folder), number)
            for name, (side, reward) in zip(names, arms, strict=True):
                python, script = (sys.executable, "ours.py") if side == "lit_rl" else (given.peer_python, "theirs.py")
                turns[name].append(turn(python, script, spec | {"arm": reward}))
                print(f"{cell(turns[name][-1]):>20}", end="", flush=True)
            print()
    for title, key in (("tokens", "length"), ("GB", "gigabytes")):
        means = [statistics.mean(one[key] for one in turns[name]) for name in names]
        print(f"{title:<8}" + "".join(f"{mean:>20.1f}" for mean in means))
    for name in names:
        print(f"{name}: " + ", ".join(f"{key}={value}" for key, value in turns[name][0]["settings"].items()))
    for name in names[1:]:
        pairs = zip(turns[names[0]], turns[name], strict=True)
        ratio = statistics.median(seconds_of(theirs) / seconds_of(ours) for ours, theirs in pairs)
        print(f"{name} takes {ratio:.2f} times the seconds of {names[0]}")


if __name__ == "__main__":
    main()
