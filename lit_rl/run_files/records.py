"""The schema of a run's files: the content of each file's lines, as plain data without tensors."""

from __future__ import annotations

import codecs
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain
from types import NoneType
from typing import Any, NamedTuple, TypeVar, cast

from lit_rl.errors import ArgumentError
from lit_rl.signature_check import NonNegativeInt, check_and_convert, constructor_parameters

Curve = list[tuple[int, float]]
"""(rollouts or updates done, value), in order."""

Spans = tuple[tuple[int, int], ...]
Made = TypeVar("Made")


@dataclass(frozen=True)
class RecordedTurn:
    """One recorded turn of the policy.

    Args:
        start: column of the turn's first token in the completion.
        end: column after the turn's last token.
        text: decoded text, without EOS.
        spans: bytes of each token in the UTF-8 of the text.
        stop_reason: why the turn ended.
        message: what the environment answered; empty after the last turn.
        outcome: how the turn's program ended, the fields of :class:`lit_rl.execution.Outcome`; if the task runs no
            programs, only a ``verdict`` that says so.
        stop_string: the stop string that ended the turn; empty if none did, or if it was not recorded.
        in_thought: whether the prompt before the turn opened a thought.
    """

    start: NonNegativeInt
    end: int
    text: str
    spans: Spans
    stop_reason: str
    message: str
    outcome: Mapping[str, Any]
    stop_string: str = ""
    in_thought: bool = False

    def token_texts(self) -> list[str]:
        """Return the text of each token; a character made of several tokens goes to the token with its last byte."""
        data = self.text.encode("utf-8", "surrogatepass")
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        pieces, done = [], 0
        for start, end in self.spans:  # neighbours share the bytes of a character that was cut off
            pieces.append(decoder.decode(data[max(start, done) : end]))
            done = max(done, end)
        return pieces


@dataclass(frozen=True)
class RecordedRow:
    """One completion of a rollout with its outcome, reward and per-token values.

    Args:
        rollout: number of the rollout, from 1.
        row: number of the row in the rollout, from 0, over all ranks.
        group: number of the row's group.
        task_id: task id of the problem.
        prompt: text or chat messages.
        prompt_ids: token ids of the prompt.
        turns: the policy's turns, at least one.
        program: fields of the program found in the last turn, ``None`` if there is none.
        failing: bytes of the failing line in the last turn's text.
        reward: reward before any KL; ``None`` if there is none.
        reason: why there is no reward.
        terms: unweighted values of the reward terms; ``None`` if a term failed.
        tokens: per column of the completion, by name: ``ids``, ``credit``, ``advantage``, ``logprob_sampled`` and,
            if they were computed, ``logprob_old``, ``logprob_update``, ``logprob_ref``, ``value``, ``entropy``.
            Empty if the row was too large to be kept whole.
    """

    rollout: int
    row: int
    group: int
    task_id: str
    prompt: str | Sequence[Mapping[str, str]]
    prompt_ids: tuple[int, ...]
    turns: tuple[RecordedTurn, ...]
    program: Mapping[str, Any] | None
    failing: tuple[int, int] | None
    reward: float | None
    reason: str
    terms: Mapping[str, float | None]
    tokens: Mapping[str, list[Any]]

    @property
    def outcome(self) -> Mapping[str, Any]:
        """Outcome of the last turn's program."""
        return self.turns[-1].outcome

    @property
    def verdict(self) -> str:
        """Verdict on the last turn's program."""
        return str(self.outcome["verdict"])

    def to_stored_row(self, sample: int) -> dict[str, Any]:
        """Return a row that was recorded whole as :func:`lit_rl.rollout.restore_conversations` takes it."""
        ids = self.tokens["ids"]
        chosen = bytearray(len(ids))
        for turn in self.turns:
            chosen[turn.start : turn.end] = b"\1" * (turn.end - turn.start)
        return {
            "task_id": self.task_id,
            "sample": sample,
            "prompt_ids": self.prompt_ids,
            "ids": ids,
            "chosen": chosen,
            "logprobs": [math.nan if value is None else value for value in self.tokens["logprob_sampled"]],
            "turns": [(turn.start, turn.end, turn.stop_reason) for turn in self.turns],
            "versions": [0] * len(self.turns),
        }

    @property
    def num_tokens(self) -> int:
        """Number of tokens that the policy chose."""
        return sum(turn.end - turn.start for turn in self.turns)

    @property
    def prompt_text(self) -> str:
        """The prompt as text; the messages of a chat one after another."""
        return self.prompt if isinstance(self.prompt, str) else "\n\n".join(m["content"] for m in self.prompt)


@dataclass(frozen=True)
class RecordedRollout:
    """Recorded data of one rollout.

    Args:
        number: number of the rollout, from 1.
        num_rows: rows that the rollout had; ``rows`` may be fewer.
        time: seconds since the epoch at the rollout's end.
        endings: number of programs by how they ended, such as ``exception: NameError``.
        seconds: seconds that each part took, by name.
        rows: the rows that were kept.
        verb: the trainer's verb, in a file of completions.
        sampled_for: what the rows were sampled for, such as ``validation/greedy`` or ``predict``; empty in training.
        loader: number of the validation task.
    """

    number: int
    num_rows: int
    time: float
    endings: Mapping[str, int]
    seconds: Mapping[str, float]
    rows: tuple[RecordedRow, ...] = field(repr=False)
    verb: str = ""
    sampled_for: str = ""
    loader: int = 0

    def rows_of_group(self, number: int) -> list[RecordedRow]:
        """Return the rows of a group, best first."""
        rows = [row for row in self.rows if row.group == number]
        return sorted(rows, key=lambda row: (row.reward is None, -(row.reward or 0.0), row.row))


