# ruff: noqa: E501 - programs
"""Programs that try to pass unit tests which share their process, without computing the answer: f(x) is x + 1.

``ATTACKS`` were written with the drivers, ``OTHERS`` by somebody who had not written them; each is judged beside
``TESTS``, or beside tests of its own. What passes all the same is in ``LIMITS``, and in docs/sandbox.md.
"""

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

SEND = "require('fs').writeSync(3, m[0]); process.reallyExit(0);"
LOOP = "for (const [x, y] of [[3, 4], [1, 2]]) console.assert(f(x) === y);"
REQUIRED = "const assert = require('node:assert'), {strictEqual, deepEqual} = assert; strictEqual(f(3), 4); deepEqual([f(1)], [2]);"
STRICT = "const {isDeepStrictEqual} = require('util'), strict = require('assert/strict'); strict(isDeepStrictEqual(f(3), 4));"
TEXTS = "console.assert(JSON.stringify([f(3)]) === JSON.stringify([4])); console.assert(JSON.stringify({a: f(1)}) === JSON.stringify({a: 2}));"
MAPPED = (
    "console.assert(new Set([3, 1].map(f)).size === 2 && [3, 1].map(f).concat([9])[0] === 4 && /4/.test(`${f(3)}`));"
)
ASK = """const {Session} = require('inspector'), s = new Session(); s.connect();
const ask = (m, p) => { let r; s.post(m, p, (e, x) => { r = e || x; }); return r; };"""
PASS = "((t) => { const m = /[0-9a-f]{64}/.exec(t); if (m) { " + SEND + " } })"


def _member(code, call="return x;"):
    return f"import java.util.*; import java.io.*; import java.nio.file.*;\nclass Solution {{ static {{ try {{ {code} }} catch (Throwable e) {{ }} }} int f(int x) {{ {call} }} }}\n"


def _imports(code, *names, head=""):
    return "".join(f'import "{name}"\n' for name in names) + f"{head}\nfunc f(x int) int {{ {code}; return x }}\n"


