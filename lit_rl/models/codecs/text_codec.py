"""The codec of causal language models: a tokenizer and its chat template.

A conversation is extended verbatim: ids that were sampled or read stay, new ones follow. That is right only if the
template renders a longer conversation as the shorter one with something after it. If the template only drops the
thinking of earlier turns (Qwen3, DeepSeek-R1), the conversation keeps that thinking and the run says so; other changes,
such as moving the system message to the last turn (Mistral v3), are refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from jinja2 import TemplateError
from lightning_utilities.core.rank_zero import rank_zero_warn

from lit_rl.errors import ArgumentError, UsageError
from lit_rl.execution.fences import ENDS_IN_THOUGHT
from lit_rl.models.codecs.codec import Codec, Spans
from lit_rl.models.codecs.token_bytes import text_and_byte_spans, token_to_bytes
from lit_rl.types import Message, Problem, StopReason

_ANSWER = "<think>\nthought-{0}\n</think>\n\nanswer-{0}"
"""An answer with thinking in it, because templates that rewrite earlier turns look for thinking."""
_MESSAGE = "message-{0}"
_WHOLE_THOUGHT = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
_OPENED_THOUGHT = re.compile(r"<think>\s*\Z")


class TemplateRewritesHistoryError(UsageError):
    """A chat template that renders earlier turns differently once there is a later one."""


@dataclass(frozen=True)
class MessageFrame:
    """Text around an environment's message: the token that ends the policy's turn, if any, and the template's text."""

    end_token: str
    before: str
    after: str

    def wrap_message(self, message: str) -> str:
        """Return the text from the end of the policy's turn to the beginning of the policy's next turn."""
        return self.end_token + self.before + message + self.after


def find_message_frame(
    tokenizer: Any, roles: Sequence[str], arguments: Mapping[str, Any] | None = None
) -> MessageFrame:
    """Return the text that the chat template writes around a message, verified on two turns of the policy.

    A template that drops the thinking of earlier turns will do: the conversation keeps this thinking as it was sampled.
    """
    frame = _find_message_frame(tokenizer, roles, arguments, str)
    if frame is not None:
        return frame
    # Compare again without thoughts, whole or just opened.
    frame = _find_message_frame(
        tokenizer, roles, arguments, lambda text: _OPENED_THOUGHT.sub("", _WHOLE_THOUGHT.sub("", text))
    )
    whose = f"the chat template of {tokenizer.name_or_path or 'the tokenizer'}"
    if frame is None:
        raise TemplateRewritesHistoryError(
            f"{whose} writes earlier turns differently once there is a later one, so a conversation cannot continue "
            "from the ids that were sampled: set chat_template to one that keeps earlier turns, or allow one turn only"
        )
    rank_zero_warn(f"{whose} drops the thinking of earlier turns; conversations keep each turn as it was sampled")
    return frame


def _find_message_frame(
    tokenizer: Any, roles: Sequence[str], arguments: Mapping[str, Any] | None, compared: Callable[[str], str]
) -> MessageFrame | None:
    """Return the frame if, as far as texts are compared, a longer conversation only adds to a shorter one."""
    messages: list[Message] = [{"role": role, "content": f"begin-{i}"} for i, role in enumerate(roles)]
    so_far = render_chat(tokenizer, messages, arguments)
    frames = []
    for turn in range(2):
        answer, message = _ANSWER.format(turn), _MESSAGE.format(turn)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": message}]
        longer = render_chat(tokenizer, messages, arguments)
        rest = compared(longer).removeprefix(compared(so_far)).lstrip()
        answer_text = compared(answer).strip()
        between, found, _ = rest.removeprefix(answer_text).partition(message)
        if not (compared(longer).startswith(compared(so_far)) and rest.startswith(answer_text) and found):
            return None
        frames.append((between, longer.rpartition(message)[2]))
        so_far = longer
    if frames[0] != frames[1]:
        return None
    between, after = frames[0]
    opening = between.lstrip()
    end_token = max((s for s in special_token_texts(tokenizer) if opening.startswith(s)), key=len, default="")
    return MessageFrame(end_token, opening.removeprefix(end_token) if end_token else between, after)


def render_chat(tokenizer: Any, messages: Sequence[Message], arguments: Mapping[str, Any] | None = None) -> str:
    """Return a conversation as its chat template writes it, up to where the policy continues."""
    continues = messages[-1]["role"] == "assistant"
    try:
        text: str = tokenizer.apply_chat_template(
            [dict(message) for message in messages],
            tokenize=False,
            add_generation_prompt=not continues,
            continue_final_message=continues,
            **(arguments or {}),
        )
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in messages)
        failed = f"the chat template fails on messages of the roles {roles}"
        raise UsageError(f"{failed}: {str(error).rstrip('.')}; set the policy's chat_template") from error
    return text


