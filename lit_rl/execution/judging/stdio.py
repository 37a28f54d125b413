"""Whole programs, whose entire output the supervisor compares."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import islice, zip_longest

from lit_rl.execution.checks import StdioTests
from lit_rl.execution.interface import CHECKER_FAILED, FailedCase, Outcome, Verdict
from lit_rl.execution.judging.checking import Ruling
from lit_rl.execution.judging.runtimes import (
    build_failure_outcome,
    build_program,
    outcome_of_exit,
    run_built_program,
    source_for_compiler,
    verdict_of_exit,
)
from lit_rl.execution.judging.supervising.child_files import ChildFiles, read_ends, read_whole
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.judging.supervising.watching import SleepTotal
from lit_rl.execution.judging.verdicts import (
    describe_exit,
    outcome_of_child,
    parse_exception_line,
    verdict_of_child,
    verdict_of_error,
    with_error_details,
)
from lit_rl.execution.languages import LANGUAGES
from lit_rl.execution.wire.value_text import MAX_SHOWN_LENGTH, shorten_text

Expected = str | tuple[str, ...]
_POINTS = "points"
_TOKEN = re.compile(rb"\S+")
# Possessive, so that a token which is not a number is refused in one pass over it.
_NUMBER = re.compile(rb"([+-]?)(?:(\d++)(?:\.(\d*+))?|\.(\d++))(?:[eE]([+-]?\d++))?")
_MAX_EXPONENT_LENGTH = 18
_MAX_FLOAT_LENGTH = 1000
# Decimal fractions have no exact float: a difference equal to the tolerance must still count as within it.
_ROUNDING = 1 + 1e-9
_MAX_PRINTED = 4 * MAX_SHOWN_LENGTH  # bytes at each end; a character has up to four


def judge_stdio(client: ZygoteClient, program: str, check: StdioTests) -> Outcome:
    """Run each case in a fresh process; the first case that does not pass decides.

    All cases share one ``SleepTotal``, which adds up the seconds that the program has slept.
    """
    if not program.strip():
        return Outcome(Verdict.NO_PROGRAM)
    if check.checker is not None:
        client.checkers.try_expected_outputs(check)
    if check.language == "python":
        return judge_cases(check, partial(_judge_python_case, client, program, check, SleepTotal()))
    client.on_report()  # from here on, this process reads the program
    source = source_for_compiler(program, check.language)
    built = build_program(client, {LANGUAGES[check.language].file: source}, check.language)
    if built.verdict is not None:
        return build_failure_outcome(built)
    return judge_cases(check, partial(_judge_compiled_case, client, source, built.binary, check, SleepTotal()))


def judge_cases(check: StdioTests, run_case: Callable[[str, Expected], Outcome]) -> Outcome:
    """Return one outcome for all cases; ``run_case`` judges one case, given its input and expected output."""
    cases: list[Verdict] = []
    points: list[float] = []
    first_bad: Outcome | None = None
    last = Outcome(Verdict.PASSED)
    cpu = wall = 0.0
    for stdin, expected in check.cases:
        last = run_case(stdin, expected)
        cases.append(last.verdict)
        points.append(last.scores.get(_POINTS, float(last.passed)))
        cpu, wall = cpu + last.cpu_seconds, wall + last.wall_seconds
        if last.verdict is not Verdict.PASSED and first_bad is None:
            case = last.failed_case
            first_bad = last if case is None else replace(last, failed_case=replace(case, number=len(cases)))
        if last.verdict in (Verdict.SYNTAX_ERROR, Verdict.TIMED_OUT) or (check.stop_at_failure and first_bad):
            break  # further cases would end alike, cost the whole limit again, or decide nothing
    padded = iter([*points, *[0.0] * (len(check.cases) - len(points))])
    if check.grades:
        scores = {name: min(islice(padded, count)) for name, count in check.grades}
    else:
        scores = dict.fromkeys(check.stages, sum(padded) / len(check.cases))
    return replace(first_bad or last, cases=tuple(cases), scores=scores, cpu_seconds=cpu, wall_seconds=wall)


def _judge_compiled_case(
    client: ZygoteClient,
    program: str,
    artefact: bytes,
    check: StdioTests,
    sleep_total: SleepTotal,
    stdin: str,
    expected: Expected,
) -> Outcome:
    language, given = check.language, stdin.encode("utf-8", "surrogateescape")
    with run_built_program(client, language, artefact, check.timeout_seconds, given, sleep_total=sleep_total) as run:
        _, child, report = run
        ended = verdict_of_exit(client, language, artefact, run)
        outcome = partial(outcome_of_exit, language=language, program=program, child=child, report=report, cases=[])
        return _case_outcome(client, check, stdin, expected, child, ended, outcome)


def _judge_python_case(
    client: ZygoteClient, program: str, check: StdioTests, sleep_total: SleepTotal, stdin: str, expected: Expected
) -> Outcome:
    with ChildFiles({"mode": "stdio", "source": program}, stdin.encode("utf-8", "surrogateescape")) as child:
        report = client.run([child], check.timeout_seconds, sleep_total=sleep_total)
        ended = verdict_of_child(client, child, report)
        error = None
        if ended is Verdict.EXCEPTION:
            status = report.children[0].status
            error = parse_exception_line(read_whole(child.channel)[:65536]) or describe_exit(status)
            ended = verdict_of_error(client, program, error, status)
        outcome = partial(outcome_of_child, cases=[], child=child, report=report, error=error)
        return _case_outcome(client, check, stdin, expected, child, ended, outcome)


def _case_outcome(
    client: ZygoteClient,
    check: StdioTests,
    stdin: str,
    expected: Expected,
    child: ChildFiles,
    ended: Verdict | None,
    outcome_of_verdict: Callable[[Verdict], Outcome],
) -> Outcome:
    """Return the outcome of a case: the end of its process decides or, if not, its checker or a comparison."""
    if ended is not None:
        outcome = outcome_of_verdict(ended)
    else:
        printed = read_whole(child.stdout)
        if check.checker is not None:
            ruling = client.checkers.judge(check, stdin, printed, expected)
        else:
            ruling = Ruling(float(same_output(printed, expected, check)))
        outcome = outcome_of_verdict(Verdict.PASSED if ruling.points == 1.0 else Verdict.WRONG_ANSWER)
        stderr = outcome.stderr + (f"checker: {ruling.comment}\n" if ruling.comment else "")
        outcome = replace(outcome, scores={_POINTS: ruling.points}, stderr=stderr)
        if ruling.fault:
            message = f"the checker failed: {ruling.fault}"
            outcome = with_error_details(outcome, {"types": [CHECKER_FAILED], "message": message, "line": None})
    if outcome.verdict in (Verdict.PASSED, Verdict.SYNTAX_ERROR):
        return outcome
    accepted = shorten_text(expected if isinstance(expected, str) else expected[0])
    wanted = accepted if check.checker is None else f"such as {accepted}"
    shown = shorten_text(read_ends(child.stdout, _MAX_PRINTED).decode("utf-8", "replace"))
    # The only case of its process, and so number 1.
    return replace(outcome, failed_case=FailedCase(1, shorten_text(stdin), wanted, shown, "input"))


def same_output(printed: bytes, expected: Expected, check: StdioTests) -> bool:
    """Return whether a program printed what was expected, or one of several accepted outputs.

    Both texts are walked side by side and the walk ends at the first difference, so that time and memory follow
    the expected output, whatever the program printed. Numbers are compared as digits and exponents: no integer,
    decimal or float is ever built from a text that could make it large.
    """
    accepted = (expected,) if isinstance(expected, str) else expected
    printed = printed.rstrip()
    texts = (text.encode("utf-8", "surrogateescape").rstrip() for text in accepted)
    return any(printed == text or _same_by_rule(printed, text, check) for text in texts)


def _same_by_rule(printed: bytes, expected: bytes, check: StdioTests) -> bool:
    """Compare as the check says: by lines, by lines whose numbers are compared by value, or by tokens."""
    if check.compare == "lines":
        return _all_match(BytesIO(printed), BytesIO(expected), lambda one, other: one.rstrip() == other.rstrip())
    if check.compare == "decimals":
        return _all_match(
            BytesIO(printed.lstrip()),
            BytesIO(expected.lstrip()),
            lambda one, other: one.strip() == other.strip() or _all_match(_tokens(one), _tokens(other), _equal_numbers),
        )
    return _all_match(_tokens(printed), _tokens(expected), lambda one, other: _is_close(one, other, check.tolerance))


def _all_match(one: Iterator[bytes], other: Iterator[bytes], match: Callable[[bytes, bytes], bool]) -> bool:
    pairs = zip_longest(one, other)
    return all(a is not None and b is not None and match(a, b) for a, b in pairs)


def _tokens(text: bytes) -> Iterator[bytes]:
    return (found.group() for found in _TOKEN.finditer(text))


def _parse_number(token: bytes) -> tuple[bool, bytes, int] | None:
    """Return sign, digits (no zeros at either end) and power of ten of a number; ``None`` for words such as ``nan``."""
    found = _NUMBER.fullmatch(token)
    if found is None:
        return None
    sign, whole, fraction, only_fraction, power = found.groups(b"")
    fraction = fraction or only_fraction
    if len(power) > _MAX_EXPONENT_LENGTH:
        return None
    digits = (whole + fraction).rstrip(b"0")
    exponent = int(power or 0) + len(whole) - len(digits)
    digits = digits.lstrip(b"0")
    return (sign == b"-", digits, exponent) if digits else (False, b"", 0)


def _equal_numbers(printed: bytes, expected: bytes) -> bool:
    number = _parse_number(printed)
    return number is not None and number == _parse_number(expected)


def _is_close(printed: bytes, expected: bytes, tolerance: float) -> bool:
    """Return whether two tokens are equal, or numbers within the tolerance; integers are never near one another.

    The tolerance is absolute or relative where the expected number is written with a fraction or an exponent,
    and absolute where it is an integer: 123456700.0 is not near enough to 123456789.
    """
    if printed == expected or _equal_numbers(printed, expected):
        return True
    too_long = max(len(printed), len(expected)) > _MAX_FLOAT_LENGTH
    if not tolerance or too_long or (_is_integer(printed) and _is_integer(expected)):
        return False
    if _parse_number(printed) is None or _parse_number(expected) is None:
        return False
    value, wanted = float(printed), float(expected)
    slack = tolerance if _is_integer(expected) else tolerance * max(1.0, abs(wanted))
    return math.isfinite(wanted) and abs(value - wanted) <= slack * _ROUNDING


def _is_integer(token: bytes) -> bool:
    return token.lstrip(b"+-").isdigit()
