"""Small runs of every algorithm, written as users write them: final weights and logged metrics, to be compared.

    python -P -m references.runs answer.json --runs grpo sft      # with the library that comes first on PYTHONPATH

The models are beside the answer (``--models`` makes them). Each run is a process of its own, so that a failure is that
of one run. Where a commit has another name or place, import the one or the other.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import re
import resource
import socket
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.loggers.logger import Logger
from torch.optim import AdamW
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig
from transformers.models.llama import modeling_llama

import lit_rl
from lit_rl import CriticConfig, RolloutConfig, UpdateConfig
from lit_rl.math.advantages import GAE, BatchMean
from lit_rl.math.divergences import JSD
from lit_rl.math.losses import TruncatedWeights
from lit_rl.modules import Distillation, DistillationConfig
from lit_rl.rewards import RewardTerm, TermScore

FORK = multiprocessing.get_context("fork")
NOT_COMPARED = re.compile(r"second|memory|^epoch$")


class EvenTokens(RewardTerm):
    """Share of the first eight ids that are even: it differs between rows, and its sums are exact in every order."""

    default_name = "even"

    def score(self, completions: Any, judgements: Sequence[Any]) -> list[TermScore]:
        rows = zip(completions.completion_ids.tolist(), completions.lengths.tolist(), strict=True)
        return [TermScore(sum(i % 2 == 0 for i in ids[: min(n, 8)]) / 8) for ids, n in rows]


class Rows(Logger):
    """Keeps what is logged, and when: CPU seconds of this process."""

    name, version = "rows", 0

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, float]] = []
        self.seconds: list[float] = []

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        pass

    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        self.rows.append({"step": step or 0} | {k: v for k, v in metrics.items() if not NOT_COMPARED.search(k)})
        self.seconds.append(time.process_time())


@dataclass(frozen=True)
class Run:
    """Sizes, and what all runs have in common; ``folder`` is this run's, ``length`` counts rollouts or updates."""

    models: Path
    folder: Path
    length: int = 6
    wide: bool = False
    trainer: Mapping[str, Any] = field(default_factory=dict)

    def policy(self, name: str = "policy", **options: Any) -> Any:
        return lit_rl.CausalLM(str(self.models / name), dtype="float64" if self.wide else "float32", **options)

    def task(self, batch_size: int = 4, **options: Any) -> Any:
        sizes = {"num_train_problems": 26, "num_validation_problems": 13, "validation_batch_size": 13}
        return lit_rl.Basics(batch_size=batch_size, **sizes, **options)

    def sampled(self, **updates: Any) -> dict[str, Any]:
        """Arguments of an algorithm that samples; updates are two epochs of two minibatches unless said otherwise."""
        steps = {"epochs": 2, "minibatches": 2}
        return {
            "sampling": lit_rl.Sampling(num_samples=4, max_tokens=12 if self.wide else 24),
            "rewards": [lit_rl.TestsReward(), EvenTokens(weight=0.5)],
            "sandbox": partial(lit_rl.Sandbox, num_workers=1),
            "update": UpdateConfig(**{"optimizer": ADAM, "microbatch_size": 3} | steps | updates),
            "max_rollouts": self.length,
            "seed": 3,
        }

    def given(self) -> dict[str, Any]:
        """Arguments of an algorithm that learns from given texts."""
        settings = {"update": lit_rl.Optimization(optimizer=ADAM, microbatch_size=5), "max_updates": self.length}
        return settings | {"sandbox": partial(lit_rl.Sandbox, num_workers=1), "seed": 3}

    def fit(self, module: Any, task: Any) -> tuple[Any, Rows]:
        """Train, with a validation every three steps, in float64 after each."""
        logger = Rows()
        settings = {"accelerator": "cpu", "devices": 1, "default_root_dir": str(self.folder), "logger": logger}
        settings |= {"val_check_interval": 1 if self.wide else 3, "check_val_every_n_epoch": None}
        settings |= {"precision": "64-true"} if self.wide else {}
        settings |= {"enable_progress_bar": False, **self.trainer}
        lit_rl.Trainer(**settings).fit(module, task)
        return module, logger


ADAM = partial(AdamW, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01)
Fitted = tuple[Any, Rows]


def grpo(run: Run, **options: Any) -> Fitted:
    objective = lit_rl.Objective(kl_coef=0.05, kl_kind="k3_weighted", entropy_coef=0.001)
    return run.fit(lit_rl.GRPO(run.policy(), **{"objective": objective} | run.sampled() | options), run.task())


