"""Shares that wait on the CPU for another device, which is the meta device here: what can be seen without a GPU."""

from __future__ import annotations

from collections.abc import Iterator

import lightning.pytorch as pl
import pytest
import torch
import torch.distributed as dist
from support.tiny_models import TINY_QWEN2
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Shard
from torch.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from torch.testing._internal.distributed.fake_pg import FakeStore

from lit_rl.models import CausalLM, FSDP2Strategy
from lit_rl.training.ranks import shard


@pytest.fixture(autouse=True)
def two_ranks() -> Iterator[None]:
    dist.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    yield
    dist.destroy_process_group()


def test_a_policy_computes_where_its_mesh_is(byte_tokenizer: str) -> None:
    mesh = DeviceMesh("meta", torch.arange(2))
    spec = DTensorSpec(mesh, (Shard(0),), TensorMeta(torch.Size([4]), (1,), torch.float32))
    policy = CausalLM(config=TINY_QWEN2, tokenizer=byte_tokenizer)
    policy.model = nn.Module()
    # nn.Parameter would detach it, which torch 2.14 does not do on a mesh of no real device.
    policy.model._parameters["weight"] = DTensor(torch.zeros(2), spec, requires_grad=True)  # type: ignore
    assert next(policy.parameters()).device.type == "cpu"
    assert policy.device.type == "meta"


@pytest.mark.parametrize("offload", [False, True])
def test_shares_that_wait_do_not_follow_the_module_to_its_device(
    monkeypatch: pytest.MonkeyPatch, offload: bool
) -> None:
    monkeypatch.setattr(FSDP2Strategy, "root_device", torch.device("meta"))
    module, strategy = pl.LightningModule(), FSDP2Strategy(offload=offload)
    module.policy, module.rest = nn.Linear(4, 6), nn.Linear(2, 2)
    shard(module.policy, init_device_mesh("cpu", (2,)), offload=offload)
    strategy._lightning_module = strategy.model = module
    strategy.model_to_device()
    assert module.rest.weight.device == module.device == torch.device("meta")
    assert module.policy.weight.device.type == ("cpu" if offload else "meta")


def test_sums_over_ranks_have_a_backend_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FSDP2Strategy, "root_device", torch.device("cuda", 0))
    assert FSDP2Strategy()._get_process_group_backend() == "nccl"
    assert FSDP2Strategy(offload=True)._get_process_group_backend() == "cpu:gloo,cuda:nccl"
    assert FSDP2Strategy(offload=True, process_group_backend="gloo")._get_process_group_backend() == "gloo"