class Diagnosis(NamedTuple):
    """One diagnosis of a run, made while it ran.

    Args:
        rollout: number of the rollout after which the diagnosis was made, from 1.
        rule: name of the rule that spoke.
        message: what is wrong and what to do, in one line, with the page of the docs.
        details: what the message refers to, such as completions; may have many lines.
        ended: rollout after which the diagnosis no longer held; ``None`` if it held to the end.
    """

    rollout: int
    rule: str
    message: str
    details: str = ""
    ended: int | None = None

    @property
    def rollouts_text(self) -> str:
        """The rollouts in which the diagnosis held."""
        return f"since rollout {self.rollout}" if self.ended is None else f"rollouts {self.rollout} to {self.ended}"

    def format_line(self) -> str:
        """Return the diagnosis as one line for the terminal."""
        return f"{self.rollouts_text}: {self.message}"


@dataclass(frozen=True)
class RecordedMetrics:
    """The numbers of a run; ``start`` describes the last start of the run, and is empty if that was not recorded."""

    clock: str
    start: Mapping[str, Any]
    curves: Mapping[str, Curve]
    diagnoses: Sequence[Diagnosis]

    @property
    def open_diagnoses(self) -> list[Diagnosis]:
        """Diagnoses that held to the end."""
        return [one for one in self.diagnoses if one.ended is None]


# -- from and to plain data -----------------------------------------------------------------------------------


def rollout_from_head_line(head: Mapping[str, Any]) -> RecordedRollout:
    """Return a rollout from the first line of its batch, without its rows."""
    return _build_dataclass(RecordedRollout, head, number=int(head["rollout"]), rows=())


def recorded_row_to_dict(row: RecordedRow) -> dict[str, Any]:
    """Return a row as its line in the file holds it, without the number of the rollout."""
    item = {one.name: getattr(row, one.name) for one in fields(row) if one.name != "rollout"}
    turns = [{one.name: getattr(turn, one.name) for one in fields(turn)} for turn in row.turns]
    return item | {"turns": [turn | {"spans": pack_spans(turn["spans"])} for turn in turns]}


def recorded_row_from_dict(rollout: int, item: Mapping[str, Any]) -> RecordedRow:
    """Return a row from its line, after checking the parts that readers rely on."""
    failing, ids, tokens = item["failing"], tuple(item["prompt_ids"]), item["tokens"]
    changed = {"prompt_ids": ids, "failing": None if failing is None else (int(failing[0]), int(failing[1]))}
    turns = tuple(_recorded_turn_from_dict(turn) for turn in item["turns"])
    row = _build_dataclass(RecordedRow, item, rollout=int(rollout), turns=turns, tokens=tokens, **changed)
    if row.program is not None:
        check_field_types("program", row.program, {"source": str})
    end, borders = max(turn.end for turn in turns), (span for turn in turns for span in turn.spans)
    # A look at the types alone is fast.
    whole = set(map(type, chain(ids, tokens.get("ids", ()), *borders))) <= {int}
    real = set(map(type, chain(*tokens.values()))) <= {int, float, NoneType}
    if not (whole and real) or any(len(values) < end for values in tokens.values()):
        raise ArgumentError("tokens", f"numbers, and at least {end} of them for each of {', '.join(tokens)}")
    return row


def _recorded_turn_from_dict(item: Mapping[str, Any]) -> RecordedTurn:
    turn = _build_dataclass(RecordedTurn, item, spans=unpack_spans(item["spans"]))
    check_field_types("outcome", turn.outcome, _OUTCOME)
    return turn


_TEXT = str | None
_OUTCOME: Mapping[str, Any] = {
    **dict.fromkeys(("robot_verdict", "exception_type", "exception_message", "stdout", "stderr"), _TEXT),
    "verdict": str,
    "line": int | None,
    "cases": list[str] | None,
    "failed_case": Mapping[str, str | int] | None,
}
"""The types of an outcome's fields that are shown."""


def _build_dataclass(kind: type[Made], item: Mapping[str, Any], **built: Any) -> Made:
    """Build a dataclass from ``built`` and the fields of a line, which may have fields of other versions."""
    known = {name: one for name, one in constructor_parameters(cast(Any, kind)).items() if name not in built}
    needed = {name: one.annotation for name, one in known.items() if name in item or one.default is one.empty}
    check_field_types(kind.__name__, item, needed)
    return kind(**{name: item[name] for name in known if name in item}, **built)


def check_field_types(where: str, item: Mapping[str, Any], hints: Mapping[str, Any]) -> None:
    """Raise ArgumentError unless the fields are of these types; a missing field counts as ``None``."""
    for name, hint in hints.items():
        check_and_convert(item.get(name), hint, f"{where}.{name}")


def pack_spans(spans: Sequence[tuple[int, int]]) -> list[Any]:
    """Return byte spans as they are written: widths if each span begins where the last ended; otherwise pairs."""
    starts = [0, *(end for _, end in spans)]
    if all(start == before for (start, _), before in zip(spans, starts, strict=False)):
        return [end - start for start, end in spans]
    return [list(span) for span in spans]


def unpack_spans(packed: Sequence[Any]) -> Spans:
    """Return the byte spans that :func:`pack_spans` packed."""
    spans, end = [], 0
    for item in packed:
        start, end = (end, end + item) if isinstance(item, int) else (item[0], item[1])
        spans.append((start, end))
    return tuple(spans)


def finite_or_none(value: float) -> float | None:
    """Return a number, or ``None`` if JSON cannot hold it."""
    return value if math.isfinite(value) else None
