"""What one GPU does with lit_rl: one command, under nine minutes.

    python benchmarks/gpu.py --output gpu.json
    python benchmarks/gpu.py --device cpu --tiny       # tries the script itself where there is no GPU

Parts, in this order; --parts picks some, and a part that would begin after --seconds is left out and said so:

* device    the memory bandwidth and the matrix products per second that this device reaches, measured, in --dtype
* greedy    whether a model in float32 writes the same ids as on the CPU
* sampling  tokens a second of the default engine beside `model.generate` (and vLLM with --vllm), at --batch rows in
            groups of 8, and the share of the roofline: bytes that a token step has to read (weights, keys and values; a
            prompt's once for its group), over the bandwidth measured above
* update    forward and backward of a GRPO update, whole rows and shared prompts, and the share of the products measured
            above that whole rows reach (model FLOPs utilisation: six per weight and token, and attention)
* step      seconds and peak memory of whole GRPO steps: sampling, rewards without programs, update with Adam
* tests     the tests marked gpu

Shapes are those of Qwen2.5-Coder 0.5B and 1.5B with random weights and 151,936 words, so nothing is downloaded. Random
models end no completion: all rows have --tokens tokens. Prints tables as it goes and writes JSON after each part.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
import transformers

from lit_rl import GRPO, Sampling
from lit_rl.data.task import Split, TaskDataModule
from lit_rl.engines import InProcess, Request
from lit_rl.execution import TokenTarget
from lit_rl.models import CausalLM
from lit_rl.quiet import quiet
from lit_rl.rewards.term import RewardTerm, TermScore
from lit_rl.types import Completions, Judgement, Problem, StopReason

GROUP = 8
VOCABULARY = 151_936
SHAPES: dict[str, dict[str, Any]] = {
    "0.5B": {"hidden_size": 896, "intermediate_size": 4864, "num_hidden_layers": 24, "num_attention_heads": 14},
    "1.5B": {"hidden_size": 1536, "intermediate_size": 8960, "num_hidden_layers": 28, "num_attention_heads": 12},
    "tiny": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4},
}
"""All with two heads of keys and values, and the embedding as the head."""

TOKENIZER = str(Path(__file__).parents[1] / "lit_rl" / "data" / "basics_tokenizer")
TESTS = Path(__file__).parents[1] / "tests" / "test_gpu.py"


class Endless(CausalLM):
    """A random model that never ends a completion, so that all rows have the same length."""

    def load(self) -> None:
        """Load, and forget which ids end a completion."""
        super().load()
        self.codec.eos_ids = frozenset()
        self.model.generation_config.eos_token_id = None


def policy_of(shape: str, given: argparse.Namespace, dtype: str | None = None, **options: Any) -> CausalLM:
    """A random model on the device; the same weights each time."""
    config = {"model_type": "qwen2", "num_key_value_heads": 2, "tie_word_embeddings": True}
    config |= {"vocab_size": 1024 if given.tiny else VOCABULARY, "max_position_embeddings": 4096, **SHAPES[shape]}
    policy = Endless(config=config, tokenizer=TOKENIZER, dtype=dtype or given.dtype, probe=False, **options)
    policy.load()
    return policy.eval()


# -- measuring ---------------------------------------------------------------------------------------------------------


def finish(device: torch.device) -> None:
    """Wait until the device has done what it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def seconds_of(call: Callable[[], Any], device: torch.device, times: int) -> float:
    """Wall seconds of a call, the median of several after one that warms up."""
    taken = []
    for _ in range(times + 1):
        finish(device)
        began = time.perf_counter()
        call()
        finish(device)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def peak_gigabytes(device: torch.device) -> float:
    """Most memory taken: on a GPU since the last :func:`forget`, else by the process since its start."""
    if device.type == "cuda":
        return torch.cuda.max_memory_allocated(device) / 1e9
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def forget(device: torch.device) -> None:
    """Free what nobody holds, and begin to measure the peak again."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)


def show(title: str, rows: Sequence[dict[str, Any]]) -> None:
    """Print a table."""
    print(f"\n{title}")
    if not rows:
        return
    names = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[shown(row.get(name, "")) for name in names] for row in rows]
    widths = [max(len(name), *(len(line[i]) for line in cells)) for i, name in enumerate(names)]
    for line in (names, *cells):
        print("  ".join(cell.rjust(width) for cell, width in zip(line, widths, strict=True)), flush=True)


def shown(value: Any) -> str:
    """A number with a few digits, anything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.4g}" if value < 1e4 else f"{value:,.0f}"


# -- parts -------------------------------------------------------------------------------------------------------------


