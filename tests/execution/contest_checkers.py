# ruff: noqa: E501 - one case a line
"""Four checkers of contests, with hand-made right and wrong outputs; written for these tests in testlib's protocol."""

from typing import NamedTuple

from lit_rl.execution import Checker

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


class Judged(NamedTuple):
    """A checker with one case: its input, the expected output, other right outputs, and wrong ones."""

    checker: Checker
    given: str
    expected: str
    right: tuple[str, ...]
    wrong: tuple[str, ...]


def _cpp(body: str) -> Checker:
    return Checker(f'#include "reading.h"\nCHECKER\n{body} quit(0, "ok"); }}', "cpp", (("reading.h", READING),), 2.0)


def _python(body: str) -> Checker:
    reading = "import sys\n\ndef lines(name):\n    return open(name, 'rb').read(1 << 20).decode('ascii').splitlines()\n"
    start = "import sys\nfrom reading import lines\ngiven, printed, answer = map(lines, sys.argv[1:])\n"
    return Checker(start + body, "python", (("reading.py", reading),), 2.0)


JUDGED = {
    # Any permutation of 1..n in which no neighbours differ by 1.
    "permutation": Judged(
        _cpp("""long n = in.integer(1, 1000), last = -9; vector<bool> seen(n + 1);
            for (int i = 0; i < n; i++) { long p = out.integer(1, n); if (seen[p]) quit(1, "twice"); seen[p] = true;
            if (std::labs(p - last) == 1) quit(1, "neighbours"); last = p; } out.end();"""),
        "5\n", "1 3 5 2 4\n", ("2 4 1 3 5", "5 3 1 4 2\n", "3 1 4 2 5"),
        ("1 2 3 4 5", "1 3 5 2", "1 3 5 2 2", "1 3 5 2 4 4", "0 3 5 2 4", "1 3 5 2 6", "01 3 5 2 4", "+1 3 5 2 4",
         "1 3 5 2 4294967300", "18446744073709551617 3 5 2 4"),
    ),
    # The sets that sum to a number, as lines in any order, each with its members in any order.
    "sets": Judged(
        _python("""as_sets = lambda rows: sorted(sorted(map(int, row.split(','))) for row in rows)
if any(not part.isdigit() for row in printed for part in row.split(',')):
    sys.exit(2)
sys.exit(as_sets(printed) != as_sets(answer))
"""),
        "6\n1 2 3 4 5\n", "1,2,3\n1,5\n2,4\n", ("4,2\n5,1\n3,2,1", "1,5\n2,4\n2,1,3\n"),
        ("1,2,3\n1,5", "1,2,3\n1,5\n2,4\n2,4", "1,2,3\n1,5\n3,3", "1,2,3;1,5;2,4", "", "1,2,3\n1,5\n2,4\n\n", "1, 5\n2,4"),
    ),
    # Any order of tasks in which each comes after those that it needs.
    "order": Judged(
        _python("""pairs = [row.split() for row in given[1:]]
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
    "palindrome": Judged(
        _python("""word = ''.join(printed)
sys.exit(len(printed) != 1 or word != word[::-1] or sorted(word) != sorted(given[0]))
"""),
        "aabbccd\n", "abcdcba\n", ("cbadabc", "bacdcab\n"),
        ("abccbad", "abcdcb", "abcd", "abba", "abcdcba\nabcdcba", "abc\0cba", "abcdcba "),
    ),
}  # fmt: skip
