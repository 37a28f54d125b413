"""Bytes of live tensors by kind, counted storage by storage while operations run, on real tensors and on fake ones."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.distributed_c10d import ProcessGroup, get_process_group_ranks
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.flop_counter import flop_registry

REST = "activations"
"""Kind of all tensors without another kind: those that a pass keeps, and those that it needs on its way."""
HOST = "on the CPU"
"""Kind of tensors that wait in the CPU's memory for a device (here the CPU too); they are not part of ``total``."""
GATHERED = "gathered"
"""Kind of storages that FSDP2 fills and empties: whole weights of a unit."""
_FUSED = torch.ops.aten._fused_sdp_choice.default
_FLASH = 1
_FLASHES = (
    torch.ops.aten._scaled_dot_product_flash_attention,
    torch.ops.aten._scaled_dot_product_flash_attention_backward,
)


def _grouped_query_flop_counter(count: Any, query: int) -> Any:
    """Return a count with one key head per query head: torch 2.10 refuses fewer key heads (grouped queries)."""

    def counted(*args: Any, **kwargs: Any) -> Any:
        heads = args[query].shape[1]
        shapes = [(one.shape[0], heads, *one.shape[2:]) for one in args[query + 1 : query + 3]]
        return count(*args[: query + 1], *shapes, *args[query + 3 :], **kwargs)

    return counted


_FORWARD = _grouped_query_flop_counter(flop_registry[_FLASHES[0]], query=0)
_BACKWARD = _grouped_query_flop_counter(flop_registry[_FLASHES[1]], query=1)
_FLOPS = flop_registry | {
    _FLASHES[0]: _FORWARD,
    _FLASHES[1]: _BACKWARD,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu: _FORWARD,
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward: _BACKWARD,
}


