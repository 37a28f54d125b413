"""A device in Python: numbers on the CPU behind a device type of its own, ``python:0``.

What a GPU would refuse or wait for shows here without one: an operation on tensors of two devices is an error, and each
place where the host waits for the device is counted. Made with ``torch.utils.backend_registration``, which is private;
nothing outside this file knows of it.
"""

from __future__ import annotations

import contextlib
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.utils.backend_registration as registration
from lightning.pytorch.accelerators import Accelerator
from lightning.pytorch.strategies import SingleDeviceStrategy
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

NAME = "python"
SYNCS: Counter[tuple[str, str]] = Counter()
"""Waits of the host: by what, and the line that asked for it."""

aten = torch.ops.aten
_SIZED_BY_VALUES = {
    aten.nonzero.default,
    aten.masked_select.default,
    aten._unique2.default,
    aten.unique_consecutive.default,
    aten.unique_dim.default,
    aten.repeat_interleave.Tensor,
    aten.equal.default,
    aten.is_nonzero.default,
    aten._local_scalar_dense.default,
}


class Backend(registration._DummyBackendModule):  # type: ignore[misc]
    """Interface that torch asks of a kind of device; its random numbers are the CPU's."""

    def is_available(self) -> bool:
        return True

    def is_initialized(self) -> bool:
        return True

    def _is_in_bad_fork(self) -> bool:
        return False

    def device_count(self) -> int:
        return 1

    def current_device(self) -> int:
        return 0

    def manual_seed_all(self, seed: int) -> None: ...

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.get_rng_state()

    def set_rng_state(self, state: Tensor, device: Any = None) -> None: ...

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16, torch.float16]