def device_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Bandwidth and products per second, for the shares of the parts below."""
    device, dtype = given.device, getattr(torch, given.dtype)
    side, count = (512, 1 << 22) if given.tiny else (8192, 1 << 30)
    matrix = torch.randn(side, side, device=device, dtype=dtype)
    product = seconds_of(lambda: matrix @ matrix, device, 10)
    source = torch.zeros(count, device=device, dtype=torch.int8)
    target = torch.empty_like(source)
    copy = seconds_of(lambda: target.copy_(source), device, 10)
    found["flops"], found["bandwidth"] = 2 * side**3 / product, 2 * count / copy
    return [{"products (TFLOP/s)": found["flops"] / 1e12, "bandwidth (GB/s)": found["bandwidth"] / 1e9}]


def greedy_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Ids of the same model on both, float32 without TF32."""
    ids = []
    for place in (torch.device("cpu"), given.device):
        policy = policy_of(given.shapes[0], given, "float32").to(place)
        requests = requests_of(given, rows=2, group=1, tokens=16)
        ids.append(sampled(policy, requests, Sampling(temperature=0.0)))
    same = sum(a == b for row in ids[0] for a, b in zip(ids[0][row], ids[1][row], strict=True))
    return [{"shape": given.shapes[0], "ids": sum(map(len, ids[0].values())), "equal to the CPU's": same}]


