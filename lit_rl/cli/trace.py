"""A configuration's own update on tensors without memory: bytes, operations and collectives, counted."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode, UnsupportedOperatorException
from torch.distributed.device_mesh import init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lit_rl.arguments import UsageError
from lit_rl.functional import linear_head
from lit_rl.modules.rollout_module import RolloutModule
from lit_rl.planning.job import Job
from lit_rl.planning.memory import Memory, resident, sampling
from lit_rl.planning.seconds import Traffic, of_updates
from lit_rl.training.live_bytes import LiveBytes
from lit_rl.training.precision import masters_of, take_gradients
from lit_rl.training.ranks import evaluating, shard, tensors_outside_units, unsharded
from lit_rl.training.strategy import FSDP2Strategy
from lit_rl.types import Completions, Experience, StopReason


@dataclass(frozen=True)
class Trace:
    """Counts of one rank.

    Args:
        updating: bytes at the worst moment of an update, the optimizer's step included.
        held: bytes held between updates.
        gathered: bytes of whole weights while an engine in this process samples; 0 unless they are spread.
        flops: operations of a rollout's passes, with and without gradients.
        traffic: of the collectives of these passes, to this rank.
    """

    updating: Memory
    held: Memory
    gathered: float
    flops: float
    traffic: Traffic

    def sampling(self, job: Job) -> Memory:
        """Return what is held, what sampling gathers, and the cache, which follows from its shape."""
        planned = sampling(job)
        return replace(
            self.held, gathered=self.gathered, logits=planned.logits, cache=planned.cache, engine=planned.engine
        )


class _WithoutMemory(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """Inside, new tensors of real numbers have no memory, such as the buffers in which FSDP2 sums gradients."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named = kwargs or {}
        kind = named.get("dtype")
        is_new = func.namespace == "aten" and not any(isinstance(leaf, Tensor) for leaf in tree_leaves((args, named)))
        if is_new and kind is not None and kind.is_floating_point and func._opname == "empty":
            with self.fake:
                return func(*args, **named)
        return func(*args, **named)

    def __init__(self, fake: FakeTensorMode) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.fake = fake


def trace(module: RolloutModule, strategy: Any, job: Job, on_cpu: bool = False) -> Trace:
    """Run an update of a module that is not loaded yet, without its weights; the module cannot be used afterwards.

    Two micro-batches go forward and backward, so that the gradients of the first exist during the second, and the
    optimizer steps twice, so that its state exists before. All rows are as long as the job says.

    Args:
        module: an algorithm that samples.
        strategy: of its trainer.
        job: ranks, rows and tokens.
        on_cpu: step as the optimizer does on a CPU, parameter by parameter, not as on an accelerator.

    Raises:
        UsageError: this release of torch cannot compute a step without memory.
    """
    try:
        with _ranks(job.num_ranks):
            fake = FakeTensorMode(allow_non_fake_inputs=True)
            _load(module, strategy, job, fake)
            with _WithoutMemory(fake), _blocks(on_cpu):
                return _Step(module, job, on_cpu).count()
    except UnsupportedOperatorException as error:
        raise UsageError(
            f"torch {torch.__version__} has no {error} without memory: update torch, or leave --trace out"
        ) from None


@contextmanager
def _blocks(on_cpu: bool) -> Iterator[None]:
    """Inside, blocks of logits are as large as on the device, though fake tensors are the CPU's."""
    before = linear_head.BLOCK_ON_CPU
    linear_head.BLOCK_ON_CPU = before if on_cpu else sys.maxsize
    try:
        yield
    finally:
        linear_head.BLOCK_ON_CPU = before


@contextmanager
def _ranks(number: int) -> Iterator[None]:
    """A process group of this many ranks, of which only this one exists."""
    if number == 1:
        yield
        return
    dist.init_process_group("fake", rank=0, world_size=number, store=FakeStore())
    try:
        yield
    finally:
        dist.destroy_process_group()


