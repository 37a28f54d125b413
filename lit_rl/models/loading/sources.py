"""Sources of models and tokenizers, and one line about those that cannot be loaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from lit_rl.errors import LitRLError, UsageError, expand_variables
from lit_rl.models.family import UnsupportedModelError, patched

MODEL_KEY, TOKENIZER_KEY, CONFIG_KEY = "model.policy.model", "model.policy.tokenizer", "model.policy.config"
ADAPTER_CONFIG = "adapter_config.json"
NO_FOREIGN_CODE = {"trust_remote_code": False}
"""For every ``from_pretrained``: left open, transformers asks on the terminal whether to run Python of the folder."""

_TOKENIZER_FILES = ("tokenizer", "vocab", "merges", "spiece", "sentencepiece", "tekken", "bpe", "qwen.tiktoken")
_SECONDS_TO_ANSWER = 4.0
_PLAINLY = {
    "while deserializing header": "a file of its weights is cut, or a pointer of Git LFS; fetch or export it again",
    "does not recognize this architecture": "the installed transformers does not know its architecture; upgrade that",
    "ignore_mismatched_sizes": "its config.json gives other sizes than its weights have; take both from one model",
    "custom code": "it brings Python of its own, which is never run; give a model of a family that transformers has",
    "Weights only load failed": "its weights are a pickle of more than tensors, which may run code; give safetensors",
}
"""Words of libraries on files that are cut, unknown or would run code, which most advise to let them, and ours."""


def resolve_model_source(source: str) -> str:
    """Turn ``package:NAME/PATH`` into a path, expand ``$VARIABLES``; leave hub ids as they are.

    The package's own code is not run: one that ships a model may import what is not installed here.
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
        advice = f"lit-rl export {source} FOLDER writes one; give that folder"
        raise UsageError(f"{source} holds checkpoints of a run and no model: {advice}")
    looks_local = source.startswith((".", "/", "~")) or source.count("/") > 1 or source.endswith(".gguf")
    if looks_local and not given.exists():
        kind = "file" if source.endswith(".gguf") else "folder"
        advice = "give a folder, such as lit-rl export RUN FOLDER writes, or a hub id"
        raise FileNotFoundError(f"model {kind} not found: {source} (from {Path.cwd()}): {advice}")
    return str(given) if looks_local else source


def has_tokenizer(folder: Path) -> bool:
    """Return whether some file of a folder has the name of a tokenizer's."""
    return any(file.name.startswith(_TOKENIZER_FILES) for file in folder.iterdir())


def base_of_adapter(source: str) -> str:
    """The base that an adapter's folder names, resolved."""
    file = Path(source) / ADAPTER_CONFIG
    with one_line_load_errors("adapter", source, MODEL_KEY):
        named = json.loads(file.read_text()).get("base_model_name_or_path")
    if not named:
        raise UsageError(f"the adapter {source} names no base: set base_model_name_or_path in its {ADAPTER_CONFIG}")
    try:
        return resolve_model_source(str(named))
    except FileNotFoundError:
        raise FileNotFoundError(
            f"the adapter {source} needs its base {named}, which is not there: bring it back, or correct "
            f"base_model_name_or_path in its {ADAPTER_CONFIG}"
        ) from None


@contextmanager
def one_line_load_errors(kind: str, source: str, key: str) -> Iterator[None]:
    """Say in one line that something could not be loaded, from where, and which key names it."""
    try:
        with without_retries(source):
            yield
    except (UnsupportedModelError, ModuleNotFoundError, MemoryError):
        raise
    except Exception as error:
        if "out of memory" in str(error):
            raise
        raise UsageError(_load_failure(kind, source, key, error)) from error


def _load_failure(kind: str, source: str, key: str, error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    plainly = next((text for words, text in _PLAINLY.items() if words in str(error)), None)
    reason = plainly or (lines[0][:200].rstrip(".") if lines else type(error).__name__)
    if Path(source).exists():
        if kind == "tokenizer" and Path(source).is_dir() and not has_tokenizer(Path(source)):
            if key == MODEL_KEY and not (Path(source) / "config.json").exists():
                return f"{source} holds no model ({key}): give a folder, such as lit-rl export RUN FOLDER writes"
            return f"{source} holds no tokenizer ({key}): give {TOKENIZER_KEY} the folder or hub id of one"
        if plainly is None and not isinstance(error, LitRLError):  # whose messages say what to do
            reason += "; fetch or export it again if files are missing or cut"
        return f"the {kind} in {source} ({key}) cannot be read: {reason}"
    if not can_use_hub():
        return (
            f"{source} ({key}) is neither a folder here nor in the cache, and the hub cannot be reached: give a local "
            "folder, or download it where there is a network and set HF_HUB_OFFLINE=1 here"
        )
    return (
        f"the {kind} {source} ({key}) cannot be loaded from the hub: {reason}; give a hub id that exists, or a folder"
    )


def without_retries(source: str) -> AbstractContextManager[None]:
    """Inside, a hub that cannot be reached is not asked: that costs seconds, not minutes of retries.

    ``local_files_only`` would not do: transformers looks for adapters on the hub anyway.
    """
    from huggingface_hub import constants

    offline = constants.HF_HUB_OFFLINE or (not Path(source).exists() and not can_use_hub())
    return patched(constants, "HF_HUB_OFFLINE", offline)


def can_use_hub() -> bool:
    """Return whether the hub may be asked and answers; it is asked once."""
    from huggingface_hub import constants

    return not constants.HF_HUB_OFFLINE and _responds(constants.ENDPOINT)


@lru_cache
def _responds(endpoint: str) -> bool:
    from huggingface_hub import get_session

    try:
        get_session().head(endpoint, timeout=_SECONDS_TO_ANSWER)
    except Exception:  # of the client of this version of huggingface_hub
        return False
    return True
