"""Rules about what is written and how programs end."""

from __future__ import annotations

from dataclasses import dataclass

from lit_rl.execution.interface import Verdict
from lit_rl.reports.diagnosis.failure_mode import causes_of_cut
from lit_rl.reports.diagnosis.rule import Rule, ShareRule, from_0_to_1, not_below, told
from lit_rl.reports.diagnosis.run_history import Level, RunHistory
from lit_rl.reports.diagnosis.stop_strings import CUT, STOPPED, STOPPED_PASSED, commonest_string, cut_rows, stopped_rows
from lit_rl.types import Judgement

_SELDOM = 0.01
_PROGRAMS = {
    "completion/format_rate": "with a program in a fenced block",
    "completion/program_rate": "with a program",
}


@dataclass(eq=False)
class FormatFalling(Rule):
    """Fewer and fewer completions have a program in them.

    Args:
        at_most: largest allowed fall of their share from the best mean so far.
    """

    name = "format_falling"
    at_most: float = from_0_to_1(0.2)

    def look(self, run: RunHistory) -> str:
        """Compare with the best mean so far."""
        for name, what in _PROGRAMS.items():
            best, share = run.best.get(name, Level(0.0)).mean, run.mean(name)
            if share is not None and best - share > self.at_most:
                fell = f"completions {what} fell from {best:.0%} to {share:.0%}"
                first = run.too_fast
                if run.has_risen:
                    fell += f" while the reward rose to {run.share('reward/mean'):.3g}"
                    first = ("a term that pays for answers without one", run.where.show)
                nothing = ("nothing that pays for the form (FormatReward)", "lit-rl docs FormatReward")
                return told(fell, "the policy unlearns to answer", first, nothing)
        return ""


class NoPrograms(Rule):
    """No completion has a program, although the task runs programs; used by ``--smoke``."""

    name = "no_programs"
    page = ""

    def look(self, run: RunHistory) -> str:
        """Check whether a completion has a program."""
        if run.module.sampler.sandbox is None or run.share("completion/program_rate"):
            return ""
        return "no completion has a program: compare some with the form that the prompt asks for and the task extracts"


@dataclass(eq=False)
class Truncated(ShareRule):
    """Many completions are cut by the token limit.

    Args:
        at_most: largest allowed share of the rows.
    """

    name = "truncated"
    metric = "completion/truncated_fraction"
    message = "of the completions are cut by the token limit: they are judged without their end"
    at_most: float = from_0_to_1(0.5)

    def told(self, run: RunHistory, value: str) -> str:
        """Add causes, by what the rows hold."""
        return f"{super().told(run, value)}; {causes_of_cut(run)}"


@dataclass(eq=False)
class StopStringCuts(Rule):
    """A stop string cuts some of the answers: programs break off there, or what it ends never passes.

    Args:
        at_most: largest allowed share of rows that fail.
        rows: share of all rows from which on it matters.
        as_often: rows that a stop string ended are cut if they pass less often than this share of the others.
    """

    name = "stop_string"
    at_most: float = from_0_to_1(0.3)
    rows: float = from_0_to_1(0.05)
    as_often: float = from_0_to_1(0.1)

    def look(self, run: RunHistory) -> str:
        """Compare the rows that were cut with those that fail, and the rows that were ended with the others."""
        passed = run.share("execution/pass_rate")
        failed = 1 - passed
        # Rollouts without a stop string count as 0.
        ended, ended_passed, cut = (sum(run.values(name)) / run.patience for name in (STOPPED, STOPPED_PASSED, CUT))
        whole = 1 - ended
        if self._is_much(cut, failed):
            said = f"{min(1.0, cut / failed):.0%} of the programs that fail break off where a stop string ended them"
            rows = cut_rows(run.rollout)
        elif self._is_much(ended - ended_passed, failed) and whole > self.rows:
            often, others = ended_passed / ended, (passed - ended_passed) / whole
            if others < _SELDOM or often > self.as_often * others:
                return ""
            share = min(1.0, (ended - ended_passed) / failed)
            said = f"a stop string ended {share:.0%} of the programs that fail"
            said += f"; of all that one ended {often:.0%} pass, of the others {others:.0%}"
            rows = stopped_rows(run.rollout)
        else:
            return ""
        string = commonest_string(run.rollout, rows, run.decode)
        return told(
            said,
            "answers are judged without their end",
            (f"{string} comes inside of good answers; {run.where.stop_strings}", run.where.check_data),
            ("the policy writes it too early", run.where.show),
        )

    def _is_much(self, share: float, failed: float) -> bool:
        return share > self.rows and share > self.at_most * failed


