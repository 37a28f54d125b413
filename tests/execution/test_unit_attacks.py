"""Programs that try to pass unit tests which share their process, without computing the answer."""

# ruff: noqa: E501 - programs

import pytest
from support.slow_cases import slow_but

from lit_rl.execution import Sandbox, UnitTests
from lit_rl.execution.languages import how_to_install, toolchain

TESTS = {
    "javascript": "console.assert(f(3) === 4);\nconsole.assert(JSON.stringify([f(1)]) === '[2]');",
    "java": "public class Main { public static void main(String[] words) { Solution s = new Solution();\n"
    "if (!Arrays.asList(s.f(3) == 4, s.f(1) == 2).equals(Arrays.asList(true, true))) throw new AssertionError(); } }",
    "go": "func TestF(t *testing.T) {\n\tassert := assert.New(t)\n\tassert.Equal(4, f(3))\n"
    "\tassert.Equal(true, f(1) == 2)\n}",
    "rust": "#[cfg(test)]\nmod tests {\n    use super::*;\n    #[test]\n"
    "    fn test_f() { assert_eq!(f(3), 4); assert!(f(1) == 2); }\n}",
    "cpp": "#undef NDEBUG\n#include <assert.h>\nint main() { assert(f(3) == 4); assert(f(1) == 2); }",
}
SETUPS = {"go": 'package main\nimport (\n"testing"\n"github.com/stretchr/testify/assert"\n)\n'}
RIGHT = {
    "javascript": "const f = (x) => x + 1;",
    "java": "import java.util.*;\nclass Solution { int f(int x) { return x + 1; } }",
    "go": "func f(x int) int { return x + 1 }",
    "rust": "fn f(x: i32) -> i32 { x + 1 }",
    "cpp": "int f(int x) { return x + 1; }",
}
JS, JAVA, GO, RUST, CPP = (
    RIGHT[name].replace("x + 1", "x") + "\n" for name in ("javascript", "java", "go", "rust", "cpp")
)


def static(code):
    return f"import java.util.*;\nclass Solution {{ static {{ {code} }} int f(int x) {{ return x; }} }}"


def inside(code):
    return f"import java.util.*;\nclass Solution {{ int f(int x) {{ {code} return x; }} }}"


