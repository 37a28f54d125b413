"""Shared fixtures. One thread: forked ranks of a multi-threaded parent hang, and two cores are few.

Torch and what is built on it are imported by the fixtures that need them: files that do not are collected at once.
"""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import hypothesis
import pytest

from lit_rl.execution import Sandbox

if TYPE_CHECKING:
    from lit_rl.models import CausalLM
    from lit_rl.modules import RolloutModule

ROOT = Path(__file__).parents[1]

hypothesis.settings.register_profile("without a clock", deadline=None, derandomize=True)
hypothesis.settings.load_profile("without a clock")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("HF_HUB_OFFLINE", "1")


def pytest_collection_finish() -> None:
    """Keep torch to one thread, whatever the environment says, and fits from looking for garbage when they start.

    A fit looks at every object of the process: with a thousand tests loaded, that takes longer than most of their fits.
    """
    if torch := sys.modules.get("torch"):
        torch.set_num_threads(1)
    if costs := sys.modules.get("lit_rl.training.host_memory"):
        costs.gc = SimpleNamespace(collect=int, freeze=gc.freeze, unfreeze=gc.unfreeze)  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    """Begin every test with the same random numbers, whichever tests ran before it in this process."""
    random.seed(0)
    os.environ.pop("PL_GLOBAL_SEED", None)  # what Lightning leaves of a test's seed_everything
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    """The sandbox of a file's tests that need no settings of their own; other files count and kill processes."""
    with Sandbox(num_workers=2) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of real data sets, or a skip that says what is missing."""
    folder = os.environ.get("LIT_RL_DATA")
    if not folder or not Path(folder).is_dir():
        pytest.skip("real data sets are not here: set LIT_RL_DATA to their folder")
    return Path(folder)


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as a wheel alone has it: the folder to put on the path."""
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-q", "-w", folder, ROOT]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr[-2000:]
    (file,) = folder.glob("lit_rl-*.whl")
    zipfile.ZipFile(file).extractall(folder / "site")
    return folder / "site"


@pytest.fixture
def from_wheel(wheel: Path, tmp_path: Path) -> Callable[[str], list[str]]:
    """Runs code with the wheel and the standard library alone, in an empty folder; returns the lines it prints."""

    def run(code: str) -> list[str]:
        command = [sys.executable, "-P", "-S", "-c", code]
        env = {"PYTHONPATH": str(wheel)}
        return subprocess.run(
            command, env=env, cwd=tmp_path, capture_output=True, text=True, check=True
        ).stdout.splitlines()

    return run


@pytest.fixture(scope="session")
def wide_norms() -> None:
    """Qwen2's norms compute in float64 where the model does; transformers rounds to float32 inside them.

    Sums in another order then agree to 1e-10 instead of 1e-8. Nothing changes for narrower models.
    """
    import torch
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
    from support.tiny_models import loaded

    return loaded(byte_tokenizer)


@pytest.fixture
def make_module(byte_tokenizer: str) -> Callable[..., RolloutModule]:
    """Builds a module on a tiny policy: see :func:`support.small_runs.build_module`."""
    from support.small_runs import build_module

    return partial(build_module, byte_tokenizer)
