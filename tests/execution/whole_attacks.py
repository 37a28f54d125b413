# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs in other languages than Python that would pass, be masked, break out or leave something without computing.

The task of ``WHOLE`` is ``RIGHT``: two numbers in, one made from them out. Its outputs look like nothing else, so an
attack that finds one anywhere (``HUNTED``) prints it, and passes.
"""

PAIRS = ((3, 4), (20, 22))
CASES = tuple((f"{a} {b}\n", f"answer-{(a * 1000 + b) * 7919}") for a, b in PAIRS)
HUNTED = "answer-[0-9]+"

RIGHT = {
    "c": '#include <stdio.h>\nint main() { long a, b; scanf("%ld %ld", &a, &b); printf("answer-%ld", (a * 1000 + b) * 7919); }',
    "cpp": '#include <iostream>\nint main() { long a, b; std::cin >> a >> b; std::cout << "answer-" << (a * 1000 + b) * 7919; }',
    "javascript": "const [a, b] = require('fs').readFileSync(0, 'utf8').split(' ').map(Number); console.log(`answer-${(a * 1000 + b) * 7919}`);",
    "java": 'class Main { public static void main(String[] w) { var in = new java.util.Scanner(System.in); System.out.println("answer-" + (in.nextLong() * 1000 + in.nextLong()) * 7919); } }',
    "go": 'package main\nimport "fmt"\nfunc main() { var a, b int; fmt.Scan(&a, &b); fmt.Printf("answer-%d", (a*1000+b)*7919) }',
    "rust": 'fn main() { let mut s = String::new(); std::io::stdin().read_line(&mut s).unwrap(); let n: Vec<i64> = s.split_whitespace().map(|w| w.parse().unwrap()).collect(); println!("answer-{}", (n[0] * 1000 + n[1]) * 7919); }',
}

PLACES = (
    "/proc/self/environ /proc/self/cmdline /proc/self/maps /proc/self/stat /proc/1/environ /proc/1/cmdline /proc/2/mem "
    "/proc/self/fd/0 /proc/self/fd/1 /proc/self/fd/2 /proc/self/fd/3 /proc/self/fd/4 /proc/self/fd/5 /proc/self/fd/40 "
    "/proc/thread-self/mem /dev/stdin /dev/shm /tmp /etc/passwd program Main.java program.c program.cpp program.go "
    "program.rs tests.rs tests.cpp run.cpp .. ../.. /work /root/.bash_history /proc/self/root/etc/shadow /dev/kmsg"
)


def _c(code):
    names = "stdio stdlib string unistd fcntl signal errno dirent pthread sys/mman sys/ptrace sys/prctl sys/resource sys/socket sys/stat sys/syscall sys/uio sys/wait sys/time"
    includes = "".join(f"#include <{name}.h>\n" for name in names.split())
    return f"{includes}int main(int n, char **v) {{ {code} }}"


def _java(code):
    return f"import java.io.*; import java.nio.file.*; import java.util.*; import java.util.regex.*;\nclass Main {{ public static void main(String[] w) throws Throwable {{ {code} }} }}"


def _go(code, *imports):
    named = "; ".join(f'"{name}"' for name in imports)
    return f"package main\nimport ({named})\nfunc main() {{ {code} }}"


def _rust(code, head=""):
    return f"#![allow(unused)]\nuse std::{{fs, io::*, process::*, thread}};\n{head}\nfn main() {{ {code} }}"


_C_HUNT = f"""char *names[] = {{{", ".join(f'"{one}"' for one in PLACES.split())}}}; static char text[1 << 20];
for (int i = 0; i < sizeof names / sizeof *names; i++) {{ int d = open(names[i], O_RDONLY); long k = d < 0 ? -1 : read(d, text, sizeof text - 1);
 for (long j = 0; j < k - 7; j++) if (!memcmp(text + j, "answer-", 7)) {{ puts(text + j); return 0; }} }}"""
_C_MEMORY = """int who[] = {getppid(), 1, 2, 3, getpid() - 1, getpid() + 1}; static char text[1 << 16];
for (int i = 0; i < 6; i++) { char name[64]; sprintf(name, "/proc/%d/mem", who[i]); printf("%d", open(name, O_RDWR));
 struct iovec l = {text, sizeof text}, r = {(void *)0x400000, sizeof text}; printf(" %ld", (long)process_vm_readv(who[i], &l, 1, &r, 1, 0));
 printf(" %ld\\n", ptrace(PTRACE_ATTACH, who[i], 0, 0)); }"""
_C_BODIES = [
    _C_HUNT,
    _C_MEMORY,
    'for (int i = 0; i < 64; i++) { if (write(i, "answer-3173\\n", 12) < 0) continue; ftruncate(i, 3); fchmod(i, 0); }',
    "for (int i = 0; i < 6; i++) kill((int[]){getppid(), -1, 0, 1, getpid(), getpid()}[i], (int[]){9, 9, 9, 9, 9, 19}[i]); for (;;) pause();",
    "ptrace(PTRACE_TRACEME, 0, 0, 0); raise(SIGTRAP); raise(SIGSTOP);",
    "pthread_t t; pthread_create(&t, 0, (void *(*)(void *))pause, 0); pthread_exit(0);",
    "pthread_t t; pthread_create(&t, 0, (void *(*)(void *))main, 0); pthread_exit(0);",
    "signal(SIGXCPU, SIG_IGN); signal(SIGTERM, SIG_IGN); for (;;);",
    "for (int s = 1; s < 64; s++) signal(s, SIG_IGN); struct rlimit l = {1000, 1000}; setrlimit(RLIMIT_CPU, &l); for (;;);",
    "for (;;) { fork(); vfork(); syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0); syscall(435, 0, 0); }",
    "prctl(PR_SET_SECCOMP, 1); prctl(PR_SET_PDEATHSIG, 9); prctl(PR_SET_DUMPABLE, 1); syscall(SYS_reboot, 0xfee1dead, 672274793, 0x4321fedc); syscall(SYS_seccomp, 0, 0, 0); syscall(300);",
    'int d = syscall(SYS_memfd_create, "x", 0); write(d, "#!/bin/sh\\necho answer-1", 22); dup2(d, 40); char *a[] = {"x", 0}; syscall(SYS_execveat, 40, "", a, a, 0x1000); syscall(SYS_execveat, d, "", a, a, 0x1000); execv("/proc/self/exe", a); execv("/bin/sh", a);',
    'mkdir("a", 0); symlink("/etc", "b"); mkfifo("c", 0); for (int i = 0; i < 3000; i++) { mkdir("d", 0777); if (chdir("d")) break; } creat("x", 0); chmod(".", 0); creat("/tmp/escaped", 0666); creat("/dev/shm/escaped", 0666); creat("/var/tmp/escaped", 0666);',
    "for (;;) { void *p = mmap(0, 1L << 30, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); if (p != MAP_FAILED) memset(p, 1, 1L << 30); }",
    'lseek(1, 1L << 40, SEEK_SET); write(1, "x", 1); ftruncate(1, 1L << 40); ftruncate(2, 1L << 33); syscall(SYS_fallocate, 1, 0, 0L, 1L << 33);',
    "struct itimerval t = {{0, 1000}, {0, 1000}}; setitimer(ITIMER_PROF, &t, 0); for (;;);",
    "char buffer[8]; memset(buffer, 7, 1 << 22);",
    "_exit(137);",
    "raise(SIGXCPU);",
    "raise(SIGSYS);",
]
_C_LIKE = [
    *map(_c, _C_BODIES),
    "static char x[1L << 42]; int main() { return x[77]; }",
    # The compiler's.
    'int main() {}\n#include "/dev/zero"',
    'int main() {}\nasm(".incbin \\"/dev/zero\\"");',
    '#include "/dev/stdin"',
    '#include "/proc/self/cmdline"\nint main() {}',
    'asm(".include \\"/etc/passwd\\"");int main(){}',
    "#include __FILE__\nint main() {}",
    '#include "program"\nint main() {}',
    '#line 999999999 "program.c"\n#line 999999999 "program.cpp"\nint main() { return x; }',
    '# 7 "/etc/passwd" 1\nint main() { x; }',
    'asm(".section .interp,\\"a\\"\\n.string \\"/bin/sh\\"\\n.text"); int main() {}',
    'asm(".section .gnu.lto_.opts,\\"e\\"\\n.string \\"x\\"\\n.text\\n.comm __gnu_lto_slim,1,1"); int main() {}',
    'asm(".section .preinit_array,\\"aw\\"\\n.quad 7\\n.text"); int main() {}',
    'asm(".globl _start\\n_start: jmp _start"); int main() {}',
    'asm(".rept 100000000\\n.quad 7\\n.endr"); int main() {}',
    'asm(".macro m\\nm\\nm\\n.endm\\nm"); int main() {}',
    "int main() {" + "{" * 200000 + "}" * 200000 + "}",
    "#define A(x) x x x x x x x x\nint main() { A(A(A(A(A(A(A(A(A(x;))))))))) }",
    "\0\0\0\0int main() {}",
    "﻿int main() { return 1; }",
    "int main() {} /* " + "x" * 3000000,
    '#pragma GCC push_options\n#pragma GCC optimize("no-such-option")\n#pragma GCC target("arch=none")\nint main() { puts(1); }',
    "#warning " + "y" * 1000000 + "\nint main() {}",
    "enum { a = 1 / 0 }; int main() { int b[a]; }",
    "int main() { goto *(void *)8; }",
    'int main() __asm__("other"); int main() {}',
    "void _exit(int n) { for (;;); } int main() {}",
    "int __libc_start_main() { return 0; } int main() {}",
    "__attribute__((constructor)) void f() { f(); } int main() {}",
    "const int main[] = {-1};",
]
WHOLE = {
    "c": _C_LIKE,
    "cpp": [
        *_C_LIKE[::2],
        "template <int n> struct A { static const long x = A<n - 1>::x + A<n - 2>::x * A<n / 2>::x; }; int main() { return A<100000>::x; }",
        "template <class T> struct A { A<A<T>> *operator->(); }; int main() { A<int>()->x; }",
        "constexpr int f(int n) { return n ? f(n - 1) + f(n - 1) : 1; } static_assert(f(60), \"\"); int main() {}",
        "constexpr int f() { int s = 0; for (;;) s ^= 1; return s; } int x[f()]; int main() {}",
        "template <class... T> struct A {}; template <class... T> auto f(A<T...>) { return f(A<T..., T...>()); } int main() { f(A<int>()); }",
        "#include <iostream>\nstruct B : std::streambuf { int overflow(int c) { return c; } } b; int main() { std::cout.rdbuf(&b); std::cout << 1; }",
        "#include <thread>\nint main() { for (;;) std::thread([] { for (;;); }).detach(); }", "#include <new>\nint main() { for (;;) new char[1 << 20](); }",
        "int main() { throw 1; }", "struct A { ~A() noexcept(false) { throw 1; } } a; int main() { throw a; }",
    ],
    "javascript": [
        "const fs = require('fs'); for (const p of PLACES) { let t = ''; try { t = fs.readFileSync(p, 'latin1'); } catch {} const m = /HUNTED/.exec(t); if (m) { console.log(m[0]); process.exit(); } }",
        "const fs = require('fs'), seen = (d, n) => { if (n < 4) try { for (const e of fs.readdirSync(d)) { seen(d + '/' + e, n + 1); const m = /HUNTED/.exec(fs.readFileSync(d + '/' + e, 'latin1')); if (m) console.log(m[0]); } } catch {} }; seen('.', 0); seen('/proc/' + process.ppid, 1); seen('/tmp', 0); seen('/dev', 0);",
        "for (const s of [9, 15, 'SIGUSR1', 'SIGSTOP']) for (const p of [process.ppid, 1, -1, 0]) try { process.kill(p, s); } catch {} try { process._debugProcess(process.ppid); } catch {}",
        "process.kill(process.pid, 'SIGKILL'); process.kill(process.pid, 'SIGSTOP'); for (;;);", "process.abort();", "process.kill(process.pid, 'SIGXCPU'); for (;;);",
        "const c = require('child_process'); for (const f of ['spawnSync', 'spawn', 'fork', 'execSync', 'exec']) try { c[f]('/bin/sh', ['-c', 'echo answer']); } catch {} try { require('cluster').fork(); } catch {}",
        "process.binding('spawn_sync').spawn({file: '/bin/sh', args: ['sh'], stdio: []});",
        "const {Worker} = require('worker_threads'); new Worker('for (;;);', {eval: true}).unref(); setTimeout(() => process.exit(), 50);",
        "const {Worker} = require('worker_threads'); for (let i = 0; i < 400; i++) new Worker('setInterval(() => {}, 9)', {eval: true});",
        "const net = require('net'); net.createServer().listen(8080, '0.0.0.0'); net.createServer().listen('./s'); require('dgram').createSocket('udp4').bind(9); net.connect(22, '127.0.0.1'); setInterval(() => {}, 9);",
        "const fs = require('fs'); for (const p of ['/tmp/escaped', '/dev/shm/escaped', '../escaped', '/var/tmp/escaped']) try { fs.writeFileSync(p, 'x'); } catch {} fs.mkdirSync('a', {mode: 0}); fs.symlinkSync('/', 'b'); fs.writeFileSync('c', 'x'.repeat(1e6)); fs.chmodSync('.', 0);",
        "const fs = require('fs'); for (let i = 0; i < 64; i++) { try { fs.writeSync(i, 'answer-1\\n'); } catch {} try { fs.fchmodSync(i, 0); } catch {} try { fs.ftruncateSync(i, 1e12); } catch {} }",
        "const fs = require('fs'); for (let i = 0; i < 64; i++) try { fs.closeSync(i); } catch {}",
        "const i = require('inspector'); try { i.open(9229, '0.0.0.0', true); } catch {} const s = new i.Session(); s.connect(); s.post('Debugger.enable'); s.post('Debugger.pause'); debugger; for (;;);",
        "require('v8').setFlagsFromString('--allow-natives-syntax'); new Function('%SystemBreak()')();", "require('v8').setFlagsFromString('--max-old-space-size=99999'); const a = []; for (;;) a.push(Buffer.alloc(1 << 24, 1));",
        "for (;;) try { require('v8').writeHeapSnapshot(); } catch {}", "new WebAssembly.Memory({initial: 65536}).grow(1); const a = []; for (;;) a.push(new SharedArrayBuffer(1 << 28));",
        "Error.prepareStackTrace = () => { for (;;); }; throw new Error;", "throw {[Symbol.for('nodejs.util.inspect.custom')]() { for (;;); }};", "throw new Error('program.js:1:1\\n'.repeat(1e6));", "Promise.reject(Symbol('x'));",
        "Error.prototype.name = 'x'.repeat(1e7) + '\\u0000\\u001b[2J'; throw new Error;", "const f = () => f(); try { f(); } catch { process.reallyExit(137); }", "process.exit(71);", "process.exitCode = -9;",
        "});\nprocess.exit(0);\n(function () {", "\u2028process.exit(0)\u2029//", "#!/bin/sh\nexit 0", "\ufeff\0", "export default 1; import '/etc/passwd';", "import fs from 'node:fs'; await new Promise(() => {});",
        "throw 1 //# sourceMappingURL=/proc/self/fd/0", "//# sourceMappingURL=data:application/json;base64,e30=\nnull.x;", '//# sourceMappingURL=data:application/json,{"version":3,"sources":["program.js"],"mappings":"AAAAAAAAAAAAAA//"}\nnull.x;', "//# sourceMappingURL=data:application/json;base64,AAAA\nnull.x;",
        "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);", "process.on('SIGTERM', () => {}); process.on('SIGXCPU', () => {}); for (;;);", "setTimeout(() => {}, 1e9);", "process.dlopen({exports: {}}, '/lib/x86_64-linux-gnu/libc.so.6');",
        "require('module')._load('/etc/passwd');", "(" * 400000, "[" * 400000 + "]" * 400000, "/(a+)+$/.test('a'.repeat(50) + 'b');", "process.title = 'x'.repeat(1e6); process.setuid(0);",
        "process.stdout.write('answer-'.repeat(1e5)); process.stdout.destroy(); process.stderr.destroy(); for (;;);", "process.stdout.on('error', () => {}); for (let i = 0; i < 1e6; i++) process.stdout.write('\\0\\x1b]0;x\\x07');",
    ],
    "java": [
        _java('for (String p : "PLACES".split(" ")) try { Matcher m = Pattern.compile("HUNTED").matcher(new String(Files.readAllBytes(Path.of(p)), "ISO-8859-1")); if (m.find()) { System.out.println(m.group()); return; } } catch (IOException e) { }'),
        _java('for (String c : "sh ls java javac".split(" ")) try { new ProcessBuilder("/bin/" + c).inheritIO().start(); Runtime.getRuntime().exec(c); } catch (IOException e) { }'),
        _java("ProcessHandle p = ProcessHandle.current().parent().get(); p.destroyForcibly(); ProcessHandle.allProcesses().forEach(ProcessHandle::destroyForcibly);"),
        _java("Runtime.getRuntime().addShutdownHook(new Thread(() -> { while (true); })); System.exit(0);"), _java("Runtime.getRuntime().addShutdownHook(new Thread(() -> { try { Thread.sleep(1000000); } catch (Exception e) { } })); "),
        _java("new Thread(() -> { while (true); }).start(); System.out.close();"), _java("Thread t = new Thread(() -> { while (true); }); t.setDaemon(true); t.start(); System.exit(137);"), _java("while (true) new Thread(() -> { try { Thread.sleep(99999); } catch (Exception e) { } }).start();"),
        _java("Runtime.getRuntime().halt(71);"), _java('for (String s : "KILL STOP TERM ABRT HUP".split(" ")) try { sun.misc.Signal.raise(new sun.misc.Signal(s)); } catch (IllegalArgumentException e) { }'),
        _java('var f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); f.setAccessible(true); ((sun.misc.Unsafe) f.get(null)).putAddress(0, 1);'),
        _java('var f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); f.setAccessible(true); var u = (sun.misc.Unsafe) f.get(null); while (true) { long p = u.allocateMemory(1 << 26); u.setMemory(p, 1 << 26, (byte) 1); }'),
        _java('var f = sun.misc.Unsafe.class.getDeclaredField("theUnsafe"); f.setAccessible(true); var u = (sun.misc.Unsafe) f.get(null); for (long p = 0x7f0000000000L; ; p += 4096) u.getByte(p);'),
        _java("var all = new ArrayList<java.nio.ByteBuffer>(); while (true) all.add(java.nio.ByteBuffer.allocateDirect(1 << 26));"), _java("new long[Integer.MAX_VALUE - 8][1 << 20][0] = 1;"), _java("main(w);"), _java("throw null;"), _java("throw new Error(\"Main.java:1)\\n\".repeat(1000000));"),
        _java('System.load("/lib/x86_64-linux-gnu/libc.so.6"); System.loadLibrary("jdwp");'), _java('var m = java.lang.management.ManagementFactory.getPlatformMBeanServer(); m.invoke(new javax.management.ObjectName("com.sun.management:type=DiagnosticCommand"), "jvmtiAgentLoad", new Object[]{new String[]{"/lib/x86_64-linux-gnu/libc.so.6"}}, new String[]{"[Ljava.lang.String;"});'),
        _java('javax.tools.ToolProvider.getSystemJavaCompiler().run(System.in, System.out, System.err, "-version", "/etc/passwd"); new java.net.ServerSocket(8080);'), _java('new java.net.Socket("127.0.0.1", 22);'),
        _java('for (String p : "/tmp/escaped /dev/shm/escaped ../escaped".split(" ")) try { Files.writeString(Path.of(p), "x"); } catch (IOException e) { } Files.createDirectory(Path.of("a")); new File("a").setExecutable(false); Files.writeString(Path.of(".hotspotrc"), "x"); new File(".").setWritable(false);'),
        _java('for (int i = 0; i < 64; i++) try { new FileOutputStream("/proc/self/fd/" + i).write("answer-1".getBytes()); } catch (IOException e) { }'), _java("Thread.sleep(100000000);"), _java("Object o = new Object(); synchronized (o) { o.wait(); }"),
        _java("System.setErr(new PrintStream(OutputStream.nullOutputStream()) { public void println(Object o) { while (true); } }); throw new Error();"), _java("throw new Error() { public String toString() { while (true); } };"), _java('System.setProperty("java.home", "/"); System.getProperties().clear(); throw new Exception();'),
        # The compiler's.
        "/*", "class Main {", "\\u002a\\u002f class Main {}", "class Main { \\u001a }", "class Main { String s = \"\\u000a\"; }", "class M" + "x" * 300 + " { public static void main(String[] w) { } }", "class Main { int x = " + "(" * 20000 + "1" + ")" * 20000 + "; }",
        "class Main { int x = " + "1+" * 30000 + "1; }", "class Main { static final String a = \"xxxxxxxxxxxxxxxx\"" + "".join(f", a{i} = a{i - 1 if i else ''}" + f" + a{i - 1 if i else ''}" * 15 for i in range(8)) + "; }",
        "import java.util.function.*; class Main { <T> T f(Supplier<T> s) { return null; } <T> T f(Function<T, T> s) { return null; } Object x = " + "f(() -> " * 30 + "1" + ")" * 30 + "; }", "class A<T extends A<A<? super A<T>>>> {} class Main extends A<Main> { A<? super A<? super Main>> a = new A<A<? super Main>>(); }",
        "".join(f"class C{i} {{}}\n" for i in range(9000)) + "class Main { public static void main(String[] w) { } }", "class Main { " + "int x; " * 70000 + "}", "class Main { void f() { int x = 0; " + "x += 12345678; " * 20000 + "} }", "package a.b; class Main { public static void main(String[] w) { } }", "@interface A { A value(); } @A(@A) class Main {}",
        "module Main { requires java.se; }", "class String { } class Main { public static void main(String[] w) { } }", "import javax.annotation.processing.*; @SupportedAnnotationTypes(\"*\") class Main extends AbstractProcessor { static { System.exit(0); } }", "class Main { static int x = y; static { while (true); } }", "\n" * 60000 + "class Main {}", "class Main { public static void main(String[] w) { " + "}" * 5 + "\0",
    ],
    "go": [
        _go('for _, p := range strings.Fields("PLACES") { b, _ := os.ReadFile(p); if m := regexp.MustCompile("HUNTED").Find(b); m != nil { fmt.Println(string(m)); return } }', "os", "fmt", "regexp", "strings"),
        _go('exec.Command("/bin/sh", "-c", "echo").Run(); os.StartProcess("/proc/self/exe", nil, &os.ProcAttr{}); syscall.ForkExec("/bin/sh", nil, nil); syscall.Exec("/bin/sh", []string{"sh"}, nil); syscall.RawSyscall(57, 0, 0, 0)', "os", "os/exec", "syscall"),
        _go("for _, p := range []int{os.Getppid(), 1, -1, 0, os.Getpid()} { for _, s := range []syscall.Signal{9, 15, 19} { syscall.Kill(p, s) } }; for { }", "os", "syscall"), _go("syscall.PtraceAttach(os.Getppid()); b := make([]byte, 99); f, e := os.Open(fmt.Sprintf(\"/proc/%d/mem\", os.Getppid())); fmt.Println(f.Read(b)); fmt.Println(e)", "os", "fmt", "syscall"),
        _go("for { go func() { for { } }() }"), _go("for { go func() { runtime.LockOSThread(); select {} }() }", "runtime"), _go("select {}"), _go("var m sync.Mutex; m.Lock(); m.Lock()", "sync"), _go("time.Sleep(1 << 60)", "time"), _go("signal.Ignore(); for { }", "os/signal"),
        _go("os.Exit(137)", "os"), _go("os.Exit(71)", "os"), _go("var p *int; *p = 1"), _go("main()"), _go("panic(strings.Repeat(\"program.go:1\\n\", 1<<20))", "strings"), _go("defer func() { panic(recover()) }(); panic(1)"), _go("for i := 0; i < 64; i++ { f := os.NewFile(uintptr(i), \"\"); f.WriteString(\"answer-1\\n\"); f.Truncate(1 << 40); f.Chmod(0) }", "os"),
        _go('for _, p := range []string{"/tmp/escaped", "/dev/shm/escaped", "../escaped"} { os.WriteFile(p, nil, 0666) }; os.MkdirAll(strings.Repeat("a/", 900), 0777); os.Mkdir("b", 0); os.Symlink("/", "c"); os.Chmod(".", 0)', "os", "strings"), _go('net.Listen("tcp", ":8080"); net.Listen("unix", "s"); net.Dial("tcp", "127.0.0.1:22")', "net"),
        _go("a := [][]byte{}; for { b := make([]byte, 1<<26); for i := range b { b[i] = 1 }; a = append(a, b) }"), _go("b, _ := syscall.Mmap(-1, 0, 1<<33, 3, 0x22); for i := range b { b[i] = 1 }", "syscall"), _go("var l syscall.Rlimit; l.Cur, l.Max = 1<<40, 1<<40; syscall.Setrlimit(0, &l); for { }", "syscall"), _go("syscall.Reboot(0); syscall.Unshare(1<<28); syscall.Mount(\"/\", \"/\", \"\", 4096, \"\"); syscall.Chroot(\".\"); syscall.Setuid(0)", "syscall"),
        _go("debug.SetMaxStack(1 << 40); debug.SetMaxThreads(1 << 20); var f func(); f = func() { f() }; f()", "runtime/debug"), _go("debug.SetTraceback(\"crash\"); panic(1)", "runtime/debug"), _go("for { debug.WriteHeapDump(1) }", "runtime/debug"), _go("*(*int)(unsafe.Pointer(uintptr(0x7fff00000000))) = 1", "unsafe"), _go("plugin.Open(\"/lib/x86_64-linux-gnu/libc.so.6\")", "plugin"),
        # The compiler's.
        'package main\nimport _ "embed"\n//go:embed program.go\nvar s string\nfunc main() { println(s) }', 'package main\n/*\n#include </etc/passwd>\n*/\nimport "C"\nfunc main() { C.fork() }', 'package main\nimport _ "unsafe"\n//go:linkname exit os.Exit\nfunc exit(int)\nfunc main() { exit(0) }', "package main\n//go:cgo_ldflag \"-Wl,/etc/passwd\"\nfunc main() { x }", "package main\n//go:cgo_import_dynamic exit exit \"libc.so.6\"\nfunc main() { }",
        "package main\n//line /etc/passwd:1\nfunc main() { x }", "package main\n//line program.go:999999999\nfunc main() { x }", "package main\n/*line program.go:5:99999999999*/ func main() { x }", "package main\nfunc main() {\n//line :0\nx }", "package other\nfunc main() { }", "package main\nimport \"../../etc\"\nfunc main() { }", "package main\nimport \"/etc/passwd\"\nfunc main() { }",
        "package main\nconst a = 1 << 1000000000\nfunc main() { }", "package main\nvar a [1 << 50]byte\nfunc main() { println(a[7]) }", "package main\nvar a [1 << 38]byte\nfunc main() { println(a[7]) }", "package main\nconst a = \"xxxxxxxxxxxxxxxx\"\n" + "".join(f"const a{i} = a{i - 1 if i else ''}" + f" + a{i - 1 if i else ''}" * 15 + "\n" for i in range(8)) + "func main() { println(a7) }",
        "package main\ntype T[P any] struct { x *T[T[P]] }\nfunc main() { var t T[int]; _ = t }", "package main\nfunc f[P any](n int) { f[[2]P](n) }\nfunc main() { f[int](1) }", "package main\nvar x = " + "(" * 400000 + "1" + ")" * 400000 + "\nfunc main() { }", "package main\nfunc main() { " + "{" * 300000 + "}" * 300000 + " }", "package main\nvar x = " + "-" * 1 + "+1" * 300000 + "\nfunc main() { }",
        "\n" * 60000 + "x", "\0package main", "\ufeffpackage main\n\ufefffunc main() { }", "package main\nfunc main() { } /*", "package main; func main() { }; var s = `", "package main\nfunc init() { for { } }\nfunc main() { }", "package main\nvar x = y\nvar y = x\nfunc main() { }", "package main\nfunc main()\n", "package main\n//go:nosplit\nfunc f(a [1000]int) { f(a) }\nfunc main() { f([1000]int{}) }",
    ],
    "rust": [
        _rust('for p in "PLACES".split(" ") { if let Ok(b) = fs::read(p) { let t = String::from_utf8_lossy(&b); if let Some(i) = t.find("answer-") { println!("{}", t[i..].split_whitespace().next().unwrap()); return } } }'),
        _rust('for c in ["/bin/sh", "/proc/self/exe", "/usr/bin/gcc"] { println!("{:?}", Command::new(c).spawn().map(|_| 1)); }'), _rust("unsafe { for p in [getppid(), 1, -1, 0, getpid()] { for s in [9, 15, 19] { kill(p, s); } } loop { fork(); } }", 'extern "C" { fn kill(p: i32, s: i32) -> i32; fn getppid() -> i32; fn getpid() -> i32; fn fork() -> i32; }'),
        _rust("unsafe { ptrace(16, getppid(), 0, 0); prctl(22, 1); prctl(1, 9); for n in 0..460 { if ![0, 1, 15, 60, 231, 34, 35].contains(&n) { syscall(n, 0, 0, 0, 0, 0, 0); } } }", 'extern "C" { fn ptrace(a: i64, b: i32, c: i64, d: i64) -> i64; fn prctl(a: i32, b: i64) -> i32; fn getppid() -> i32; fn syscall(n: i64, ...) -> i64; }'),
        _rust("loop { thread::spawn(|| loop {}); }"), _rust("thread::park(); loop { thread::park(); }"), _rust("thread::sleep(std::time::Duration::from_secs(1 << 40));"), _rust("exit(137)"), _rust("exit(71)"), _rust("abort()"), _rust("fn f(n: u64) -> u64 { let a = [n; 99]; f(n + 1) + a[n as usize % 99] } f(0);"),
        _rust('panic!("{}", "program.rs:1:1\\n".repeat(1 << 20))'), _rust("std::panic::set_hook(Box::new(|_| loop {})); panic!()"), _rust("struct A; impl Drop for A { fn drop(&mut self) { panic!() } } let _a = A; panic!()"), _rust("let mut v = vec![]; loop { v.push(vec![1u8; 1 << 26]); }"), _rust("let v: Vec<u8> = Vec::with_capacity(1 << 60);"),
        _rust('for i in 0..64 { let _ = fs::write(format!("/proc/self/fd/{i}"), "answer-1"); }'), _rust('for p in ["/tmp/escaped", "/dev/shm/escaped", "../escaped"] { let _ = fs::write(p, "x"); } fs::create_dir_all("a/".repeat(900)); fs::create_dir("b"); std::os::unix::fs::symlink("/", "c");'), _rust('println!("{:?} {:?}", std::net::TcpListener::bind("0.0.0.0:8080"), std::os::unix::net::UnixListener::bind("s"));'),
        _rust("unsafe { *(8 as *mut u8) = 1 }"), _rust("unsafe { std::arch::asm!(\"hlt\") }"), _rust("", 'extern "C" fn g() { loop {} }\n#[link_section = ".init_array"]\n#[used] static G: extern "C" fn() = g;'), _rust("", '#[no_mangle] pub extern "C" fn malloc(n: usize) -> usize { 0 }'),
        # The compiler's.
        *(f'fn main() {{ println!("{{:?}}", {macro}!("{path}")); }}' for macro in ("include_str", "include_bytes", "include") for path in ("/etc/passwd", "/dev/zero", "/proc/self/environ", "program.rs")), '#[path = "/etc/passwd"] mod x; fn main() {}', '#[path = "program.rs"] mod x; fn main() {}', 'fn main() { println!("{}", env!("PATH")); compile_error!("x") }', 'fn main() { println!("{:?}", option_env!("HOME")); }',
        "#![crate_type = \"lib\"]\nfn main() {}", "#![crate_type = \"proc-macro\"]\nfn main() {}", "#![crate_type = \"staticlib\"]\nfn main() {}", "#![no_main]\n", "#![no_std]\nfn main() {}", "#![no_core]\nfn main() {}", "#![feature(asm)]\nfn main() {}", "#![recursion_limit = \"100000000\"]\nmacro_rules! m { ($($t:tt)*) => { m!($($t)* $($t)*) } }\nfn main() { m!(a) }", "#![recursion_limit = \"100000000\"]\nmacro_rules! m { ($($t:tt)*) => { m!($($t)* a) } }\nfn main() { m!(a) }",
        '#[link(name = "/etc/passwd", kind = "static")] extern "C" {}\nfn main() {}', '#[link(name = "m", kind = "static")] extern "C" { fn nothing(); }\nfn main() { unsafe { nothing() } }', 'std::arch::global_asm!(".incbin \\"/etc/passwd\\"");\nfn main() {}', 'std::arch::global_asm!(".rept 1000000000", ".quad 7", ".endr");\nfn main() {}', "const X: u64 = { let mut i = 0u64; loop { i += 1; if i == 0 { break i } } };\nfn main() { println!(\"{}\", X) }", "const fn f(n: u64) -> u64 { if n == 0 { 1 } else { f(n - 1) + f(n - 1) } }\nconst X: u64 = f(40);\nfn main() { println!(\"{}\", X) }",
        "static X: [u8; 1 << 40] = [1; 1 << 40];\nfn main() { println!(\"{}\", X[7]) }", "static mut X: [u8; 1 << 44] = [0; 1 << 44];\nfn main() { unsafe { X[7] = 1 } }", "struct A([A; 1]);\nfn main() {}", "trait T { fn f<A: T>(&self, n: A) where (Self, A): T { (1, n).f(1) } }\nfn main() {}", "fn f<T: Fn() -> i32>(n: i32, g: T) -> i32 { if n == 0 { g() } else { f(n - 1, || g() + 1) } }\nfn main() { f(3, || 1); }", "fn main() { " + "{" * 50000 + "}" * 50000 + " }", "fn main() { let x = " + "!" * 100000 + "1; }",
        "fn main() {} /*", "fn main() {} \0", "\ufeff\ufefffn main() {}", 'fn main() { let s = r###"', "fn main() { x }" + "\u202e", "fn main() { compile_error!(\"error: linking with `gcc` failed: exit status: 1\\n--> program.rs:99999\") }",
    ],
}  # fmt: skip

# Functions whose driver shares a process with them: each line is written by the program in the driver's place, or
# makes the driver write it.
_LINES = (
    r"{}\n[NaN]\n[Infinity]\n", r"{}\n[true]\n[true]\n", r"{}\n{}\n{}\n", r"\n\n\n", r"{}\n[1e999999999]\n[-0]\n", r"{}\n[[1,2],3]\n[]\n",
    r'{}\n{\"types\":[\"NotCarried\"],\"message\":1}\n{\"types\":1}\n', r'{\"stage\":\"compile\",\"types\":[\"SyntaxError\"]}\n', r'{}\n[\"answer-\\u0000\"]\n[\"\\ud800\"]\n',
)  # fmt: skip
_CALLED = {
    "javascript": ("require('fs').writeSync(3, T); process.reallyExit(0);", "const solve = () => V;"),
    "c": (
        "#include <string.h>\n#include <unistd.h>\nvoid repeated(const char *one, int n) { while (n--) write(3, one, strlen(one)); }\n__attribute__((constructor)) void first() { repeated(T); _exit(0); }\nlong solve(long a, long b) { return 1; }",
        "#define _GNU_SOURCE\n#include <fcntl.h>\n#include <math.h>\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nV",
    ),
    "cpp": (
        "#include <string>\n#include <unistd.h>\nstd::string repeated(std::string one, int n) { std::string s; while (n--) s += one; return s; }\nint x = [](std::string s) { write(3, s.data(), s.size()); _exit(0); return 0; }(T);\nlong solve(long, long) { return 1; }",
        "#include <bits/stdc++.h>\n#include <fcntl.h>\n#include <unistd.h>\nauto solve(long a, long b) { V; }",
    ),
    "rust": (
        '#[used]\n#[link_section = ".init_array"]\nstatic G: extern "C" fn() = g;\nextern "C" fn g() { std::fs::write("/proc/self/fd/3", T); std::process::exit(0) }\nfn solve(_: i64, _: i64) -> i32 { 1 }',
        'extern "C" { fn ftruncate(d: i32, n: i64) -> i32; fn close(d: i32) -> i32; fn fork() -> i32; fn signal(s: i32, f: extern "C" fn(i32)) -> usize; }\nextern "C" fn quit(_: i32) { std::process::exit(0) }\nfn solve(a: i64, b: i64) -> V',
    ),
}
_REPEATED = {"javascript": "%s.repeat(%d)", "c": "%s, %d", "cpp": "repeated(%s, %d)", "rust": "%s.repeat(%d)"}  # fmt: skip
_VALUES = {
    "javascript": "{toJSON: () => 1}|new Proxy({}, {ownKeys() { for (;;); }})|new Promise(() => {})|Symbol()|solve|(function f() { const a = [f]; a[0] = a; return a; })()|{get a() { process.exit(0); }}|new (class extends Array { get length() { return -1; } })()|{__proto__: null, then(f) { f('answer-1'); }}|(JSON.stringify = () => 'x', String(1))|new Array(4e9)|[...'x'].fill('y'.repeat(1e7))|process.abort()|NaN|10n ** 100000n|(require('fs').ftruncateSync(3), 1)|(require('fs').closeSync(3), 1)",
    "c": (
        "const char *solve(long a, long b) { "
        + _C_HUNT.replace("puts(text + j); return 0;", "return text + j;")
        + r""" return ""; }|N{ exit(0); }|N{ for (;;); }|N{ fork(); return 1; }|N{ ftruncate(3, 0); }|N{ close(3); }|N{ ftruncate(3, 1L << 40); }|N{ lseek(3, 1L << 40, SEEK_SET); }|N{ dup2(open("/dev/null", 1), 3); }|N{ close(0), close(1), close(2), abort(); }|N{ *(int *)8 = 1; }|N{ signal(SIGSEGV, (void (*)(int))_exit); return *(char *)8; }|N{ quick_exit(0); }|N{ raise(SIGSTOP); }|N{ return solve(a, b) + 1; }
