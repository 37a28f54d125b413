"""Whole programs in every language: verdicts, lines, limits."""

# ruff: noqa: E501 - programs

import pytest

from lit_rl.execution import Sandbox, StdioTests
from lit_rl.execution.languages import LANGUAGES, how_to_install, toolchain

NAMES = [name for name in LANGUAGES if name != "python"]


@pytest.fixture(scope="module")
def sandbox():
    with Sandbox(num_workers=2, memory_bytes=256 << 20) as sandbox:
        yield sandbox


def need(*languages):
    for language in languages:
        if toolchain(language) is None:
            pytest.skip(how_to_install(language))


# Each adds two numbers of standard input.
SUMS = {
    "c": "#include <stdio.h>\nint main(){int a,b;scanf(\"%d %d\",&a,&b);printf(\"%d\",a+b);return 0;}",
    "cpp": "#include <iostream>\nint main(){int a,b;std::cin>>a>>b;std::cout<<a+b;}",
    "javascript": "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number);\nconsole.log(a + b);",
    "typescript": "const words: string[] = require('fs').readFileSync(0, 'utf8').split(' ');\nconsole.log(+words[0] + +words[1]);",
    "java": "import java.util.*;\npublic class Sum { public static void main(String[] words) {\n"
    "Scanner in = new Scanner(System.in); System.out.println(in.nextInt() + in.nextInt()); } }",
    "go": 'package main\nimport "fmt"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Println(a + b) }',
    "rust": "use std::io::*;\nfn main() { let mut s = String::new(); stdin().read_to_string(&mut s).unwrap();\n"
    "println!(\"{}\", s.split_whitespace().map(|w| w.parse::<i32>().unwrap()).sum::<i32>()); }",
    "ruby": "puts gets.split.map(&:to_i).sum",
    "php": "<?php\n[$a, $b] = explode(' ', fgets(STDIN));\necho $a + $b;",
    "perl": "my ($a, $b) = split ' ', <STDIN>;\nprint $a + $b;",
    "lua": "local a, b = io.read('n', 'n')\nprint(a + b)",
    "bash": "read a b\necho $((a + b))",
}  # fmt: skip


@pytest.mark.parametrize("language", NAMES)
def test_a_right_program_passes_and_a_wrong_one_fails(sandbox, language):
    need(language)
    check = StdioTests((("1 2", "3"), ("20 22", "42")), language)
    assert sandbox.submit(SUMS[language], check).result().passed
    wrong = StdioTests((("1 2", "4"),), language)
    assert sandbox.submit(SUMS[language], wrong).result().verdict == "wrong_answer"


# A program whose third line does not parse, and one whose third line fails as it runs, with the name of its error.
BROKEN = {
    "javascript": ("let a = 1;\n\nlet b = = 2;", "let a = null;\n\na.b.c;", "TypeError"),
    "typescript": ("let a = 1;\n\nlet b = = 2;", "type A = any;\nlet a: A = null;\na.b.c;", "TypeError"),
    "java": ("class Main {\n\nint f( {} }", "class Main { public static void main(String[] w) {\n\nint[] a = new int[w.length]; a[3] = 1; } }", "java.lang.ArrayIndexOutOfBoundsException"),
    "go": ("package main\n\nfunc main( { }", "package main\nfunc main() { var a []int\n_ = a[len(a)] }", None),
    "rust": ("fn main() {\n\nlet a = = 1; }", "fn main() { let a: Vec<i32> = vec![];\n\nprintln!(\"{}\", a[std::env::args().count()]); }", "panicked"),
    "cpp": ("int main() {\n\nreturn x; }", None, None),
    "ruby": ("a = 1\n\ndef (", "a = nil\n\na.b", "NoMethodError"),
    "php": ("<?php\n\n$a = = 1;", "<?php\n\nthrow new LogicException('no');", "LogicException"),
    "perl": ("my $a = 1;\n\nmy $b = = ;", "my $a = 0;\n\ndie 'no' unless $a;", None),
    "lua": ("local a = 1\n\nlocal b = = 2", "local a = nil\n\nprint(a.b)", None),
    "bash": ("a=1\n\nif then fi", "set -u\n\necho $missing", None),
}  # fmt: skip


@pytest.mark.parametrize("language", BROKEN)
def test_an_error_names_a_line_of_the_program(sandbox, language):
    need(language)
    unparsed, failing, name = BROKEN[language]
    outcome = sandbox.submit(unparsed, StdioTests((("", "x"),), language)).result()
    assert (outcome.verdict, outcome.line) == ("syntax_error", 3)
    if failing:
        outcome = sandbox.submit(failing, StdioTests((("", "x"),), language)).result()
        assert (outcome.verdict, outcome.line) == ("exception", 3), outcome.stderr
        assert name is None or outcome.exception_type == name


ENDLESS = {
    "javascript": ("for (;;);", "for (;;) require('fs').writeSync(1, 'x'.repeat(4096));", "let a = []; for (;;) a.push(new Array(1000).fill(1.5));"),
    "java": ("class Main { public static void main(String[] w) { for (;;); } }",
             "class Main { public static void main(String[] w) { for (;;) System.out.println(\"xxxxxxxxxxxxxxxxxxxxxxx\"); } }",
             "class Main { public static void main(String[] w) { var a = new java.util.ArrayList<long[]>(); for (;;) { long[] b = new long[100000]; java.util.Arrays.fill(b, 7L); a.add(b); } } }"),
    "go": ("package main\nfunc main() { for { } }", 'package main\nimport "fmt"\nfunc main() { for { fmt.Println("xxxxxxxxxxxx") } }',
           "package main\nvar a [][]byte\nfunc main() { for { b := make([]byte, 1<<20); for i := range b { b[i] = 1 }; a = append(a, b) } }"),
    "rust": ("fn main() { loop {} }", 'fn main() { loop { println!("xxxxxxxxxxxxxxxxxxx"); } }',
             "fn main() { let mut a = vec![]; loop { a.push(vec![1u8; 1 << 20]); } }"),
    "ruby": ("loop {}", "loop { puts 'x' * 4096 }", "a = []; loop { a << 'x' * 100000 }"),
    "php": ("<?php for (;;);", "<?php for (;;) echo str_repeat('x', 4096);", "<?php $a = []; for (;;) $a[] = str_repeat('x', 100000) . count($a);"),
    "perl": ("1 while 1;", "print 'x' x 4096 while 1;", "my @a; push @a, 'x' x 100000 while 1;"),
    "lua": ("while true do end", "while true do io.write(string.rep('x', 4096)) end", "local a = {} while true do a[#a + 1] = string.rep('x', 100000) .. #a end"),
    "bash": ("while :; do :; done", "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx; done", "a=xxxxxxxxxxxx; while :; do a=$a$a; done"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("language", ENDLESS)
def test_limits_give_a_typed_verdict(sandbox, language):
    need(language)
    seconds = (0.5, 20.0, 20.0)
    jobs = [
        (one, StdioTests((("", "x"),), language, limit)) for one, limit in zip(ENDLESS[language], seconds, strict=True)
    ]
    first, second, third = sandbox.judge_many(jobs)
    assert (first.verdict, second.verdict) == ("timed_out", "output_limit")
    assert third.verdict in ("out_of_memory", "exception")  # the runtime may give up before the limit is reached