class LiveByteCounter(TorchDispatchMode):  # type: ignore[no-untyped-call]  # of torch
    """A mode inside which every tensor that an operation makes is followed until its memory is released.

    Scratch memory inside an operation is not seen.

    Attributes:
        total: bytes that live now on the device; ``now`` has them by kind.
        peak: largest number of bytes that lived together since :meth:`reset_peak`, by kind.
        flops: operations of matrix products and attention. (``FlopCounterMode`` would keep the activations
            alive that checkpointing recomputes.)
        received: bytes that collectives brought to this rank, by the ranks of their group; under ``HOST``, bytes that
            FSDP2 and ``save_on_cpu`` copied between device and CPU.
        most_on_cpu: largest number of bytes that waited in the CPU's memory.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # of torch
        self.now: Counter[str] = Counter()
        self.peak: Counter[str] = Counter()
        self.received: Counter[tuple[int, ...] | str] = Counter()
        self.total = self._most = self.flops = self.most_on_cpu = 0
        self._new = REST
        self._known: dict[int, tuple[Any, str, int]] = {}

    def reset_peak(self) -> None:
        """Forget the peak."""
        self._most, self.peak = self.total, Counter(self.now)

    def set_kind(self, tensors: Iterable[Tensor | None], kind: str) -> None:
        """Count tensors as a kind from now on."""
        for tensor in tensors:
            if tensor is not None:
                storage = _local_tensor(tensor).untyped_storage()
                self._track_storage(storage, kind)
                reference, before, size = self._known[storage._cdata]
                self._known[storage._cdata] = (reference, kind, size)
                self._change_bytes(before, -size)
                self._change_bytes(kind, size)

    @contextmanager
    def count_new_tensors_as(self, kind: str) -> Iterator[None]:
        """Inside, new tensors are of a kind."""
        before, self._new = self._new, kind
        try:
            yield
        finally:
            self._new = before

    def __enter__(self) -> LiveByteCounter:
        """Follow resized storages, and make a copy wherever data would move between device and CPU.

        Only FSDP2 and ``save_on_cpu`` copy with ``non_blocking`` here; ``save_on_cpu`` copies into pinned memory.
        """
        self._resize, self._to, self._empty = torch.UntypedStorage.resize_, Tensor.to, torch.empty

        def resize(storage: Any, size: int) -> Any:
            result = self._resize(storage, size)
            self._track_storage(storage, GATHERED)
            reference, kind, before = self._known[storage._cdata]
            self._known[storage._cdata] = (reference, GATHERED, size)
            self._change_bytes(kind, -before)
            self._change_bytes(GATHERED, size)
            return result

        def to(tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
            moved: Tensor = self._to(tensor, *args, **kwargs)
            if "non_blocking" not in kwargs:
                return moved
            known = self._known.get(_local_tensor(tensor).untyped_storage()._cdata, (None, REST, 0))
            with self.count_new_tensors_as(REST if known[1] == HOST else HOST):
                self.received[HOST] += moved.nbytes
                return moved.clone()

        def empty(*args: Any, **kwargs: Any) -> Tensor:
            if "pin_memory" not in kwargs or "device" in kwargs:  # torch's decompositions give a device
                return self._empty(*args, **kwargs)
            with self.count_new_tensors_as(HOST):
                made = self._empty(*args, **kwargs)
                self.received[HOST] += made.nbytes
                return made

        torch.UntypedStorage.resize_ = resize  # type: ignore[method-assign, assignment]
        Tensor.to, torch.empty = to, empty  # type: ignore[method-assign, assignment]
        super().__enter__()  # type: ignore[no-untyped-call]  # of torch
        return self

    def __exit__(self, *exception: Any) -> None:
        """Restore the functions of torch."""
        torch.UntypedStorage.resize_, torch.empty = self._resize, self._empty  # type: ignore[method-assign]
        del Tensor.to  # inherited
        super().__exit__(*exception)  # type: ignore[no-untyped-call]  # of torch

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and follow what it makes."""
        if func is _FUSED:  # a fake tensor's choice would be that for no device, with whole attention matrices
            return _FLASH
        result = func(*args, **(kwargs or {}))
        if (count := _FLOPS.get(func._overloadpacket)) is not None:
            self.flops += count(*args, **(kwargs or {}), out_val=result)
        if func.namespace == "c10d":
            self._count_collective_bytes(func._opname, tree_leaves(args))
        for value in tree_leaves(result):
            if isinstance(value, Tensor):
                self._track_storage(_local_tensor(value).untyped_storage(), self._new)
        return result

    def _count_collective_bytes(self, name: str, leaves: Sequence[Any]) -> None:
        """Count a ring collective, which brings each rank all but its own share (an all-reduce twice as much)."""
        sizes = [leaf.nbytes for leaf in leaves if isinstance(leaf, Tensor)]
        group = next(leaf for leaf in leaves if isinstance(leaf, torch.ScriptObject) and "ProcessGroup" in str(leaf))
        ranks = tuple(get_process_group_ranks(ProcessGroup.unbox(group)))
        whole = 2 * max(sizes) if name.startswith("allreduce") else max(sizes)
        self.received[ranks] += whole * (len(ranks) - 1) // len(ranks)

    def _track_storage(self, storage: Any, kind: str) -> None:
        key = storage._cdata
        if key in self._known:
            return
        size = storage.nbytes()
        self._known[key] = (weakref.ref(storage, partial(self._untrack_storage, key)), kind, size)
        self._change_bytes(kind, size)

    def _untrack_storage(self, key: int, _: Any = None) -> None:
        _, kind, size = self._known.pop(key)
        self._change_bytes(kind, -size)

    def _change_bytes(self, kind: str, size: int) -> None:
        self.now[kind] += size
        if kind == HOST:
            self.most_on_cpu = max(self.most_on_cpu, self.now[HOST])
            return
        self.total += size
        if self.total > self._most:
            self._most, self.peak = self.total, Counter(self.now)


def _local_tensor(tensor: Tensor) -> Tensor:
    return getattr(tensor, "_local_tensor", tensor)
