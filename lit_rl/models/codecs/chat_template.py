"""What a chat template writes between two turns of the policy.

A conversation is extended verbatim: ids that were sampled or read stay, new ones follow. That is right only if the
template renders a longer conversation as the shorter one with something after it. Some do not: they drop the thinking
of earlier turns (Qwen3, DeepSeek-R1) or move the system message to the last turn (Mistral v3).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from jinja2 import TemplateError

from lit_rl.arguments import UsageError
from lit_rl.types import Message

_ANSWER = "<think>\nthought-{0}\n</think>\n\nanswer-{0}"
"""With thinking in it, because templates that rewrite earlier turns look for that."""
_MESSAGE = "message-{0}"


class RewritesHistoryError(UsageError):
    """A chat template that renders earlier turns differently once there is a later one."""


@dataclass(frozen=True)
class TurnFrame:
    """Text around an environment's message.

    Args:
        end_token: special token that ends the policy's turn; empty if the template has none there.
        before: from there to the message.
        after: from the message to where the policy continues.
    """

    end_token: str
    before: str
    after: str

    def around(self, message: str) -> str:
        """All that follows the policy's words, up to its next turn."""
        return self.end_token + self.before + message + self.after


def find_frame(tokenizer: Any, roles: Sequence[str]) -> TurnFrame:
    """What the tokenizer's chat template writes around a message, verified on three turns of the policy.

    Args:
        tokenizer: with a chat template.
        roles: of the messages that the conversation begins with.

    Raises:
        RewritesHistoryError: the template changes what it wrote before.
    """
    messages: list[Message] = [{"role": role, "content": f"begin-{i}"} for i, role in enumerate(roles)]
    so_far = render(tokenizer, messages)
    frames = []
    for turn in range(2):
        answer, message = _ANSWER.format(turn), _MESSAGE.format(turn)
        messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": message}]
        longer = render(tokenizer, messages)
        rest = longer.removeprefix(so_far).lstrip()
        between, found, after = rest.removeprefix(answer).partition(message)
        if not (longer.startswith(so_far) and rest.startswith(answer) and found):
            raise _rewrites(tokenizer)
        frames.append((between, after))
        so_far = longer
    if frames[0] != frames[1]:
        raise _rewrites(tokenizer)
    between, after = frames[0]
    opening = between.lstrip()
    end_token = max((s for s in special_tokens(tokenizer) if opening.startswith(s)), key=len, default="")
    return TurnFrame(end_token, opening.removeprefix(end_token) if end_token else between, after)


def render(tokenizer: Any, messages: Sequence[Message]) -> str:
    """A conversation as its chat template writes it, up to where the policy continues.

    Raises:
        ValueError: the template cannot be read, or it refuses the conversation.
    """
    try:
        text: str = tokenizer.apply_chat_template(
            [dict(message) for message in messages], tokenize=False, add_generation_prompt=True
        )
    except TemplateError as error:
        roles = ", ".join(message["role"] for message in messages)
        raise UsageError(f"the chat template fails on messages of the roles {roles}: {error}") from error
    return text


def special_tokens(tokenizer: Any) -> set[str]:
    """The texts of a tokenizer's special tokens."""
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return {token.content for token in added if token.special} | set(tokenizer.all_special_tokens)


def defused(message: str, special: Collection[str]) -> str:
    """The message with a space in each special token that it spells out, so that it is read as text.

    What a program prints stands in the message about it: without this it could end its own turn, or open one in the
    name of another.
    """
    for token in sorted(special, key=len, reverse=True):
        message = message.replace(token, f"{token[0]} {token[1:]}")
    return message


def _rewrites(tokenizer: Any) -> RewritesHistoryError:
    return RewritesHistoryError(
        f"the chat template of {tokenizer.name_or_path or 'the tokenizer'} writes earlier turns differently once "
        "there is a later one (some drop earlier thinking), so a conversation cannot go on from the ids that were "
        "sampled: set chat_template to one that keeps earlier turns, or allow one turn only"
    )