class OnDevice(Tensor):
    """A tensor of the device; ``raw`` has its numbers."""

    raw: Tensor

    @staticmethod
    def __new__(cls, raw: Tensor, requires_grad: bool = False) -> OnDevice:
        made: OnDevice = Tensor._make_wrapper_subclass(
            cls,
            raw.shape,
            strides=raw.stride(),
            storage_offset=raw.storage_offset(),
            dtype=raw.dtype,
            device=torch.device(NAME, 0),
            requires_grad=requires_grad,
        )
        made.raw = raw
        return made

    def __repr__(self, **_: Any) -> str:
        return f"OnDevice({self.raw})"

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Save as a tensor of the CPU, where it is loaded to."""
        return self.detach().raw.__reduce_ex__(protocol)

    def untyped_storage(self) -> torch.UntypedStorage:
        return self.detach().raw.untyped_storage()

    def new_tensor(self, data: Any, **options: Any) -> Tensor:
        return torch.tensor(data, **({"dtype": self.dtype, "device": self.device} | options))

    def tolist(self) -> Any:
        _count("tolist")
        return self.detach().raw.tolist()

    def numpy(self, **_: Any) -> Any:
        raise TypeError("a tensor of a device is no array: copy it to the CPU first")

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _count(what: str) -> None:
    """Under the innermost line of lit_rl or of transformers."""
    for frame in reversed(traceback.extract_stack()):
        for package in ("lit_rl", "transformers"):
            before, found, path = frame.filename.rpartition(f"/{package}/")
            if found and not before.endswith("/tests"):
                SYNCS[what, f"{package}/{path}:{frame.lineno}"] += 1
                return
    SYNCS[what, "elsewhere"] += 1


def _here(device: Any) -> bool:
    return device is not None and torch.device(device).type == NAME


def _raw(value: Any) -> Any:
    return value.raw if isinstance(value, OnDevice) else value


def _run(func: Any, args: Any, kwargs: Any) -> Any:
    if func is aten._to_copy.default:
        (source,), device = args, kwargs.get("device")
        moved = aten._to_copy.default(
            _raw(source), **{k: v for k, v in kwargs.items() if k in ("dtype", "memory_format")}
        )
        if _here(device) or (device is None and isinstance(source, OnDevice)):
            return OnDevice(moved)
        _count("to the CPU")
        return moved
    if func is aten.copy_.default:
        target, source = args[:2]
        if isinstance(source, OnDevice) and not isinstance(target, OnDevice):
            _count("to the CPU")
        _raw(target).copy_(_raw(source))
        return target
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    ours = any(isinstance(one, OnDevice) for one in tensors)
    strangers = [one for one in tensors if not isinstance(one, OnDevice) and one.dim() > 0]
    if ours and strangers:
        if func not in (aten.index.Tensor, aten.index_put_.default, aten._index_put_impl_.default):
            raise RuntimeError(f"{func} got tensors of two devices: {[(type(t).__name__, *t.shape) for t in tensors]}")
        _count("indices of the CPU")
    if func in _SIZED_BY_VALUES or any(
        func in (aten.index.Tensor, aten.index_put_.default) and one is not None and one.dtype == torch.bool
        for one in (args[1] if func in (aten.index.Tensor, aten.index_put_.default) else ())
    ):
        _count(func.name().removeprefix("aten::"))
    made_here = _here(kwargs.get("device"))
    if made_here:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    found = func(*tree_map(_raw, args), **tree_map(_raw, kwargs))
    if not (ours or made_here):
        return found
    known = {id(_raw(one)): one for one in tensors}
    return tree_map(lambda one: known.get(id(one), OnDevice(one)) if isinstance(one, Tensor) else one, found)


def _empty(size: Any, dtype: Any = None, **_: Any) -> OnDevice:
    return OnDevice(torch.empty(size, dtype=dtype or torch.get_default_dtype()))


def _empty_strided(size: Any, stride: Any, dtype: Any = None, **_: Any) -> OnDevice:
    return OnDevice(torch.empty_strided(size, stride, dtype=dtype or torch.get_default_dtype()))


_LIBRARIES: list[torch.library.Library] = []


def register() -> torch.device:
    """Make the device known to torch, once in a process."""
    if not _LIBRARIES:
        registration._setup_privateuseone_for_python_backend(NAME, backend_module=Backend())
        ours, rest = torch.library.Library("aten", "IMPL"), torch.library.Library("_", "IMPL")
        _LIBRARIES.extend([ours, rest])
        ours.impl("empty.memory_format", _empty, "PrivateUse1")
        ours.impl("empty_strided", _empty_strided, "PrivateUse1")
        rest.fallback(lambda op, *args, **kwargs: _run(op, args, kwargs), "PrivateUse1")
    return torch.device(NAME, 0)


@contextmanager
def python_device() -> Iterator[torch.device]:
    """Inside, lists become tensors of the device by way of the CPU."""
    device = register()
    plain = torch.tensor, torch.as_tensor

    def tensor(data: Any, *, device: Any = None, **options: Any) -> Tensor:
        return plain[0](data, **options).to(device) if _here(device) else plain[0](data, device=device, **options)

    def as_tensor(data: Any, dtype: Any = None, device: Any = None) -> Tensor:
        return plain[1](data, dtype=dtype).to(device) if _here(device) else plain[1](data, dtype=dtype, device=device)

    torch.tensor, torch.as_tensor = tensor, as_tensor  # type: ignore[assignment]
    swaps = torch.__future__.get_swap_module_params_on_conversion()
    torch.__future__.set_swap_module_params_on_conversion(True)  # a parameter that is moved stays tied
    SYNCS.clear()
    try:
        yield device
    finally:
        torch.tensor, torch.as_tensor = plain
        torch.__future__.set_swap_module_params_on_conversion(swaps)


class PythonAccelerator(Accelerator):
    """Lightning's side of the device."""

    def setup_device(self, device: torch.device) -> None: ...

    def teardown(self) -> None: ...

    def get_device_stats(self, device: Any) -> dict[str, Any]:
        return {}

    @staticmethod
    def parse_devices(devices: Any) -> Any:
        return devices

    @staticmethod
    def get_parallel_devices(devices: Any) -> list[torch.device]:
        return [torch.device(NAME, 0)]

    @staticmethod
    def auto_device_count() -> int:
        return 1

    @staticmethod
    def is_available() -> bool:
        return True

    @staticmethod
    def name() -> str:
        return NAME


class OnPythonDevice(SingleDeviceStrategy):
    """Puts a module on the device once it is built: torch makes no tensors of Python's devices in a context."""

    def __init__(self) -> None:
        super().__init__(device=torch.device(NAME, 0), accelerator=PythonAccelerator())

    def tensor_init_context(self, empty_init: bool | None = None) -> Any:
        return contextlib.nullcontext()

    def model_sharded_context(self) -> Any:
        return contextlib.nullcontext()
