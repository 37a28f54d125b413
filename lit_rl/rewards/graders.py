"""Language models that answer a grading prompt, on a server or in this process."""

from __future__ import annotations

import json
import os
import re
import time
import urllib.error
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from lit_rl.models.padding import pad_left
from lit_rl.signature_check import ArgumentChecks

_LIKE_A_TOKEN = re.compile(r"(?<=[<\[])(?=[|｜][^<>\s]*[|｜]>|/?s>|(?:start|end)_of_turn>|/?INST\])")
"""Place after the first character of what the tokenizers of common chat models read as a special token."""


@dataclass(frozen=True)
class GraderAnswer:
    """A grader's answer; ``text`` is ``None`` if there is none, and ``reason`` says why."""

    text: str | None
    reason: str = ""


class Grader(ArgumentChecks, ABC):
    """Anything that answers prompts."""

    def setup(self) -> None:
        """Check whether the grader answers; called before the first rollout."""
        return

    @abstractmethod
    def answer(self, prompts: Sequence[str]) -> list[GraderAnswer]:
        """Return one answer per prompt, in order; never raise for a single prompt that failed."""


class ServerGrader(Grader):
    """A chat model behind an OpenAI-compatible server (vLLM, llama.cpp, a hosted one).

    Uses only the standard library: one request needs no client package. The special tokens of the server's tokenizer
    are not known, so text that looks like a special token of a common chat model is sent with a space inside.

    Args:
        model: name of the model at the server.
        url: base of the interface, ending before ``/chat/completions``.
        max_tokens: longest answer.
        temperature: 0 for the most likely answer.
        timeout_seconds: limit for one request.
        retries: further tries after a failure of connection, server or rate limit.
        max_concurrency: requests at a time.
        api_key_variable: environment variable that holds the key; unset means no key is sent.
    """

    def __init__(
        self,
        model: str,
        url: str = "http://localhost:8000/v1",
        max_tokens: int = 256,
        temperature: float = 0.0,
        timeout_seconds: float = 60.0,
        retries: int = 2,
        max_concurrency: int = 8,
        api_key_variable: str = "OPENAI_API_KEY",
    ) -> None:
        self.url, self.model = url.rstrip("/") + "/chat/completions", model
        self.max_tokens, self.temperature = max_tokens, temperature
        self.timeout_seconds, self.retries = timeout_seconds, retries
        self.max_concurrency, self.api_key_variable = max_concurrency, api_key_variable

    def answer(self, prompts: Sequence[str]) -> list[GraderAnswer]:
        with ThreadPoolExecutor(self.max_concurrency) as pool:
            return list(pool.map(self._ask, prompts))

    def _ask(self, prompt: str) -> GraderAnswer:
        reason = ""
        for attempt in range(self.retries + 1):
            try:
                return GraderAnswer(self._post_chat_request(prompt))
            except urllib.error.HTTPError as error:
                reason = f"the grader's server said {error.code} {error.reason}"
                if error.code < 500 and error.code != 429:
                    break  # asking again would not help
            except (OSError, ValueError, LookupError, TypeError) as error:
                reason = f"the grader's server gave no answer: {type(error).__name__}: {error}"
            if attempt < self.retries:
                time.sleep(0.5 * 2**attempt)
        return GraderAnswer(None, reason)

    def _post_chat_request(self, prompt: str) -> str:
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": _LIKE_A_TOKEN.sub(" ", prompt)}],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
        }
        headers = {"Content-Type": "application/json"}
        if key := os.environ.get(self.api_key_variable):
            headers["Authorization"] = f"Bearer {key}"
        request = urllib.request.Request(self.url, json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=self.timeout_seconds) as response:
            text = json.load(response)["choices"][0]["message"]["content"]
        if not isinstance(text, str):
            raise TypeError(f"expected text, got {text!r}")
        return text


class LocalGrader(Grader):
    """A causal language model in this process that answers greedily; it is loaded before the first rollout.

    Args:
        model: folder or hub id, loaded by ``transformers``; may hold ``$VARIABLES``.
        max_new_tokens: longest answer.
        batch_size: prompts at a time.
        device: device of the model, e.g. ``cuda``; ``None`` for an accelerator if there is one.
        dtype: name of a torch dtype.
    """

    def __init__(
        self,
        model: str,
        max_new_tokens: int = 64,
        batch_size: int = 8,
        device: str | None = None,
        dtype: str = "bfloat16",
    ) -> None:
        self.path, self.max_new_tokens, self.batch_size = model, max_new_tokens, batch_size
        self.device = device or ("cuda" if torch.cuda.is_available() else "cpu")
        self.dtype = dtype
        self._model: Any = None
        self._codec: Any = None

    def answer(self, prompts: Sequence[str]) -> list[GraderAnswer]:
        self.setup()
        answers: list[GraderAnswer] = []
        for start in range(0, len(prompts), self.batch_size):
            answers += [GraderAnswer(text) for text in self._generate(list(prompts[start : start + self.batch_size]))]
        return answers

    def setup(self) -> None:
        if self._model is not None:
            return
        from transformers import AutoModelForCausalLM

        from lit_rl.models.codecs.text_codec import TextCodec
        from lit_rl.models.loading.sources import NO_FOREIGN_CODE, resolve_model_source
        from lit_rl.models.loading.weights import load_tokenizer

        self._codec = TextCodec(load_tokenizer(self.path))
        dtype = getattr(torch, self.dtype)
        model = AutoModelForCausalLM.from_pretrained(resolve_model_source(self.path), dtype=dtype, **NO_FOREIGN_CODE)
        self._model = model.to(self.device).eval()

    @torch.no_grad()
    def _generate(self, prompts: list[str]) -> list[str]:
        codec, is_chat = self._codec, self._codec.tokenizer.chat_template
        asked = [
            ({"role": "user", "content": prompt},) if is_chat else codec.escape_special_tokens(prompt)
            for prompt in prompts
        ]
        ids, mask = pad_left([codec.encode_prompt(prompt) for prompt in asked], codec.pad_id, self.device)
        output = self._model.generate(
            input_ids=ids,
            attention_mask=mask,
            do_sample=False,
            temperature=None,
            top_p=None,
            top_k=None,
            max_new_tokens=self.max_new_tokens,
            pad_token_id=codec.pad_id,
        )
        answers: list[str] = codec.tokenizer.batch_decode(output[:, ids.shape[1] :], skip_special_tokens=True)
        return answers
