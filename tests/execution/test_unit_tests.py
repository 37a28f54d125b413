"""Unit tests that are compiled with the program: honest programs pass, wrong ones and early ends fail."""

# ruff: noqa: E501 - programs

import pytest
from support.slow_cases import slow_but
from support.toolchains import need

from lit_rl.execution import UnitTests

GO = 'package main\nimport "testing"\n'
MAIN = (
    "class Main { public static void main(String[] a) { if (new Solution().f(3) != 4) throw new AssertionError(); } }"
)
ASSERT = "#include <cassert>\nint main() { assert(f(3) == 4); }"
RUST = "#[cfg(test)]\nmod tests {\nuse super::*;\n#[test]\n%s\n}"
RESULT = RUST % 'fn a() -> Result<(), String> { if f(3) == 4 { Ok(()) } else { Err("no".into()) } }'
PANIC = RUST % '#[should_panic(expected = "below [0]")]\nfn a() { f(-1); }'
PARALLEL = (
    "func TestA(t *testing.T) { t.Parallel(); if f(3) != 4 { t.Fail() } }\nfunc TestB(t *testing.T) { t.Parallel() }"
)
SUBTEST = (
    'func TestA(t *testing.T) { t.Run("part", func(t *testing.T) { t.Parallel(); if f(3) != 4 { t.Error("no") } }) }'
)
CLEANUP = "func TestA(t *testing.T) { t.Cleanup(func() { if f(3) != 4 { t.Fail() } }) }"
# Of each language: tests, with text before the program; programs that pass, and programs that fail.
CASES = {
    "a Result of Rust": ("rust", RESULT, "", ["fn f(x: i32) -> i32 { x + 1 }"], ["fn f(x: i32) -> i32 { x }", "fn f(_: i32) -> i32 { std::process::exit(0) }"]),
    "should_panic of Rust": (
        "rust", PANIC, "",
        ['fn f(x: i32) -> i32 { assert!(x >= 0, "below [0]"); x }'],
        ["fn f(x: i32) -> i32 { x }", 'fn f(x: i32) -> i32 { panic!("another {x}") }'],
    ),
    "own tests and main of Rust": ("rust", RESULT, "use std::fmt::Debug;", ["#![allow(dead_code)]\nfn f(x: i32) -> i32 { crate::g(x) }\nfn g(x: i32) -> i32 { x + 1 }\nfn main() {}\n#[cfg(test)]\nmod tests { #[test] fn wrong() { panic!() } }"], []),
    "ignored and nested tests of Rust": (
        "rust", "mod outer { mod inner { use super::super::*; #[test] fn a() { assert_eq!(f(3), 4) } #[test] #[ignore] fn b() { panic!() } } }\n#[test]\nfn top() {}", "",
        ["fn f(x: i32) -> i32 { x + 1 }"], ["fn f(x: i32) -> i32 { x }"],
    ),
    **{
        f"{name} of Go": ("go", test, GO, ["func f(x int) int { return x + 1 }"], ["func f(x int) int { return x }", 'import "os"\nfunc f(x int) int { os.Exit(0); return 0 }'])
        for name, test in (("parallel tests", PARALLEL), ("subtests", SUBTEST), ("cleanups", CLEANUP))
    },
    "own classes in Java": (
        "java", MAIN, "import java.util.*;\nimport java.io.*;\n",
        ["class Class { static Class forName(int n) { return null; } }\nclass System { } class Runtime { } class FileInputStream { } class Throwable { }\npublic class Solution { int f(int x) { return x + 1; } }",
         "package a;\nclass Solution { static int count; int f(int x) { List<Integer> l = new ArrayList<>(); l.add(x); return l.get(0) + 1; } }"],
        ["class Solution { int f(int x) { return x; } }", "class Solution { int f(int x) { System.exit(0); return 0; } }"],
    ),
    "C++": ("cpp", ASSERT, "#include <vector>\n", ["int f(int x) { return std::vector{x}[0] + 1; }"], ["int f(int x) { return x; }", "#include <cstdlib>\nint f(int x) { exit(0); }"]),
    "JavaScript": (
        "javascript", "const assert = require('node:assert');\nconsole.assert(f(3) === 4); assert.deepEqual([f(1)], [2]);", "",
        ["const assert = require('assert'); const f = (x) => x + 1;", "export const f = (x) => x + 1;", "import {sum} from 'module';\n".replace("{sum}", "* as m") + "function f(x) { return x + 1; }"],
        ["const f = (x) => x;", "const f = () => process.exit(0);", "const f = (x) => x === 3 ? 4 : 5;"],
    ),
    "promises in JavaScript": ("javascript", "f(3).then((x) => console.assert(x === 4));", "", ["const f = async (x) => x + 1;"], ["const f = async (x) => x;"]),
}  # fmt: skip
QUICK = ("JavaScript", "promises in JavaScript")


