"""Models in GGUF files, the format of llama.cpp: weights, configuration and tokenizer in one file.

transformers reads them with the package ``gguf``. Quantized weights become plain ones of the policy's dtype, so such a
model is trained and exported like any other.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from lit_rl.arguments import UsageError


def gguf_file(source: str) -> Path | None:
    """The GGUF file that a source means: itself, or the only one in a folder without a model of transformers.

    Args:
        source: resolved, see :func:`lit_rl.models.loading.sources.resolve`.

    Returns:
        ``None`` if the source means something else.

    Raises:
        ValueError: the folder holds several.
        ModuleNotFoundError: there is such a file, but not the package that reads it.
    """
    path = Path(source)
    if path.is_dir():
        described = any((path / name).is_file() for name in ("config.json", "adapter_config.json"))
        found = [] if described else sorted(path.glob("*.gguf"))
        if len(found) > 1:
            names = ", ".join(file.name for file in found[:4]) + (", ..." if len(found) > 4 else "")
            raise UsageError(
                f"{source} holds {len(found)} GGUF files ({names}): name one of them, {source}/{found[0].name}"
            )
    else:
        found = [path] if path.suffix == ".gguf" else []
    if found and find_spec("gguf") is None:
        raise ModuleNotFoundError(
            f"{found[0]} is a GGUF file, which needs the package gguf: pip install 'lit-rl[gguf]'", name="gguf"
        )
    return found[0] if found else None


def gguf_options(source: str) -> tuple[str, dict[str, str]]:
    """What ``from_pretrained`` takes for a resolved source: folder or hub id, and the name of the GGUF file, if any."""
    file = gguf_file(source)
    return (source, {}) if file is None else (str(file.parent), {"gguf_file": file.name})


def unpacked() -> dict[str, Any]:
    """What asks ``from_pretrained`` for plain weights, also where kernels could compute with packed ones."""
    import transformers

    config = getattr(transformers, "GgufConfig", None)  # older versions always unpack
    return {} if config is None else {"quantization_config": config(dequantize=True)}


def forget_packing(model: Any, file: str) -> None:
    """Make a model that was read from a GGUF file one like any other, with a name by which it is found again.

    transformers goes on calling it quantized: it would refuse to save it, and PEFT would look for packed layers.
    """
    forget_packing_of_config(model.config, file)
    model.name_or_path = file
    for note in ("hf_quantizer", "quantization_method", "is_quantized"):
        if note in vars(model):
            delattr(model, note)


def forget_packing_of_config(config: Any, file: str) -> None:
    """The same for a configuration alone."""
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    config._name_or_path = file


@contextmanager
def without_gguf_bar() -> Iterator[None]:
    """Draw no bar for converting weights; transformers does not offer to switch it off."""
    from transformers import modeling_gguf_pytorch_utils as reader

    before = getattr(reader, "tqdm", None)
    if before is None:
        yield
        return
    reader.tqdm = lambda tensors, **_: tensors
    try:
        yield
    finally:
        reader.tqdm = before