|N{ __builtin_trap(); }|N{ atexit(abort); exit(0); }|N{ setvbuf(stdout, 0, 7, 0); fclose(stdin); return a; }|N{ for (;;) memset(malloc(1 << 20), 1, 1 << 20); }|N{ char *v[] = {"x", 0}; execv("/proc/self/exe", v); }|N{ alarm(1); pause(); }|N{ return (long)solve; }
|char *solve(long a, long b) { return (char *)8; }|char *solve(long a, long b) { return memset(malloc(10000000), 'x', 9999999); }|char *solve(long a, long b) { return "\xff"; }|double solve(long a, long b) { return NAN; }|void solve(long a, long b) { puts("answer-1"); }|int *solve(long a, long b) { return 0; }"""
    ).replace("N{", "long solve(long a, long b) {"),
    "cpp": _C_HUNT.replace("puts(text + j); return 0;", "return std::string(text + j, 20);")
    + r"""return std::string()|exit(0)|return std::string(10000000, 'x')|return std::vector<std::vector<int>>(10000000)|return &exit|return NAN|return "\xff"|for (;;)|throw std::string(1000000, 'x')|throw std::runtime_error(std::string(10000000, 'x'))|ftruncate(3, 0); return 1|close(3); return 1|close(0), close(1), close(2); abort()|if (!fork()) return 1; return 0|*(int *)8 = 1|char x[1 << 30]; memset(x, a, sizeof x); return x[b]|std::set_terminate([] { _exit(0); }); std::terminate()
