"""Sources of models and tokenizers, and one-line errors for sources that cannot be loaded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

import torch

from lit_rl.errors import UsageError, expand_variables
from lit_rl.models.family import UnsupportedModelError, patched_attribute

MODEL_KEY, TOKENIZER_KEY, CONFIG_KEY = "model.policy.model", "model.policy.tokenizer", "model.policy.config"
ADAPTER_CONFIG = "adapter_config.json"
NO_FOREIGN_CODE = {"trust_remote_code": False}
"""Option of each ``from_pretrained``: without it transformers asks on the terminal whether to run a folder's Python."""

_TOKENIZER_FILES = ("tokenizer", "vocab", "merges", "spiece", "sentencepiece", "tekken", "bpe", "qwen.tiktoken")
_SECONDS_TO_ANSWER = 4.0


def resolve_model_source(source: str) -> str:
    """Turn ``package:NAME/PATH`` into a path, expand ``$VARIABLES``, and leave hub ids as they are.

    The package's own code is not run: it may import what is not installed here.
    """
    if source.startswith("package:"):
        package, _, path = source.removeprefix("package:").partition("/")
        try:
            found = find_spec(package)
        except (ModuleNotFoundError, ValueError):  # of a package above it, or an empty name
            found = None
        if found is None or not found.submodule_search_locations:
            raise ModuleNotFoundError(f"{source} needs the package {package}, which is not installed", name=package)
        return str(Path(next(iter(found.submodule_search_locations))) / path)
    source = expand_variables(source)
    given = Path(source).expanduser()
    if given.suffix == ".ckpt" or (any(given.glob("*.ckpt")) and not (given / "config.json").exists()):
        advice = f"run lit-rl export {source} FOLDER, and give that folder"
        raise UsageError(f"{source} holds checkpoints of a run and no model: {advice}")
    looks_local = source.startswith((".", "/", "~")) or source.count("/") > 1 or source.endswith(".gguf")
    if looks_local and not given.exists():
        kind = "file" if source.endswith(".gguf") else "folder"
        advice = "give a folder, such as one that lit-rl export RUN FOLDER writes, or a hub id"
        raise FileNotFoundError(f"model {kind} not found: {source} (from {Path.cwd()}): {advice}")
    return str(given) if looks_local else source


def has_tokenizer(folder: Path) -> bool:
    """Return whether some file of a folder is named like a file of a tokenizer."""
    return any(file.name.startswith(_TOKENIZER_FILES) for file in folder.iterdir())


def base_source_of_adapter(source: str) -> str:
    """Return the resolved source of the base that an adapter's folder names."""
    file = Path(source) / ADAPTER_CONFIG
    with one_line_load_errors("adapter", source, MODEL_KEY):
        named = json.loads(file.read_text())["base_model_name_or_path"]
    return resolve_model_source(str(named))


@contextmanager
def one_line_load_errors(kind: str, source: str, key: str) -> Iterator[None]:
    """Turn a library's failure to load into one line that names the source and the key that gives the source."""
    try:
        with offline_unless_reachable(source):
            yield
    except (UnsupportedModelError, ModuleNotFoundError, MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        said = " ".join(str(error).split())[:300] or type(error).__name__
        if re.search("trust_remote_code|weights_only", said):  # transformers advises to allow it
            said = "it brings code of its own, which is never run"
        local = Path(source).exists() or can_use_hub()
        where = "" if local else " is neither a folder here nor, with HF_HUB_OFFLINE=1, in the cache, and"
        raise UsageError(f"{kind} {source} ({key}){where} cannot be loaded: {said}") from error


def offline_unless_reachable(source: str) -> AbstractContextManager[None]:
    """Return a context in which an unreachable hub is not asked: that costs seconds, not minutes of retries.

    ``local_files_only`` would not do: transformers looks for adapters on the hub anyway.
    """
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE or (not Path(source).exists() and not can_use_hub())
    return patched_attribute(constants, "HF_HUB_OFFLINE", offline)


def can_use_hub() -> bool:
    """Return whether the hub may be asked and answers; the hub is asked only once."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _hub_responds(constants.ENDPOINT)


@lru_cache
def _hub_responds(endpoint: str) -> bool:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=_SECONDS_TO_ANSWER)
    except Exception:  # of the client of this version of huggingface_hub
        return False
    return True