def ppo_separate_critic(run: Run) -> Fitted:
    critic_update = CriticConfig(learning_rate=2e-3, value_clip=0.2, warmup_rollouts=1, coef=0.5)
    settings = {"critic": lit_rl.SeparateCritic(), "critic_update": critic_update, "credit": "spans"}
    settings |= {"estimator": GAE(gae_lambda=0.95), "objective": lit_rl.Objective(kl_coef=0.02, kl_kind="k1")}
    return run.fit(lit_rl.PPO(run.policy(), **settings, **run.sampled()), run.task())


def ppo_shared_critic(run: Run) -> Fitted:
    settings: dict[str, Any] = {"critic": lit_rl.SharedCritic(), "estimator": GAE(gae_lambda=1.0)}
    settings |= {"critic_update": CriticConfig(learning_rate=2e-3, bootstrap_truncated=True)}
    settings |= {"credit": "terminal"} | run.sampled(minibatches=1, aggregate="sequence_mean")
    return run.fit(lit_rl.PPO(run.policy(lora=lit_rl.LoRA(rank=4)), **settings), run.task())


def reinforce_adapters(run: Run) -> Fitted:
    settings = {"baseline": BatchMean(normalize="none"), "gamma": 0.98, "credit": "tokens"}
    settings |= run.sampled(epochs=1, minibatches=1, aggregate="sequence_sum", mask_truncated=True)
    return run.fit(lit_rl.REINFORCE(run.policy(lora=lit_rl.LoRA(rank=4)), **settings), run.task())


def repair(run: Run) -> Fitted:
    collect = RolloutConfig(environment=lit_rl.Repair(max_turns=2, max_message_tokens=32))
    return run.fit(lit_rl.GRPO(run.policy(), collect=collect, **run.sampled()), run.task(num_public_cases=2))


def distillation(run: Run) -> Fitted:
    teacher, distil = run.policy("teacher"), DistillationConfig(JSD(), reward_weight=0.5)
    module = Distillation(run.policy(), teacher=teacher, distil=distil, **run.sampled())
    return run.fit(module, run.task())


def sft(run: Run, **options: Any) -> Fitted:
    return run.fit(lit_rl.SFT(run.policy(**options), **run.given()), run.task(batch_size=12))


def dpo(run: Run) -> Fitted:
    pairs = lit_rl.PreferencePairs(str(run.models / "pairs.jsonl"), batch_size=12, validation_tasks=[run.task()])
    return run.fit(lit_rl.DPO(run.policy(), beta=0.1, **run.given()), pairs)


def staleness(run: Run) -> Fitted:
    objective = lit_rl.Objective(correction=TruncatedWeights(cap=2.0))
    return grpo(run, collect=RolloutConfig(staleness=1), objective=objective)


def two_ranks(run: Run) -> Fitted:
    with contextlib.closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]

    def rank(number: int) -> Fitted:
        places = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": 2, "NODE_RANK": 0, "GROUP_RANK": 0}
        places |= {"RANK": number, "LOCAL_RANK": number, "LOCAL_WORLD_SIZE": 2}
        os.environ.update({name: str(value) for name, value in places.items()})
        ranked = replace(run, trainer={"strategy": "ddp", "devices": 2})
        return ranked.fit(lit_rl.GRPO(run.policy(), **run.sampled()), run.task(batch_size=2))

    other = FORK.Process(target=rank, args=(1,))
    other.start()
    fitted = rank(0)
    other.join()
    return fitted


