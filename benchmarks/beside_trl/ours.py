"""Steps of GRPO in lit_rl; see benchmarks/trl.py, which starts it with a specification in JSON."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import lightning.pytorch as pl
import torch
from both import CHECK, Watch, passes, read

sys.path.insert(0, str(Path(__file__).parents[1]))
from bare_trainer import EvenIds, Given, bare_trainer

from lit_rl.data import Basics
from lit_rl.execution import Sandbox, TokenTarget
from lit_rl.models import CausalLM
from lit_rl.modules import GRPO, UpdateConfig
from lit_rl.rewards import TestsReward
from lit_rl.types import Problem, Sampling

spec = json.loads(sys.argv[1])
torch.set_num_threads(spec["threads"])
executes = spec["arm"] != "even"
held_out = read(spec["problems"])[1]
judge = Sandbox() if held_out else None
lengths: list[float] = []


def measure() -> float:
    """Greedy pass@1 on the held-out problems."""
    greedy = Sampling(temperature=0.0, max_tokens=spec["tokens"])
    texts = module.policy.complete([task.prompt for task in held_out], greedy)
    return sum(passes(judge, held_out, texts)) / len(held_out)


class Watched(pl.Callback):
    """Notes the end of each step."""

    def on_train_start(self, *_: object) -> None:
        watch.begin()

    def on_train_batch_end(self, trainer: pl.Trainer, *_: object) -> None:
        lengths.append(float(trainer.callback_metrics["completion/length"]))
        if watch.end():
            trainer.should_stop = True


watch = Watch(spec, measure if held_out else None)
module = GRPO(
    CausalLM(spec["model"], dtype=spec["dtype"]),
    rewards=[TestsReward() if executes else EvenIds()],
    sandbox=Sandbox() if executes else None,
    sampling=Sampling(num_samples=spec["group"], max_tokens=spec["tokens"]),
    max_rollouts=spec["steps"],
    seed=spec["seed"],
    update=UpdateConfig(
        optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=spec["lr"], betas=(0.9, 0.95), weight_decay=0.0),
        lr_scheduler=lambda optimizer: torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, spec["steps"]),
    ),
)
check = CHECK if executes else TokenTarget()
words = [Problem(str(i), text, check) for i, text in enumerate(spec["prompts"] or [])]
data = Basics(batch_size=spec["batch"], seed=spec["seed"]) if held_out else Given(words, batch_size=spec["batch"])
bare_trainer(Watched()).fit(module, data)
if judge is not None:
    judge.close()


@torch.inference_mode()
def sampling_and_products() -> str:
    """CPU seconds of a step's sampling, and of its layers' matrix products alone, by torch's choice and by ours."""
    rows, tokens = spec["batch"] * spec["group"], spec["tokens"]
    prompts = spec["prompts"][: spec["batch"]]
    read = sum(len(module.policy.tokenizer(text).input_ids) for text in prompts)
    began = time.process_time()
    module.policy.eval().complete([text for text in prompts for _ in range(spec["group"])], Sampling(max_tokens=tokens))
    seconds = time.process_time() - began
    layers = [layer for layer in module.policy.model.modules() if isinstance(layer, torch.nn.Linear)]

    def products(product: Callable[[torch.nn.Linear, torch.Tensor], torch.Tensor]) -> str:
        began = time.process_time()
        # Prompts are read once, of a row each token but its last; the output matrix follows the last token read.
        for count, times, used in ((rows, tokens - 1, layers), (read, 1, layers[:-1]), (spec["batch"], 1, layers[-1:])):
            inputs = {layer.in_features: torch.randn(count, layer.in_features).to(layer.weight) for layer in used}
            for _ in range(times):
                for layer in used:
                    product(layer, inputs[layer.in_features])
        taken = time.process_time() - began
        return f"{taken:.1f} s ({taken / seconds:.0%})"

    by_torch = products(lambda layer, inputs: torch.nn.functional.linear(inputs, layer.weight))
    return f"{seconds:.1f} s, its matrix products alone {by_torch} by torch, {products(torch.nn.Module.__call__)} here"


settings = {name: version(name.replace("_", "-")) for name in ("lit_rl", "torch", "transformers")}
settings |= {name: spec[name] for name in ("lr", "tokens", "seed")} | {"others": "as by default"}
settings |= {"sampling": sampling_and_products()} if spec["prompts"] and not executes else {}
settings |= {"attn_implementation": module.policy.model.config._attn_implementation}
watch.report(lengths, settings)