@pytest.mark.parametrize("name", slow_but(QUICK, CASES))
def test_right_programs_pass_and_wrong_ones_fail(sandbox, name):
    language, test, setup, right, wrong = CASES[name]
    need(language)
    outcomes = sandbox.judge_many([(one, UnitTests(test, language, setup)) for one in [*right, *wrong]])
    assert [outcome.verdict for outcome in outcomes[: len(right)]] == ["passed"] * len(right), outcomes
    assert [outcome.verdict for outcome in outcomes[len(right) :]] == ["exception"] * len(wrong), outcomes


# With two lines of setup before it, the third line of each program fails: as it is compiled, or as it runs.
FAULTS = {
    "cpp": ("#include <map>\n#include <set>\n", ASSERT, "int f(int x) {\n\nreturn y; }", "#include <cassert>\nint f(int x) {\nassert(x > 3); return 4; }"),
    "java": ("import java.util.*;\nimport java.io.*;\n", MAIN, "class Solution { int f(int x) {\n\nreturn y; } }", "class Solution { int f(int x) {\n\nreturn x / 0; } }"),
    "javascript": ("const a = 1;\nconst b = 2;\n", "console.assert(f(3) === 4)", "const c = 1;\n\nconst f = = 1;", "const f = (x) => {\n\nreturn null.x; }"),
    "go": (GO + "type pair struct{}\n", CLEANUP, "func f(x int) int {\n\nreturn y }", "func f(x int) int { var a []int\n\nreturn a[x] }"),
    "rust": ("type A = i32;\ntype B = i32;\n", RESULT, "fn f(x: i32) -> i32 {\n\ny }", "fn f(x: i32) -> i32 {\n\nVec::<i32>::new()[x as usize] }"),
}  # fmt: skip


@pytest.mark.parametrize("language", slow_but(("javascript",), FAULTS))
def test_a_diagnostic_names_the_line_of_the_program_and_shows_it(sandbox, language):
    need(language)
    setup, test, unparsed, failing = FAULTS[language]
    outcomes = sandbox.judge_many([(one, UnitTests(test, language, setup)) for one in (unparsed, failing)])
    assert [(one.verdict, one.line) for one in outcomes] == [("syntax_error", 3), ("exception", 3)], outcomes
    if language in ("cpp", "java", "rust"):
        assert unparsed.split("\n")[2] in outcomes[0].stderr


def test_a_missing_name_that_only_the_tests_use_names_no_line(sandbox):
    need("cpp")
    outcome = sandbox.submit("int g(int x) { return x; }", UnitTests(ASSERT, "cpp", "#include <map>\n")).result()
    assert (outcome.verdict, outcome.line) == ("syntax_error", None), outcome


@pytest.mark.parametrize("setup", ['import "testing"\n', 'package main\nimport "testing"\n'])
def test_unit_tests_of_go_take_programs_with_and_without_package_and_main(sandbox, setup):
    need("go")
    test = "func TestF(t *testing.T) { if f('\"') != 2 { t.Fail() } }"
    programs = [
        'func main() { }\nfunc f(c byte) int { return 1 + len(strings.TrimSpace("a")) }',
        '// A comment.\npackage main\n\nimport "fmt"\n\nfunc f(c byte) int { if c != \'"\' { fmt.Print(strings.ToUpper("x")) }; return 2 }',
    ]
    outcomes = sandbox.judge_many([(program, UnitTests(test, "go", setup)) for program in programs])
    assert [outcome.verdict for outcome in outcomes] == ["passed", "passed"], outcomes
