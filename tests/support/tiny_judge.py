"""A language model that answers every prompt with one line, because its weights leave it no choice."""

from __future__ import annotations

from pathlib import Path

import torch

from support.tiny_models import TINY_QWEN2

CHAT = "{% for m in messages %}{{ m['content'] }}{% endfor %}>"


def write_judge(folder: Path, byte_tokenizer: str, answer: str = "Score: 7") -> str:
    """Write a tiny Qwen2 with made-up weights that says ``answer``, then EOS.

    Attention and MLP add nothing, so what follows depends on the last token alone: each sign of the answer leads to
    the next one, and the sign that ends the chat template to the first. Signs must differ.

    Args:
        folder: where to.
        byte_tokenizer: folder of the tokenizer with one token a byte.
        answer: what it says, in ASCII.
    """
    from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

    tokenizer = PreTrainedTokenizerFast.from_pretrained(byte_tokenizer, chat_template=CHAT)
    said = tokenizer.convert_tokens_to_ids(tokenizer.tokenize(CHAT[-1] + answer))
    assert len(set(said)) == len(said) == 1 + len(answer), "each sign leads to one other"
    shape = TINY_QWEN2 | {"max_position_embeddings": 32768, "tie_word_embeddings": False}
    model = Qwen2ForCausalLM(Qwen2Config(vocab_size=len(tokenizer), eos_token_id=tokenizer.eos_token_id, **shape))
    with torch.no_grad():
        for name, weight in model.named_parameters():
            weight.fill_(1.0 if "norm" in name else 0.0)
        for place, (sign, following) in enumerate(zip(said, [*said[1:], tokenizer.eos_token_id], strict=True)):
            model.model.embed_tokens.weight[sign, place] = 1.0
            model.lm_head.weight[following, place] = 1.0
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)
