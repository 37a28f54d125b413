"""Many ranks: sums, maxima and gathers over them, and weights that FSDP2 spreads over them.

In a run of one process, sums and gathers return what they get. With sharded weights, each decoder layer is a unit; the
weights that a part (policy, critic) has outside its layers are one more unit, and so is a frozen reference. A unit is
gathered when its forward runs. The output matrix must not be a unit of its own: it is applied chunk by chunk, and ranks
have different numbers of chunks. For sampling, a model is whole again, and in eval mode.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.autograd.graph import save_on_cpu
from torch.distributed._composable.checkpoint_activation import checkpoint
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, OffloadPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel

Gathered = TypeVar("Gathered")


def world_size() -> int:
    """Return the number of ranks; 1 without a process group."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def rank() -> int:
    """Return the number of this process; 0 without a process group."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def sum_over_ranks(values: Tensor) -> Tensor:
    """Return the sum of a small tensor over all ranks, the same on each rank."""
    if world_size() == 1:
        return values
    total = values.detach().clone()
    dist.all_reduce(total)
    return total


def max_over_ranks(value: int, device: torch.device) -> int:
    """Return the largest of one number per rank."""
    if world_size() == 1:
        return value
    largest = torch.tensor(value, device=device)
    dist.all_reduce(largest, op=dist.ReduceOp.MAX)
    return int(largest)


def _to_float64(value: Tensor | float) -> Tensor | float:
    """Return a number on the CPU or MPS as a float; keep a number on another device there, in float64."""
    if not isinstance(value, Tensor):
        return value
    if value.device.type in ("cpu", "mps"):
        return float(value.detach())
    return value.detach().double()


class Means:
    """Means over micro-batches, updates and ranks: sums and counts are kept, divided once at the end.

    Extremes of the same quantities can be kept too.
    """

    def __init__(self) -> None:
        self._sums: dict[str, float] = defaultdict(float)
        self._counts: dict[str, float] = defaultdict(float)
        self._extremes: dict[str, tuple[Callable[[float, float], float], float]] = {}
        self._waiting: list[tuple[str, Tensor, Tensor | float]] = []

    def add(self, values: Mapping[str, Tensor | float], count: Tensor | float = 1.0) -> None:
        """Add means, each over ``count`` things."""
        for name, value in values.items():
            # In double precision wherever it is computed.
            self.add_sum(name, _to_float64(value) * _to_float64(count), count)

    def add_sum(self, name: str, total: Tensor | float, count: Tensor | float) -> None:
        """Add a sum over ``count`` things; numbers on a device are read only when a mean is asked for."""
        total = _to_float64(total)
        if isinstance(total, Tensor):
            self._waiting.append((name, total, count))
        else:
            self._sums[name] += total
            self._counts[name] += float(count)

    def add_extreme(self, name: str, value: float, choose: Callable[[float, float], float]) -> None:
        """Keep the largest value that was ever given under a name, or the smallest: ``choose`` is max or min."""
        _, before = self._extremes.get(name, (choose, value))
        self._extremes[name] = choose, choose(value, before)

    def merge(self, other: Means) -> None:
        """Add the sums, counts and extremes of another object."""
        self._waiting += other._waiting
        for name, total in other._sums.items():
            self._sums[name] += total
            self._counts[name] += other._counts[name]
        for name, (choose, value) in other._extremes.items():
            self.add_extreme(name, value, choose)

    def reduce(self, device: torch.device) -> dict[str, float]:
        """Return the means over all ranks, also for names that only some ranks have."""
        waiting, self._waiting = self._waiting, []
        if waiting:  # read together all that devices were still computing
            totals = torch.stack([total for _, total, _ in waiting])
            both = torch.stack([totals, torch.stack([torch.as_tensor(count).to(totals) for *_, count in waiting])])
            for (name, *_), total, count in zip(waiting, *both.tolist(), strict=True):
                self.add_sum(name, total, count)
        # A rank with nothing to do has fewer names, and the sums must line up.
        names = sorted(set().union(*gather_over_ranks(list(self._sums))))
        both = torch.tensor([[self._sums[n] for n in names], [self._counts[n] for n in names]], dtype=torch.float64)
        if device.type != "mps":
            both = both.to(device)
        sums, counts = sum_over_ranks(both)
        found = {n: s / c for n, s, c in zip(names, sums.tolist(), counts.tolist(), strict=True) if c > 0}
        for of_rank in gather_over_ranks(self._extremes):
            for name, (choose, value) in of_rank.items():
                self.add_extreme(name, value, choose)
                found[name] = self._extremes[name][1]
        return found


@contextmanager
def syncing_gradients_if(model: nn.Module, now: bool, *, whole: bool = False) -> Iterator[None]:
    """Inside, a backward pass sums gradients over ranks only if ``now``; otherwise a later pass sums them.

    Args:
        model: the model as the strategy wrapped it. DDP keeps each rank's own gradients until the later pass.
        now: whether this is the last backward pass before an optimizer step.
        whole: whether FSDP2 keeps them too, which takes memory for gradients of all weights; otherwise it sums in every
            pass. (torch's ``set_requires_all_reduce`` would let only replicas wait, but adds gradients of a policy's
            adapter to those of a critic's adapter in the same layer.)
    """
    if isinstance(model, DistributedDataParallel):
        model.require_backward_grad_sync = now
        try:
            yield
        finally:
            model.require_backward_grad_sync = True
        return
    for part in model.children():
        if isinstance(part, FSDPModule):
            part.set_requires_gradient_sync(now or not whole)
    yield


_NUMBERS_AT_ONCE = 2**24
"""Numbers in the gradients that are summed in one collective."""


def average_gradients(parameters: Sequence[nn.Parameter]) -> None:
    """Average gradients over ranks; a parameter with a gradient on any rank has one on all ranks afterwards."""
    if world_size() == 1:
        return
    used = torch.tensor([one.grad is not None for one in parameters], dtype=torch.int32, device=parameters[0].device)
    dist.all_reduce(used, op=dist.ReduceOp.MAX)
    waiting: dict[torch.dtype, list[Tensor]] = {}
    for parameter in (one for one, is_used in zip(parameters, used.tolist(), strict=True) if is_used):
        if parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        gradients = waiting.setdefault(parameter.grad.dtype, [])
        gradients.append(parameter.grad)
        if sum(one.numel() for one in gradients) >= _NUMBERS_AT_ONCE:
            _average_over_ranks(waiting.pop(parameter.grad.dtype))
    for gradients in waiting.values():
        _average_over_ranks(gradients)


def _average_over_ranks(gradients: Sequence[Tensor]) -> None:
    flat = torch.cat([one.flatten() for one in gradients]).div_(world_size())
    dist.all_reduce(flat)
    for gradient, average in zip(gradients, torch.split(flat, [one.numel() for one in gradients]), strict=True):
        gradient.copy_(average.view_as(gradient))


def gather_over_ranks(value: Gathered) -> list[Gathered]:
    """Return a small plain value from each rank, in the order of the ranks; every rank calls this."""
    if world_size() == 1:
        return [value]
    gathered = [value] * world_size()
    dist.all_gather_object(gathered, value)
    return gathered


_phases: list[str] = []


@contextmanager
def naming_phase(name: str) -> Iterator[None]:
    """Name the phase of the code inside. After an exception the name stays, so that a message can use it."""
    depth = len(_phases)
    _phases.append(name)
    yield
    del _phases[depth:]


def describe_rank_and_phase() -> str:
    """Return the rank and phase, such as ``rank 1 of 2, while sampling``; empty in a run of one process."""
    if world_size() == 1:
        return ""
    doing = f", while {_phases[-1]}" if _phases else ""
    return f"rank {dist.get_rank()} of {world_size()}{doing}"


REFERENCE_NAME = "frozen_reference"


def shard(
    part: nn.Module,
    mesh: DeviceMesh,
    *,
    param_dtype: torch.dtype | None = None,
    reduce_dtype: torch.dtype | None = None,
    offload: bool = False,
) -> None:
    """Spread the parameters of a policy or critic over the ranks; calling it again does nothing.

    If only rank 0 has weights and the other ranks built the part on the meta device, the weights are filled in on the
    way, one unit at a time, so that the other ranks never hold more than a layer and their own shares.

    Args:
        part: must be called as a whole: its forward is what gathers the weights outside its layers.
        mesh: mesh of all ranks: [ranks], or [replicas, ranks per replica] for several whole copies.
        param_dtype: dtype of gathered parameters; shares and optimizer keep the weights' own dtype.
        reduce_dtype: dtype of gradients while they are summed.
        offload: keep the shares of weights and gradients, and with them the optimizer, in the CPU's memory.
    """
    if isinstance(part, FSDPModule):
        return
    if getattr(part, "shares_prompts", False):
        # Ranks must call each layer equally often, and how often depends on whether a rank's rows share a prompt.
        part.shares_prompts = False  # type: ignore[assignment]
    missing = max_over_ranks(int(any(t.is_meta for t in part.parameters())), torch.device(mesh.device_type))
    filled: dict[int, tuple[Tensor, Tensor]] = {}
    reference = getattr(part, REFERENCE_NAME, None)
    home = CPUOffloadPolicy(pin_memory=mesh.device_type == "cuda") if offload else OffloadPolicy()
    # A frozen reference is a unit apart from its policy: they are never needed at the same time.
    for root in [part] if reference is None else [reference, part]:
        layers = layers_of(root)
        for unit in [*layers, root]:
            if isinstance(unit, FSDPModule):
                continue
            if missing:
                copy_fsdp_unit_from_rank_0(unit, mesh, filled)
            # The input of a whole part is completions, which must stay what they are.
            policy = MixedPrecisionPolicy(param_dtype, reduce_dtype, cast_forward_inputs=unit is not root)
            fully_shard(unit, mesh=mesh, mp_policy=policy, offload_policy=home)


def enable_activation_checkpointing(model: nn.Module, *, offload: bool = False) -> None:
    """Compute the activations of each layer again in the backward pass, in train and in eval mode alike.

    The checkpointing of transformers acts only in train mode, and updates run in eval mode. With ``offload``, the CPU's
    memory keeps the inputs of the layers, the only activations that are left.
    """
    inputs, entered = save_on_cpu(pin_memory=True), list[bool]()

    def enter(layer: nn.Module, _: Any) -> None:
        entered.append(checkpoint.state(layer).enable_hook)  # not while a layer is computed again
        if entered[-1]:
            inputs.__enter__()

    def leave(*_: Any) -> None:
        if entered.pop():
            inputs.__exit__()

    for layer in layers_of(model):
        if checkpoint.state(layer) is not None:
            continue
        # Around the hooks of checkpoint, which saves the inputs in one of them.
        if offload:
            layer.register_forward_pre_hook(enter)
        checkpoint(layer)
        if offload:
            layer.register_forward_hook(leave, always_call=True)


def gather_whole_tensor(tensor: Any) -> Tensor:
    """Return a tensor, gathered from all ranks if it is sharded."""
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole


def layers_of(part: nn.Module) -> list[nn.Module]:
    """Return the layers of a model: the items of every list of modules that is not inside another list."""
    found: list[nn.Module] = []
    for child in part.children():
        found += list(child) if isinstance(child, nn.ModuleList) else layers_of(child)
    return found


def copy_fsdp_unit_from_rank_0(unit: nn.Module, mesh: DeviceMesh, filled: dict[int, tuple[Tensor, Tensor]]) -> None:
    """Copy rank 0's values into the tensors of a unit.

    This includes buffers, even those no checkpoint holds (rotary frequencies), and tied parameters stay tied. (Building
    on the meta device and calling ``reset_parameters`` gets both silently wrong.)
    """
    device = device_of_mesh(mesh)
    own = list(tensors_of_fsdp_unit(unit))
    kinds = [[(name, tensor.shape, tensor.dtype) for _, name, tensor in own]]
    mine = kinds[0]
    dist.broadcast_object_list(kinds, 0)
    if [kind[:2] for kind in mine] != [kind[:2] for kind in kinds[0]]:
        raise RuntimeError(f"rank 0 built a different {type(unit).__name__}: set load_on_rank_zero to false")
    # Adapters of a base without memory may have another dtype than real ones; the dtype of rank 0 is right.
    for (store, name, tensor), (_, _, dtype) in zip(own, kinds[0], strict=True):
        if id(tensor) not in filled:
            real = (
                torch.empty(tensor.shape, dtype=dtype, device=device) if tensor.is_meta else tensor.detach().to(device)
            )
            dist.broadcast(real, 0)
            fresh = nn.Parameter(real, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else real
            filled[id(tensor)] = (tensor, fresh)
            filled[id(fresh)] = (fresh, fresh)
        store[name] = filled[id(tensor)][1]


def tensors_of_fsdp_unit(unit: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield parameters, buffers and plain tensors of a unit, each with its dictionary and its name there."""
    for module in modules_of_fsdp_unit(unit):
        for store in (module._parameters, module._buffers, vars(module)):
            for name, value in store.items():
                if isinstance(value, Tensor):
                    yield store, name, value


def modules_of_fsdp_unit(root: nn.Module) -> Iterator[nn.Module]:
    """Yield a unit and the modules below it that are in no other unit."""
    yield root
    for child in root.children():
        if not isinstance(child, FSDPModule):
            yield from modules_of_fsdp_unit(child)


def device_of_mesh(mesh: DeviceMesh) -> torch.device:
    """Return the device on which this rank computes with sharded weights, even if shards are in CPU memory."""
    return torch.device(torch.cuda.current_device() if mesh.device_type == "cuda" else mesh.device_type)


@contextmanager
def unsharded_weights(policy: nn.Module) -> Iterator[None]:
    """Inside, the policy's weights are whole on every rank: gathered once, not once per token.

    Ranks may do different things inside, or nothing: there is no collective between the two ends. All ranks enter
    together. Use this context without gradients. Nothing happens for a policy that is not sharded.
    """
    if not isinstance(policy, FSDPModule):
        yield
        return
    # The first forward settles which module is the root; without this, it would be the first layer that samples.
    policy._get_fsdp_state()._lazy_init()
    reference = getattr(policy, REFERENCE_NAME, None)
    left_out = set() if reference is None else set(reference.modules())
    units: list[Any] = [m for m in policy.modules() if isinstance(m, FSDPModule) and m not in left_out]
    for unit in units:
        unit.set_reshard_after_forward(False, recurse=False)
        unit.unshard()
    try:
        yield
    finally:
        for unit in units:
            unit.reshard()
            unit.set_reshard_after_forward(unit is not policy, recurse=False)


@contextmanager
def gathered_unit_weights(part: nn.Module) -> Iterator[None]:
    """Inside, the weights that a part has outside its layers are whole; all ranks enter together."""
    gather_unit_until_reshard(part)
    try:
        yield
    finally:
        reshard(part)


def gather_unit_until_reshard(part: nn.Module) -> None:
    """Gather the weights that a part has outside its layers until :func:`reshard`; all ranks call together."""
    if isinstance(part, FSDPModule):
        part.unshard()


def reshard(part: nn.Module) -> None:
    """Free the gathered weights of a part."""
    if isinstance(part, FSDPModule):
        part.reshard()


@contextmanager
def eval_mode(*modules: nn.Module) -> Iterator[None]:
    """Inside, the modules and all their parts are in eval mode (no dropout); afterwards in their earlier modes."""
    before = [(part, part.training) for module in modules for part in module.modules()]
    try:
        for module in modules:
            module.eval()
        yield
    finally:
        for part, training in before:
            part.training = training