def special_token_texts(tokenizer: Any) -> set[str]:
    """Return the texts of a tokenizer's special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)


_OPEN, _CLOSE = "\ufdd0", "\ufdd1"
"""Marks around a special token that is plain text: two code points that Unicode keeps for use inside a program."""
_MARKED = re.compile(f"{_OPEN}(.+?){_CLOSE}", re.DOTALL)

# A stop string of n bytes begins at most n - 1 tokens before the token that completes it, since each token writes a
# byte or more. Special tokens write none, and sentencepiece drops a space where a text begins, so some more are read.
_MORE_TOKENS = 8

_TOKENS_OF_THOUGHT = 16
"""Tokens at the end of a prompt that can hold the opening of a thought, even if the opening is several tokens."""

_BROKEN = "\ufffd"
"""Replacement character for bytes that are not a character; a text can hold it without any token that does."""

_LEFT_OUT = "\n[... left out ...]\n"


class TextCodec(Codec):
    """Codec around a tokenizer: text and chat messages to ids, and back with the bytes that each token wrote."""

    def __init__(
        self,
        tokenizer: Any,
        eos_ids: frozenset[int] = frozenset(),
        max_positions: int = 1 << 30,
        *,
        template_arguments: Mapping[str, Any] | None = None,
    ) -> None:
        pad = tokenizer.pad_token_id
        pad_id = int(pad if pad is not None else min(eos_ids, default=0))
        super().__init__(eos_ids, pad_id, max_positions)
        self.tokenizer = tokenizer
        self.template_arguments = template_arguments
        # Sentencepiece drops a space where a text begins. A completion continues a prompt, so it is decoded
        # after a token that is then cut off: indentation keeps its first space.
        self._anchor = self._tokenize("a")
        self._anchor_bytes = len(text_and_byte_spans(tokenizer, self._anchor)[0].encode())
        self._frames: dict[tuple[str, ...], MessageFrame] = {}
        spelled = sorted(filter(None, special_token_texts(tokenizer)), key=len, reverse=True)
        self._spelled = re.compile("|".join([*map(re.escape, spelled), f"[{_OPEN}{_CLOSE}]"]))

    # -- prompts and completions ---------------------------------------------------------------------------

    def encode_problem(self, problem: Problem) -> tuple[int, ...]:
        if not isinstance(problem.prompt, str):
            self._require_chat_template(problem)
        return self.encode_prompt(problem.prompt)

    def encode_prompt(self, prompt: str | Sequence[Message]) -> tuple[int, ...]:
        """Return the token ids of a text or of chat messages.

        A text is tokenized with the tokenizer's own special tokens (BOS where it has one) and those that its author
        wrote. Chat messages go through the chat template, and only the template writes special tokens: a special token
        that a message spells out is plain text.
        """
        if isinstance(prompt, str):
            return tuple(self._tokenize(prompt, begins=True))
        escaped: list[Message] = [
            {**message, "content": self.escape_special_tokens(message["content"])} for message in prompt
        ]
        return tuple(self._tokenize(render_chat(self.tokenizer, escaped, self.template_arguments)))

    def escape_special_tokens(self, text: str) -> str:
        return self._spelled.sub(f"{_OPEN}\\g<0>{_CLOSE}", text)

    def encode_completion(self, text: str, *, is_finished: bool = True) -> tuple[tuple[int, ...], StopReason]:
        ids, eos = self.encode_text(self.escape_special_tokens(text)), self.tokenizer.eos_token_id
        return ((*ids, int(eos)), StopReason.EOS) if is_finished and eos is not None else (ids, StopReason.LENGTH)

    def encode_text(self, text: str) -> tuple[int, ...]:
        """Return ids that continue some other text and decode to exactly ``text``, without special tokens.

        Sentencepiece would put a space before ``text``, as if a text began here; then ``text`` is encoded after another
        token.
        """
        written = _MARKED.sub(r"\1", text)
        for before in ("", "\n", "a"):
            ids = self._tokenize(before + text)[len(self._tokenize(before)) if before else 0 :]
            if self.decode(ids, StopReason.LENGTH, ())[0] == written:
                return tuple(ids)
        return tuple(self._tokenize(text))

    def decode(self, ids: Sequence[int], reason: StopReason, stop_strings: Sequence[str]) -> tuple[str, Spans]:
        body = ids[:-1] if reason is StopReason.EOS else ids
        text, spans = text_and_byte_spans(self.tokenizer, [*self._anchor, *body])
        first = self._anchor_bytes
        text = text.encode()[first:].decode()
        if reason is StopReason.STOP_STRING:
            cut = min((at for s in stop_strings if (at := text.find(s)) >= 0), default=len(text))
            text = text[:cut]
        size = len(text.encode())
        return text, spans[len(self._anchor) :].cut(first, size, len(ids) - len(body))

    def contains_stop(self, ids: Sequence[int], stop_strings: Sequence[str]) -> bool:
        if not stop_strings:
            return False
        last = token_to_bytes(self.tokenizer, ids[-1])
        # If the last token holds no stop string's last byte, nothing has to be decoded.
        if not any(string.encode()[-1:] in last or _BROKEN in string for string in stop_strings):
            return False
        tokens = _MORE_TOKENS + max(len(string.encode()) for string in stop_strings)
        tail = self.tokenizer.decode(ids[-tokens:], skip_special_tokens=True)
        return any(string in tail for string in stop_strings)

    def prompt_opens_thought(self, prompt_ids: Sequence[int]) -> bool:
        return ENDS_IN_THOUGHT.search(self.tokenizer.decode(list(prompt_ids[-_TOKENS_OF_THOUGHT:]))) is not None

    # -- further turns -------------------------------------------------------------------------------------

    def encode_message(self, problem: Problem, ids: Sequence[int], reason: StopReason, message: str) -> tuple[int, ...]:
        """Return ids that append a message and open the policy's next turn; see :meth:`Codec.encode_message`.

        For a chat, they are what its template writes there; the token that ends the policy's turn is among them unless
        the policy wrote that token itself. For a text, they are the message's own ids. Special tokens that a message
        spells out, as a program's output may, stay text.
        """
        message = self.escape_special_tokens(message)
        if isinstance(problem.prompt, str):
            return self.encode_text(message)
        frame = self._cached_message_frame(problem)
        if not frame.end_token:
            return self.encode_text(frame.wrap_message(message))
        # Encoded with the end token before it: what follows a special token is split as in the whole conversation.
        added = self._tokenize(frame.wrap_message(message))
        closed = bool(ids) and ids[-1] == added[0]
        return tuple(added[1:] if closed else added)

    def truncate_middle(self, text: str, max_tokens: int) -> str:
        ids = self._tokenize(self.escape_special_tokens(text))
        if len(ids) <= max_tokens:
            return text
        kept = max_tokens - len(self._tokenize(_LEFT_OUT))
        raw, spans = text_and_byte_spans(self.tokenizer, ids)
        whole = raw.encode()
        while kept >= 0:
            head, tail = (kept + 1) // 2, kept // 2
            begin = whole[: spans[head - 1][1] if head else 0].decode(errors="ignore")
            end = whole[spans[-tail][0] if tail else len(whole) :].decode(errors="ignore")
            shorter = begin + _LEFT_OUT + end
            excess = len(self._tokenize(self.escape_special_tokens(shorter))) - max_tokens
            if excess <= 0:
                return shorter
            kept -= excess  # tokens at the borders may be split differently
        raise ArgumentError("max_message_tokens", f"at least {2 * len(self._tokenize(_LEFT_OUT))}", str(max_tokens))

    def _cached_message_frame(self, problem: Problem) -> MessageFrame:
        """Return the template's text around a message, found once for each way in which conversations begin."""
        self._require_chat_template(problem)
        roles = tuple(message["role"] for message in problem.prompt if not isinstance(message, str))
        roles = roles[:-1] if roles[-1] == "assistant" else roles  # that message begins the policy's turn
        if roles not in self._frames:
            self._frames[roles] = find_message_frame(self.tokenizer, roles, self.template_arguments)
        return self._frames[roles]

    def _require_chat_template(self, problem: Problem) -> None:
        if not getattr(self.tokenizer, "chat_template", None):
            raise UsageError(
                f"problem {problem.task_id} is a chat, but the tokenizer has no chat template: "
                "use the task's completion form or a chat model"
            )

    def _tokenize(self, text: str, begins: bool = False) -> list[int]:
        """Return the ids of a text; special tokens in it count, unless :meth:`escape_special_tokens` marked them."""
        first, *others = _MARKED.split(text)
        ids: list[int] = list(self.tokenizer(first, add_special_tokens=begins)["input_ids"])
        line_end = self.tokenizer("\n", add_special_tokens=False)["input_ids"] if others else []
        for place, piece in enumerate(others):
            encode = partial(self.tokenizer, add_special_tokens=False, split_special_tokens=place % 2 == 0)
            # Encoded after a line end, as sentencepiece starts a text with a space; line end and piece may merge.
            after: list[int] = encode("\n" + piece)["input_ids"]
            follows = after[: len(line_end)] == line_end
            ids += after[len(line_end) :] if follows else encode(piece)["input_ids"]
        return ids
