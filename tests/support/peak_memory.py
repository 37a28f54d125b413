"""The largest number of bytes that tensors held at one time: what an accelerator's allocator would count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class PeakMemory(TorchDispatchMode):
    """Inside, every tensor that an operation makes is followed until its memory is released.

    Scratch memory inside an operation is not seen. Shards of FSDP2 change their size without an operation, so sizes are
    asked anew after each operation that makes something.

    Args:
        held: tensors that were there before.
    """

    def __init__(self, held: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.peak = 0
        self.at_peak = ""
        self._known: dict[int, StorageWeakRef] = {}
        self._follow(list(held))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if self._follow(tree_leaves(result)):
            now = self.now()
            if now > self.peak:
                self.peak, self.at_peak = now, str(func)
        return result

    def now(self) -> int:
        """Bytes that are held."""
        total = 0
        for key, reference in list(self._known.items()):
            storage = torch.UntypedStorage._new_with_weak_ptr(reference.cdata)
            if storage is None:
                del self._known[key]
            else:
                total += storage.nbytes()
        return total

    def _follow(self, values: Iterable[Any]) -> bool:
        fresh = False
        for value in values:
            if isinstance(value, torch.Tensor):
                local = getattr(value, "_local_tensor", value)
                storage = local.untyped_storage()
                if storage._cdata not in self._known:
                    self._known[storage._cdata] = StorageWeakRef(storage)
                    fresh = True
        return fresh
