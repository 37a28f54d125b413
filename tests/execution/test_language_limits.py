"""Limits in each kind of language (C++ and Rust are as C) are hit within 20%."""

# ruff: noqa: E501 - programs

import pytest
from support.toolchains import need

from lit_rl.execution import Sandbox, StdioTests

pytestmark = pytest.mark.slow
MEBIBYTES, SECONDS = 512, 1.0

# Each has an endless loop; and memory that is written to, from a number of MiB and how often to take as much, which
# prints "done".
PROGRAMS = {
    "python": (
        "while True: pass",
        "step, count = map(int, input().split())\na = [bytearray(b'x') * (step << 20) for _ in range(count)]\nprint('done')",
    ),
    "c": (
        "int main(void) { for (;;); }",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nchar *volatile kept;\nint main(void) { long step, count; scanf(\"%ld %ld\", &step, &count);\n"
        "while (count--) { kept = malloc(step << 20); memset(kept, 1, step << 20); } puts(\"done\"); }",
    ),
    "javascript": (
        "for (;;);",
        "const [step, count] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number);\nconst a = [];\n"
        "for (let i = 0; i < count; i++) a.push(Buffer.alloc(step * 2 ** 20, 1));\nconsole.log('done');",
    ),
    "java": (
        "class Main { public static void main(String[] w) { for (;;); } }",
        "import java.util.*;\nclass Main { public static void main(String[] w) { Scanner in = new Scanner(System.in); int step = in.nextInt(), count = in.nextInt();\n"
        "var a = new ArrayList<long[]>(); while (count-- > 0) { long[] b = new long[step << 17]; Arrays.fill(b, 7L); a.add(b); } System.out.println(\"done\"); } }",
    ),
    "go": (
        "package main\nfunc main() { for { } }",
        'package main\nimport "fmt"\nvar a [][]byte\nfunc main() { var step, count int; fmt.Scan(&step, &count)\n'
        'for ; count > 0; count-- { b := make([]byte, step<<20); for i := range b { b[i] = 1 }; a = append(a, b) }; fmt.Println("done") }',
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=1, memory_bytes=MEBIBYTES << 20) as sandbox:
        yield sandbox


@pytest.fixture(params=PROGRAMS)
def language(request):
    need(request.param)
    return request.param


def judged(sandbox, program, language, stdin="", seconds=20.0):
    return sandbox.submit(program, StdioTests(((stdin, "done"),), language, seconds)).result()


def test_time_and_memory_are_limited_within_a_fifth(sandbox, language):
    endless, takes = PROGRAMS[language]
    outcome = judged(sandbox, endless, language, seconds=SECONDS)
    less, more = (
        judged(sandbox, takes, language, f"8 {int(share * MEBIBYTES / 8) + (share > 1)}") for share in (0.8, 1.2)
    )
    assert outcome.verdict == "timed_out"
    assert SECONDS <= outcome.cpu_seconds <= 1.2 * SECONDS
    assert less.passed
    assert more.verdict in ("out_of_memory", "exception")  # the runtime may give up before the limit is reached


# Memory that no limit of the kernel's counts, once it cannot be written to.
HIDDEN = """package main
import ("fmt"; "syscall"; "time")
func main() { for i := 0; i < 10; i++ {
	b, err := syscall.Mmap(-1, 0, 256<<20, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_ANON|syscall.MAP_PRIVATE)
	if err != nil { panic(err) }
	for j := 0; j < len(b); j += 4096 { b[j] = 1 }
	syscall.Mprotect(b, syscall.PROT_%s)
	fmt.Println(i)
	time.Sleep(300 * time.Millisecond)
} }"""


@pytest.mark.parametrize("tier", [0, 1])
@pytest.mark.parametrize("kind", ["READ", "NONE"])
def test_resident_memory_that_the_kernel_does_not_limit_ends_a_program(tier, kind):
    need("go")
    with Sandbox(num_workers=1, memory_bytes=MEBIBYTES << 20, tier=tier) as sandbox:
        outcome = judged(sandbox, HIDDEN % kind, "go")
    assert outcome.verdict == "out_of_memory", outcome
    assert outcome.stdout.split() in (["0"], ["0", "1"])  # of ten times 256 MiB
