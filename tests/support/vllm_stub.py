"""A server with the routes of vLLM that the engine uses: answers from a table, and fails when it is told to."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from support.http_server import answering


class VLLMStub:
    """State of the server and its requests, for tests to look at and to change.

    Attributes:
        url: its address.
        info: of the model, as ``/server_info`` tells it.
        label: of the weights it says it has; ``stuck`` leaves it as it is whatever it is sent.
        adapter: name of the one it was sent last; ``uploads`` has the tensors of each by name.
        failures: HTTP statuses that the next completions get instead of an answer.
        requests: bodies of the completions that were asked for, in order.
        max_at_once: most completions that were under way together.
    """

    def __init__(self) -> None:
        self.url = ""
        self.info: dict[str, Any] = {"logprobs_mode": "processed_logprobs", "max_model_len": 128}
        self.label = "default"
        self.stuck = False
        self.adapter = ""
        self.uploads: list[dict[str, Any]] = []
        self.failures: list[int] = []
        self.requests: list[dict[str, Any]] = []
        self.read: list[set[str]] = []
        self.steps: list[str] = []
        self.at_once = self.max_at_once = 0
        self.lock = threading.Lock()

    def answer(self, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Status and content."""
        self.steps.append(path)
        if path == "/server_info":
            return 200, {"vllm_config": {"model_config": self.info}}
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
        if method == "reload_weights":
            files = Path(kwargs["weights_path"]).glob("*.safetensors")
            self.read.append({name for file in files for name in load_file(file)})
        return 200, {"results": [None]}

    def complete(self, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As many tokens as were asked for: the ids 1, 2, 3, ... at one nat each."""
        with self.lock:
            self.requests.append(body)
            self.at_once += 1
            self.max_at_once = max(self.max_at_once, self.at_once)
            failure = self.failures.pop(0) if self.failures else 200
        threading.Event().wait(0.02)
        with self.lock:
            self.at_once -= 1
        if failure != 200:
            return failure, {"error": "out of\npatience"}
        if body.get("model", self.adapter) != self.adapter:
            return 404, {"error": {"message": f"The model `{body['model']}` does not exist."}}
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

    def reply(path: str, headers: Mapping[str, str], body: dict[str, Any]) -> tuple[int, bytes]:
        status, content = stub.answer(path.partition("?")[0], body)
        return status, json.dumps(content).encode()

    with answering(reply) as stub.url:
        yield stub
