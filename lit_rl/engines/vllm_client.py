"""Requests to a vLLM server by the Python standard library, and its reports on the weights it has loaded.

The trainer needs no vLLM for them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit
from urllib.request import HTTPErrorProcessor, ProxyHandler, Request, build_opener

from lightning_utilities.core.rank_zero import rank_zero_info
from torch import Tensor

from lit_rl.arguments import UsageError
from lit_rl.engines.engine import EngineError
from lit_rl.engines.vllm_package import require_release

_TOLD = 300  # characters of what a server says that a message repeats
_LONGEST_PAUSE = 10.0  # seconds between two tries


class _AnyStatus(HTTPErrorProcessor):
    """Returns every response as it is, so that no redirect is followed."""

    def http_response(self, request: Request, response: Any) -> Any:
        return response

    https_response = http_response


_open = build_opener(ProxyHandler({}), _AnyStatus).open


class VLLMClient:
    """One vLLM server.

    Args:
        url: its address, such as ``http://node17:8000``.
        num_tries: how often a request is sent before it counts as failed.
    """

    def __init__(self, url: str, num_tries: int = 5) -> None:
        self.url = url.rstrip("/")
        if urlsplit(self.url).scheme not in ("http", "https") or not urlsplit(self.url).netloc:
            raise UsageError(f"the address of a vllm server looks like http://node17:8000, got {url!r}")
        self.num_tries = num_tries

    def wait_until_ready(self, seconds: float) -> str:
        """Wait for the server; its release.

        Raises:
            EngineError: it does not answer in time, or it is no vLLM server.
            ImportError: it is too old.
        """
        deadline, tries = time.monotonic() + seconds, 0
        while True:
            try:
                self._once("/health", 10.0, None)
                break
            except _TryAgain as failure:
                if time.monotonic() >= deadline:
                    raise EngineError(
                        f"no vllm server answers at {self.url} within {seconds:g} seconds ({failure}): start one "
                        "(lit-rl docs engines) or correct url"
                    ) from None
                if not tries:
                    rank_zero_info(f"waiting up to {seconds:g} seconds for a vllm server at {self.url} ({failure})")
                tries += 1
                time.sleep(min(1.0, seconds / 10))
        release = str(self.ask("/version", 10.0).get("version", "unknown"))
        require_release(release, f"the server at {self.url}")
        return release

    def ask(
        self, path: str, seconds: float, content: Mapping[str, Any] | None = None, tries: int | None = None
    ) -> dict[str, Any]:
        """Send a POST request with JSON, or a GET request without content; return JSON, empty if there is none.

        Sent again while the server or the connection fails.

        Raises:
            EngineError: no good answer after all tries, or the server refuses the request.
        """
        tries = tries or self.num_tries
        for attempt in range(tries):
            try:
                return self._once(path, seconds, content)
            except _TryAgain as failure:
                if attempt + 1 == tries:
                    silent = not str(failure).startswith("HTTP")
                    remedy = "its log says why" + (": start it again, and repeat the command" if silent else "")
                    raise EngineError(f"the vllm server at {self.url} failed at {path}: {failure}; {remedy}") from None
                time.sleep(random.uniform(0, min(_LONGEST_PAUSE, 0.25 * 2**attempt)))
        raise AssertionError("unreachable")

    def _once(self, path: str, seconds: float, content: Mapping[str, Any] | None) -> dict[str, Any]:
        body = None if content is None else json.dumps(content).encode()
        request = Request(self.url + path, body, {"Content-Type": "application/json"})
        try:
            with _open(request, timeout=seconds) as response:
                status, data = response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            fault = getattr(error, "reason", error)
            late = isinstance(fault, TimeoutError)
            said = f"no answer within {seconds:g} seconds" if late else f"{type(fault).__name__}: {fault}"
            raise _TryAgain(said) from None
        if status != 200:
            told, hint = error_text(data), ""
            if status >= 500 and status != 501:
                raise _TryAgain(f"HTTP {status}: {told}")
            if "does not exist" in told:  # an adapter that a request names
                hint = ": it was started anew, or another run uses it"
            elif path == "/health" or status < 400:
                hint = "; url: expected the address of a vllm server, without /v1 or another path"
            elif status == 404:
                hint = ": start it with VLLM_SERVER_DEV_MODE=1 and --enable-scale-out"
            raise EngineError(f"the vllm server at {self.url} refused {path}: HTTP {status}: {told}{hint}")
        try:
            answer = json.loads(data) if data else {}
        except ValueError:
            answer = {}
        return answer if isinstance(answer, dict) else {"answer": answer}


class _TryAgain(Exception):
    """The server or the connection failed; the same request may succeed later."""


def error_text(data: bytes) -> str:
    """Return the message of an error response, in one line."""
    try:
        content: Any = json.loads(data)
    except ValueError:
        content = data.decode(errors="replace")
    while isinstance(content, dict):
        content = next((content[key] for key in ("error", "message", "detail") if key in content), str(content))
    return " ".join(str(content).split())[:_TOLD] or "nothing"


_EMPTY = hashlib.sha256().hexdigest()  # a weight that was packed into a form of its own, as vLLM does on a CPU
_SHOWN = 3


def rpc(server: VLLMClient, method: str, seconds: float, **arguments: Any) -> list[Any]:
    """Call a method of each of a server's workers, once.

    Raises:
        EngineError: it failed there.
    """
    content = {"method": method, "kwargs": arguments}
    results: list[Any] = server.ask("/collective_rpc", seconds, content, tries=1).get("results", [])
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
        found = [item for worker in workers for item in (worker or {}).items()]
        return {name.rsplit(":", 1)[-1].replace(".base_layer.", "."): digest for name, digest in found}


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
