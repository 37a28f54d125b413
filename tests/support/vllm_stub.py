"""A server with the routes of vLLM that the engine uses: answers from a table, and fails when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from safetensors import safe_open
from safetensors.torch import load_file


class VLLMStub:
    """State of the server and its requests, for tests to look at and to change.

    Attributes:
        url: its address.
        version: its release; empty for a server of something else.
        info: of the model, as ``/server_info`` tells it.
        label: of the weights it says it has; ``stuck`` leaves it as it is whatever it is sent.
        weights: digests of its weights by name, by default those that were sent last. Those of ``own`` are its model's
            alone: no folder has them.
        adapters: largest rank of adapters that it runs.
        adapter: name of the one it was sent last; ``uploads`` has the tensors of each by name.
        layers: how many it says its model has.
        unreadable: what reading a folder fails with.
        failures: HTTP statuses that the next completions get instead of an answer.
        requests: bodies of the completions that were asked for, in order.
        most_at_once: most completions that were under way together.
    """

    def __init__(self) -> None:
        self.url = ""
        self.version = "0.32.0"
        self.info: dict[str, Any] = {"logprobs_mode": "processed_logprobs", "max_model_len": 128}
        self.label = "default"
        self.stuck = False
        self.weights = dict.fromkeys(("model.norm.weight", "model.layers.0.self_attn.qkv_proj.bias"), "random")
        self.own: set[str] = set()
        self.adapters = 0
        self.adapter = ""
        self.uploads: list[dict[str, Any]] = []
        self.device = "cpu"
        self.layers = 2
        self.unreadable = ""
        self.failures: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.read: list[set[str]] = []
        self.steps: list[str] = []
        self.text_only = False
        self.at_once = self.most_at_once = 0
        self.lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and content."""
        self.steps.append(path)
        if not self.version:
            return 404, {"detail": "Not Found"}
        if path == "/version":
            return 200, {"version": self.version}
        if path == "/server_info":
            lora = {"max_lora_rank": self.adapters} if self.adapters else None
            config = {"model_config": self.info, "lora_config": lora, "device_config": {"device_type": self.device}}
            return 200, {"vllm_config": config, "vllm_env": {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": bool(self.adapters)}}
        if path == "/collective_rpc":
            return self.work(body["method"], body["kwargs"])
        if path == "/update_weight_version" and not self.stuck:
            self.label = body["new_version"]
        if path == "/v1/load_lora_adapter":
            self.adapter = body["lora_name"]
            self.uploads.append(load_file(Path(body["lora_path"]) / "adapter_model.safetensors"))
        if path == "/v1/unload_lora_adapter" and body["lora_name"] != self.adapter:
            return 404, {"error": {"message": f"The lora adapter '{body['lora_name']}' cannot be found."}}
        if path == "/weight_info":
            return 200, {"weight_version": self.label}
        return self.complete(body) if path == "/inference/v1/generate" else (200, {})

    def work(self, method: str, kwargs: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Work of a worker."""
        result: Any = None
        if method == "reload_weights":
            if self.unreadable:
                return 500, {"error": {"message": self.unreadable}}
            self.reload(Path(kwargs["weights_path"]))
        elif method == "reset_weights":
            self.weights = dict.fromkeys(self.own | self.weights.keys(), "zero")
        elif method == "compute_weight_checksums":
            result = {f"dp0:pp0:pcp0:tp0:{name}": digest for name, digest in self.weights.items()}
        elif method == "get_model_inspection":
            layers = f"(0-{self.layers - 1}): {self.layers} x Qwen2DecoderLayer()("
            sizes = "VocabParallelEmbedding(num_embeddings=320, embedding_dim=32, org_vocab_size=258)"
            tree = [
                "Qwen2ForCausalLM()(",
                "  (model): Qwen2Model()(",
                "    (layers): ModuleList()(",
                f"      {layers}",
                "      )",
            ]
            result = "\n".join([*tree, "    )", f"    (embed_tokens): {sizes}", "  )", ")"])
        return 200, {"results": [result]}

    def reload(self, folder: Path) -> None:
        """Take what a folder holds; weights of its own stay what they were, as vLLM leaves them."""
        names: set[str] = set()
        for file in folder.glob("*.safetensors"):
            with safe_open(file, framework="pt") as weights:
                names |= (here := set(weights.keys()))
                bits = {name: weights.get_tensor(name).numpy().tobytes() for name in here}
                self.weights |= {name: "zero" if not any(one) else str(hash(one)) for name, one in bits.items()}
        self.read.append(names)

    def complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As many tokens as were asked for: the ids 1, 2, 3, ... at one nat each."""
        with self.lock:
            self.requests.append(body)
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            failure = self.failures.pop(0) if self.failures else 200
        threading.Event().wait(0.02)
        with self.lock:
            self.at_once -= 1
        if failure != 200:
            return failure, {"error": "out of\npatience"}
        if body.get("model", self.adapter) != self.adapter:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
        if self.text_only:
            return 200, {"choices": [{"text": "hello"}]}
        ids = [1 + i for i in range(body["sampling_params"]["max_tokens"])]
        choice = {
            "token_ids": ids,
            "finish_reason": "length",
            "stop_reason": None,
            "logprobs": {"content": [{"token_id": one, "logprob": -1.0} for one in ids]},
            "weight_versions": [{"version": self.label, "start": 0, "end": len(ids)}],
        }
        return 200, {"choices": [choice]}


@contextmanager
def stub_server() -> Iterator[VLLMStub]:
    """A running stub."""
    stub = VLLMStub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length) or "{}")
            status, content = stub.answer(self.path.partition("?")[0], body)
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    stub.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield stub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
