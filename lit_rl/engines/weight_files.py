"""Weights as files that an engine in another process reads: a folder of safetensors that is whole or not there."""

from __future__ import annotations

import shutil
from collections.abc import Iterable
from pathlib import Path

from torch import Tensor

_FILE_BYTES = 1 << 30


def write_weights(weights: Iterable[tuple[str, Tensor]], folder: Path, file_bytes: int = _FILE_BYTES) -> int:
    """Write weights into a folder, in place of what it held; no more than a file's worth is in memory.

    Args:
        weights: names and tensors, each valid until the next is asked for.
        folder: made if it is missing.
        file_bytes: size of a file, roughly.

    Returns:
        Number of tensors.
    """
    from safetensors.torch import save_file

    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    held: dict[str, Tensor] = {}
    size = files = count = 0
    for name, tensor in weights:
        held[name] = tensor.detach().to("cpu", copy=True).contiguous()
        size, count = size + tensor.nbytes, count + 1
        if size >= file_bytes:
            save_file(held, part / f"model-{files:05d}.safetensors")
            held, size, files = {}, 0, files + 1
    if held:
        save_file(held, part / f"model-{files:05d}.safetensors")
    shutil.rmtree(folder, ignore_errors=True)
    part.rename(folder)
    return count
