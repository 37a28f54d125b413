"""The strategy ``fsdp2``: Lightning's model-parallel strategy, made to shard over ranks and to resume exactly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import torch
from lightning.pytorch.strategies import DDPStrategy, FSDPStrategy, ModelParallelStrategy, StrategyRegistry
from lightning_utilities.core.rank_zero import rank_zero_info
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.filesystem import FileSystemReader
from torch.distributed.checkpoint.metadata import TensorStorageMetadata
from torch.distributed.checkpoint.state_dict import (
    get_model_state_dict,
    get_optimizer_state_dict,
    set_optimizer_state_dict,
)
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from lit_rl.errors import UsageError
from lit_rl.signature_check import PositiveInt
from lit_rl.training.precision import dtype_from_name
from lit_rl.training.ranks import describe_rank_and_phase, shard

META_FILE = "meta.pt"


class FSDP2Strategy(ModelParallelStrategy):
    """Spreads policy, critic and reference over all ranks, on one device or many.

    Lightning's own class, left to its defaults, gives every rank the same batch and a full copy of the weights. This
    one shards over all ranks, says so in the log, saves only what configuration cannot rebuild, and resumes exactly,
    also with another number of ranks.

    Args:
        param_dtype: dtype of gathered weights, such as ``bfloat16``; ``None`` for the weights' dtype. The shares and
            the optimizer keep the weights' dtype (float32 masters).
        reduce_dtype: dtype in which gradients are summed; ``None`` for the dtype of the gathered weights.
        offload: keep shares, gradients and optimizer state in the CPU's memory, where the optimizer then steps; the
            device holds the layers that it computes with.
        replicas: how many whole copies of the weights there are (HSDP). Each is spread over ``ranks / replicas``
            neighbouring ranks. With one replica per node, layers are gathered inside a node, and only the summed
            gradients of each rank's share travel between nodes. 1 spreads the weights over all ranks.
        load_on_rank_zero: only rank 0 builds or reads the weights and sends them to the others layer by layer, so
            that a node holds one copy in memory, not one per rank.
        whole_gradients: sum gradients over ranks once per optimizer step and not once per micro-batch. Until then
            each rank holds its own gradients of all weights.
        timeout_minutes: how long a rank waits for the others before the run ends with a message.
        process_group_backend: ``nccl`` or ``gloo``; by default the one that fits the device.
    """

    strategy_name = "fsdp2"

    def __init__(
        self,
        param_dtype: str | None = None,
        reduce_dtype: str | None = "float32",
        offload: bool = False,
        replicas: PositiveInt = 1,
        load_on_rank_zero: bool = False,
        whole_gradients: bool = False,
        timeout_minutes: float = 30.0,
        process_group_backend: str | None = None,
    ) -> None:
        super().__init__("auto", 1, True, process_group_backend, timedelta(minutes=timeout_minutes))
        self.param_dtype = None if param_dtype is None else dtype_from_name(param_dtype)
        # Without mixed precision the gradients' own dtype may be wider (float64) and must not be narrowed.
        self.reduce_dtype = None if param_dtype is None or reduce_dtype is None else dtype_from_name(reduce_dtype)
        self.offload = offload
        self.replicas = replicas
        self.shard_mesh: DeviceMesh | None = None
        self.load_on_rank_zero = load_on_rank_zero
        self.whole_gradients = whole_gradients
        self.timeout_minutes = timeout_minutes

    # -- placing weights -----------------------------------------------------------------------------------

    def setup_environment(self) -> None:
        """Shard over all ranks, or over those of a replica; Lightning's default is the number of nodes."""
        ranks = self.num_nodes * self.num_processes
        if ranks % self.replicas:
            raise UsageError(
                f"replicas={self.replicas} does not divide the number of ranks, {self.num_nodes} nodes x "
                f"{self.num_processes} devices = {ranks}: set replicas to the number of nodes, or 1"
            )
        # Every rank has data of its own; how weights are spread is another matter.
        self._data_parallel_size = ranks
        super().setup_environment()
        kind = self.root_device.type
        self.shard_mesh = (
            self.device_mesh["data_parallel"]
            if self.replicas == 1
            else init_device_mesh(kind, (self.replicas, ranks // self.replicas), mesh_dim_names=("replica", "share"))
        )

    @contextmanager
    def model_sharded_context(self) -> Iterator[None]:
        """Build the model inside: for real, or without memory on ranks that get the weights from rank 0."""
        without_memory = self.load_on_rank_zero and self.global_rank != 0
        with torch.device("meta") if without_memory else nullcontext():
            yield

    def setup(self, trainer: pl.Trainer) -> None:
        module: Any = self.lightning_module
        parts = {name: part for name, part in module.named_children() if any(True for _ in part.parameters())}
        is_fresh = not all(isinstance(part, FSDPModule) for part in parts.values())
        assert self.shard_mesh is not None
        for part in parts.values():
            shard(
                part,
                self.shard_mesh,
                param_dtype=self.param_dtype,
                reduce_dtype=self.reduce_dtype,
                offload=self.offload,
            )
        if is_fresh:
            every = [p for part in parts.values() for p in part.parameters()]
            own = sum((p.to_local() if isinstance(p, DTensor) else p).numel() for p in every)
            rank_zero_info(
                f"fsdp2: {' and '.join(parts)}, {sum(p.numel() for p in every):,} parameters in {self.replicas} x "
                f"{self.world_size // self.replicas} ranks; rank 0 holds {own:,}"
            )
        super().setup(trainer)

    def model_to_device(self) -> None:
        """Move what is not sharded; with ``offload`` the shares stay on the CPU."""
        module: Any = self.lightning_module
        if not self.offload:
            super().model_to_device()
            return
        for part in module.children():
            if not isinstance(part, FSDPModule):
                part.to(self.root_device)
        module._device = self.root_device

    def _get_process_group_backend(self) -> str:
        """Return backends that include one for shares on the CPU, where norms of gradients are summed."""
        on_both = "cpu:gloo,cuda:nccl" if self.offload and self.root_device.type == "cuda" else None
        return self._process_group_backend or on_both or super()._get_process_group_backend()

    # -- checkpoints ---------------------------------------------------------------------------------------

    def optimizer_state(self, optimizer: Optimizer) -> dict[str, Any]:
        """Return the optimizer's state without the entries that torch adds for parameters that never took a step.

        To have something to save, torch lets a fresh optimizer take a step of length zero: Adam then counts from one,
        and training is changed by saving.
        """
        inner: Optimizer = getattr(optimizer, "_optimizer", optimizer)
        fresh = not inner.state
        state = super().optimizer_state(inner)
        if fresh:
            inner.state.clear()
            state["state"] = {}
        return state

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = None) -> dict[str, Any]:
        """Load weights and optimizer from the shards of any number of ranks; return the rest of the checkpoint."""
        path = Path(self.broadcast(str(checkpoint_path)))
        if not (path / META_FILE).is_file():
            raise UsageError(
                f"{path} is not a folder of fsdp2 shards: resume with the strategy that saved the checkpoint, or run "
                "lit-rl export on the checkpoint and start from the export"
            )
        metadata: Any = FileSystemReader(path).read_metadata()
        entries = metadata.state_dict_metadata.items()
        saved = {name: tuple(m.size) if isinstance(m, TensorStorageMetadata) else () for name, m in entries}
        module: Any = self.lightning_module
        weights = {n.removeprefix("state_dict."): size for n, size in saved.items() if n.startswith("state_dict.")}
        module.prepare_for_saved_weights(weights)
        state = get_model_state_dict(module)
        _fill_state_from_checkpoint({"state_dict": state}, path)
        module.load_state_dict(state)
        for number, optimizer in enumerate(self.optimizers):
            # Read only moments that were saved; those of other parameters keep their initial values.
            name = f"optimizer_{number}"
            held: dict[str, Any] = get_optimizer_state_dict(self.model, optimizer)  # type: ignore[arg-type]
            known = {n for n in held["state"] if any(key.startswith(f"{name}.state.{n}.") for key in saved)}
            part = {"state": {n: held["state"][n] for n in known}, "param_groups": held["param_groups"]}
            _fill_state_from_checkpoint({name: part}, path)
            whole = {"state": {**held["state"], **part["state"]}, "param_groups": part["param_groups"]}
            set_optimizer_state_dict(self.model, optimizer, optim_state_dict=whole)  # type: ignore[arg-type]
            names = {parameter: n for n, parameter in module.named_parameters()}
            for parameter in [one for one in optimizer.state if names[one] not in known]:
                del optimizer.state[parameter]
        rest: dict[str, Any] = torch.load(path / META_FILE, weights_only=weights_only, map_location="cpu")
        return rest

    # -- waiting -------------------------------------------------------------------------------------------

    def on_exception(self, exception: BaseException) -> None:
        """Print the rank and phase of an exception; other ranks may be waiting for this one."""
        if describe_rank_and_phase():
            print(
                f"{describe_rank_and_phase()}: {type(exception).__name__}: {str(exception).partition(chr(10))[0]}",
                flush=True,
            )
        super().on_exception(exception)


def _fill_state_from_checkpoint(state: dict[str, Any], path: Path) -> None:
    try:
        load(state, checkpoint_id=path)
    except CheckpointException as error:  # a BaseException, which no caller catches
        cause = next(iter(error.failures.values()))[0]
        raise UsageError(f"checkpoint {path} could not be read: {str(cause).partition(chr(10))[0]}") from error


def check_strategy(strategy: Any) -> None:
    """Refuse what cannot work, before anything is built."""
    name = strategy if isinstance(strategy, str) else type(strategy).__name__
    is_fsdp1 = isinstance(strategy, FSDPStrategy) or strategy in FSDPStrategy.get_registered_strategies()
    if is_fsdp1 or "deepspeed" in name.lower():
        raise UsageError(f"strategy {name} cannot run a backward pass inside a training step: use strategy fsdp2")


def allow_unused_parameters(strategy: Any) -> None:
    """Allow losses that use only a part of the parameters under DDP: policy and critic take turns."""
    if isinstance(strategy, DDPStrategy):
        strategy._ddp_kwargs.setdefault("find_unused_parameters", True)


StrategyRegistry.register("fsdp2", FSDP2Strategy, description="FSDP2 over all ranks")
