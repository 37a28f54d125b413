"""Shared fixtures. One thread: forked ranks of a multi-threaded parent hang, and two cores are few."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support.small_runs import build_module
from support.tiny_models import TINY_QWEN2

from lit_rl.models import CausalLM
from lit_rl.modules import RolloutModule

torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real data sets, or a skip that says what is missing."""
    folder = os.environ.get("LIT_RL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not here: set LIT_RL_DATA to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def wide_norms() -> None:
    """Qwen2's norms compute in float64 where the model does; transformers rounds to float32 inside them.

    Sums in another order then agree to 1e-10 instead of 1e-8. Nothing changes for narrower models.
    """
    from transformers.models.qwen2.modeling_qwen2 import Qwen2RMSNorm

    def forward(norm: Any, states: torch.Tensor) -> torch.Tensor:
        wide = states.to(torch.promote_types(states.dtype, torch.float32))
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + norm.variance_epsilon)
        normed: torch.Tensor = norm.weight * wide.to(states.dtype)
        return normed

    Qwen2RMSNorm.forward = forward


@pytest.fixture(scope="session")
def byte_tokenizer(tmp_path_factory: pytest.TempPathFactory, wide_norms: None) -> str:
    """Folder of a tokenizer with one token a byte, ``<eos>`` (256) and ``<pad>`` (257)."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(models.BPE(vocab={token: i for i, token in enumerate(alphabet)}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<eos>", pad_token="<pad>")
    folder = tmp_path_factory.mktemp("byte_tokenizer")
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture
def tiny_policy(byte_tokenizer: str) -> CausalLM:
    """A loaded policy with random weights."""
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    policy.load()
    return policy


@pytest.fixture
def make_module(byte_tokenizer: str) -> Callable[..., RolloutModule]:
    """Builds a module on a tiny policy: see :func:`support.small_runs.build_module`."""
    return partial(build_module, byte_tokenizer)
