"""Limits in each kind of language (C++ and Rust are as C): hit within 20%, and nothing is left of programs that take all they can get."""

# ruff: noqa: E501 - programs

import os
from pathlib import Path

import pytest

from lit_rl.execution import Sandbox, StdioTests
from lit_rl.execution.languages import find_toolchain, how_to_install

pytestmark = pytest.mark.slow
MEBIBYTES, SECONDS = 512, 1.0

# Each has an endless loop; memory that is written to, from a number of MiB and how often to take as much, which prints
# "done"; endless output; processes; and threads, where a program of that language can start some.
PROGRAMS = {
    "python": (
        "while True: pass",
        "step, count = map(int, input().split())\na = [bytearray(b'x') * (step << 20) for _ in range(count)]\nprint('done')",
        "while True: print('x' * 4096)",
        "import os\nwhile True: os.fork()",
        "import threading\nwhile True: threading.Thread(target=threading.Event().wait).start()",
    ),
    "c": (
        "int main(void) { for (;;); }",
        "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nchar *volatile kept;\nint main(void) { long step, count; scanf(\"%ld %ld\", &step, &count);\n"
        "while (count--) { kept = malloc(step << 20); memset(kept, 1, step << 20); } puts(\"done\"); }",
        "#include <stdio.h>\nint main(void) { for (;;) puts(\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"); }",
        "#include <unistd.h>\nint main(void) { for (;;) if (fork() < 0) return 1; }",
        "#include <pthread.h>\n#include <unistd.h>\nvoid *f(void *x) { for (;;) pause(); }\nint main(void) { pthread_t t; for (;;) if (pthread_create(&t, 0, f, 0)) return 1; }",
    ),
    "javascript": (
        "for (;;);",
        "const [step, count] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number);\nconst a = [];\n"
        "for (let i = 0; i < count; i++) a.push(Buffer.alloc(step * 2 ** 20, 1));\nconsole.log('done');",
        "for (;;) require('fs').writeSync(1, 'x'.repeat(4096));",
        "for (;;) require('child_process').execSync('true');",
        "const { Worker } = require('worker_threads');\nfor (;;) new Worker('setInterval(() => 0, 1000)', { eval: true });",
    ),
    "java": (
        "class Main { public static void main(String[] w) { for (;;); } }",
        "import java.util.*;\nclass Main { public static void main(String[] w) { Scanner in = new Scanner(System.in); int step = in.nextInt(), count = in.nextInt();\n"
        "var a = new ArrayList<long[]>(); while (count-- > 0) { long[] b = new long[step << 17]; Arrays.fill(b, 7L); a.add(b); } System.out.println(\"done\"); } }",
        "class Main { public static void main(String[] w) { for (;;) System.out.println(\"xxxxxxxxxxxxxxxxxxxxxxx\"); } }",
        "class Main { public static void main(String[] w) throws Exception { for (;;) new ProcessBuilder(\"true\").start(); } }",
        "class Main { public static void main(String[] w) { for (;;) new Thread(() -> { try { Thread.sleep(1 << 30); } catch (Exception e) { } }).start(); } }",
    ),
    "go": (
        "package main\nfunc main() { for { } }",
        'package main\nimport "fmt"\nvar a [][]byte\nfunc main() { var step, count int; fmt.Scan(&step, &count)\n'
        'for ; count > 0; count-- { b := make([]byte, step<<20); for i := range b { b[i] = 1 }; a = append(a, b) }; fmt.Println("done") }',
        'package main\nimport "fmt"\nfunc main() { for { fmt.Println("xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx") } }',
        'package main\nimport "os/exec"\nfunc main() { for { if err := exec.Command("/bin/true").Start(); err != nil { panic(err) } } }',
        'package main\nimport ("runtime"; "time")\nfunc main() { for { go func() { runtime.LockOSThread(); time.Sleep(time.Hour) }() } }',
    ),
}  # fmt: skip
TYPED = {"timed_out", "out_of_memory", "output_limit", "exception", "wrong_answer"}


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=1, memory_bytes=MEBIBYTES << 20) as sandbox:
        yield sandbox


@pytest.fixture(params=PROGRAMS)
def language(request):
    if find_toolchain(request.param) is None:
        pytest.skip(how_to_install(request.param))
    return request.param


def judged(sandbox, program, language, stdin="", seconds=20.0):
    return sandbox.submit(program, StdioTests(((stdin, "done"),), language, seconds)).result()


def of_the_sandbox(sandbox):
    """Processes of the workers' users, and the memory that they take, in MiB."""
    kin, users, memory = {worker.pid for worker in sandbox._workers}, set(), {}
    for folder in sorted(Path("/proc").glob("[0-9]*"), key=lambda path: int(path.name)):
        try:
            status = dict(line.split(":\t", 1) for line in (folder / "status").read_text().splitlines())
        except (OSError, ValueError):
            continue
        user, pid = status["Uid"].split()[0], int(folder.name)
        if int(status["PPid"]) in kin or user in users:
            kin.add(pid)
            memory[pid] = int(status.get("VmRSS", "0 kB").split()[0]) >> 10
            users |= {user} - {str(os.getuid())}
    return len(memory), sum(memory.values())


def test_time_and_memory_are_limited_within_a_fifth(sandbox, language):
    endless, takes, *_ = PROGRAMS[language]
    outcome = judged(sandbox, endless, language, seconds=SECONDS)
    less, more = (
        judged(sandbox, takes, language, f"8 {int(share * MEBIBYTES / 8) + (share > 1)}") for share in (0.8, 1.2)
    )
    print(f"{language}: {outcome.cpu_seconds:.2f} s, {less.verdict}, {more.verdict} {more.exception_type}")
    assert outcome.verdict == "timed_out"
    assert SECONDS <= outcome.cpu_seconds <= 1.2 * SECONDS
    assert less.passed
    assert more.verdict in ("out_of_memory", "exception")  # the runtime may give up before the limit is reached


def test_programs_that_take_all_they_can_get_end_and_leave_nothing(sandbox, language):
    _, takes, *bombs = PROGRAMS[language]
    assert judged(sandbox, takes, language, "1 1").passed
    processes, memory = of_the_sandbox(sandbox)
    outcomes = [
        judged(sandbox, takes, language, "10240 1"),
        *(judged(sandbox, one, language, seconds=3.0) for one in bombs),
    ]
    verdicts = [str(outcome.verdict) for outcome in outcomes]
    after = of_the_sandbox(sandbox)
    print(f"{language}: {', '.join(verdicts)}; {processes} processes, {memory} MiB before, {after} after")
    assert set(verdicts) <= TYPED and verdicts[1] == "output_limit"
    assert after[0] == processes and after[1] < memory + 32
    assert judged(sandbox, takes, language, "1 1").passed


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
    if find_toolchain("go") is None:
        pytest.skip(how_to_install("go"))
    with Sandbox(num_workers=1, memory_bytes=MEBIBYTES << 20, tier=tier) as sandbox:
        outcome = judged(sandbox, HIDDEN % kind, "go")
    assert outcome.verdict == "out_of_memory", outcome
    assert outcome.stdout.split() in (["0"], ["0", "1"])  # of ten times 256 MiB
