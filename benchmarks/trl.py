"""GRPO samples a second beside TRL's, on the same model, prompts, lengths and reward, turn by turn in one run.

    python benchmarks/trl.py --peer-python PEER_VENV/bin/python [--work executed] [--words 49152]

The peer runs in a virtual environment of its own (`pip install torch==2.13.0 trl==1.16.0`). Both start from the same
random Qwen2 (hidden 128, 4 layers) and take one update of Adam a step on 16 prompts x 8 completions, without a KL term.

* `--work plain`: short prompts, completions of up to 64 tokens, and the share of even ids as the reward. Nothing is
  executed, so sampling and update are what is measured.
* `--work executed`: prompts of about 160 tokens; the model ends a completion after 48 tokens in the mean, at most 128.
  Each completion decides a small program, which is executed: here in the sandbox, there by `subprocess.run` or,
  so that the rest can be compared, in the same sandbox.

Prints seconds a step of each turn, both sides' settings and the ratios of medians, and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM
from transformers.utils.logging import disable_progress_bar

HERE = Path(__file__).parent / "beside_trl"
TOKENIZER = Path(__file__).parents[1] / "lit_rl" / "data" / "basics" / "tokenizer"
PROMPTS, GROUP = 16, 8
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta")
MODEL = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 512,
    "tie_word_embeddings": True,
}
# Cut at 128, completions that end with this chance at each token are 48 tokens long in the mean.
END_CHANCE = 1 / 52.5
ARMS = {
    "plain": (("lit_rl", "even"), ("trl", "even")),
    "executed": (("lit_rl", "sandbox"), ("trl", "subprocess"), ("trl", "sandbox")),
}


def model_folder(folder: Path, words: int, end_chance: float | None, prompts: Sequence[str]) -> str:
    """Write the random model that both sides start from, and its tokenizer."""
    disable_progress_bar()
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(TOKENIZER)
    model = Qwen2ForCausalLM(
        Qwen2Config(**MODEL, vocab_size=words, eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
    ).eval()
    if end_chance is not None:
        ids = torch.tensor([one[-128:] for one in tokenizer(prompts[:PROMPTS]).input_ids])
        end_sooner(model, tokenizer.eos_token_id, end_chance, ids)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@torch.no_grad()
def end_sooner(model: Qwen2ForCausalLM, end: int, chance: float, prompts: torch.Tensor) -> None:
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


def prompts_of(words: Sequence[int]) -> list[str]:
    """One text for each number of words."""
    return [" ".join(WORDS[(i + j) % len(WORDS)] for j in range(count)) for i, count in enumerate(words)]


def specification(work: str, folder: Path, words: int, steps: int) -> dict[str, object]:
    """Settings that both sides get."""
    executed = work == "executed"
    counts = [i % 9 + 37 if executed else i % 7 + 3 for i in range(PROMPTS * steps)]
    prompts = prompts_of(counts)
    return {
        "model": model_folder(folder, words, END_CHANCE if executed else None, prompts),
        "prompts": prompts,
        "steps": steps,
        "batch": PROMPTS,
        "group": GROUP,
        "tokens": 128 if executed else 64,
        "lr": 1e-6 if executed else 1e-4,  # lengths must stay as they are
    }


def turn(python: str, script: str, spec: dict[str, object]) -> dict[str, object]:
    """Seconds of each step but the first, in a fresh process, and the mean length of completions."""
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
        raise SystemExit(f"{script} under {python} failed:\n{run.stderr[-2000:]}")
    result: dict[str, object] = json.loads(run.stdout.strip().splitlines()[-1])
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--work", choices=sorted(ARMS), default="plain")
    parser.add_argument("--words", type=int, default=1024, help="of the vocabulary; the texts use the first 1,000")
    parser.add_argument("--steps", type=int, default=6, help="of a round; the first is not counted")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--peer-rows", type=int, default=32, help="rows that TRL's update takes at a time")
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: where other programs run too")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    arms = ARMS[given.work]
    names = [f"{side}, {reward}" for side, reward in arms]
    turns: dict[str, list[dict[str, object]]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        spec = specification(given.work, Path(folder), given.words, given.steps)
        spec |= {"threads": given.threads, "clock": given.clock, "peer_rows": given.peer_rows}
        print(f"seconds a step ({given.clock}), {PROMPTS} x {GROUP} completions, {given.words:,} words")
        print(f"{'round':<8}" + columns(names))
        for number in range(given.rounds):
            print(f"{number:<8}", end="", flush=True)
            for name, (side, reward) in zip(names, arms, strict=True):
                python, script = (sys.executable, "ours.py") if side == "lit_rl" else (given.peer_python, "theirs.py")
                turns[name].append(turn(python, script, spec | {"arm": reward}))
                print(columns([f"{median(turns[name][-1:]):.3f}"]), end="", flush=True)
            print()
    seconds = {name: median(turns[name]) for name in names}
    lengths = {name: statistics.mean(one["length"] for one in turns[name]) for name in names}
    print(f"{'median':<8}" + columns([f"{seconds[name]:.3f}" for name in names]))
    print(f"{'tokens':<8}" + columns([f"{lengths[name]:.1f}" for name in names]))
    for name in names:
        told = turns[name][0]["settings"]
        print(f"{name}: " + ", ".join(f"{key}={value}" for key, value in told.items()))
    ratios = {name: seconds[name] / seconds[names[0]] for name in names[1:]}
    for name, ratio in ratios.items():
        print(f"{names[0]}: {ratio:.2f} times as many samples a second as {name}")
    if given.output:
        about = {"load": os.getloadavg(), "torch": version("torch"), "transformers": version("transformers")}
        given.output.write_text(
            json.dumps({"turns": turns, "ratios": ratios} | about | {"arguments": vars(given)}, indent=1, default=str)
        )


def median(turns: Sequence[dict[str, object]]) -> float:
    """Of all steps of some turns."""
    return statistics.median(second for one in turns for second in one["seconds"])


def columns(cells: Sequence[str]) -> str:
    return "".join(f"{cell:>18}" for cell in cells)


if __name__ == "__main__":
    main()
