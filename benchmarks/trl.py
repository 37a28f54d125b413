"""GRPO steps a second beside TRL's, on the same model, prompts, lengths and reward, turn by turn in one run.

    python benchmarks/trl.py --peer-python PEER_VENV/bin/python

The peer runs in a virtual environment of its own (`pip install torch==2.13.0 trl==1.16.0`). Both train a random Qwen2
(hidden 128, 4 layers) on 16 prompts x 8 completions of up to 64 tokens a step, one update a step, no KL, Adam; the
reward is the share of even token ids: nothing is executed, so sampling and update are what is measured. Prints
seconds a step of each turn and the ratio of medians, and writes JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

STEPS, PROMPTS, GROUP, TOKENS = 6, 16, 8, 64
MODEL = {
    "hidden_size": 128,
    "intermediate_size": 384,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "max_position_embeddings": 256,
    "tie_word_embeddings": True,
    "vocab_size": 512,
}

OURS = """
import sys, time, json
CLOCK = time.process_time if json.loads(sys.argv[1])["clock"] == "cpu" else time.perf_counter
import torch, lightning.pytorch as pl
from lit_rl.data.task import TaskDataModule
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Problem, Sampling
spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
class Even(RewardTerm):
    default_name = "even"
    def score(self, completions, judgements):
        rows = zip(completions.completion_ids.tolist(), completions.lengths.tolist())
        return [TermScore(sum(i % 2 == 0 for i in ids[:n]) / n) for ids, n in rows]
class Words(TaskDataModule):
    name = "words"
    def load_problems(self, split):
        return [Problem(str(i), text, TokenTarget()) for i, text in enumerate(spec["prompts"])]
class Clock(pl.Callback):
    times = [CLOCK()]
    def on_train_start(self, *_): self.times[:] = [CLOCK()]
    def on_train_batch_end(self, *_): self.times.append(CLOCK())
policy = CausalLM(config={"model_type": "qwen2", **spec["model"]}, tokenizer=spec["tokenizer"])
module = GRPO(policy, rewards=[Even()], sampling=Sampling(num_samples=spec["group"], max_tokens=spec["tokens"]),
              optimizer=lambda p: torch.optim.AdamW(p, lr=1e-4), max_rollouts=spec["steps"])
trainer = pl.Trainer(accelerator="cpu", devices=1, logger=False, enable_checkpointing=False, max_epochs=-1,
                     enable_progress_bar=False, enable_model_summary=False, callbacks=[Clock()], limit_val_batches=0,
                     use_distributed_sampler=False)
trainer.fit(module, Words(batch_size=spec["batch"]))
print(json.dumps([b - a for a, b in zip(Clock.times[1:], Clock.times[2:])]))
"""

THEIRS = """
import sys, time, json, tempfile
CLOCK = time.process_time if json.loads(sys.argv[1])["clock"] == "cpu" else time.perf_counter
import torch
spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
from datasets import Dataset
from transformers import AutoTokenizer, Qwen2Config, Qwen2ForCausalLM, TrainerCallback
from trl import GRPOConfig, GRPOTrainer
tokenizer = AutoTokenizer.from_pretrained(spec["tokenizer"])
config = Qwen2Config(**spec["model"], eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id)
def even(completion_ids, **_): return [sum(i % 2 == 0 for i in ids) / max(1, len(ids)) for ids in completion_ids]
class Clock(TrainerCallback):
    times = []
    def on_step_begin(self, *_, **__): self.times.append(CLOCK())
    def on_step_end(self, *_, **__): self.times.append(CLOCK())
arguments = GRPOConfig(output_dir=tempfile.mkdtemp(), use_cpu=True, bf16=False,
    per_device_train_batch_size=spec["batch"] * spec["group"], num_generations=spec["group"],
    max_completion_length=spec["tokens"], max_steps=spec["steps"], learning_rate=1e-4, beta=0.0, report_to=[],
    save_strategy="no", logging_steps=1000, temperature=1.0, top_k=0, top_p=1.0, gradient_checkpointing=False,
    disable_tqdm=True)
trainer = GRPOTrainer(model=Qwen2ForCausalLM(config), reward_funcs=even, args=arguments, processing_class=tokenizer,
    train_dataset=Dataset.from_dict({"prompt": spec["prompts"]}), callbacks=[Clock()])
trainer.train()
begins = Clock.times
print(json.dumps([b - a for a, b in zip(begins[2::2], begins[3::2])]))
"""


def turn(python: str, code: str, spec: dict[str, object]) -> list[float]:
    """Seconds of each step but the first, in a fresh process."""
    environment = dict(
        os.environ, HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false", OMP_NUM_THREADS=str(spec["threads"])
    )
    run = subprocess.run([python, "-c", code, json.dumps(spec)], capture_output=True, text=True, env=environment)
    if run.returncode:
        raise SystemExit(f"{python} failed:\n{run.stderr[-2000:]}")
    return json.loads(run.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peer-python", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall", help="cpu: where other programs run too")
    parser.add_argument("--output", type=Path)
    given = parser.parse_args()
    words = ["alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta"]
    prompts = [" ".join(words[j % 8] for j in range(i % 7 + 3)) for i in range(PROMPTS * STEPS)]
    tokenizer = str(Path(__file__).parents[1] / "lit_rl" / "data" / "basics_tokenizer")
    model = MODEL | {"vocab_size": 1024}
    spec: dict[str, object] = {
        "steps": STEPS,
        "group": GROUP,
        "tokens": TOKENS,
        "batch": PROMPTS,
        "threads": given.threads,
    }
    spec |= {"model": model, "prompts": prompts, "tokenizer": tokenizer, "clock": given.clock}
    medians: dict[str, list[float]] = {"lit_rl": [], "trl": []}
    print(f"{'round':<8}{'lit_rl s/step':>16}{'trl s/step':>16}")
    for i in range(given.rounds):
        for name, python, code in (("lit_rl", sys.executable, OURS), ("trl", given.peer_python, THEIRS)):
            medians[name].append(statistics.median(turn(python, code, spec)))
        print(f"{i:<8}{medians['lit_rl'][-1]:>16.3f}{medians['trl'][-1]:>16.3f}", flush=True)
    ratio = statistics.median(medians["trl"]) / statistics.median(medians["lit_rl"])
    print(f"a step of TRL takes {ratio:.2f} times as long as one of lit_rl")
    if given.output:
        given.output.write_text(json.dumps(medians | {"ratio": ratio}, indent=1))


if __name__ == "__main__":
    main()
