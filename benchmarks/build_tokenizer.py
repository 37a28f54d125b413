"""The tokenizer of the embedded task: byte-level BPE, made from its training problems.

Made for copying: a whole number up to 99 is one token, and so is a name, and neither includes the space before it
in code, so the body repeats the tokens of signature and docstring. An operator with its spaces, a run of brackets, a
call with its bracket, a line break with its indent and the keyword after it are one token each. Any text comes back
byte for byte, by way of 256 single-byte tokens.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

from lit_rl.data import Basics

END_OF_TEXT, PAD = "<|endoftext|>", "<|pad|>"
VOCABULARY_SIZE = 1024

# One alternative per kind of token, the first that matches wins.
PIECES = "|".join(
    (
        r'(?:\):\n {4}|[.?])?"{3}\n?',  # a docstring's quotes, with what they open or close
        r"\n* *(?:return|for|in|if|else|and|or|not|def) ",  # keywords with their spaces and indent
        r'(?<=")[^\w\s"](?=")',  # a character between quotes: the string it makes
        r'"?\.[A-Za-z_]+\(',  # a method call, of a string too
        r"[A-Za-z_]+\(",  # a function call
        r" ?[A-Za-z_]+(?: (?=[0-9\"]))?",  # a word; a space before a number or a quote belongs to the word
        r"100|[0-9]{1,2}",
        r" [-+*/%<>=!]{1,3} ",  # an operator between its spaces
        r'"?[^\w\s"]*, "?',  # a comma, with what it closes and opens
        r'"?[:;] ',  # a colon or a semicolon in a line
        r'(?!"[^\w\s"]"(?!""))"?[^\w\s"]+(?:"(?!""))?',  # brackets and other runs, with the quote of a string
        r'"',
        r"\n+ *",  # a line break with the indent after it
        r" +",
    )
)


def build_tokenizer(folder: Path, texts: Sequence[str] | None = None) -> None:
    """Learn merges from texts and write the tokenizer; without texts, from those of ``Basics()``, the shipped one."""
    tokenizer = Tokenizer(models.BPE())
    pieces = pre_tokenizers.Split(Regex(PIECES), behavior="isolated")
    by_byte = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pieces, by_byte])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY_SIZE,
        special_tokens=[END_OF_TEXT, PAD],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    if texts is None:
        problems = Basics().problems("train")
        texts = [str(problem.reference) for problem in problems]
        texts += [f"{problem.prompt}{problem.fields['bug']}" for problem in problems]
    tokenizer.train_from_iterator(texts, trainer)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=END_OF_TEXT,
        pad_token=PAD,
        padding_side="left",
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)