_SCAN = """#include <string.h>
#include <unistd.h>
"""
# fmt: off
OTHERS = {
    "javascript": [
        (JS + "for (const k of [Object, Array, Number, String]) k.prototype.toJSON = () => 1;", TEXTS), (JS + "Object.defineProperty(Array.prototype, 'toJSON', {value: () => 1});", TEXTS),
        (JS + "Object.getPrototypeOf([][Symbol.iterator]()).next = () => ({done: true});", LOOP), (JS + "Array.prototype[Symbol.iterator] = function* () {};", LOOP), (JS + "Object.getPrototypeOf(Object.getPrototypeOf([].keys()))[Symbol.iterator] = () => ({next: () => ({done: true})});", LOOP),
        (JS + "require('module').prototype.require = () => ({deepEqual() {}, strictEqual() {}});", REQUIRED), (JS + "require('module')._load = () => ({deepEqual() {}, strictEqual() {}});", REQUIRED), (JS + "require.cache['assert'] = require.cache['node:assert'] = {exports: {strictEqual() {}, deepEqual() {}}, loaded: true};", REQUIRED),
        (JS + "const a = require('assert'); a.strictEqual = a.deepEqual = () => {};", REQUIRED), (JS + "require('util').isDeepStrictEqual = () => true;", STRICT), (JS + "require('util').isDeepStrictEqual = () => true; String.prototype.replace = () => 'x';", STRICT),
        (JS + "Object.defineProperty(Array, Symbol.species, {get: () => function () { return new Proxy([4], {defineProperty: () => true}); }});", MAPPED), (JS + "Object.defineProperty(Set.prototype, 'size', {get: () => 2}); RegExp.prototype.exec = () => [1];", MAPPED),
        (JS + "require('vm').Script.prototype.runInThisContext = () => () => {};", LOOP), (JS + "require('vm').Script.prototype.runInThisContext = () => Object; Function.prototype.apply = Function.prototype.bind = () => {};", LOOP), (JS + "process.emit = () => true; process.emit('beforeExit', 0);", LOOP),
        "const t = require('fs').readFileSync('/proc/self/fd/4', 'utf8'); const f = x => +new RegExp('f\\\\(' + x + '\\\\)\\\\]?\\\\)? === .?\\\\[?(\\\\d+)').exec(t)[1];",
        "const b = Buffer.alloc(1 << 20); const n = require('fs').readSync(4, b, 0, b.length, 0); const f = x => +new RegExp('f\\\\(' + x + '\\\\)\\\\]?\\\\)? === .?\\\\[?(\\\\d+)').exec(String(b))[1];",
        ASK + """globalThis.L = process.rawListeners('beforeExit')[0].listener; const own = (id) => ask('Runtime.getProperties', {objectId: id});
for (const one of own(own(ask('Runtime.evaluate', {expression: 'L'}).result.objectId).internalProperties.find((p) => p.name === '[[Scopes]]').value.objectId).result)
  for (const p of own(one.value.objectId).result) if (p.name === 'pass') """ + PASS + "(ask('Runtime.callFunctionOn', {objectId: p.value.objectId, functionDeclaration: 'function () { return this + \"\"; }'}).result.value);\n" + JS,
        "const {Worker} = require('worker_threads'); const w = new Worker(`const {Session} = require('inspector'), s = new Session(); s.connectToMainThread(); s.post('Runtime.evaluate', {expression: '1'}, (e, r) => process.stderr.write(JSON.stringify(r)));`, {eval: true}); const f = (x) => { Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 300); return x; };",
        "const f = (x) => x + Number(!!require('node:sqlite').DatabaseSync.prototype.loadExtension);",
        "const f = (x) => { require('buffer').INSPECT_MAX_BYTES = 64; for (const t of require('v8').queryObjects(Buffer, {format: 'summary'})) { const h = /<Buffer ([0-9a-f ]+)>/.exec(t); if (h) " + PASS + "(Buffer.from(h[1].replaceAll(' ', ''), 'hex').toString()); } return x; };",
        "require('v8').setFlagsFromString('--expose-gc'); const gc = require('vm').runInNewContext('gc'); for (let i = 0; i < 300; i++) { if (i % 30 == 0) gc(); for (const n of [64, 128, 8192, 65536, 65600]) " + PASS + "(Buffer.allocUnsafeSlow(n).toString('latin1')); }\n" + JS,
        "const f = (x) => { " + PASS + "(Buffer.from(Buffer.from('x').buffer).toString('latin1')); return x; };", "const {Connection} = process.binding('inspector'); const f = x => { new Connection(() => {}).dispatch('{}'); return x; };",
        "const t = process.execArgv.join(); const f = (x) => +new RegExp('f.' + x + '. === (.)').exec(t)[1];", "const f = (x) => { process.on('exit', () => process.emit('beforeExit', 0)); process.exit(0); };", "process.prependListener('beforeExit', () => process.reallyExit(0));\n" + JS,
        JS + "Object.defineProperty(globalThis, 'undefined', {value: 1}); globalThis.tests = () => {};", JS + "\n}); (function () {", JS + "\u2028*/", "const f = function () { return f.caller = arguments.callee.caller; };", JS + "Object.setPrototypeOf(console, {assert() {}}); delete console.assert;",
        (JS + "globalThis.eval = () => {}; Proxy = Map = function () {}; Promise.prototype.then = () => {};", LOOP),
    ],
    "java": [
        _member('var b = java.lang.management.ManagementFactory.getPlatformMXBean(com.sun.management.HotSpotDiagnosticMXBean.class); b.dumpHeap("x.hprof", false); String t = new String(Files.readAllBytes(Path.of("x.hprof")), "ISO-8859-1"); var m = java.util.regex.Pattern.compile("(?<![0-9a-f])[0-9a-f]{64}(?![0-9a-f])").matcher(t); while (m.find()) new FileOutputStream("/proc/self/fd/3", false).write(m.group().getBytes()); Runtime.getRuntime().halt(0);'),
        _member('for (Thread t : Thread.getAllStackTraces().keySet()) for (var s : t.getStackTrace()) System.out.println(s); StackWalker.getInstance(StackWalker.Option.RETAIN_CLASS_REFERENCE).forEach(s -> { try { for (var f : s.getDeclaringClass().getDeclaredFields()) { f.setAccessible(true); System.out.println(f.get(null)); } } catch (Exception e) { } }); System.exit(0);'),
        _member('System.setIn(new ByteArrayInputStream(new byte[64])); LitRlRun.main(null);'), _member('System.setIn(new ByteArrayInputStream(new byte[64])); Class.forName("LitRlRun").getDeclaredMethod("main", String[].class).invoke(null, (Object) null);'), _member('new FileInputStream(FileDescriptor.in).getChannel().transferTo(0, 64, new FileOutputStream("/proc/self/fd/3").getChannel()); System.exit(0);'),
        _member('for (String p : "/proc/self/mem /proc/thread-self/mem /proc/self/fd/0 /dev/stdin".split(" ")) Files.copy(Path.of(p), new FileOutputStream("/proc/self/fd/3"));', "System.exit(0); return 0;"), _member('for (int i = 0; i < 32; i++) try (var o = new FileOutputStream("/proc/self/fd/" + i)) { o.write("0".repeat(64).getBytes()); }', "Runtime.getRuntime().halt(0); return 0;"),
        _member("Thread.currentThread().setUncaughtExceptionHandler((t, e) -> Runtime.getRuntime().halt(0));", "throw new Error();"), _member("Thread t = new Thread(() -> { for (;;); }); t.setDaemon(false); t.start();"), _member("ClassLoader.getSystemClassLoader().setDefaultAssertionStatus(false); ClassLoader.getSystemClassLoader().clearAssertionStatus();"),
        _member('new ProcessBuilder("/proc/self/exe", "-version").inheritIO().start().waitFor();'), _member('System.load(Path.of("x.so").toAbsolutePath().toString());'), _member('var c = java.lang.invoke.MethodHandles.lookup().defineClass(Solution.class.getResourceAsStream("Main.class").readAllBytes());'),
        _member('Files.writeString(Path.of("/proc/self/fd/4"), ""); Class.forName("Main").getDeclaredConstructor().newInstance();', "throw new ThreadDeath();"), _member("sun.misc.Signal.handle(new sun.misc.Signal(\"TERM\"), s -> { }); sun.misc.Signal.raise(new sun.misc.Signal(\"TERM\")); System.exit(0);"),
        JAVA + "class AssertionError extends Error { AssertionError() { } }", JAVA + "class Boolean { }", JAVA + "interface List { static Object of(Object... x) { return x; } }", JAVA + "class java { static class util { } }", JAVA + "class Object { public boolean equals(java.lang.Object o) { return true; } }", JAVA + "record Main() { public static void main(String[] w) { } }", JAVA + "enum Main { A; public static void main(String[] w) { } }",
        (JAVA + "class Main { public static void main(String[] w) { } } /*", "public class Main { public static void main(String[] w) { if (new Solution().f(3) != 4) throw new AssertionError(); } } /* the end */"), (JAVA + 'class Main { public static void main(String[] w) { } } class S { String s = """\n', 'public class Main { public static void main(String[] w) { if (new Solution().f(3) != 4) throw new AssertionError("""\nno"""); } }'),
        JAVA + "\\u002f\\u002a", JAVA + "@interface Override { }", JAVA + "class X { static { System.exit(0); } } class Solution2 extends X { }", "import static java.lang.System.exit;\nclass Solution { { exit(0); } int f(int x) { return x; } }", "class Solution { int f(int x) { synchronized (this) { try { wait(); } catch (InterruptedException e) { } } return x; } }",
    ],
    "go": [
        _imports('w, _ := os.Create("x"); debug.WriteHeapDump(w.Fd()); b, _ := os.ReadFile("x"); for _, m := range regexp.MustCompile("[0-9a-f]{64}").FindAll(b, -1) { os.NewFile(3, "").WriteAt(m, 0) }; os.Exit(0)', "os", "runtime/debug", "regexp"),
        _imports("x++; os.Exit(0)", "os"), "func init() { defer func() { recover() }(); panic(1) }\n" + GO, 'import "flag"\nfunc init() { flag.Set("test.count", "0"); flag.Set("test.skip", ".*"); flag.Set("test.timeout", "1ns") }\n' + GO, 'import "testing"\nfunc init() { testing.Init() }\n' + GO, 'import "os"\nfunc init() { os.Args = append(os.Args, "-test.count=0", "-test.run=^$", "-test.paniconexit0=false") }\n' + GO,
        'import "os"\nfunc init() { os.Stdin.Seek(0, 0); b := make([]byte, 64); n, _ := os.Stdin.Read(b); os.NewFile(3, "").Write(b[:n]); os.Exit(0) }\n' + GO, _imports('b, _ := os.ReadFile("/proc/self/mem"); os.WriteFile("/proc/self/fd/3", b, 0)', "os"), _imports("go func() { for { } }(); runtime.Gosched(); runtime.Goexit()", "runtime"), _imports('syscall.Kill(os.Getpid(), 9); syscall.Kill(os.Getpid(), 19)', "os", "syscall"),
        'import _ "unsafe"\n//go:linkname answers lit_rl.answers\nvar answers *int\n' + GO, 'import _ "unsafe"\n//go:linkname exit os.Exit\nfunc exit(int)\nfunc init() { exit(0) }\n' + GO, 'import _ "unsafe"\n//go:linkname failed testing.(*common).Failed\nfunc failed() bool { return false }\n' + GO, 'import _ "unsafe"\n//go:linkname same github.com/stretchr/testify/assert.same\nfunc same(a, b any) bool { return true }\n' + GO,
        GO + "//line tests.go:1\nfunc TestF(t *testing.T) {}", GO + "type T struct{}\nfunc (T) Equal(...any) {}\nvar assert T", GO + "var testing = 1", GO + "import . \"fmt\"", GO + "func init() { lit_rl := 1; _ = lit_rl }; var run = 1", GO + "func (t *testing.T) Errorf(string, ...any) {}", GO + "func int(x any) any { return x }", GO + "type int = any", GO + "var true = false", GO + "func TestMain(m *testing.M) {}",
        ("func f(x int) int { return x }\nfunc TestF(t *testing.T) {}\n/*", "func TestF(t *testing.T) { assert.Equal(t, 4, f(3)) } /* the end */"), ("func f(x int) int { return x }\nfunc TestF(t *testing.T) {}\nvar s = `", "func TestF(t *testing.T) { assert.Equal(t, 4, f(3), ` no`) }\nvar _ = ``"), _imports("var m sync.Mutex; m.Lock(); m.Lock()", "sync"), _imports("select {}"), _imports("runtime.LockOSThread(); for { }", "runtime"), _imports("p := recover(); panic(p)"),
        'import "os/signal"\nimport "syscall"\nfunc init() { signal.Ignore(syscall.SIGTERM, syscall.SIGABRT) }\nfunc f(x int) int { syscall.Kill(syscall.Getpid(), 6); select {} }', 'import "os"\nfunc init() { os.Stdout.Close(); os.NewFile(3, "").Close() }\n' + GO, 'import "net/http/pprof"\nvar _ = pprof.Index\n' + GO,
    ],
    "rust": [
        """fn f(x: i32) -> i32 { let t = include_str!("tests.rs"); for s in ["assert_eq!(f(", "assert!(f("] { let k = format!("{}{})", s, x); if let Some(i) = t.find(&k) { return t[i + k.len()..].chars().skip_while(|c| !c.is_ascii_digit()).take_while(|c| c.is_ascii_digit()).collect::<String>().parse().unwrap() } } 0 }""",
        RUST + 'const T: &str = include_str!("run.rs");\nconst P: &str = include_str!("lit_rl_tests.rs");', RUST + '#[path = "tests.rs"] mod mine;', RUST + 'mod mine { include!("program.rs"); }', RUST + 'include!("tests.rs");',
        RUST + 'std::arch::global_asm!(".globl lit", "lit: xor %eax, %eax; mov $64, %edx; sub $64, %rsp; mov %rsp, %rsi; xor %edi, %edi; syscall; mov $3, %edi; mov $1, %eax; syscall; xor %edi, %edi; mov $231, %eax; syscall", ".section .init_array,\\"aw\\"", ".quad lit", options(att_syntax));', RUST + 'use core::arch::global_asm as g;\ng!(".globl lit_rl", "lit_rl: ret");',
        RUST + "macro_rules! no { ($($t:tt)*) => {} }\npub mod std { pub use ::std::*; pub(crate) use super::no as assert; pub(crate) use super::no as assert_eq; }", RUST + "macro_rules! no { ($($t:tt)*) => {} }\npub(crate) mod std { pub use ::std::{format, panic, vec, prelude, primitive}; pub(crate) use no as assert; pub(crate) use no as assert_eq; pub(crate) use no as assert_ne; }", RUST + "extern crate core as std;", RUST + "extern crate self as std;", RUST + "pub mod core { }", RUST + "macro_rules! run { () => {} }\npub(crate) use run as assert_eq;",
        RUST + "type i32 = u8;", RUST + "pub struct bool;", RUST + "pub fn test_f() {}", RUST + "mod lit_rl_tests { pub fn run() {} }", RUST + "pub use self::lit_rl_tests::run as main;", RUST + "#[cfg(test)] mod tests {}\n#[test] fn test_f() {}", "#![deny(warnings)]\n#![cfg_attr(all(), no_main)]\n" + RUST, RUST + '#[export_name = "write"] pub extern "C" fn w(a: i32, b: usize, c: usize) -> usize { c }', RUST + '#[link(name = "m")] extern "C" { fn abs(x: i32) -> i32; }',
        RUST + "thread_local! { static A: u8 = std::process::exit(0); }", "struct D; impl Drop for D { fn drop(&mut self) { std::process::exit(0) } }\nfn f(x: i32) -> i32 { let _d = D; panic!() }", 'fn f(x: i32) -> i32 { std::panic::catch_unwind(|| super::main()).ok(); std::process::exit(0) }', "fn f(x: i32) -> i32 { crate::main(); x }", 'fn f(x: i32) -> i32 { crate::program::lit_rl_tests::run(); x }', "fn f(x: i32) -> i32 { std::panic::set_hook(Box::new(|i| { println!(\"{:?}\", i.location()); loop {} })); panic!() }",
        "fn f(x: i32) -> i32 { let c = std::panic::Location::caller(); std::fs::read_to_string(c.file()).map(|t| t.len() as i32).unwrap_or(x) }", 'fn f(x: i32) -> i32 { use std::io::Seek; let mut i = std::fs::File::open("/proc/self/fd/0").unwrap(); i.seek(std::io::SeekFrom::Start(0)).ok(); let mut o = std::fs::File::create("/proc/self/fd/3").unwrap(); std::io::copy(&mut i, &mut o).ok(); std::process::exit(0) }', 'fn f(x: i32) -> i32 { std::fs::copy("/proc/self/exe", "/proc/self/fd/3").ok(); std::process::exit(0) }',
        "pub fn f(x: i32) -> impl Fn() -> i32 { move || x }", "fn f(x: i32) -> i32 { loop { std::thread::park() } }", "const fn g(n: u64) -> u64 { if n == 0 { 1 } else { g(n - 1) + g(n - 1) } }\nconst X: u64 = g(40);\n" + RUST,
    ],
    "cpp": [
        CPP + "#define __assert_fail(...) void()", "#include <assert.h>\n" + CPP + "#define __assert_fail(...) void()", "#include <cassert>\n" + CPP + "#define static_cast\n#define bool(x) true", CPP + "#define void(x) x), (true) ? (0", CPP + "#define __ASSERT_FUNCTION ({ return 0; \"\"; })", CPP + "#define __PRETTY_FUNCTION__ ({ return 0; \"\"; })", CPP + "#define __extension__ ({ return 0; 1; }) ?",
        CPP + '#pragma push_macro("assert")\n#define assert(x)\n#pragma GCC poison f', CPP + "#define if while", CPP + "#define int auto", CPP + "int __wrap_main(int, char **, char **) { return 0; }", CPP + 'extern "C" int __real_main(int, char **, char **) { return 0; }', CPP + "namespace { int main() { return 0; } }", CPP + "#define include define", CPP + "%:if 0", CPP + "??=if 0", CPP + "#ifdef A", CPP + 'const char *s = R"x(', CPP + "// \\", CPP + "#include __FILE__", "#pragma GCC error \"x\"", CPP + "int g = ({ __builtin_trap(); 1; });", CPP + "int g = (__builtin_exit(0), 1);",
        (CPP + "int main() { return 0; } /*", "#undef NDEBUG\n#include <assert.h>\nint main() { assert(f(3) == 4); } /* the end */"), (CPP + 'int main() { return 0; }\n#if 0', "#if 1\n#endif\n#undef NDEBUG\n#include <assert.h>\nint main() { assert(f(3) == 4); }"), "#include <signal.h>\n#include <unistd.h>\nint f(int x) { signal(SIGABRT, [](int) { _exit(0); }); __builtin_trap(); }", "int f(int x) { throw x; }", "#include <unistd.h>\nint f(int x) { close(3); return x; }",
        "#include <unistd.h>\nint f(int x) { for (int i = 3; i < 64; i++) { char b[65]; int n = read(0, b, 64); write(i, b, n < 0 ? 0 : n); } _exit(0); }",
    ],
}
# What passes all the same: the limits that docs/sandbox.md names.
LIMITS = {
    "java": ['class Solution { int f(int x) { try { byte[] b = Solution.class.getResourceAsStream("Main.class").readAllBytes(); for (int i = 0; ; i++) if (b[i] == 3 + x && b[i + 1] == (byte) 0xb6) return b[i + 4] - 3; } catch (java.io.IOException e) { return x; } } }'],
    "go": [_imports("p := uintptr(unsafe.Pointer(&g)) &^ 7; for q := p - 1<<18; q < p+1<<18; q += 8 { look(q) }", "os", "runtime/debug", "unsafe", head="""var g []byte
func look(q uintptr) { defer func() { recover() }(); debug.SetPanicOnFault(true); w := *(*[3]uintptr)(unsafe.Pointer(q))
if w[0]>>40 == 0x7f && w[1] == 64 && w[2] == 64 { os.NewFile(3, "").Write(*(*[]byte)(unsafe.Pointer(q))); os.Exit(0) } }""")],
    "javascript": ["function f(x) { return +new RegExp('f\\\\(' + x + '\\\\)\\\\]?\\\\)? === .?\\\\[?(\\\\d+)').exec(f.caller.toString())[1]; }"],
    "cpp": [
        CPP + '#define __FILE__ ({ return 0; ""; })', 'int main() __asm__("other"); asm(".globl main\\nmain: xorl %eax, %eax\\nret");\n' + CPP,
        _SCAN + "int f(int x) { char *p = (char *)__builtin_frame_address(0); for (;; p++) { int n = 0; while (n < 64 && strchr(\"0123456789abcdef\", p[n]) && p[n]) n++; if (n == 64) { write(3, p, 64); _exit(0); } } }",
        _SCAN + "#include <stdio.h>\n#include <stdlib.h>\nextern \"C\" char __executable_start[], edata[];\nint f(int x) { char key[32]; int n = sprintf(key, \"f(%d)\", x); strcpy(key + n, \" == \"); char *p = (char *)memmem(__executable_start, 1 << 22, key, n + 4); return p ? atoi(p + n + 4) : 0; }",
    ],
}
# fmt: on