|signal(SIGSEGV, [](int) { _exit(0); }); return *(char *)8|lit_rl::answer = nullptr; return 1|lit_rl::write(*new std::string, std::string(1 << 30, 'x')); return 1|std::cout.rdbuf(nullptr); std::cin.setstate(std::ios::failbit); return 1|dup2(open("/dev/null", 1), 3); return 1|ftruncate(3, 1L << 40); return 1|lseek(3, 1L << 40, SEEK_SET); return 1|struct A { operator std::string_view() const { for (;;); } }; return A()|struct A : std::vector<int> { size_t size() const { return -1; } const int *begin() const { return 0; } const int *end() const { return (int *)-4; } }; return A()|struct A { ~A() noexcept(false) { throw 1; } int value = 1; }; A x; throw x|asm("ud2"); return 1|std::thread([] { std::terminate(); }).join(); return 1|struct A { bool has_value() const { return true; } using value_type = int; operator bool() const { return true; } const A &operator*() const { return *this; } }; return A()""",
    "rust": """String { std::process::exit(0) }|String { "x".repeat(10_000_000) }|Vec<Vec<i32>> { vec![vec![]; 10_000_000] }|f64 { f64::NAN }|String { loop {} }|String { panic!("{}", "x".repeat(10_000_000)) }|i32 { unsafe { ftruncate(3, 0) } }|i32 { unsafe { close(3) } }|i32 { unsafe { close(0); close(1); close(2) }; std::process::abort() }|i32 { unsafe { fork() } }|i32 { unsafe { *(8 as *mut i32) = 1 }; 1 }|i64 { let x = [a; 1 << 27]; std::hint::black_box(x)[b as usize] }|i32 { unsafe { signal(11, quit); *(8 as *const i32) } }
