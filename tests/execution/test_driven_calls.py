"""Call tests in languages other than Python: values, verdicts, and programs that answer in the driver's place."""

# ruff: noqa: E501 - programs

import math

import pytest
from support.named_jobs import among
from support.slow_cases import slow_but
from support.toolchains import need

from lit_rl.errors import ArgumentError
from lit_rl.execution import CallTests, FailedCase
from lit_rl.execution.judging import driven_calls
from lit_rl.execution.judging.compiling import _CACHE_BYTES, CompiledProgram, Compiler
from lit_rl.execution.languages import LANGUAGES as ALL_LANGUAGES

LANGUAGES = slow_but(("javascript",), [name for name in ALL_LANGUAGES if name != "python"])


def judge(sandbox, language, jobs):
    """Outcome of each job: a program and the cases of its function ``f``, or a whole check."""
    need(language)
    checked = [
        (program, check if isinstance(check, CallTests) else CallTests(tuple(check), "f", 1.0, language=language))
        for program, check in jobs
    ]
    return sandbox.judge_many(checked)


# Functions of each language that return their argument, with values of its type.
VALUES = (
    None,
    True,
    False,
    3,
    -(2**53) + 1,
    2.5,
    1e300,
    "",
    'a"\\\n\té\u2028\U0001f600',
    [],
    [1, [2.5, "b"], None],
    {"k": [1, {"": {}}]},
)
SAME = {
    "javascript": [("const f = (x) => x;", VALUES)],
    "go": [
        (f"func f(x {kind}) {kind} {{ return x }}", values)
        for kind, values in {
            "int": (3, -(2**53) + 1), "bool": (True, False), "float64": (2.5, 1e300, 3), "string": VALUES[7:9],
            "[][]int": ([], [[1], [2, 3]]), "map[string][]float64": ({}, {"k": [1.5]}), "any": VALUES[:3], "map[int]int": ({1: 2},),
        }.items()
    ] + [("func main() {}\nconst debug = true\nfunc f(x int) int { return x }", (3,))],
    "java": [
        (f"import java.util.*;\nclass Solution {{ public {kind} f({kind} x) {{ return x; }} }}", values)
        for kind, values in {
            "int": (3, -5), "long": (-(2**53) + 1,), "boolean": (True, False), "double": (2.5, 1e300, 3), "String": (*VALUES[7:9], None),
            "List<List<Integer>>": ([], [[1], [2, 3]]), "List<Integer>[]": ([], [[1], [2, 3]]), "int[][]": ([], [[1], [2, 3]]), "Map<String, List<Double>>": ({}, {"k": [1.5]}),
            "Map<Integer, Long>": ({1: 2},), "Object": VALUES[:3], "char": ("a",), "Integer": (None, 3),
        }.items()
    ],
    "c": [
        (f"#include <stdbool.h>\n#include <stdint.h>\n{kind}f({kind}x) {{ return x; }}", values)
        for kind, values in {
            "int ": (3, -(2**31)), "long ": (-(2**53) + 1, 3), "unsigned long long int ": (3,), "short\t": (-1,), "uint8_t ": (0, 255), "bool ": (True, False), "_Bool ": (True,),
            "double ": (2.5, 1e300, 3), "float ": (0.1,), "char ": ("a", '"'), "const char *": VALUES[7:9], "char* ": VALUES[7:9],
        }.items()
    ],
    "cpp": [
        (f"#include <array>\n#include <cstdint>\n#include <deque>\n#include <optional>\n#include <list>\n#include <map>\n#include <set>\n#include <string>\n#include <tuple>\n#include <unordered_map>\n#include <unordered_set>\nusing namespace std;\n{kind} f({given} x) {{ return x; }}", values)
        for kind, given, values in [
            ("int", "int", (3, -(2**31))), ("long long", "const long long &", (-(2**53) + 1, 3)), ("uint8_t", "uint8_t", (0, 255)), ("bool", "bool &", (True, False)),
            ("double", "double", (2.5, 1e300, 3, -0.1)), ("float", "float", (0.1, 2.5)), ("string", "const string &", VALUES[7:9]), ("string", "const char *", VALUES[7:9]), ("string_view", "string_view", VALUES[7:9]),
            ("vector<vector<int>>", "vector<vector<int>> &&", ([], [[1], [], [2, 3]])), ("vector<bool>", "vector<bool> &", ([True, False],)), ("map<string, vector<optional<double>>>", "map<string, vector<optional<double>>>", ({}, {"k": [1.5, None]})),
            ("unordered_map<int, char>", "unordered_map<int, char> &", ({1: "a", -2: '"'},)), ("optional<string>", "optional<string>", (None, "", "null")), ("tuple<int, pair<bool, string>>", "tuple<int, pair<bool, string>>", ([1, [True, "a,]"]],)),
            ("deque<list<char>>", "deque<list<char>>", ([["a"], []],)), ("array<int, 2>", "array<int, 2>", ([1, 2],)), ("set<string>", "set<string>", (["a", "b"],)), ("unordered_set<int>", "unordered_set<int>", ([2, 3, 10],)),
        ]
    ],
    "rust": [
        (f"use std::collections::*;\nfn f(x: {given}) -> {kind} {{ x{made} }}", values)
        for kind, given, made, values in [
            ("i32", "i32", "", (3, -(2**31))), ("i64", "&i64", ".clone()", (-(2**53) + 1, 3)), ("u8", "u8", "", (0, 255)), ("usize", "usize", "", (2**53 - 1,)), ("i128", "i128", "", (-3,)), ("bool", "bool", "", (True, False)),
            ("f64", "f64", "", (2.5, 1e300, 3, -0.1)), ("f32", "f32", "", (0.1, 2.5)), ("String", "&str", ".to_string()", VALUES[7:9]), ("&String", "&String", "", VALUES[7:9]), ("&'static str", "&'static str", "", VALUES[7:9]), ("char", "char", "", ("a", '"', "é")),
            ("Vec<Vec<i32>>", "Vec<Vec<i32>>", "", ([], [[1], [], [2, 3]])), ("Vec<bool>", "&[bool]", ".to_vec()", ([True, False],)), ("Vec<&'static str>", "&[&'static str]", ".to_vec()", (["a", "b"],)), ("BTreeMap<String, Vec<Option<f64>>>", "BTreeMap<String, Vec<Option<f64>>>", "", ({}, {"k": [1.5, None]})),
            ("HashMap<i32, char>", "&HashMap<i32, char>", ".clone()", ({1: "a", -2: '"'},)), ("Option<String>", "Option<String>", "", (None, "", "null")), ("(i32, (bool, String))", "(i32, (bool, String))", "", ([1, [True, "a,]"]],)), ("Result<u8, String>", "Result<u8, String>", "", (3,)),
            ("&mut Vec<u64>", "&mut Vec<u64>", "", ([1],)), ("[i32; 2]", "[i32; 2]", "", ([1, 2],)), ("BTreeSet<String>", "BTreeSet<String>", "", (["a", "b"],)), ("HashSet<i32>", "HashSet<i32>", "", ([2, 3, 10],)), ("VecDeque<Box<i8>>", "VecDeque<Box<i8>>", "", ([-1],)),
        ]
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_values_come_back_as_they_went(sandbox, language):
    right = [(program, [((value,), value) for value in values]) for program, values in SAME[language]]
    # The same function is wrong where any other value is wanted.
    wrong = [(program, [((one,), [one]) for one in values]) for program, values in SAME[language]]
    for (program, _), outcome in zip(right, judge(sandbox, language, right), strict=True):
        assert outcome.passed, (program, outcome)
    for outcome in judge(sandbox, language, wrong):
        assert set(outcome.cases) == {"wrong_answer"}, outcome


# A function that adds; one whose third line fails if the first number is 10, with the name of the error; one without
# the function; a source whose third line does not parse; one that ends the process; one that changes its argument.
PROGRAMS = {
    "javascript": (
        "const fs = require('fs'), main = 1, file = 2;\nfunction f(a, b) { console.log('x'); return a + b; }",
        ("export const f = (a, b) => {\n\nif (a === 10) null.x; return a + b; }", "TypeError"),
        "const g = 1;",
        "let a = 1;\n\nlet b = = 2;",
        "const f = () => process.exit(0);",
        "const f = (x) => { x.sort(); return x.length; }",
    ),
    "go": (
        'package main\nimport "fmt"\nfunc f(a int, b int) int { fmt.Println("x"); return a + b }\nfunc main() { fmt.Println(f(1, 2)) }',
        ("func f(a, b int) int { var x []int\n\nif a == 10 { return x[a] }; return a + b }", None),
        "func g() {}",
        "package main\n\nfunc f( { }",
        'import "os"\nfunc f(a, b int) int { os.Exit(0); return 0 }',
        'import "sort"\nfunc f(x []int) int { sort.Ints(x); return len(x) }',
    ),
    "java": (
        "class Other { }\npublic class Solution { static int f(int a, int b) { System.out.print(1); return a + b; } public static void main(String[] w) { } }",
        ("class Solution { int f(int a, int b) {\n\nif (a == 10) { int[] x = new int[1]; return x[a]; } return a + b; } }", "java.lang.ArrayIndexOutOfBoundsException"),
        "class Solution { int g() { return 1; } }",
        "class Main {\n\nint f( {} }",
        "class Solution { int f(int a, int b) { System.exit(0); return 0; } }",
        "import java.util.*;\nclass Solution { int f(int[] x) { Arrays.sort(x); return x.length; } }",
    ),
    "c": (
        "#include <stdio.h>\nstatic int f(int a, int b) { puts(\"x\"); return a + b; }\nint main(void) { int new = 3; return f(1, new); }",
        ("#include <assert.h>\nint f(int a, int b) {\nassert(a != 10); return a + b; }", "SIGABRT"),
        "int g(void) { return 1; }",
        "int f(int a, int b) { return a; }\n\nint b = = 2;",
        "#include <stdlib.h>\nint f(int a, int b) { exit(0); }",
        "#include <string.h>\nint f(char *x) { x[0] = 98; return strlen(x); }",
    ),
    "cpp": (
        "#include <iostream>\n#define int long long\nint f(int a, int b) { std::cout << 'x'; return a + b; }\nsigned main() { int a; std::cin >> a; }",
        ("#include <stdexcept>\n\nint f(int a, int b) { if (a == 10) throw std::out_of_range(\"no\"); return a + b; }", "std::out_of_range"),
        "int g() { return 1; }",
        "int a = 1;\n\nint b = = 2;",
        "#include <cstdlib>\nint f(int a, int b) { exit(0); }",
        "#include <algorithm>\n#include <vector>\nint f(std::vector<int> &x) { std::sort(x.begin(), x.end()); return x.size(); }",
    ),
    "rust": (
        '//! Adds.\n#![forbid(unsafe_code)]\nfn f(a: i32, b: i32) -> i32 { println!("x"); a + b }\nfn main() { println!("{}", f(1, 2)); }',
        ("fn f(a: i32, b: i32) -> i32 {\n\nif a == 10 { let x: Vec<i32> = vec![]; return x[a as usize]; } a + b }", "panicked"),
        "fn g() {}",
        "fn g() {}\n\nlet b = = 2;",
        "fn f(a: i32, b: i32) -> i32 { std::process::exit(0) }",
        "fn f(x: &mut [i32]) -> usize { x.sort(); x.len() }",
    ),
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_verdicts_are_those_of_call_tests(sandbox, language):
    adds, (fails, name), without, unparsed, leaves, changes = PROGRAMS[language]
    sums = (((1, 2), 3), ((10, 20), 30), ((4, 5), 9))
    cases = [(("ac",), "bc")] if language == "c" else [(([3, 1, 2],), [1, 2, 3])]
    in_place = CallTests(tuple(cases), "f", in_place=True, language=language)
    wanted = [(adds, sums), (adds, (((1, 2), 3), ((1, 2), 4))), (fails, sums), (without, sums), (unparsed, sums)]
    outcomes = judge(sandbox, language, [*wanted, (leaves, (((1, 2), 3),)), (changes, in_place)])
    right, wrong, failed, missing, broken, left, changed = outcomes
    assert right.passed and right.cases == ("passed",) * 3, right
    assert (wrong.verdict, wrong.failed_case) == ("wrong_answer", FailedCase(2, "f(1, 2)", "4", "3"))
    after = "exception" if language == "c" else "passed"  # which has no exceptions: a process fails
    assert failed.cases == ("passed", "exception", after), failed
    line = None if language == "cpp" else 3  # which an exception of C++ does not know
    assert (failed.line, failed.exception_type) == (line, name), failed
    assert failed.failed_case == FailedCase(2, "f(10, 20)", "30")
    assert missing.verdict in ("exception", "syntax_error"), missing
    assert (broken.verdict, broken.line, broken.failed_case) == ("syntax_error", 3, None), broken
    assert left.verdict == "exception", left
    assert changed.passed, changed


# Programs that answer 3 to nothing that asks for it, or answer where nobody asked. What ends, loops or answers with
# what no JSON holds is in ``whole_attacks.CALLS``, but for Go and Java.
FORGED = "[3]\\n"
ATTACKS = {
    "javascript": [
        f"require('fs').writeSync(3, '{{}}\\n[0]\\n{FORGED}'); process.reallyExit(0);",
        f"const fs = require('fs'); const f = () => {{ fs.ftruncateSync(3); fs.writeSync(3, '{FORGED}'); process.reallyExit(0); }};",
        f"const f = () => {{ setTimeout(() => require('fs').writeSync(3, '{FORGED}'), 1); return 0; }};",
        f"const f = () => {{ Promise.resolve().then(() => require('fs').writeSync(3, '{FORGED}')); return 0; }};",
        f"process.on('exit', () => require('fs').writeSync(3, '{FORGED}')); const f = () => process.exit(0);",
        f"new (require('worker_threads').Worker)(`setInterval(() => require('fs').writeSync(3, '{FORGED}'))`, {{eval: true}}); const f = () => 0;",
        "Object.defineProperty(module, 'litRl', {set() {}, get: () => () => () => 3}); const f = () => 0;", "export const f = () => 0; export const litRl = () => () => 3;",
    ],
    "go": [
        "func f(a, b int) int { for { } }", "func f[T any](a, b T) (c T) { return }", "func f[,](a, b int) int { return 3 }", "func f[](a, b, , " + "[]" * 100000 + "T) int { return 3 }", "func f[T any](a " + "map[T]" * 100000 + "T, b T) int { return 3 }", "func f[T int](a, b T) []T { return []T{3} }", "func f[T float64](a, b T) T { return a + b }", "func f(a, b rune) rune { return 3 }", "func f(a, b int) int { return f(a, b) }", "func f(a, b int) []int { return []int{3} }",
        "func f(a, b int) string { return \"3\" }", "import \"math\"\nfunc f(a, b int) float64 { return math.NaN() }", "func f(a, b int) func() { return nil }",
        f'import "os"\nfunc init() {{ os.NewFile(3, "").WriteString("{{}}\\n[0]\\n{FORGED}"); os.Exit(0) }}\nfunc f(a, b int) int {{ return 0 }}',
        f'import "os"\nfunc f(a, b int) int {{ go func() {{ os.NewFile(3, "").WriteString("{FORGED}") }}(); return 0 }}',
        "type T struct{ x int }\nfunc f(a, b int) T { return T{3} }", "func f(a, b int) any { var x []any = []any{nil}; x[0] = x; return x }",
        'func f(a, b int) string { return "\\xff" }', 'func f(a, b int) int { panic("NotCarried") }', "const true = false\nfunc f(a, b int) bool { return true }",
        "import \"runtime\"\nfunc f(a, b int) int { runtime.Goexit(); return 3 }",
        f'type T int\nfunc (T) MarshalJSON() ([]byte, error) {{ return []byte("0]\\n{FORGED}"), nil }}\nfunc f(a, b int) T {{ return 0 }}',
        'type T int\nfunc (T) MarshalJSON() ([]byte, error) { return []byte("3"), nil }\nfunc f(a, b int) T { return T(a + b) }',
        'type T struct{}\nfunc (*T) Error() string { return "3" }\nfunc f(a, b int) error { return &T{} }', 'import "syscall"\nfunc f(a, b int) int { syscall.Dup2(1, 3); return a + b }',
        f'import "os"\nfunc f(a, b int) int {{ go func() {{ for {{ os.NewFile(3, "").WriteString("{FORGED}") }} }}(); for i := 0; i < 1e8; i++ {{ }}; return 0 }}',
    ],
    "java": [
        "class Solution { int f(int a, int b) { while (a > 0) a = 1; return 3; } }", "class Solution { int f(int a, int b) { return f(a, b); } }",
        "class Solution { double f(int a, int b) { return 0.0 / 0; } }", "class Solution { Object f(int a, int b) { return this; } public String toString() { return \"3\"; } }",
        "class Solution extends Number { Object f(int a, int b) { return this; } public String toString() { return \"{}\"; } public int intValue() { return 3; }"
        " public long longValue() { return 3; } public float floatValue() { return 3; } public double doubleValue() { return 3; } }",
        f'class Solution {{ static {{ try {{ new java.io.FileOutputStream("/proc/self/fd/3").write("{{}}\\n[0]\\n{FORGED}".getBytes()); }} catch (Exception e) {{ }} System.exit(0); }} int f(int a, int b) {{ return 0; }} }}',
        "class LitRlCalls { }\nclass Solution { int f(int a, int b) { return 3; } }", "class String { }\nclass Solution { int f(int a, int b) { return 0; } }",
        "class Solution { Object f(int a, int b) { java.util.List<Object> x = new java.util.ArrayList<>(); x.add(x); return x; } }",
        "class Solution { int f(int a, int b) { Runtime.getRuntime().halt(0); return 3; } }", "class Solution { int f(int a, int b) { throw new Error(); } }",
        "class Solution { Iterable<Integer> f(int a, int b) { return () -> java.util.List.of(3).iterator(); } }", "class Solution { record R(int a) { public int a() { return 3; } } Object f(int a, int b) { return new R(0); } }",
        f'class Solution {{ int f(int a, int b) {{ Runtime.getRuntime().addShutdownHook(new Thread(() -> {{ try {{ new java.io.FileOutputStream("/proc/self/fd/3", true).write("{FORGED}".getBytes()); }} catch (Exception e) {{ }} }})); System.exit(0); return 0; }} }}',
        f'class Solution {{ int f(int a, int b) {{ new Thread(() -> {{ for (;;) try {{ new java.io.FileOutputStream("/proc/self/fd/3").write("{FORGED}".getBytes()); }} catch (Exception e) {{ }} }}).start(); return 0; }} }}',
        "class Solution { Object f(int a, int b) { return new java.util.AbstractList<Integer>() { public Integer get(int i) { return 3; } public int size() { System.exit(0); return 1; } public boolean equals(Object o) { return true; } }; } }",
    ],
    "c": [
        f'#include <stdio.h>\n#include <unistd.h>\n__attribute__((constructor)) void g() {{ dprintf(3, "{{}}\\n[0]\\n{FORGED}"); _exit(0); }}\nint f(int a, int b) {{ return 0; }}', f'#include <stdio.h>\n#include <stdlib.h>\nvoid g() {{ dprintf(3, "{FORGED}"); }}\nint f(int a, int b) {{ atexit(g); return 0; }}',
        f'#include <unistd.h>\nint f(int a, int b) {{ ftruncate(3, 0); lseek(3, 0, 0); write(3, "{{}}\\n[3]\\n{FORGED}", 11); _exit(0); }}', f'#include <unistd.h>\nint dprintf(int d, const char *f, ...) {{ return write(3, "{FORGED}", 4); }}\nint f(int a, int b) {{ return 0; }}',
        "#include <unistd.h>\nint f(int a, int b) { dup2(1, 3); return a + b; }", "int f(int a, int b) { return 0; }\nint lit_rl_entry(int a, int b) { return a + b; }", "int f(int a, int b) { __builtin_trap(); }", "#include <stdio.h>\nint f(int a, int b) { puts(\"[3]\"); return 0; }", "int _ZN6lit_rl6answerE[9] = {3};\nint f(int a, int b) { return 0; }",
    ],
    "cpp": [
        f'#include <unistd.h>\nstruct X {{ X() {{ (void)!write(3, "{{}}\\n[0]\\n{FORGED}", 11); _exit(0); }} }} x; int f(int a, int b) {{ return 0; }}',
        f'#include <cstdio>\n#include <cstdlib>\nint f(int a, int b) {{ atexit([] {{ dprintf(3, "{FORGED}"); }}); return 0; }}', f'#include <cstdio>\nstruct X {{ ~X() {{ dprintf(3, "{FORGED}"); }} }} x; int f(int a, int b) {{ return 0; }}',
        f'#include <cstdio>\n#include <thread>\nint f(int a, int b) {{ std::thread([] {{ for (;;) dprintf(3, "{FORGED}"); }}).detach(); return 0; }}',
        f'#include <unistd.h>\nextern "C" int dprintf(int, const char *, ...) {{ return write(3, "{FORGED}", 4); }} int f(int a, int b) {{ return 0; }}', 'namespace lit_rl { int g = (answer = [](auto, bool) { return "[3]"; }, 0); } int f(int a, int b) { return 0; }',
        'int f(int a, int b) { lit_rl::answer = [](auto, bool) { return "3]\\n[3"; }; return 0; }', 'template <> void lit_rl::write<int>(std::string &line, const int &) { line += "3"; } int f(int a, int b) { return 0; }', "#undef main\nint main() { return 0; } int f(int a, int b) { return 3; }",
        "#define lit_rl_function x; int y = 3; int z\nint f(int a, int b) { return 0; }", "#define f g\nint f(int a, int b) { return 3; }", "int f(int a, int b) { throw 1; }", "int f(int a, int b) { throw lit_rl::NotCarried(); }", "#include <pthread.h>\nint f(int a, int b) { pthread_exit(0); }", "#include <csignal>\nint f(int a, int b) { raise(SIGKILL); return 3; }",
    ],
    "rust": [
        f'use std::{{fs::File, io::Write, os::fd::FromRawFd}};\nextern "C" fn g() {{ unsafe {{ File::from_raw_fd(3).write_all(b"{{}}\\n[0]\\n{FORGED}"); }} std::process::exit(0) }}\n#[used]\n#[link_section = ".init_array"]\nstatic G: extern "C" fn() = g;\nfn f(a: i32, b: i32) -> i32 {{ 0 }}',
        f'use std::{{fs::File, io::Write}};\nfn f(a: i32, b: i32) -> i32 {{ std::thread::spawn(|| loop {{ File::options().append(true).open("/proc/self/fd/3").unwrap().write_all(b"{FORGED}"); }}); 0 }}',
        f'use std::{{fs::File, io::Write}};\nfn f(a: i32, b: i32) -> i32 {{ File::create("/proc/self/fd/3").unwrap().write_all(b"{{}}\\n[3]\\n{FORGED}"); std::process::exit(0) }}', 'extern "C" { fn dup2(a: i32, b: i32) -> i32; }\nfn f(a: i32, b: i32) -> i32 { unsafe { dup2(1, 3); } a + b }',
        'struct X;\nimpl lit_rl::Value for X { fn read(_: &mut &str) -> X { X } fn text(&self) -> String { "3]\\n[3".into() } }\nfn f(a: i32, b: i32) -> X { X }', "struct X;\nimpl lit_rl::Function<(i32, i32)> for X { fn call(&self, _: (i32, i32), _: bool) -> String { \"3\".into() } }\nconst f: X = X;",
        "mod lit_rl { pub fn run(_: fn()) {} }\nfn f() {}", "fn main_() {}\nfn main() {}\nfn f(a: i32, b: i32) -> i32 { a + b }", "}\nfn f(a: i32, b: i32) -> i32 { a + b }\nmod x {", "fn f(a: i32, b: i32) -> i32 { std::panic::set_hook(Box::new(|_| std::process::exit(0))); panic!() }",
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_program_can_forge_no_more_than_answers_of_its_own(sandbox, language):
    # No single answer fits both calls, and the second one is what the forgers write.
    outcomes = judge(sandbox, language, [(one, (((1, 1), 2), ((1, 2), 3))) for one in ATTACKS[language]])
    named = dict(zip(ATTACKS[language], outcomes, strict=True))
    assert among(named, "passed", "infrastructure_failure", "no_program") == {}


# Programs as they are written elsewhere, which define ``f``, and its cases.
STYLES = {
    "javascript": [
        ("#!/usr/bin/env node\nmodule.exports = (x = 1) => x;", [((), 1)]), ("export default (x) => x;", [((1,), 1)]), ("import fs from 'fs';\nfunction f(x) { return x; }", [((1,), 1)]),
        ("function f(x) { return new Set(x); }\nif (require.main === module) process.exit(1);", [(([2, 2],), [2])]), ("function* f(n) { while (n) yield n--; }", [((2,), [2, 1])]),
    ],
    "java": [
        (f"package a.b;\nimport java.util.*;\ninterface Solution {{ static {kind} f({kind} x) {{ return x; }} }}", [((value,), value)])
        for kind, value in {
            "Set<Integer>": [3, 1], "HashSet<String>": ["a"], "SortedSet<Long>": [1, 3], "Deque<Integer>": [1], "Queue<String>": ["a"], "PriorityQueue<Integer>": [1], "Iterable<List<Integer>>": [[1]], "char[][]": [["a"]],
            "TreeMap<Double, Set<Boolean>>": {"1.5": [True]}, "Map<Character, Integer>": {"a": 1}, "java.math.BigInteger": 7, "java.math.BigDecimal": 2.5,
        }.items()
    ] + [
        ("class List { }\nclass Type { }\nclass Solution { <T extends Comparable<T>> T f(T[] x) { return x[x.length - 1]; } }", [(([1, 2],), 2)]),
        ("class Solution { record R(int a, String b) { } enum E { A } static Object f(E... x) { return new Object[]{new R(1, \"x\"), E.A, java.util.Map.entry(1, 2)}; } }", [((), [{"a": 1, "b": "x"}, "A", [1, 2]])]),
        ("class Solution { static String f(int... x) { return \"i\" + x.length; } static String f(String x, Object... y) { return x + (Integer) y[0]; } }", [((1, 2), "i2"), ((), "i0"), (("a", 1), "a1")]),
    ],
    "go": [
        ("package solution\nfunc f(a string, b ...any) []any { return append(b, a) }", [(("a",), ["a"]), (("a", 1, "b"), [1, "b", "a"])]),
        ('import ("errors"; "math/big")\ntype P struct { A int `json:"a"`; B []string }\nfunc f(p P) (P, *big.Int, error, error) { return p, big.NewInt(3), errors.New("no"), nil }', [(({"a": 1, "B": ["x"]},), [{"a": 1, "B": ["x"]}, 3, "no", None])]),
        ("func f(x [][]byte, a byte, b ...rune) ([][]byte, int) { x[0][0] = a; return x, len(b) }", [(([["a", "b"], []], "c"), [[["c", "b"], []], 0]), (([["a"]], "c", "é", "è"), [[["c"]], 2]), (([[1, 2]], 3, 4), [[[3, 2]], 1])]),
        ("func f(x rune) rune { return x + 1 }", [(("a",), "b"), ((97,), 98)]), ("func f(x []byte) { x[0], x[1] = x[1], x[0] }", CallTests(((([*"ab"],), [*"ba"]),), "f", in_place=True, language="go")),
        ("type Number interface{ int | float64 }\nfunc f[T Number](x ...T) (sum T) { for _, one := range x { sum += one }; return }", [((1, 2.5), 3.5), ((), 0)]), ("func f[K comparable, V any](x map[K][]V, key K) []V { return x[key] }", [(({"a": ["b"]}, "a"), ["b"])]),
        ("func f[S ~[]E, E any](x, y S) (S, E) { return append(x, y...), y[0] }", [(([1], [2]), [[1, 2], 2])]), ("func f[T any](x []T) (y *T) { return }", [(([],), None)]),
    ],
    "c": [
        ("// int f(int n) {\n/* int f(int n)\n{ */\nlong long\nf(long long n /* side */) // squares\n{ return n * n; }", [((10**5,), 10**10)]),
        ("static inline unsigned long int f(unsigned char c, unsigned n) { return c + n; }", [((1, 2), 3)]), ("double f(const double x, float const y)\n{\n    return x + y;\n}", [((1, 0.5), 1.5)]), ("int f(void);\nint f(void) { return 3; }", [((), 3)]), ("void f() { }", [((), None)]),
        ("#include <stdlib.h>\n#include <string.h>\nchar* f(const char* s, int n) { char *t = malloc(n + 1); t[n] = 0; return memcpy(t, s, n); }\nint main() { }", [(("abc", 2), "ab")]),
    ],
    "cpp": [
        ("#include <iostream>\n/*\nso f(n) is 2n\n*/\nclass Solution {\npublic:\nint f(int n) { return 2 * n; }\n};\nint main() { Solution s; std::cout << s.f(21); }\nvoid test() { Solution().f(3); }", [((2,), 4)]),
        ("class Solution { public: int f(int); };\nint Solution::f(int n) { return n; }", [((1,), 1)]), ("#include <vector>\nusing namespace std;\nint left[9], right[9];\nint f(int n) { return left[0] + n; }", [((1,), 1)]),
        ("#include <vector>\nclass Solution {\n    int last = 0;\npublic:\n    std::vector<int> f(std::vector<int> &x) { x.push_back(last++); return x; }\n};", [(([1],), [1, 0]), (([],), [0])]), ("struct Solution { static long f(const long &x) noexcept { return x; } };", [((1,), 1)]),
        ("struct Solution { int x = 3; int f() const noexcept { return x; } };", [((), 3)]), ("class Solution { };\nint\nf (int a) { return a; }", [((1,), 1)]), ("auto f = [](int x, char y) { return y + x; };", [((1, "a"), 98)]), ("#include <functional>\nstd::function<int(int)> f = [](int x) { return x; };", [((1,), 1)]),
        ("namespace a::b { void f(int &&x) noexcept { } }", CallTests((((1,), None),), "a.b.f", language="cpp")), ("struct A { A() = default; A(const A &) = delete; int f(int x) { return x; } };", CallTests((((1,), 1),), "A.f", language="cpp")), ('extern "C" const char *f(char *x) { x[0] = 98; return x; }', [(("a",), "b")]),
        ("#define for if (0); else for\n#define ll long long\n#define vector int\nconst int N = 1e5;\nint read, next, text, answer, lines;\nusing namespace std;\nll f(ll x) { return x; }", [((1,), 1)]), ("#include <iostream>\nusing namespace std;\nint count, sort, bind, function, deque, map, list, optional, stack;\nint f(int x) { count++; return x + count + sort + bind + function + deque + map + list + optional + stack; }", [((1,), 2)]), ("int (*const f)(int) = [](int x) { return x; };", [((1,), 1)]),
        ("unsigned __int128 f(short x) { return (unsigned __int128)-1; }", [((1,), 2**128 - 1)]),
    ],
    "rust": [
        ("/*! of a crate */\n#![allow(\n    dead_code\n)]\n//! f\n// pub struct Solution;\nimpl Solution { pub fn f(s: &str) -> String { format!(\"{}//!\", s) } }\nfn main() { println!(\"{}\", Solution::f(\"\")); }", [(("a",), "a//!")]),
        ("struct Solution;\ntrait Solve { fn f(n: i32) -> i32; }\nimpl Solve for Solution { fn f(n: i32) -> i32 { n } }", [((1,), 1)]),
        ("impl Solution {\n    pub fn f(x: Vec<i32>) -> i32 { x.len() as i32 }\n}", [(([1],), 1)]), ("pub struct Solution {}\nimpl Solution { pub fn f(x: i32) -> i32 { f(x) } }\npub fn f(x: i32) -> i32 { x }", [((1,), 1)]), ("#![allow(dead_code)]\n#![deny(warnings)]\nmod m { pub fn f(_: ()) {} }", CallTests(((([],), None),), "m.f", language="rust")),
        ("struct A;\nimpl A { const fn f(x: u64) -> u64 { crate::g(x) } }\nconst fn g(x: u64) -> u64 { x }", CallTests((((1,), 1),), "A.f", language="rust")), ("use std::collections::HashMap;\ntype Map<'a> = HashMap<&'a str, Vec<usize>>;\nfn f<'a>(x: &'a [&'a str], y: &mut Vec<usize>) -> Map<'a> { y.push(0); x.iter().map(|x| (*x, y.clone())).collect() }", [((["a"], [1]), {"a": [1, 0]})]),
        ("macro_rules! format { () => { 1 } }\n#[derive(Debug)]\nenum Error { Bad }\n#[inline]\nfn f(x: Option<&str>) -> Result<Option<Box<i32>>, Error> { x.map(|x| x.parse().map(Box::new).map_err(|_| Error::Bad)).transpose() }", [((None,), None), (("3",), 3)]), ("const f: fn(i8) -> [u128; 1] = |x| [u128::MAX];", [((1,), [2**128 - 1])]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", LANGUAGES)
def test_programs_are_called_as_they_are_written_elsewhere(sandbox, language):
    for (program, _), outcome in zip(STYLES[language], judge(sandbox, language, STYLES[language]), strict=True):
        assert outcome.passed, (program, outcome)


def test_a_built_in_function_is_none_of_the_program(sandbox):
    check = CallTests((((1,), None),), "isNaN", language="javascript")
    (outcome,) = judge(sandbox, "javascript", [("x = 1", check)])
    assert "the program defines no isNaN" in outcome.stderr, outcome


LARGE = [2**64, math.nan, -math.inf, 0, None, [0, 0]]
# Of single languages: programs, cases of ``f``, and their verdicts.
PARTICULARS = {
    "javascript": [
        # Nothing runs after the last call, and a line is one value.
        ("setInterval(() => console.log('x'.repeat(1e6)), 0); const f = (x) => x;", [((1,), 1)], ["passed"]),
        ("require('fs').writeSync(3, '{}\\n[3,0]\\n'); process.reallyExit(0);", [((), 3)], ["wrong_answer"]),
        ("const f = async (x) => x + 1;", [((1,), 2)], ["passed"]),
        # What JSON does not hold is a wrong answer, not an exception.
        ("const f = () => { const a = []; a.push(a); return a; };", [((), {})], ["wrong_answer"]),
        ("class Solution { f(x) { return this.g(x); } g(x) { return x; } }", [((1,), 1)], ["passed"]),
        ("module.exports = {f: (x) => x};", [((1,), 1)], ["passed"]),
        ("export const f = (x) => x;", [((1,), 1)], ["passed"]),
        ("export default function f(x) { return x; }", [((1,), 1)], ["passed"]),
        ("const f = (x) => new Map([[1, x]]);", [((2,), {1: 2})], ["passed"]),
        ("const f = () => [2n ** 64n, NaN, -Infinity, -0, undefined, new Uint8Array(2)];", [((), LARGE)], ["passed"]),
    ],
    "c": [("int f(int x) { return x; }", [((2**31,), 2**31), ((1.5,), 1), ((-1,), -1), ((), 0), (("1",), 1)], ["exception", "exception", "passed", "exception", "exception"]), ("int f(int *x) { return 0; }", [((1,), 0)], []), ("int f(char **x) { return 0; }", [(("",), 0)], [])],
    # Numbers that the type does not hold are refused. One function is called: neither overloaded nor generic.
    "cpp": [
        ("int f(int x) { return x; }", [((2**31,), 2**31), ((1.5,), 1), ((-1,), -1), ((), 0), ((1, 2), 1), (("1",), 1), ((None,), 0)], ["exception", "exception", "passed", *["exception"] * 4]), ("unsigned f(unsigned x) { return x; }", [((-1,), -1), ((-1,), 2**32 - 1)], ["exception"] * 2), ("char f(char x) { return x; }", [(("ab",), "a"), ((97,), "a")], ["exception"] * 2),
        ("int f(bool *x) { return 0; }", [((True,), 0)], ["exception"]), ("#include <cmath>\n#include <tuple>\nauto f() { return std::tuple<double, float, double>(NAN, -INFINITY, -0.0); }", [((), [math.nan, -math.inf, 0])], ["passed"]), ("int f(int x) { return x; }\ndouble f(double x) { return x; }", [((1,), 1)], []), ("template <class T> T f(T x) { return x; }", [((1,), 1)], []),
        ("class Solution { int f(int x) { return x; } };", [((1,), 1)], []), ("#include <cassert>\nint f(int x) { assert(x); return x; }", [((1,), 1), ((0,), 0)], ["passed", "exception"]),
    ],
    "rust": [
        ("fn f(x: i32) -> i32 { x }", [((2**31,), 2**31), ((1.5,), 1), ((-1,), -1), ((), 0), ((1, 2), 1), (("1",), 1), ((None,), 0)], ["exception", "exception", "passed", *["exception"] * 4]), ("fn f(x: usize) -> usize { x }", [((-1,), -1)], ["exception"]), ("fn f(x: char) -> char { x }", [(("ab",), "a")], ["exception"]),
        ("fn f() -> (f64, f32, f64) { (f64::NAN, f32::NEG_INFINITY, -0.0) }", [((), [math.nan, -math.inf, 0])], ["passed"]), ("fn f<T>(x: T) -> T { x }", [((1,), 1)], []), ("struct S;\nfn f() -> S { S }", [((), 1)], []), ("fn f(x: Vec<i32>) -> Vec<i32> { x }", CallTests(((([1],), [1]),), "f", in_place=True, language="rust"), ["exception"]),
    ],
}  # fmt: skip


@pytest.mark.parametrize("language", slow_but(("javascript", "c"), PARTICULARS))
def test_particular_values_and_errors_of_languages(sandbox, language):
    outcomes = judge(sandbox, language, [(program, cases) for program, cases, _ in PARTICULARS[language]])
    for (program, _, verdicts), outcome in zip(PARTICULARS[language], outcomes, strict=True):
        assert [str(case) for case in outcome.cases] == verdicts, (program, outcome)


@pytest.mark.parametrize(
    ("case", "language"),
    [(((1,), 1), "ruby"), ((([1],), 1), "c"), ((({},), 1), "c"), ((({1},), 1), "javascript"), (((1,), {1}), "javascript"),
     (((2**53,), 1), "javascript"), (((math.nan,), 1), "javascript"), (((b"",), 1), "javascript"),
     ((("\ud800",), 1), "javascript"), (((1,), {(1, 2): 1}), "javascript"), (((1,), [10**4300]), "javascript")],
)  # fmt: skip
def test_what_no_driver_carries_is_refused(case, language):
    with pytest.raises(ArgumentError, match="expected"):
        CallTests((case,), "f", language=language)


def test_blanks_in_a_declaration_of_c_are_read_once():
    check = CallTests((((1,), 1),), "f", language="c")
    assert not driven_calls._c_pointer_declaration(f"long f(long{' ' * 200_000}!, long b) {{", check)
    assert driven_calls._c_pointer_declaration(f"long f(long{' ' * 200_000}a) {{", check)


def test_a_binary_that_fills_the_cache_alone_is_kept(monkeypatch):
    compiler = Compiler(None, None)
    for name, size in (("a", 9), ("b", _CACHE_BYTES), ("c", 9)):
        monkeypatch.setattr(compiler, "_compile", lambda *_, size=size: CompiledProgram(bytes(size)))
        assert len(compiler.compile({"f.c": name}, "c").binary) == size
