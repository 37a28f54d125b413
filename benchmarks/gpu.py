"""Measure lit_rl on one GPU: one command, under nine minutes.

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
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import torch
import transformers
from on_gpu.measuring import Row, forget, seconds_of, show
from on_gpu.policies import SHAPES
from on_gpu.sampling import greedy_part, sampling_part
from on_gpu.step import step_part
from on_gpu.update import update_part

from lit_rl.trainer import quiet

TESTS = Path(__file__).parents[1] / "tests" / "test_gpu.py"


def device_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
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


def tests_part(given: argparse.Namespace, found: dict[str, Any]) -> list[Row]:
    """The last line of pytest."""
    environment = dict(os.environ, LIT_RL_TEST_DEVICE=given.device.type)
    command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", str(TESTS)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=TESTS.parents[1], check=False)
    if done.returncode:
        print(done.stdout[-4000:])
    return [{"tests": (done.stdout.strip().splitlines() or [done.stderr.strip()[-200:]])[-1].strip("= ")}]


PARTS: dict[str, Callable[[argparse.Namespace, dict[str, Any]], list[Row]]] = {
    "device": device_part,
    "greedy": greedy_part,
    "sampling": sampling_part,
    "update": update_part,
    "step": step_part,
    "tests": tests_part,
}


def arguments() -> argparse.Namespace:
    """Arguments of the command line; tiny sizes where asked for."""
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