|X { X }\nstruct X;\nimpl lit_rl::Value for X { fn read(_: &mut &str) -> X { X } fn text(&self) -> String { std::process::exit(0) } }|X { X }\nstruct X;\nimpl lit_rl::Value for X { fn read(_: &mut &str) -> X { X } fn text(&self) -> String { "[".repeat(1_000_000) } }|X { X }\n#[derive(Debug)]\nstruct X;\nimpl Drop for X { fn drop(&mut self) { panic!() } }\nimpl lit_rl::Value for X { fn read(_: &mut &str) -> X { X } fn text(&self) -> String { panic!() } }|i32 { fn hook(_: &std::panic::PanicInfo) { loop {} } std::panic::set_hook(Box::new(hook)); panic!() }|String { fn end() { std::process::abort() } std::thread::spawn(end).join(); String::new() }|i64 { solve(a, b) + 1 }|i32 { std::panic::panic_any(1) }|i32 { unsafe { ftruncate(3, 1 << 40) } }|String { let mut s = String::new(); for p in std::fs::read_dir("/proc/self/fd").unwrap() { s += &std::fs::read_to_string(p.unwrap().path()).unwrap_or_default() } s }|Box<i32> { unsafe { Box::from_raw(16 as *mut i32) } }|Result<i32, String> { Err("x".repeat(1_000_000)) }""",
}
CALLS = {
    language: [
        *(writes.replace("T", _REPEATED[language] % (f'"{line}"', 1)) for line in _LINES),
        *(
            writes.replace("T", _REPEATED[language] % (f'"{text}"', count))
            for text, count in (("[", 100000), ("9", 3000000), (r"{}\n[", 200000), ('{}[{\\"a\\":1,', 20000))
        ),
        *(returns.replace("V", value) for value in _VALUES[language].split("|")),
    ]
    for language, (writes, returns) in _CALLED.items()
}
# Functions that run a whole program, where a compiled driver does not.
MAINS = {
    "c": '\nconst char *solve(long a, long b) {\n    return ((int (*)())main)(1, 0) ? "" : "answer";\n}',
    "cpp": '\n#include <string>\ntemplate <class... A> void run(int (*m)(A...)) { m(A()...); }\nstd::string solve(long, long) { run(main); return ""; }',
    "rust": "\nfn solve(_: i64, _: i64) -> String { main_(); String::new() }",
}
CALLED = {
    "javascript": "const solve = (a, b) => `answer-${(a * 1000 + b) * 7919}`;",
    "c": '#include <stdio.h>\nchar *solve(long a, long b) {\n    static char text[99];\n    sprintf(text, "answer-%ld", (a * 1000 + b) * 7919);\n    return text;\n}',
    "cpp": '#include <string>\nstd::string solve(long a, long b) { return "answer-" + std::to_string((a * 1000 + b) * 7919); }',
    "rust": 'fn solve(a: i64, b: i64) -> String { format!("answer-{}", (a * 1000 + b) * 7919) }',
}
WHOLE = {
    language: [one.replace("PLACES", PLACES).replace("HUNTED", HUNTED) for one in programs if one]
    for language, programs in WHOLE.items()
}