@dataclass(eq=False)
class TimedOut(ShareRule):
    """Many programs time out.

    Args:
        at_most: largest allowed share of the rows.
    """

    name = "timed_out"
    metric = "verdict/timed_out_fraction"
    message = (
        "of the programs time out: what they would have said is unknown; likely a time limit too short for this "
        "machine (`{check_data}`), or more workers than cores (`{fit} --model.sandbox.init_args.num_workers 2`)"
    )
    at_most: float = from_0_to_1(0.2)


@dataclass(eq=False)
class OutOfMemory(ShareRule):
    """Many programs end at the memory limit.

    Args:
        at_most: largest allowed share of the rows.
    """

    name = "out_of_memory"
    metric = "verdict/out_of_memory_fraction"
    message = (
        "of the programs end at the memory limit: their results are unknown; likely a limit too small for "
        "honest programs (`{check_data}` runs the references under it; "
        "`{fit} --model.sandbox.init_args.memory_bytes 2147483648`), or programs that build too much (`{show}`)"
    )
    at_most: float = from_0_to_1(0.2)


@dataclass(eq=False)
class Infrastructure(ShareRule):
    """Many programs cannot be judged, because of infrastructure failures.

    Args:
        at_most: largest allowed share of the rows.
    """

    name = "infrastructure"
    metric = "verdict/infrastructure_failure_fraction"
    message = (
        "of the programs could not be judged for reasons that are ours: their rows teach nothing; likely the sandbox "
        "lacks something (`lit-rl docs sandbox`), or the machine memory (`{show}` has its messages)"
    )
    at_most: float = from_0_to_1(0.05)


@dataclass(eq=False)
class BrokenTests(Rule):
    """The tests of a problem fail at the same statement with the same error, whatever program is judged.

    Args:
        at_least: programs of a problem, by different sources, that were judged before this is said.
    """

    name = "broken_tests"
    at_least: int = not_below(2, 8)

    def look(self, run: RunHistory) -> str:
        """Collect how the programs of each problem ended, and name problems that fail them all alike."""
        for judgement in run.rollout.judgements:
            self._note(judgement.problem.task_id, judgement)
        alike = {name: next(iter(errors)) for name, errors in self._errors.items() if len(errors) == 1}
        names = [n for n, (kind, *_) in alike.items() if kind and len(self._sources[n]) >= self.at_least]
        if not names:
            return ""
        kind, message, statement = alike[names[0]]
        more = f" and {len(names) - 1} more problems" if names[1:] else ""
        return (
            f"no program ever passed {names[0]}{more}: {len(self._sources[names[0]])} programs ended with {kind}: "
            f"{message[:100]} in its tests ({statement[:80]}): whether its reference passes is unknown; likely the "
            f"tests are broken there (`{run.where.check_data}`), or all programs lack the same (`{run.where.show}`)"
        )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reset()

    def reset(self) -> None:
        """Forget the problems."""
        self._sources: dict[str, set[str]] = {}
        self._errors: dict[str, set[tuple[str, str, str]]] = {}

    def _note(self, name: str, judgement: Judgement) -> None:
        outcome, program = judgement.outcome, judgement.program
        if program is None or outcome.verdict is Verdict.INFRASTRUCTURE_FAILURE:
            return
        self._sources.setdefault(name, set()).add(program.source)
        statement = outcome.failed_case.call if outcome.failed_case else ""
        is_error = outcome.verdict is Verdict.WRONG_ANSWER and outcome.exception_type not in (None, "AssertionError")
        error = (str(outcome.exception_type), outcome.exception_message, statement) if is_error else ("", "", "")
        self._errors.setdefault(name, set()).add(error)