def _load(module: Any, strategy: Any, job: Job, fake: FakeTensorMode) -> None:
    """Build all weights as fake tensors, tied ones once, and spread them."""
    with torch.device("meta"):
        module.load_weights()
        module.logprobs.load_reference()
    for policy in _parts(module):
        if getattr(policy, "shares_prompts", None) is not None:
            setattr(policy, "shares_prompts", job.shares_prompts)  # noqa: B010  # not all parts have it
    if isinstance(strategy, FSDP2Strategy):
        shape = (job.num_ranks,) if job.replicas == 1 else (job.replicas, job.num_shards)
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("replica", "share")[2 - len(shape) :])
    made: dict[int, tuple[Tensor, Tensor]] = {}  # tied weights stay tied
    with fake:
        for part in _parts(module):
            for store, name, tensor in tensors_outside_units(part):
                if id(tensor) not in made:
                    empty: Tensor = torch.empty_like(tensor, device="cpu")
                    weight = nn.Parameter(empty, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else empty
                    made[id(tensor)] = (tensor, weight)
                store[name] = made[id(tensor)][1]
            if isinstance(strategy, FSDP2Strategy):
                shard(
                    part,
                    mesh,
                    param_dtype=strategy.param_dtype,
                    reduce_dtype=strategy.reduce_dtype,
                    activation_checkpointing=strategy.activation_checkpointing,
                )


def _parts(module: Any) -> list[nn.Module]:
    return [part for part in module.children() if any(True for _ in part.parameters())]


class _Step:
    """An update of a module on fake tensors."""

    def __init__(self, module: Any, job: Job, on_cpu: bool) -> None:
        self.module, self.job = module, job
        made = module.configure_optimizers()
        self.optimizer: Any = made["optimizer"] if isinstance(made, dict) else made
        for group in self.optimizer.param_groups:
            if not on_cpu and group.get("foreach", True) is None and not group.get("fused"):
                group["foreach"] = True
        self.masters = list(masters_of(self.optimizer).values())
        self.trained = [p for p in module.parameters() if p.requires_grad]

    def count(self) -> Trace:
        job, module = self.job, self.module
        micro = rows_of(job, min(job.microbatch_rows, job.num_rows))
        several = job.num_microbatches > 1
        with evaluating(module), LiveBytes() as live:
            live.label(module.parameters(), "weights")
            live.label(module.buffers(), "weights")
            live.label(self.masters, "masters")
            for parameter in self.trained:
                parameter.grad = torch.empty_like(parameter)
            take_gradients(self.optimizer)
            self.step(live)
            for state in self.optimizer.state.values():
                live.label((v for v in state.values() if isinstance(v, Tensor)), "moments")
            held = Counter(live.now)
            live.restart()
            gathered = 0.0
            if job.is_sharded and job.engine == "in_process":
                with torch.no_grad(), unsharded(module.policy):
                    gathered = float(live.total - held.total())
            live.restart()
            live.flops, live.received = 0, Counter()
            with torch.no_grad():
                self.prepare(micro)
            flops, received = live.flops * job.num_microbatches, _times(live.received, job.num_microbatches)
            live.flops, live.received = 0, Counter()
            self.learn(micro, live)
            passes = job.passes * job.num_microbatches
            flops, received = flops + live.flops * passes, received + _times(live.received, passes)
            if several:
                self.learn(micro, live)
            self.step(live)
            peak = live.peak
        near = sum(n for ranks, n in received.items() if len({rank // job.ranks_per_node for rank in ranks}) == 1)
        traffic = Traffic(near, received.total() - near) if job.is_sharded else of_updates(job)
        worst = replace(_memory(peak), engine=resident(job).engine)
        if job.num_ranks > 1 and not job.is_sharded:  # DDP sums gradients in buckets of their own
            buckets = sum(p.numel() * p.element_size() for p in self.trained)
            worst = replace(worst, gradients=worst.gradients + buckets)
        return Trace(worst, _memory(held), gathered, flops, traffic)

    def prepare(self, micro: Experience) -> None:
        """The passes without gradients, each where the algorithm has it."""
        module, completions = self.module, micro.completions
        every = torch.ones(len(micro), dtype=torch.bool)
        module.logprobs_of(completions, every)
        if hasattr(module, "values"):
            module.values(completions)

    def learn(self, micro: Experience, live: LiveBytes) -> None:
        module = self.module
        for loss, _ in module.minibatch_losses(micro, module.denominator(micro)):
            loss.backward()
            live.label((p.grad for p in self.trained), "gradients")
            take_gradients(self.optimizer)
            live.label((p.grad for p in self.masters), "gradients")

    def step(self, live: LiveBytes) -> None:
        """As ``PolicyModule.optimizer_step`` does, without reading a number."""
        for group in self.optimizer.param_groups:
            norm = nn.utils.get_total_norm([p.grad for p in group["params"] if p.grad is not None])
            if (limit := self.module.clip_norm(group["name"])) is not None:
                nn.utils.clip_grads_with_norm_(group["params"], limit, norm)
        self.optimizer.step()
        self.optimizer.zero_grad()


def rows_of(job: Job, number: int) -> Experience:
    """Experience of rows that are as long as allowed, real numbers: they decide which operations run.

    The first prompt and the first completion are a token shorter than others that go through the model with them, since
    attention that has padding to leave out keeps more than attention without.
    """
    rows, size = torch.arange(number), (number, job.completion_tokens)
    of_prompt = rows // job.group_size
    prompts = of_prompt[:, None].expand(number, job.prompt_tokens).contiguous()
    prompt_mask, completion_mask = torch.ones_like(prompts, dtype=torch.bool), torch.ones(size, dtype=torch.bool)
    prompt_mask[of_prompt < of_prompt[-1].clamp(max=1), 0] = False
    completion_mask[: number > 1, -1] = False
    floats = torch.zeros(size)
    completions = Completions.single_turn(
        problems=(None,) * number,  # type: ignore[arg-type]
        prompt_ids=prompts,
        prompt_mask=prompt_mask,
        completion_ids=torch.zeros(size, dtype=torch.int64),
        completion_mask=completion_mask,
        sampler_logprobs=floats,
        stop_reasons=(StopReason.LENGTH,) * number,
        texts=("",) * number,
        token_bytes=((),) * number,
        group_size=job.group_size,
        weights_versions=(0,) * number,
    )
    return Experience(
        completions,
        torch.zeros(number),
        torch.ones(number, dtype=torch.bool),
        floats,
        old_logprobs=floats,
        ref_logprobs=floats,
        token_rewards=floats,
        old_values=floats,
        returns=floats,
    )


def _times(received: Counter[Any], number: int) -> Counter[Any]:
    return Counter({ranks: size * number for ranks, size in received.items()})


def _memory(kinds: Counter[str]) -> Memory:
    return Memory(**{kind: float(size) for kind, size in kinds.items() if size})
