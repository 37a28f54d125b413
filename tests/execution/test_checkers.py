# ruff: noqa: E501 - one case a line
"""Checkers: programs of the tests that judge what a program printed."""

import dataclasses
import shutil

import pytest
from support.named_jobs import judge_named

from lit_rl.execution import Checker, Sandbox, StdioTests, Verdict

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: install g++")


def judged(sandbox, checker, outputs, expected="1\n", given="", **settings):
    check = StdioTests(((given, expected),), timeout_seconds=2.0, checker=checker, **settings)
    return judge_named(
        sandbox, {text: (f"import sys\nsys.stdout.buffer.write({text.encode()!r})", check) for text in outputs}
    )


# What testlib gives its checkers, as far as these need it: tokens of a file, read strictly.
READING = r"""
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>
using std::string;
using std::vector;
inline void quit(int code, const string& text) { fprintf(stderr, "%s\n", text.c_str()); exit(code); }
struct Reader {
    FILE* file; int bad;
    Reader(const char* name, int bad) : file(fopen(name, "rb")), bad(bad) { if (!file) quit(3, "no file"); }
    bool blank(int c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }
    string token() {
        int c = getc(file); string text;
        while (blank(c)) c = getc(file);
        for (; c != EOF && !blank(c); c = getc(file)) { if (text.size() > 99) quit(bad, "a long word"); text += char(c); }
        if (text.empty()) quit(bad, "end of file");
        return text;
    }
    long integer(long low, long high) {
        string text = token(); char* end; long value = strtol(text.c_str(), &end, 10);
        if (text.size() > 18 || text.size() != size_t(end - text.c_str()) || std::to_string(value) != text) quit(bad, "no integer");
        if (value < low || value > high) quit(1, "out of range");
        return value;
    }
    void end() { for (int c; (c = getc(file)) != EOF;) if (!blank(c)) quit(bad, "more than was asked for"); }
};
#define CHECKER int main(int, char** argv) { Reader in(argv[1], 3), out(argv[2], 2), ans(argv[3], 3);
"""


def cpp(body):
    return Checker(f'#include "reading.h"\nCHECKER\n{body} quit(0, "ok"); }}', "cpp", (("reading.h", READING),), 2.0)


def python(body):
    reading = "import sys\n\ndef lines(name):\n    return open(name, 'rb').read(1 << 20).decode('ascii').splitlines()\n"
    start = "import sys\nfrom reading import lines\ngiven, printed, answer = map(lines, sys.argv[1:])\n"
    return Checker(start + body, "python", (("reading.py", reading),), 2.0)