def requests_of(given: argparse.Namespace, rows: int, group: int, tokens: int) -> list[Request]:
    """Rows of random prompts."""
    generator = torch.Generator().manual_seed(0)
    prompts = [
        tuple(torch.randint(8, 1000, (given.prompt,), generator=generator).tolist()) for _ in range(rows // group)
    ]
    return [Request(row, prompts[row // group], row, tokens) for row in range(rows)]


def sampled(policy: CausalLM, requests: Sequence[Request], sampling: Sampling) -> dict[int, tuple[int, ...]]:
    """Ids of each row, from a session of the default engine."""
    answers = {}
    with InProcess().session(policy, sampling) as session:
        session.submit(requests)
        while session.num_unfinished:
            answers |= {done.row: done.ids for done in session.step()}
    return answers


def generated(policy: CausalLM, requests: Sequence[Request]) -> None:
    """The same rows by transformers."""
    ids = torch.tensor([request.prompt_ids for request in requests], device=policy.device)
    policy.model.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        top_k=0,
        top_p=1.0,
        max_new_tokens=requests[0].max_tokens,
        pad_token_id=policy.codec.pad_id,
    )


def bytes_of_a_step(policy: CausalLM, given: argparse.Namespace) -> float:
    """What one token step of all rows has to read at least: weights, prompts once a group, half of the completions."""
    config, size = policy.model.config, next(policy.model.parameters()).element_size()
    head = config.hidden_size // config.num_attention_heads
    of_token = 2 * config.num_hidden_layers * config.num_key_value_heads * head
    cached = given.batch / GROUP * given.prompt + given.batch * given.tokens / 2
    return size * (sum(p.numel() for p in policy.model.parameters()) + of_token * cached)


def sampling_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Tokens a second."""
    table = []
    for shape in given.shapes:
        policy = policy_of(shape, given).to(given.device)
        requests = requests_of(given, given.batch, GROUP, given.tokens)
        least = bytes_of_a_step(policy, given) / found["bandwidth"] if "bandwidth" in found else None
        ways = {
            "engine": partial(sampled, policy, requests, Sampling()),
            "generate": partial(generated, policy, requests),
        }
        with torch.no_grad():
            seconds = {way: seconds_of(call, given.device, given.rounds) for way, call in ways.items()}
        del ways
        if given.vllm:
            seconds |= vllm_seconds(policy, requests, given)
        for way, taken in seconds.items():
            row = {"shape": shape, "way": way, "s": taken, "tokens/s": given.batch * given.tokens / taken}
            row["engine is faster by"] = taken / seconds["engine"]
            if least is not None:
                row["share of the roofline"] = least * given.tokens / taken
            table.append(row)
        del policy
        forget(given.device)
    return table


def vllm_seconds(policy: CausalLM, requests: Sequence[Request], given: argparse.Namespace) -> dict[str, float]:
    """The same rows by vLLM in this process; one line if it cannot."""
    try:
        from vllm import LLM, SamplingParams, TokensPrompt

        with tempfile.TemporaryDirectory() as folder:
            policy.save_pretrained(folder)
            model = LLM(folder, dtype=given.dtype, skip_tokenizer_init=True, gpu_memory_utilization=0.4, seed=0)
        prompts = [TokensPrompt(prompt_token_ids=list(request.prompt_ids)) for request in requests]
        params = SamplingParams(max_tokens=given.tokens, ignore_eos=True, detokenize=False)
        return {"vLLM": seconds_of(lambda: model.generate(prompts, params, use_tqdm=False), given.device, given.rounds)}
    except Exception as error:  # another program, of which nothing here depends
        print(f"vLLM is left out: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        return {}


def completions_of(policy: CausalLM, given: argparse.Namespace) -> Completions:
    """Rows to update on."""
    requests = requests_of(given, given.update_rows, GROUP, given.tokens)
    device, n = given.device, given.update_rows
    generator = torch.Generator().manual_seed(1)
    mask = torch.ones(n, given.tokens, dtype=torch.bool, device=device)
    return Completions.single_turn(
        problems=tuple(Problem(f"{row // GROUP}", "", TokenTarget()) for row in range(n)),
        prompt_ids=torch.tensor([request.prompt_ids for request in requests], device=device),
        prompt_mask=torch.ones(n, given.prompt, dtype=torch.bool, device=device),
        completion_ids=torch.randint(8, 1000, (n, given.tokens), generator=generator).to(device),
        completion_mask=mask,
        sampler_logprobs=torch.zeros(n, given.tokens, device=device),
        stop_reasons=[StopReason.LENGTH] * n,
        texts=[""] * n,
        token_bytes=[()] * n,
        group_size=GROUP,
    )


def flops_of_update(policy: CausalLM, given: argparse.Namespace) -> float:
    """Of whole rows, forward and backward: six per weight and token, and causal attention; the head on completions."""
    config, length = policy.model.config, given.prompt + given.tokens
    head = config.vocab_size * config.hidden_size
    body = sum(p.numel() for p in policy.model.parameters()) - head
    attention = 12 * config.num_hidden_layers * config.hidden_size * length**2 / 2
    return float(given.update_rows * (6 * body * length + 6 * head * given.tokens + attention))


def update_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Forward and backward, without the optimizer."""
    table: list[dict[str, Any]] = []
    for shape in given.shapes:
        for share in (False, True):
            forget(given.device)
            policy = policy_of(shape, given, share_prompts=share, gradient_checkpointing=given.checkpointing)
            policy.to(given.device)
            rows = completions_of(policy, given)

            def update(policy: CausalLM = policy, rows: Completions = rows) -> None:
                policy.zero_grad()
                for part in range(0, given.update_rows, given.microbatch):
                    policy.logprobs(rows.select(range(part, part + given.microbatch))).sum().backward()

            seconds = seconds_of(update, given.device, given.rounds)
            tokens = given.update_rows * (given.prompt + given.tokens)
            row = {"shape": shape, "prompts": "shared" if policy.shares_prompts else "whole rows", "s": seconds}
            row |= {"tokens/s": tokens / seconds, "peak (GB)": peak_gigabytes(given.device)}
            if not share and "flops" in found:
                row["MFU"] = flops_of_update(policy, given) / seconds / found["flops"]
            table.append(row)
            del policy, rows, update
    return table


class EvenIds(RewardTerm):
    """Share of even ids: a reward that costs nothing."""

    default_name = "even"

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        """One value a row."""
        return [TermScore(float(share)) for share in (completions.completion_ids % 2 == 0).float().mean(-1).tolist()]


class Prompts(TaskDataModule):
    """Prompts of about as many tokens as asked for."""

    name = "prompts"

    def __init__(self, number: int, tokens: int) -> None:
        super().__init__(batch_size=number)
        self.tokens = tokens

    def load_problems(self, split: Split) -> list[Problem]:
        """The same for every split."""
        return [Problem(f"{i}", f"{i}" + "+" * (self.tokens - 1), TokenTarget()) for i in range(self.batch_size)]


class Clock(pl.Callback):
    """Seconds of each step."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def on_train_batch_start(self, *_: Any) -> None:
        """A step begins."""
        self.began = time.perf_counter()

    def on_train_batch_end(self, trainer: pl.Trainer, module: pl.LightningModule, *_: Any) -> None:
        """A step ended."""
        finish(module.device)
        self.seconds.append(time.perf_counter() - self.began)


def step_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """Whole steps through Lightning's trainer; float32 masters and moments beside weights of a smaller dtype."""
    table = []
    for shape in given.shapes:
        forget(given.device)
        clock = Clock()
        module = GRPO(
            policy_of(shape, given, gradient_checkpointing=given.checkpointing),
            sampling=Sampling(num_samples=GROUP, max_tokens=given.tokens),
            rewards=[EvenIds()],
            optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-6),
            microbatch_size=given.microbatch,
            max_rollouts=3,
        )
        with tempfile.TemporaryDirectory() as folder:
            trainer = pl.Trainer(
                accelerator="gpu" if given.device.type == "cuda" else "cpu",
                devices=1,
                logger=False,
                callbacks=[clock],
                enable_progress_bar=False,
                enable_model_summary=False,
                enable_checkpointing=False,
                default_root_dir=folder,
                use_distributed_sampler=False,
                num_sanity_val_steps=0,
                limit_val_batches=0,
                max_epochs=-1,
            )
            trainer.fit(module, Prompts(given.update_rows // GROUP, given.prompt))
        metrics = trainer.callback_metrics
        row = {"shape": shape, "rows": given.update_rows, "tokens": given.tokens, "step (s)": clock.seconds[-1]}
        row |= {f"{part} (s)": float(metrics[f"time/{part}_seconds"]) for part in ("sampling", "updating")}
        table.append(row | {"peak (GB)": peak_gigabytes(given.device)})
        del module, trainer
    return table


def tests_part(given: argparse.Namespace, found: dict[str, Any]) -> list[dict[str, Any]]:
    """The last line of pytest."""
    environment = dict(os.environ, LIT_RL_TEST_DEVICE=given.device.type)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS.parents[1], check=False)
    if done.returncode:
        print(done.stdout[-4000:])
    return [{"tests": (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1].strip("= ")}]


PARTS: dict[str, Callable[[argparse.Namespace, dict[str, Any]], list[dict[str, Any]]]] = {
    "device": device_part,
    "greedy": greedy_part,
    "sampling": sampling_part,
    "update": update_part,
    "step": step_part,
    "tests": tests_part,
}


def arguments() -> argparse.Namespace:
    """What the command line says; tiny sizes where asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", type=torch.device, default=torch.device("cuda"))
    parser.add_argument("--dtype", default="bfloat16", choices=["bfloat16", "float32"])
    parser.add_argument("--shapes", nargs="+", default=["0.5B", "1.5B"], choices=list(SHAPES))
    parser.add_argument("--batch", type=int, default=256, help="rows that are sampled together")
    parser.add_argument("--prompt", type=int, default=256, help="tokens of a prompt")
    parser.add_argument("--tokens", type=int, default=256, help="tokens of a completion")
    parser.add_argument("--update-rows", type=int, default=64, help="rows of an update and of a step")
    parser.add_argument("--microbatch", type=int, default=16, help="rows that go forward and backward together")
    parser.add_argument("--checkpointing", action="store_true", help="compute activations again in the backward pass")
    parser.add_argument("--rounds", type=int, default=2, help="of which the median is taken, after one to warm up")
    parser.add_argument("--vllm", action="store_true", help="sample with vLLM too, where it is installed")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--seconds", type=float, default=480.0, help="no part begins later")
    parser.add_argument("--tiny", action="store_true", help="a shape and sizes for trying the script")
    parser.add_argument("--output", type=Path, help="where to write the figures as JSON")
    given = parser.parse_args()
    if given.device.type == "cuda" and not torch.cuda.is_available():
        parser.error("no GPU is here: --device cpu --tiny tries the script without one")
    if given.tiny:
        small = {"shapes": ["tiny"], "batch": 16, "prompt": 12, "tokens": 8, "update_rows": 16, "microbatch": 8}
        vars(given).update(small | {"rounds": 1})
        torch.set_num_threads(1)
    return given


def main() -> None:
    """Measure, print, write."""
    given, began = arguments(), time.perf_counter()
    quiet()
    name = torch.cuda.get_device_name(given.device) if given.device.type == "cuda" else platform.processor() or "CPU"
    versions = {"torch": torch.__version__, "transformers": transformers.__version__, "CUDA": torch.version.cuda or ""}
    found: dict[str, Any] = {"device": name, "date": str(date.today()), "versions": versions}
    found["arguments"] = {key: str(value) for key, value in vars(given).items()}
    print(f"{name}, {date.today()}, " + ", ".join(f"{key} {value}" for key, value in versions.items() if value))
    for part in given.parts:
        spent = time.perf_counter() - began
        if spent > given.seconds:
            show(f"{part}: left out, {spent:.0f} s are over", [])
            continue
        forget(given.device)
        try:
            found[part] = PARTS[part](given, found)
        except (RuntimeError, ValueError) as error:  # such as too little memory: the other parts still count
            found[part] = [{"failed": f"{type(error).__name__}: {str(error).splitlines()[0]}"}]
        show(f"{part}, after {time.perf_counter() - began:.0f} s", found[part])
        if given.output:
            given.output.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
