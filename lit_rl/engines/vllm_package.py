"""The package vLLM, started and called inside the trainer's process without side effects on that process."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from lit_rl.models.causal_lm import CausalLM
from lit_rl.models.family import patched_attribute, unwrap_peft
from lit_rl.training.ranks import rank, world_size
from lit_rl.types import Request, Sampling

_DEFAULTS = {
    # Threads bound by vLLM would take the cores of the trainer and of the sandbox's programs.
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "VLLM_LOGGING_LEVEL": "ERROR",
}


def write_model_config(policy: CausalLM, folder: Path) -> None:
    """Write the configuration from which vLLM builds a policy's architecture, without weights and tokenizer."""
    model = unwrap_peft(policy.model)
    model.config.save_pretrained(folder)
    file = folder / "config.json"
    described = json.loads(file.read_text()) | {"architectures": [type(model).__name__]}
    described.pop("quantization_config", None)  # what arrives is not quantized
    file.write_text(json.dumps(described))


def start_llm(folder: Path, arguments: Mapping[str, Any]) -> Any:
    """Start an ``LLM`` in this process, with dummy weights.

    Every rank of a run has an ``LLM`` of its own; all ranks start theirs together.
    """
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"  # add_request and step are then calls, not messages
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    several, number = world_size() > 1, rank()
    variables = {"RANK": number, "LOCAL_RANK": os.environ.get("LOCAL_RANK", number), "WORLD_SIZE": world_size()}
    before = {name: os.environ.get(name) for name in (variables if several else ())}
    os.environ.update({name: str(variables[name]) for name in before})  # vLLM reads them there
    set_threads, threads = torch.set_num_threads, torch.get_num_threads()
    try:
        from vllm import LLM

        return LLM(
            str(folder),
            load_format="dummy",
            skip_tokenizer_init=True,
            # The distribution that was sampled from: after temperature, top-k and top-p.
            logprobs_mode="processed_logprobs",
            generation_config="vllm",
            **({"distributed_executor_backend": "external_launcher"} if several else {}),
            **arguments,
        )
    finally:  # vLLM also sets the number of threads, and replaces the function that sets it
        for name, earlier in before.items():
            if earlier is None:
                del os.environ[name]
            else:
                os.environ[name] = earlier
        torch.set_num_threads = set_threads
        torch.set_num_threads(threads)


def reload_weights(worker: Any, weights: Iterator[tuple[str, torch.Tensor]]) -> None:
    """Load weights in place on a worker.

    On a CPU, vLLM (0.32) computes logits from a packed copy of the output matrix. Its reload renews that copy only if
    the output layer has weights of its own; the copy of a matrix tied to the embedding would silently stay unchanged.
    """
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    worker.reload_weights(weights_iterator=weights, is_checkpoint_format=True)
    for layer in worker.model_runner.get_model().modules():
        if isinstance(layer, ParallelLMHead) and hasattr(layer, "cpu_linear"):
            layer.quant_method.process_weights_after_loading(layer)


def sampling_params(request: Request, sampling: Sampling, eos_ids: Collection[int]) -> dict[str, Any]:
    """Return arguments of vLLM's ``SamplingParams``: the request's own seed, a log-probability per sampled token."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "seed": request.stream if sampling.temperature > 0 else None,
        "max_tokens": request.max_tokens,
        "stop_token_ids": sorted(eos_ids),
        "ignore_eos": True,  # the ids above are all that end a row
        "logprobs": 0,
    }


_LORA_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)


def vllm_adapter_arguments(rank: int) -> dict[str, Any]:
    """Return arguments for a ``vllm.LLM`` that runs an adapter; vLLM allows only some values of ``max_lora_rank``."""
    return {
        "enable_lora": True,
        "max_loras": 1,
        "max_lora_rank": next((one for one in _LORA_RANKS if one >= rank), rank),
    }


def replace_adapter(llm: Any, folder: str) -> Any:
    """Replace the adapter of an ``LLM``; return the object by which requests name the adapter."""
    from vllm.lora.request import LoRARequest

    llm.llm_engine.add_lora(LoRARequest("policy", 1, folder, load_inplace=True))
    # Without load_inplace: a request that has it set makes vLLM read the adapter again in each step.
    return LoRARequest("policy", 1, folder)


@contextmanager
def isolated_random_state(device: torch.device) -> Iterator[None]:
    """Inside, drawing random numbers and seeding leave the trainer's generators unchanged.

    vLLM seeds these generators when it starts, and draws numbers even where each row has a generator of its own.
    """
    state = random.getstate()
    with torch.random.fork_rng([device] if device.type == "cuda" else [], device_type=device.type):
        try:
            yield
        finally:
            random.setstate(state)


@contextmanager
def keeping_process_group(trainers: bool) -> Iterator[None]:
    """Inside, vLLM may end its own process groups, but not the group of all ranks if that is the trainer's."""
    destroy = dist.destroy_process_group

    def spare(group: Any = None) -> None:
        if group is not None:
            destroy(group)

    with patched_attribute(dist, "destroy_process_group", spare if trainers else destroy):
        yield