# Checkers of contests in testlib's protocol; the input of one case, the expected output, other right outputs, wrong ones.
JUDGED = {
    # Any permutation of 1..n in which no neighbours differ by 1.
    "permutation": (
        cpp("""long n = in.integer(1, 1000), last = -9; vector<bool> seen(n + 1);
            for (int i = 0; i < n; i++) { long p = out.integer(1, n); if (seen[p]) quit(1, "twice"); seen[p] = true;
            if (std::labs(p - last) == 1) quit(1, "neighbours"); last = p; } out.end();"""),
        "5\n", "1 3 5 2 4\n", ("2 4 1 3 5", "5 3 1 4 2\n", "3 1 4 2 5"),
        ("1 2 3 4 5", "1 3 5 2", "1 3 5 2 2", "1 3 5 2 4 4", "0 3 5 2 4", "1 3 5 2 6", "01 3 5 2 4", "+1 3 5 2 4",
         "1 3 5 2 4294967300", "18446744073709551617 3 5 2 4"),
    ),
    # The sets that sum to a number, as lines in any order, each with its members in any order.
    "sets": (
        python("""as_sets = lambda rows: sorted(sorted(map(int, row.split(','))) for row in rows)
if any(not part.isdigit() for row in printed for part in row.split(',')):
    sys.exit(2)
sys.exit(as_sets(printed) != as_sets(answer))
"""),
        "6\n1 2 3 4 5\n", "1,2,3\n1,5\n2,4\n", ("4,2\n5,1\n3,2,1", "1,5\n2,4\n2,1,3\n"),
        ("1,2,3\n1,5", "1,2,3\n1,5\n2,4\n2,4", "1,2,3\n1,5\n3,3", "1,2,3;1,5;2,4", "", "1,2,3\n1,5\n2,4\n\n", "1, 5\n2,4"),
    ),
    # Any order of tasks in which each comes after those that it needs.
    "order": (
        python("""pairs = [row.split() for row in given[1:]]
place = {name: number for number, name in enumerate(printed)}
if sorted(printed) != sorted(given[0].split()):
    sys.exit('not each once')
sys.exit(any(place[first] > place[second] for first, second in pairs))
"""),
        "shop cook eat wash\nshop cook\ncook eat\ncook wash\n", "shop\ncook\neat\nwash\n", ("shop\ncook\nwash\neat\n",),
        ("cook\nshop\neat\nwash", "shop\ncook\neat", "shop\ncook\neat\nwash\nwash", "shop cook eat wash", "shop\ncook\neat\nWash",
         "shop\ncook\neat\nwash\x1b[1A", "shop\ncook\neat\nw\xe4sh"),
    ),
    # Any palindrome of the given letters.
    "palindrome": (
        python("""word = ''.join(printed)
sys.exit(len(printed) != 1 or word != word[::-1] or sorted(word) != sorted(given[0]))
"""),
        "aabbccd\n", "abcdcba\n", ("cbadabc", "bacdcab\n"),
        ("abccbad", "abcdcb", "abcd", "abba", "abcdcba\nabcdcba", "abc\0cba", "abcdcba "),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", JUDGED)
def test_a_checker_passes_right_outputs_and_no_others(sandbox, name):
    checker, given, expected, right, wrong = JUDGED[name]
    ends = judged(sandbox, checker, (expected, *right, *wrong), expected, given)
    assert {output: end.passed for output, end in ends.items()} == {
        **dict.fromkeys((expected, *right), True),
        **dict.fromkeys(wrong, False),
    }
    assert {str(ends[output].verdict) for output in wrong} == {"wrong_answer"}
    assert all("\x1b" not in end.stderr + end.stdout for end in ends.values())


# How checkers fail on an output that says so, by what their failure is called.
FAILING = r"""
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>
int main(int, char** argv) {
    char word[100] = ""; FILE* out = fopen(argv[2], "r"); fscanf(out, "%99s", word);
    if (!strcmp(word, "abort")) abort();
    if (!strcmp(word, "kill")) { kill(getpid(), SIGKILL); kill(getppid(), SIGKILL); kill(-1, SIGKILL); return 3; }
    if (!strcmp(word, "loop")) for (;;);
    if (!strcmp(word, "fork")) { for (int i = 0; i < 99; i++) if (fork() >= 0) return 0; return 3; }
    if (!strcmp(word, "memory")) for (;;) memset(malloc(1 << 20), 1, 1 << 20);
    if (!strcmp(word, "print")) for (static char text[1 << 20];;) fwrite(text, 1, sizeof text, stderr);
    if (!strcmp(word, "files")) { FILE* file = fopen("file", "w"); while (fputs("a long text", file) >= 0); return 3; }
    if (!strcmp(word, "other")) return 77;
    if (!strcmp(word, "points")) { fputs("points nan\n", stderr); return 7; }
    if (!strcmp(word, "many")) { fputs("points 1e9\n", stderr); return 7; }
    return strcmp(word, "1") != 0;
}"""
FAILURES = {
    "abort": "SIGABRT", "kill": "exit code 3", "loop": "timed_out", "fork": "exit code 3", "memory": "out_of_memory",
    "print": "output_limit", "other": "exit code 77", "points": "points NUMBER", "many": "points NUMBER",
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("tier", [0, None])
def test_a_checker_that_fails_on_an_output_fails_the_case_and_nothing_else(tier):
    checker = Checker(FAILING, timeout_seconds=0.5)
    with Sandbox(num_workers=1, memory_bytes=64 << 20, tier=tier) as sandbox:
        ends = judged(sandbox, checker, (*FAILURES, "files", "1", "2"))
        assert (ends["1"].verdict, ends["2"].verdict) == ("passed", "wrong_answer")
        assert {str(ends[word].verdict) for word in (*FAILURES, "files")} == {"wrong_answer"}
        said = {word: (ends[word].exception_type, ends[word].exception_message) for word in FAILURES}
        assert {word for word, how in FAILURES.items() if how not in said[word][1]} == set(), said
        assert {kind for kind, _ in said.values()} == {"CheckerFailed"}
        assert judged(sandbox, checker, ("1",))["1"].passed


def test_a_checker_in_python_fails_as_one_in_c_does(sandbox):
    source = """import os, sys
word = open(sys.argv[2]).read()
if word == 'fork': os.fork()
if word == 'leave': os._exit(3)
if word == 'memory': held = bytearray(1 << 30)
sys.exit(int(word) != 1)
"""
    ends = judged(sandbox, Checker(source, "python", timeout_seconds=0.5), ("1", "2", "fork", "leave", "memory", "x"))
    assert [str(end.verdict) for end in ends.values()] == ["passed", *["wrong_answer"] * 5]
    failed = {word: end.exception_message.rpartition(" ended ")[2] for word, end in ends.items() if end.exception_type}
    assert failed == {
        "fork": "with PermissionError",
        "leave": "with exit code 3, a failure of its own",
        "memory": "with MemoryError",
        "x": "with ValueError",
    }


BROKEN = {
    "import sys; sys.exit(1)": "does not accept the expected output of case 1: the checker says ''",
    "import sys; sys.exit('1 2 differ')": "the checker says '1 2 differ'",
    "import sys; sys.exit(3)": "exit code 3",
    "import no_such_module": "it ended with ModuleNotFoundError",
    "def": "it ended with SyntaxError",
    "while True: pass": "it ended as timed_out",
    "import sys; print('points 0', file=sys.stderr); sys.exit(7)": "the checker says 'points 0'",
    # Right beside the answer of the first case only.
    "import sys; sys.exit(open(sys.argv[2]).read() != '1')": "does not accept the expected output of case 2",
}


def test_a_broken_checker_refuses_the_check_before_a_program_runs(sandbox):
    jobs = {
        source: ("raise RuntimeError", StdioTests((("", "1"), ("", "2")), checker=Checker(source, "python", (), 0.3)))
        for source in BROKEN
    }
    jobs |= {"int main({": ("raise RuntimeError", StdioTests((("", "1"),), checker=Checker("int main({")))}
    ends = judge_named(sandbox, jobs)
    assert {source: str(end.verdict) for source, end in ends.items()} == dict.fromkeys(jobs, "infrastructure_failure")
    said = {source: how for source, how in BROKEN.items() if how not in ends[source].stderr}
    assert said == {}, [end.stderr for end in ends.values()]
    assert "the checker does not compile (syntax_error): program.cpp:1:" in ends["int main({"].stderr
    assert all(end.stderr.startswith("the checker ") and end.cpu_seconds == 0 for end in ends.values())


GIVING = """import sys
given, printed, answer = (open(name).read().split() for name in sys.argv[1:])
if printed == ['right']:
    sys.exit(0)
print('points', printed[0], file=sys.stderr)
sys.exit(7 if printed[1] == answer[1] else 1)
"""


def test_points_are_shares_of_the_expected_outputs_points_and_groups_have_that_of_their_worst_case(sandbox):
    cases = tuple((given, f"{best} x") for given, best in (("a", 4), ("b", 8), ("c", 5)))
    check = StdioTests(cases, checker=Checker(GIVING, "python"), grades=(("easy", 2), ("hard", 1)))
    program = "print({'a': '3 x', 'b': '2 x', 'c': '%s'}[input()])"
    (some,) = sandbox.judge_many([(program % "6 x", check)])
    assert (some.scores, some.cases[2]) == ({"easy": 2 / 8, "hard": 1.0}, Verdict.PASSED)
    assert (some.verdict, some.exception_type) == (Verdict.WRONG_ANSWER, None)
    assert "checker: points 3" in some.stderr
    (alike,) = sandbox.judge_many([(program % "5 y", dataclasses.replace(check, grades=()))])
    assert alike.scores == {"points": pytest.approx((3 / 4 + 2 / 8 + 0) / 3)}
    stuck = "if input() == 'b':\n    while True: pass\nprint('9 x')"
    (stuck,) = sandbox.judge_many([(stuck, dataclasses.replace(check, timeout_seconds=0.3))])
    assert (stuck.scores, len(stuck.cases)) == ({"easy": 0.0, "hard": 0.0}, 2)


def test_programs_in_other_languages_are_judged_by_checkers(sandbox):
    check = StdioTests((("8", "8 x"), ("4", "4 x")), "cpp", 5.0, checker=Checker(GIVING, "python"))
    program = "#include <iostream>\nint main() { std::string word; std::cin >> word; std::cout << word << %s; }"
    full, without, failing = sandbox.judge_many([(program % end, check) for end in ('" x"', '" y"', '""')])
    assert (full.verdict, full.scores) == (Verdict.PASSED, {"points": 1.0})
    assert (without.verdict, without.scores) == (Verdict.WRONG_ANSWER, {"points": 0.0})
    assert (without.failed_case.number, without.failed_case.line()) == (1, "8: such as 8 x, not 8 y")
    assert (without.exception_type, "checker: points 8" in without.stderr) == (None, True)
    assert (failing.verdict, failing.exception_type) == (Verdict.WRONG_ANSWER, "CheckerFailed")
    assert "it ended with IndexError" in failing.exception_message


def test_groups_need_no_checker(sandbox):
    check = StdioTests((("1", "1"), ("2", "2"), ("3", "3")), grades=(("one", 1), ("two", 2)))
    (end,) = sandbox.judge_many([("print(min(2, int(input())))", check)])
    assert (end.scores, check.stages) == ({"one": 1.0, "two": 0.0}, ("one", "two"))


def test_an_output_passes_that_the_checker_accepts_beside_any_of_several_answers(sandbox):
    same = Checker("import sys\n_, o, a = (open(n).read() for n in sys.argv[1:])\nsys.exit(o != a)", "python")
    ends = judged(sandbox, same, ("1", "2", "3"), ("1", "2"))
    assert [end.passed for end in ends.values()] == [True, True, False]
    assert ends["3"].failed_case.line() == ": such as 1, not 3"
