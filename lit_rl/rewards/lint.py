"""Linter findings: style, likely faults and security."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from lit_rl.errors import UsageError
from lit_rl.lazy import import_extra
from lit_rl.rewards.python_prefix import find_rejected_token, has_no_code
from lit_rl.rewards.term import RewardTerm, Span, TermScore
from lit_rl.rewards.token_credit import (
    SourceMap,
    utf8_bytes,
    valueless_score_unless_python,
)
from lit_rl.signature_check import NonNegativeFloat, PositiveFloat
from lit_rl.types import Completions, Judgement

Finding = Mapping[str, Any]
SYNTAX: Final = "invalid-syntax"
SEVERITIES: Final = {"": 0.1, "E": 0.05, "W": 0.05, "F": 0.2, "B": 0.1, "S": 0.3}

_START: Final = {"row": 1, "column": 1}
_NOT_TEXT: Final[Finding] = {"code": SYNTAX, "location": _START, "end_location": _START}


class LintReward(RewardTerm):
    """Reward of minus the severities of ruff's findings in a program, at least -1; each finding has a place.

    ruff is the linter: one process reads all programs of a batch in milliseconds, and its rules contain those of
    pycodestyle (E, W), pyflakes (F), bugbear (B) and bandit (S). Comments that silence ruff (``noqa``) are ignored. If
    the severities sum to more than 1, all are scaled down together.

    A program that does not parse gets -1 at its first fault and nothing else is counted, so that broken
    programs are never cleaner than working ones; for the same reason a completion without a program, or with
    nothing but comments in it, gets -1. Findings in a prefix that was given do not count.

    Args:
        select: rules or prefixes of rules to look for.
        ignore: rules or prefixes of rules to leave out; by default asserts and line lengths.
        severities: costs of findings, at least 0, by prefix of the rule; the longest prefix counts. They are added to
            the defaults. The empty prefix means all other rules.
        timeout_seconds: limit for one batch; beyond it the batch has no values.
    """

    default_name = "lint"
    needs_every_case = False
    reads_python = True

    def __init__(
        self,
        weight: float = 1.0,
        name: str | None = None,
        select: Sequence[str] = ("E", "F", "B", "S"),
        ignore: Sequence[str] = ("S101", "E501"),
        severities: dict[str, NonNegativeFloat] | None = None,
        timeout_seconds: PositiveFloat = 30.0,
    ) -> None:
        super().__init__(weight, name)
        self.select, self.ignore = list(select), list(ignore)
        self.severities = {**SEVERITIES, **(severities or {})}
        self.timeout_seconds = timeout_seconds

    def setup(self) -> None:
        """Run ruff on nothing, so that missing packages and unknown rules fail before the first rollout."""
        with tempfile.TemporaryDirectory() as folder:
            done = self._run_ruff(folder)
        if done.returncode:
            message = " ".join(done.stderr.split())
            raise UsageError(f"ruff rejects LintReward.select or ignore: {message}")

    def score(self, completions: Completions, judgements: Sequence[Judgement]) -> list[TermScore]:
        known = [valueless_score_unless_python(judgement) for judgement in judgements]
        read = (j for j, score in zip(judgements, known, strict=True) if score is None)
        sources = list(dict.fromkeys(j.program.source for j in read if j.program is not None))
        findings: dict[str, list[Finding]] = {}
        failed: dict[str, str] = {}
        self._collect_findings([source for source in sources if _is_encodable(source)], findings, failed)
        findings |= {source: [_NOT_TEXT] for source in sources if not _is_encodable(source)}
        rows = zip(known, completions.texts, judgements, strict=True)
        return [score or self._score(text, judgement, findings, failed) for score, text, judgement in rows]

    def _collect_findings(self, sources: list[str], findings: dict[str, list[Finding]], failed: dict[str, str]) -> None:
        """Add each source's findings, in order of their places, or ruff's message where ruff fails.

        One run reads all sources. If the run fails, the sources are read by halves, so that one bad source does not
        cost the other sources their values.
        """
        if not sources:
            return
        try:
            findings |= self._run_and_parse_findings(sources)
        except (OSError, subprocess.SubprocessError, ValueError) as error:
            if isinstance(error, subprocess.CalledProcessError | json.JSONDecodeError) and len(sources) > 1:
                half = len(sources) // 2
                self._collect_findings(sources[:half], findings, failed)
                self._collect_findings(sources[half:], findings, failed)
            else:
                said = str(getattr(error, "stderr", None) or error)
                failed |= dict.fromkeys(sources, f"ruff failed: {' '.join(said.split())}")

    def _run_and_parse_findings(self, sources: list[str]) -> dict[str, list[Finding]]:
        found: dict[str, list[Finding]] = {source: [] for source in sources}
        with tempfile.TemporaryDirectory() as folder:
            for number, source in enumerate(sources):
                Path(folder, f"program_{number}.py").write_bytes(source.encode())
            done = self._run_ruff(folder)
        done.check_returncode()
        for finding in json.loads(done.stdout):
            number = int(Path(finding["filename"]).stem.removeprefix("program_"))
            found[sources[number]].append(finding)
        return found

    def _run_ruff(self, folder: str) -> subprocess.CompletedProcess[str]:
        version = f"py3{min(sys.version_info.minor, 14)}"
        command = [import_extra("ruff", "LintReward", "rewards").find_ruff_bin(), "check", "--isolated", "--no-cache"]
        command += ["--quiet", "--exit-zero", "--ignore-noqa", "--output-format=json"]
        command += [f"--target-version={version}", f"--select={','.join(self.select)}"]
        command += [f"--ignore={','.join(self.ignore)}", "--", folder]
        return subprocess.run(command, capture_output=True, encoding="utf-8", timeout=self.timeout_seconds, cwd=folder)

    def _score(
        self, text: str, judgement: Judgement, findings: dict[str, list[Finding]], failed: dict[str, str]
    ) -> TermScore:
        program = judgement.program
        if program is None or has_no_code(program.source):
            return TermScore(-1.0)
        if program.source in failed:
            return TermScore(None, reason=failed[program.source])
        places = SourceMap(text, program)
        found = findings[program.source]
        broken = next((finding for finding in found if finding["code"] in (None, SYNTAX)), None)
        if broken is not None:
            place = find_rejected_token(program.source)
            if place is None:
                span = _finding_span(broken, places, -1.0)
            else:
                start, end = (len(utf8_bytes(program.source[:offset])) for offset in place)
                span = places.text_span(start, end, -1.0)
            return TermScore(-1.0, () if span is None else (span,))
        costs = [self._finding_cost_and_span(finding, places) for finding in found]
        kept = [(cost, span) for cost, span in costs if cost]
        total = sum(cost for cost, _ in kept)
        value = min(total, 1.0)
        scale = value / total if kept else 0.0
        spans = [replace(span, value=-cost * scale) for cost, span in kept if span is not None]
        return TermScore(-value, tuple(spans))

    def _finding_cost_and_span(self, finding: Finding, places: SourceMap) -> tuple[float, Span | None]:
        """Return the severity of one finding and its place; 0 for a finding in the given prefix."""
        span = _finding_span(finding, places)
        if span is None and places.known:
            return 0.0, None
        rule = finding["code"]
        named = (rule[:length] for length in range(len(rule), -1, -1))
        return next(self.severities[prefix] for prefix in named if prefix in self.severities), span


def _is_encodable(source: str) -> bool:
    """Return whether a source can be written to a file: a lone surrogate cannot, and no interpreter reads it."""
    return source.encode("utf-8", "replace") == source.encode("utf-8", "surrogatepass")


def _finding_span(finding: Finding, places: SourceMap, value: float = 0.0) -> Span | None:
    """Return the span of ruff's finding; its rows and columns count from 1, in characters."""
    start, end = finding["location"], finding["end_location"]
    first = places.byte_offset(start["row"], start["column"] - 1)
    return places.text_span(first, places.byte_offset(end["row"], end["column"] - 1), value)