def resume(run: Run, algorithm: Callable[[Run], Fitted] = grpo) -> Fitted:
    """An algorithm in two starts: ``grpo`` ends with the same weights in one."""

    def start(length: int) -> Fitted:
        torch.manual_seed(length)  # a new process has other random numbers until it restores those of the checkpoint
        saved = lit_rl.Checkpointing(str(run.folder / "run"))
        return algorithm(replace(run, length=length, trainer={"callbacks": [saved]}))

    (_, before), (module, after) = start(run.length // 2), start(run.length)
    after.rows, after.seconds = before.rows + after.rows, before.seconds + after.seconds
    return module, after


def resume_dropout(run: Run) -> Fitted:
    """Dropout draws from the random state that a checkpoint holds."""
    return resume(run, partial(sft, lora=lit_rl.LoRA(rank=4, dropout=0.2)))


NAMES = "grpo ppo_separate_critic ppo_shared_critic reinforce_adapters repair distillation sft dpo"
NAMES += " staleness two_ranks resume resume_dropout"
RUNS: dict[str, Callable[[Run], Fitted]] = {name: globals()[name] for name in NAMES.split()}


# -- one run as a process ----------------------------------------------------------------------------------------


def measured(name: str, run: Run) -> dict[str, Any]:
    """Train; CRC-32 of all weights (whatever their names), metrics, and CPU seconds of a step, programs included."""
    pl.seed_everything(0, verbose=False)
    if run.wide:
        widen()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    module, logged = RUNS[name](run)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    each = {zlib.crc32(p.detach().contiguous().numpy().tobytes()) for p in module.parameters()}
    programs = (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / run.length
    seconds = programs + (logged.seconds[-1] - logged.seconds[0]) / (run.length - 1)
    weights = f"{zlib.crc32(repr(sorted(each)).encode()):08x}"
    return {"weights": weights, "metrics": logged.rows, "step_seconds": seconds}


def in_process(name: str, models: Path, **sizes: Any) -> dict[str, Any]:
    """Run :func:`measured` in a process of its own; returns its answer or an ``error``."""
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(1, FORK) as pool:
        try:
            return pool.submit(measured, name, Run(models, Path(folder), **sizes)).result()
        except Exception:
            return {"error": traceback.format_exc()}


# -- models ------------------------------------------------------------------------------------------------------


def write_models(folder: Path, wide: bool = False) -> None:
    """Write ``policy``, ``teacher`` and ``pairs.jsonl``; Transformers alone trains them, so that no change moves them.

    Wide ones are random in float64, the same on every processor; the others pass some of the tests.
    """
    tokenizer = AutoTokenizer.from_pretrained(Path(lit_rl.__file__).parent / "data" / "basics" / "tokenizer")
    hidden, eos = 32 if wide else 64, tokenizer.eos_token_id
    shape = {"hidden_size": hidden, "intermediate_size": 2 * hidden, "num_hidden_layers": 2, "num_attention_heads": 4}
    ends = {"eos_token_id": [eos, *range(5, len(tokenizer), 10)] if wide else eos, "bos_token_id": None}
    ends |= {"pad_token_id": tokenizer.pad_token_id}
    torch.manual_seed(0)
    config = LlamaConfig(**shape, **ends, vocab_size=len(tokenizer), max_position_embeddings=256)
    model = AutoModelForCausalLM.from_config(config)
    problems = lit_rl.Basics(num_train_problems=26).problems("train")
    prompts, bugs = [one.prompt for one in problems], [one.fields["bug"] for one in problems]
    right = [one.reference[len(one.prompt) :] for one in problems]
    for name in ("policy", "teacher"):
        if wide:
            for weight in model.double().parameters():  # normal numbers differ between processors, uniform ones do not
                torch.nn.init.uniform_(weight, -0.2, 0.2) if weight.dim() > 1 else torch.nn.init.ones_(weight)
        else:
            imitate(model, tokenizer, zip(prompts * 2, right + bugs, strict=True))
        model.save_pretrained(folder / name)
        tokenizer.save_pretrained(folder / name)
    rewards = {"chosen_reward": 1.0, "rejected_reward": 0.0}
    rows = zip(problems, right, bugs, strict=True)
    pairs = [{"task_id": a.task_id, "prompt": a.prompt, "chosen": b, "rejected": c} | rewards for a, b, c in rows]
    (folder / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))


def imitate(model: Any, tokenizer: Any, texts: Iterable[tuple[str, str]], updates: int = 60) -> None:
    """Lower the cross-entropy of prompts and answers, all at once."""
    optimizer = AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95))
    rows = [tokenizer(a).input_ids + tokenizer(b).input_ids + [tokenizer.eos_token_id] for a, b in texts]
    batch = tokenizer.pad({"input_ids": rows}, return_tensors="pt")
    labels = batch.input_ids.masked_fill(batch.attention_mask == 0, -100)
    for _ in range(updates):
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def widen() -> None:
    """Compute norms and positions of Llama in float64: Transformers rounds them to float32."""

    def norm(self: Any, states: torch.Tensor) -> torch.Tensor:
        return self.weight * states * torch.rsqrt(states.square().mean(-1, keepdim=True) + self.variance_epsilon)

    def positions(self: Any, states: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        half = len(self.inv_freq)
        frequencies = 10_000.0 ** -(torch.arange(half, dtype=states.dtype) / half)
        angles = (position_ids[..., None].to(states.dtype) * frequencies).repeat(1, 1, 2)
        return angles.cos(), angles.sin()

    modeling_llama.LlamaRMSNorm.forward = norm
    modeling_llama.LlamaRotaryEmbedding.forward = positions


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("answer", type=Path)
    parser.add_argument("--models", action="store_true", help="make the models")
    parser.add_argument("--wide", action="store_true", help="in float64")
    parser.add_argument("--runs", nargs="*", choices=RUNS, help="without names all")
    parser.add_argument("--length", type=int, default=6)
    given = parser.parse_args()
    models, sizes = given.answer.parent, {"length": given.length, "wide": given.wide}
    if given.models:
        write_models(models, given.wide)
    names = RUNS if given.runs == [] else given.runs or []
    given.answer.write_text(json.dumps({name: in_process(name, models, **sizes) for name in names}))


if __name__ == "__main__":
    main()
