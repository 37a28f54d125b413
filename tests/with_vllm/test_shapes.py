"""Weights of the models of ``configs/scaling`` fit vLLM's own classes: names, shapes and dtypes, without memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from lit_rl.engines.vllm_package import adapter_arguments, describe_model
from lit_rl.engines.whole_weights import adapter_weights, largest_rank, travels_alone, whole_weights
from lit_rl.models import CausalLM, LoRA

CONFIGS = Path(__file__).parents[2] / "configs" / "scaling"
PARAMETERS = {
    "qwen2.5_coder_7b": 7_615_616_512,
    "qwen2.5_coder_32b": 32_763_876_352,
    "qwen3_8b": 8_190_735_360,
}
"""Published numbers of these models."""


@contextmanager
def vllm_model(policy: CausalLM, folder: Path, dtype: str) -> Iterator[tuple[Any, Any]]:
    """VLLM's model of a policy without memory, and its configuration."""
    from vllm.config import set_current_vllm_config
    from vllm.distributed import cleanup_dist_env_and_memory, init_distributed_environment, initialize_model_parallel
    from vllm.engine.arg_utils import EngineArgs
    from vllm.model_executor.model_loader.utils import initialize_model
    from vllm.utils.torch_utils import set_default_torch_dtype

    describe_model(policy, folder)
    lora = adapter_arguments(largest_rank(policy)) if travels_alone(policy, merge=False) else {}
    options = {"skip_tokenizer_init": True, "max_model_len": 4096, "enforce_eager": True}
    config = EngineArgs(model=str(folder), dtype=dtype, **options, **lora).create_engine_config()
    try:
        with set_current_vllm_config(config):
            init_distributed_environment(1, 0, f"file://{folder}/store", 0, "gloo")
            initialize_model_parallel(1, 1)
            with torch.device("meta"), set_default_torch_dtype(config.model_config.dtype):
                model = initialize_model(config)
            yield model, config
    finally:
        cleanup_dist_env_and_memory()


@pytest.mark.parametrize("name", sorted(file.stem for file in CONFIGS.glob("*.yaml")))
def test_all_weights_and_adapters_of_a_configuration_fit_vllms_model(name: str, tmp_path: Path) -> None:
    told = yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())
    arguments = told["model"]["init_args"]["policy"]["init_args"]
    lora = LoRA(**arguments.pop("lora")) if "lora" in arguments else None
    policy = CausalLM(**arguments, lora=lora)
    with torch.device("meta"):
        policy.load()
    # Gathered from shards, weights have the dtype that the strategy computes in.
    strategy = told["trainer"].get("strategy")
    arrive_as = strategy["init_args"]["param_dtype"] if isinstance(strategy, dict) else policy.dtype
    runs_in = told["model"]["init_args"]["collect"]["engine"]["init_args"].get("dtype", policy.dtype)
    assert runs_in == arrive_as
    with vllm_model(policy, tmp_path, runs_in) as (model, config):
        weights = dict(whole_weights(policy, merge=False))
        assert sum(one.numel() for one in weights.values()) == PARAMETERS[name.partition("b_")[0] + "b"]
        assert {one.dtype for one in weights.values()} == {getattr(torch, policy.dtype)}
        size = sum(one.numel() * getattr(torch, arrive_as).itemsize for one in weights.values())
        print(f"{name}: {len(weights)} weights, {size:,} bytes in {arrive_as}")
        assert model.load_weights(iter(weights.items())) == {one for one, _ in model.named_parameters()}
        assert sum(one.numel() for one in model.parameters()) == sum(one.numel() for one in weights.values())
        assert {one.dtype for one in model.parameters()} == {getattr(torch, runs_in)}
        if lora is not None:
            assert_adapter_fits(policy, model, config)


def assert_adapter_fits(policy: CausalLM, model: Any, config: Any) -> None:
    from vllm.lora.lora_model import LoRAModel
    from vllm.lora.model_manager import create_lora_manager
    from vllm.lora.peft_helper import PEFTHelper

    sizes = {"max_num_seqs": 8, "max_num_batched_tokens": 8, "vocab_size": model.config.vocab_size}
    manager = create_lora_manager(
        model, lora_config=config.lora_config, vllm_config=config, device=torch.device("meta"), **sizes
    )
    matrices = dict(adapter_weights(policy))
    rank = largest_rank(policy)
    adapter = LoRAModel.from_lora_tensors(1, matrices, PEFTHelper(rank, rank, "all-linear"), device="meta")
    manager.add_adapter(adapter)
    manager.activate_adapter(1)
    assert manager.get_adapter(1).loras.keys() <= manager.modules.keys()
    print(f"the adapter: {sum(one.nbytes for one in matrices.values()):,} bytes")
    layers = policy.model.config.num_hidden_layers
    assert len(matrices) == layers * 7 * 2 and len(adapter.loras) == layers * 4  # q, k, v and gate, up are fused