STEAL = 'try { byte[] b = System.in.readAllBytes(); new java.io.FileOutputStream("/proc/self/fd/3").write(b); } catch (Exception e) { }'
# fmt: off
ATTACKS = {
    "javascript": [
        "process.exit(0);", "process.reallyExit(0);", "process.kill(process.pid, 'SIGTERM');", "for (;;);", "throw null;",
        JS + "console.assert = () => {};", JS + "console = {assert() {}};", JS + "globalThis.console = {assert() {}};",
        JS + "const console = {assert() {}};", JS + "require('assert').fail = () => {};",
        JS + "JSON.stringify = () => '[2]'; process.on('uncaughtException', () => {});",
        JS + "let JSON = {stringify: () => '[2]'};", JS + "process.on('uncaughtException', () => process.exit(0));",
        "const f = () => process.exit(0);", "const f = () => { throw 1; }; process.on('exit', () => process.exitCode = 0);",
        "const fs = require('fs'); fs.writeSync(3, fs.readFileSync(0)); process.exit(0);",
        "const fs = require('fs'); for (let i = 0; i < 32; i++) try { fs.writeSync(i, 'x'.repeat(64)); } catch {}",
        "const fs = require('fs'); const f = () => { fs.writeSync(3, fs.readFileSync('/proc/self/fd/0')); process.exit(0); }",
        "const f = () => { process.emit('beforeExit'); process.exit(0); }",
        "const f = () => { for (const l of process.rawListeners('beforeExit')) l(); process.exit(0); }",
        "const f = () => { const s = require('v8').getHeapSnapshot(), h = []; let c; while ((c = s.read())) h.push(c);"
        " const m = String(Buffer.concat(h)).match(/[0-9a-f]{64}/); require('fs').writeSync(3, m ? m[0] : ''); process.exit(0); }",
        JS + "Object.is = () => true; Object.defineProperty(console, 'assert', {value() {}});",
        JS + "Reflect.apply = () => true; Function.prototype.call = () => true;",
        JS + "require('module').prototype.require = () => ({});", JS + "require('vm').runInThisContext = () => () => {};",
        JS + "/*", JS + "console.log('all tests passed');", "const f = () => ({valueOf: () => 4});", JS + "require('fs').closeSync(3);",
        JS + "Buffer.prototype.fill = () => {}; require('fs').readFileSync = () => '[]';",
    ],
    "java": [
        static("System.exit(0);"), static("Runtime.getRuntime().halt(0);"), inside("System.exit(0);"),
        inside("Runtime.getRuntime().halt(0);"), inside("if (true) throw new RuntimeException();"), inside("f(x);"),
        inside("while (x > -9) x = 1;"), static("while (Math.random() < 2) { }"),
        inside("new Thread(() -> { while (true); }).start(); System.exit(0);"),
        JAVA + "class Main { public static void main(String[] w) { } }",
        JAVA + "class LitRlRun { public static void main(String[] w) { } }",
        JAVA + "class Arrays { static List<Boolean> asList(boolean... x) { return List.of(); } }",
        JAVA + "class AssertionError extends RuntimeException { AssertionError() { System.exit(0); } }",
        JAVA + "class String { }", JAVA + "/*", JAVA + 'class X { String s = """', JAVA + "class X {",
        static("System.setOut(null); " + STEAL + " System.exit(0);"), inside(STEAL + " System.exit(0);"),
        inside('try { new java.io.FileOutputStream("/proc/self/fd/3").write(new byte[64]); } catch (Exception e) { }'),
        inside("try { LitRlRun.main(null); } catch (Throwable e) { } System.exit(0);"),
        static("Thread.setDefaultUncaughtExceptionHandler((t, e) -> System.exit(0));"),
        static("Runtime.getRuntime().addShutdownHook(new Thread(() -> Runtime.getRuntime().halt(0)));"),
        inside('System.out.println("OK (1 test)"); System.exit(0);'), inside("Thread.currentThread().stop();"),
        inside("for (Thread t : Thread.getAllStackTraces().keySet()) t.interrupt(); System.exit(0);"), JAVA,
    ],
    "go": [
        'import "os"\nfunc f(x int) int { os.Exit(0); return x }', 'import "os"\nfunc init() { os.Exit(0) }\n' + GO,
        GO + "const true = false", GO + "type bool int\nconst true bool = 0", GO + "func len(x any) int { return 4 }",
        GO + "func panic(x any) {}", GO + "func TestF(t *testing.T) {}", GO + "func main() {}", GO + "/*", GO + "var s = `",
        GO + "var assert = 1", "func f(x int) int { panic(1) }", "func f(x int) int { for {} }", "func init() { for {} }\n" + GO,
        'import "runtime"\nfunc f(x int) int { runtime.Goexit(); return x }', "func f(x int) any { return x }",
        'import "flag"\nfunc init() { flag.Set("test.run", "none") }\n' + GO,
        'import "os"\nfunc init() { os.Args = []string{"x", "-test.run=none"} }\n' + GO,
        'import "os"\nfunc init() { os.Args = []string{"x", "-test.list=.*"} }\n' + GO,
        'import "os"\nfunc init() { b := make([]byte, 64); os.Stdin.Read(b); os.NewFile(3, "").Write(b); os.Exit(0) }\n' + GO,
        'import "os"\nfunc f(x int) int { os.NewFile(3, "").Write(make([]byte, 64)); os.Exit(0); return 0 }',
        'import ("os"; "io")\nfunc f(x int) int { b, _ := io.ReadAll(os.Stdin); os.NewFile(3, "").Write(b); os.Exit(0); return 0 }',
        'import run "lit_rl"\nfunc init() { run.Run(nil) }\n' + GO, 'import "os"\nvar _ = func() int { os.Exit(0); return 0 }()\n' + GO,
        'import "syscall"\nfunc f(x int) int { syscall.Kill(syscall.Getpid(), 15); return x }',
        'import "os"\nfunc init() { go func() { os.Exit(0) }() }\n' + GO,
        'import "fmt"\nfunc f(x int) int { fmt.Println("PASS\\nok"); return x }',
        "func f(x int) int { defer func() { recover() }(); var p *int; return *p }",
    ],
    "rust": [
        "fn f(x: i32) -> i32 { std::process::exit(0) }", "fn f(x: i32) -> i32 { std::process::abort() }",
        "fn f(x: i32) -> i32 { loop {} }", "fn f(x: i32) -> i32 { panic!() }", "fn f(x: i32) -> i32 { f(x) + 1 }",
        RUST + "macro_rules! assert_eq { ($($t:tt)*) => {} }\nmacro_rules! assert { ($($t:tt)*) => {} }",
        RUST + "#[macro_export] macro_rules! assert_eq { ($($t:tt)*) => {} }\npub use crate::assert_eq;\n"
        "#[macro_export] macro_rules! assert { ($($t:tt)*) => {} }\npub use crate::assert;",
        RUST + "mod tests { pub fn test_f() {} }", RUST + "pub mod lit_rl_tests { pub fn run() {} }", RUST + "pub fn run() {}",
        RUST + "fn main() {}", RUST + '#[no_mangle] pub extern "C" fn main() -> i32 { 0 }', RUST + "/*",
        RUST + 'const S: &str = r#"', RUST + "mod x {",
        RUST + 'extern "C" fn g() { std::process::exit(0) }\n#[link_section = ".init_array"]\n#[used] static G: extern "C" fn() = g;',
        "use std::os::unix::io::FromRawFd;\nfn f(x: i32) -> i32 { unsafe { std::fs::File::from_raw_fd(3); } std::process::exit(0) }",
        "use std::io::*;\nfn f(x: i32) -> i32 { let mut b = vec![]; stdin().read_to_end(&mut b).unwrap();"
        ' std::fs::write("/proc/self/fd/3", b).unwrap(); std::process::exit(0) }',
        'fn f(x: i32) -> i32 { std::fs::write("/proc/self/fd/3", "x".repeat(64)).unwrap(); std::process::exit(0) }',
        'fn f(x: i32) -> i32 { let m = std::fs::read("/proc/self/mem").unwrap_or_default();'
        ' std::fs::write("/proc/self/fd/3", m).unwrap(); std::process::exit(0) }',
        "fn f(x: i32) -> i32 { std::panic::set_hook(Box::new(|_| std::process::exit(0))); panic!() }",
        "fn f(x: i32) -> i32 { std::thread::spawn(|| std::process::exit(0)).join().unwrap() }",
        'fn f(x: i32) -> i32 { println!("test result: ok. 1 passed"); x }', "#![cfg(any())]\n" + RUST, "#![no_std]\n" + RUST,
        "#![allow(unsafe_code)]\nfn f(x: i32) -> i32 { unsafe { *(8 as *const i32) } }",
    ],
    "cpp": [
        "#include <stdlib.h>\nint f(int x) { exit(0); }", "#include <unistd.h>\nint f(int x) { _exit(0); }",
        CPP + "#define assert(x)", CPP + "#define main other", CPP + "int main() { return 0; }", CPP + "#if 0", CPP + "/*",
        CPP + 'extern "C" void __assert_fail(const char*, const char*, unsigned, const char*) noexcept {}',
        CPP + "#define f(x) ((x) + 1)\n#define NDEBUG", "#include <unistd.h>\nint f(int x) { char b[64]; write(3, b, 64); _exit(0); }",
        "#include <unistd.h>\n__attribute__((constructor)) void g() { char b[64]; write(3, b, read(0, b, 64)); _exit(0); }\n" + CPP,
        "#include <signal.h>\nint f(int x) { raise(SIGKILL); return x; }",
    ],
}
# fmt: on


@pytest.mark.parametrize("tier", slow_but((0,), (0, 1)))
@pytest.mark.parametrize("language", slow_but(("cpp", "javascript"), TESTS))
def test_a_right_program_passes_and_no_attack_does(language, tier):
    if toolchain(language) is None:
        pytest.skip(how_to_install(language))
    check = UnitTests(TESTS[language], language, SETUPS.get(language, ""), timeout_seconds=2.0)
    with Sandbox(num_workers=2, tier=tier) as sandbox:
        right, *others = sandbox.judge_many([(one, check) for one in (RIGHT[language], *ATTACKS[language])])
    assert right.passed, right
    bad = {
        source: outcome.verdict
        for source, outcome in zip(ATTACKS[language], others, strict=True)
        if outcome.verdict in ("passed", "infrastructure_failure", "no_program")
    }
    assert bad == {}
