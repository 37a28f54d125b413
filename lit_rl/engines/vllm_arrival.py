"""Weights that vLLM reads: which model it has room for, and which of its weights did not arrive."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from lit_rl.engines.base import EngineError
from lit_rl.engines.vllm_client import VLLMClient

_EMPTY = hashlib.sha256().hexdigest()  # a weight that was packed into a form of its own, as vLLM does on a CPU
_SHOWN = 3


def rpc(server: VLLMClient, method: str, seconds: float, **arguments: Any) -> list[Any]:
    """Call a method of each of a server's workers, once.

    Raises:
        EngineError: it failed there.
    """
    content = {"method": method, "kwargs": arguments}
    results: list[Any] = server.post("/collective_rpc", content, seconds, tries=1).get("results", [])
    return results


def require_same_model(server: VLLMClient, architecture: str, config: Any, seconds: float) -> None:
    """Refuse a server of another model before it is sent weights, which would leave it with neither.

    Only what can be read for sure is compared: layers, width and tokens of a model of the same architecture.

    Args:
        server: to ask.
        architecture: name of the policy's class.
        config: of the policy's text model.
        seconds: it may take.

    Raises:
        EngineError: it has another number of layers, another width or vocabulary.
    """
    try:
        tree = str(rpc(server, "get_model_inspection", seconds)[0])
    except (EngineError, IndexError):  # a release that does not tell; the probe of the sampler finds what is wrong
        return
    if not tree.startswith(f"{architecture}("):
        return
    has = {"layers": _layers(tree), "wide": _number("embedding_dim", tree), "tokens": _number("org_vocab_size", tree)}
    wanted = {"layers": config.num_hidden_layers, "wide": config.hidden_size, "tokens": config.vocab_size}
    if any(has[key] not in (None, wanted[key]) for key in has):
        raise EngineError(
            f"the server at {server.url} has another model, with {_sizes(has)}; the policy has {_sizes(wanted)}: start "
            "it with the policy's model"
        )


def _layers(tree: str) -> int | None:
    """Number of decoder layers: lines such as ``(0-27): 28 x LlamaDecoderLayer(`` inside ``(layers)``."""
    found = re.search(r"^( *)\(layers\): ModuleList\([^\n]*\n(.*?)^\1\)", tree, re.DOTALL | re.MULTILINE)
    if found is None:
        return None
    inside = rf"^{found[1]}  \([\d, -]+\): (?:(\d+) x )?"
    return sum(int(count or 1) for count in re.findall(inside, found[2], re.MULTILINE))


def _number(name: str, tree: str) -> int | None:
    found = re.search(rf"\b{name}=(\d+)", tree)
    return int(found[1]) if found else None


def _sizes(of: dict[str, int | None]) -> str:
    return f"{of['layers']} layers of width {of['wide']} and {of['tokens']} tokens"


class ReadBack:
    """Find weights of a server that a reload leaves as they were, which vLLM only notes in its log.

    All weights are set to zero before the reload; those that are zero afterwards were not sent, unless the policy's are
    zero too. A weight that vLLM has packed is not seen: on a CPU, most matrices.

    Args:
        server: that is to read weights.
        seconds: that each question may take.
    """

    def __init__(self, server: VLLMClient, seconds: float) -> None:
        self._server, self._seconds = server, seconds
        try:
            rpc(server, "reset_weights", seconds)
            self._zero = self._digests()
        except EngineError:  # a release without them: what fails for another reason fails in the reload as well
            self._zero = {}

    def require_all(self, zeros: Iterable[str]) -> None:
        """Check that everything arrived.

        Args:
            zeros: names of the policy's weights that are zero.

        Raises:
            EngineError: something did not.
        """
        now = self._digests() if self._zero else {}
        excused = {_place(name) for name in zeros}
        kept = [name for name, digest in now.items() if digest == self._zero.get(name) and digest != _EMPTY]
        missing = sorted(name for name in kept if _place(name) not in excused)
        if missing:
            more = f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else ""
            raise EngineError(
                f"the model of the server at {self._server.url} has weights that the policy has not, "
                f"{', '.join(missing[:_SHOWN])}{more}: start it with the policy's model"
            )

    def _digests(self) -> dict[str, str]:
        """A digest of each weight, by worker and name."""
        workers = rpc(self._server, "compute_weight_checksums", self._seconds)
        return {name.rsplit(":", 1)[-1]: digest for worker in workers for name, digest in (worker or {}).items()}


def noting_zeros(weights: Iterator[tuple[str, Tensor]], zeros: set[str]) -> Iterator[tuple[str, Tensor]]:
    """Pass weights on, and note the names of those that are all zero."""
    for name, tensor in weights:
        if not tensor.any():
            zeros.add(name)
        yield name, tensor


def _place(name: str) -> tuple[str, ...]:
    """Layer, block and kind of a weight: the same for ``…0.self_attn.q_proj.bias`` and the fused ``qkv_proj.bias``."""
    parts = name.split(".")
    return (*parts[-4:-2], parts[-1])
