"""Programs in C and C++."""

import contextlib
import dataclasses
import glob
import itertools
import os
import pickle
import re
import shutil
import signal
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from suites import descendants, need_tier, told_of
from support.named_jobs import judge_named, not_among

from lit_rl.execution import Sandbox, StdioTests, Verdict
from lit_rl.execution.interface import FaultyCheck
from lit_rl.execution.judging import compiling
from lit_rl.execution.judging.compiling import Compiler, CompilerFailed
from lit_rl.execution.judging.supervising import supervisor
from lit_rl.execution.judging.supervising.jobs import ZygoteClient
from lit_rl.execution.languages import LANGUAGES, Toolchain, find_toolchain
from lit_rl.execution.spawning import IsolationError, ZygoteSettings

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler: install g++")

SUM = '#include <stdio.h>\nint main(){int a,b;while(scanf("%d %d",&a,&b)==2)printf("%d\\n",a+b);}'
SUM_CPP = "#include <iostream>\nint main(){int a,b;while(std::cin>>a>>b)std::cout<<a+b<<std::endl;}"
CASES = (("1 2\n3 4\n", "3\n7\n"), ("5 5", "10"))


@pytest.fixture(scope="module", params=[0, pytest.param(1, marks=pytest.mark.slow)])
def sandbox(request):
    need_tier(request.param)
    with Sandbox(num_workers=1, memory_bytes=128 << 20, tier=request.param) as sandbox:
        yield sandbox


def judge(sandbox, program, language="c"):
    return sandbox.submit(program, StdioTests(CASES, language, 0.5)).result(60)


VERDICTS = {
    SUM: "passed",
    SUM.replace("a+b", "a-b"): "wrong_answer",
    "int main(){\n return x;}": "syntax_error",
    '#include "/etc/passwd"\nint main(){}': "syntax_error",
    'asm(".incbin \\"/etc/passwd\\"");int main(){}': "syntax_error",
    "char x[1 << 30] = {1}; int main(){}": "syntax_error",
    "int main(){*(volatile int*)0 = 1;}": "exception",
    "int main(){return 3;}": "exception",
    "int main(){for(;;);}": "timed_out",
    '#include <stdio.h>\nint main(){for(;;)puts("xxxxxxxxxxxxxxxx");}': "output_limit",
    "#include <stdlib.h>\n#include <string.h>\nint main(){for(;;)memset(malloc(1<<20),1,1<<20);}": "out_of_memory",
    "int f(int n){volatile int x[999]; return n ? f(n+1)+x[0] : 0;}int main(){f(1);}": "out_of_memory",
}


def test_verdict(sandbox):
    seconds = {program: 5.0 if verdict == "out_of_memory" else 0.5 for program, verdict in VERDICTS.items()}
    jobs = {program: (program, StdioTests(CASES, "c", seconds[program])) for program in VERDICTS}
    assert {program: str(end.verdict) for program, end in judge_named(sandbox, jobs).items()} == VERDICTS


THREADS = """#include <pthread.h>
#include <stdio.h>
void *use(void *x) { volatile char a[1 << 20]; a[0] = 1; return x; }
int main(void) { pthread_t t[8]; int i, failed = 0;
for (i = 0; i < 8; i++) failed += pthread_create(t + i, 0, use, 0) != 0;
for (i = 0; i < 8 && !failed; i++) pthread_join(t[i], 0);
printf("%d", failed); }"""
DEPTH = """#include <stdio.h>
int deep(int n, volatile char *p) { volatile char a[16]; a[0] = n; return n ? 1 + deep(n - 1, a) : p[0] - 1; }
int main(void) { char c = 0; printf("%d", deep(1000000, &c)); }"""


@pytest.mark.parametrize(("program", "printed"), [(THREADS, "0"), (DEPTH, "1000000")])
def test_the_main_threads_stack_grows_in_the_memory_and_other_threads_do_not_reserve_as_much(sandbox, program, printed):
    outcome = sandbox.submit(program, StdioTests((("", printed),), "c")).result(60)
    assert outcome.passed, outcome


def hidden_files():
    """One readable file of each folder that lies beside libraries and that no program may read."""
    found = []
    for library in ("/usr/lib", "/usr/local/lib", "/usr/libexec", "/usr/share"):
        for folder in sorted(Path(library).glob("*/")):
            visible = "-linux-" in folder.name or folder.name in ("gcc", "gconv", "locale", "ossl-modules", "terminfo")
            if folder.is_symlink() or (visible and library != "/usr/share") or folder.name == "zoneinfo":
                continue
            files = (path for path in folder.glob("**/*.*") if path.is_file() and not path.is_symlink())
            found += [str(path) for path in itertools.islice(files, 1) if "zoneinfo" not in str(path)]
    return [path for path in found if not re.search("[^-_+./\\w]", path)]


def test_a_source_includes_nothing_but_headers_and_libraries(sandbox):
    files = [path for path in hidden_files() if not path.startswith(os.path.dirname(os.__file__) + "/")]
    packages = glob.glob("/usr/lib/python3/dist-packages/*/*.py")[:2]
    chosen = [*files[:: max(1, len(files) // 12)], *packages]
    jobs = {path: (f'asm(".incbin \\"{path}\\"");{SUM}', StdioTests(CASES, "c", 0.5)) for path in chosen}
    assert len(jobs) > 3 and not_among(judge_named(sandbox, jobs), "syntax_error") == {}
    included = f'#include "{packages[0] if packages else files[0]}"\n{SUM}'
    assert "denied" in (said := judge(sandbox, included).stderr) or "No such file" in said


def test_a_compiled_program_makes_no_process_and_executes_nothing(sandbox):
    program = """#include <stdio.h>
#include <unistd.h>
#include <fcntl.h>
#include <sys/socket.h>
int main(){
  execl("/bin/true", "true", (char*)0); execl("/usr/bin/gcc", "gcc", (char*)0);
  printf("%d %d %d %d", fork(), vfork(), open("/etc/passwd", O_RDONLY), socket(AF_INET, SOCK_STREAM, 0));
}"""
    assert judge(sandbox, program).stdout == "-1 -1 -1 -1"


FORGED = "g++: fatal error: Killed signal terminated program cc1plus\\ncompilation terminated.\\n"
SAID = (
    "#error No space left on device\nint main(){}",
    f'#include <iostream>\nstatic_assert(false, "\\n{FORGED}");int main(){{}}',
    "#include <no_such_header.h>\nint main(){}",
    "void bad_alloc(); int main(){ bad_alloc(); }",
    'int main(){}\n#line 1 "zzz"\n#error out of memory',
    'asm(".section .note, \\"a\\"\\n.err\\n");int main(){}',
    'extern "C" void f() asm("No space left on device"); int main(){ f(); }',
    "template<int n> struct A { static const int x = A<n + 1>::x; }; int main(){ return A<0>::x; }",
)


def test_what_a_source_has_the_compiler_say_is_the_sources_fault(sandbox):
    jobs = {program: (program, StdioTests(CASES, "cpp", 0.5)) for program in SAID}
    assert not_among(judge_named(sandbox, jobs), "syntax_error") == {}


@pytest.fixture
def compiler():
    reader, writer = os.pipe()
    with tempfile.TemporaryDirectory(prefix="lit_rl-test-") as folder:
        os.chmod(folder, 0o711)  # as a sandbox's: compilers may run as another user
        settings = ZygoteSettings(256 << 20, 1 << 20, tier=0, temporary_folder=f"{folder}/work")
        compiler = Compiler(settings, lambda settings: ZygoteClient(settings, reader, reader))
        yield compiler
        for client in compiler._clients.values():
            client.close()
    os.close(reader)
    os.close(writer)


def compiled(compiler, source, language):
    return compiler.compile({LANGUAGES[language].file: source}, language)


@pytest.mark.parametrize(("tier", "mode", "named"), [(0, 0o700, True), (0, 0o711, False), (1, 0o700, False)])
def test_tools_in_a_folder_that_only_root_may_enter_are_named(tier, mode, named, monkeypatch):
    """Root runs programs as another user; only at tier 0 do they find their tools by the machine's own folders."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, mode)
        monkeypatch.setattr("os.geteuid", lambda: 0)
        monkeypatch.setattr(compiling, "find_toolchain", lambda language: Toolchain({}, (f"{folder}/rustc",), ()))
        told = str(compiling.compiler_failure("rust", "no library", ZygoteSettings(1, 1, tier=tier)))
    assert (f"in {folder}, which only root may enter: install Debian's package rustc" in told) is named


def test_missing_standard_headers_are_our_fault_until_they_are_there(compiler, monkeypatch):
    spec = LANGUAGES["c"]
    headless = dataclasses.replace(spec, builds=((*spec.builds[0], "-nostdinc", "-I/usr/include/linux"),))
    with monkeypatch.context() as patched:
        patched.setitem(LANGUAGES, "c", headless)
        with pytest.raises(CompilerFailed, match=r"stdio\.h"):
            compiled(compiler, SUM, "c")
    assert compiled(compiler, SUM, "c").verdict is None
    assert compiled(compiler, "#include <windows.h>\nint main(){}", "c").verdict is Verdict.SYNTAX_ERROR


def test_a_missing_toolchain_is_our_fault(compiler, monkeypatch, tmp_path):
    with monkeypatch.context() as patched:
        patched.setattr(compiling, "find_toolchain", lambda language: find_toolchain(language, str(tmp_path)))
        with pytest.raises(FaultyCheck, match="install gcc"):
            compiled(compiler, SUM, "c")
    assert compiled(compiler, SUM, "c").verdict is None


@pytest.mark.parametrize("times", [1, 1000])
def test_a_compiler_that_is_killed_from_outside_is_our_fault(compiler, times):
    """Killed once, the source is compiled again; killed always, nothing is said about the source."""
    compiled(compiler, "int main(){}", "cpp")  # starts the zygote
    zygote, done, killed = compiler._clients["cpp"]._zygote._process.pid, threading.Event(), []

    def kill():
        while not done.wait(0.002) and len(killed) < times:
            for process in set(descendants(zygote)) - set(killed):
                if told_of(process, "comm") == "cc1plus\n" and len(killed) < times:
                    os.kill(process, signal.SIGKILL)
                    killed.append(process)

    killer = threading.Thread(target=kill)
    killer.start()
    program = "#include <bits/stdc++.h>\n" + SUM_CPP
    try:
        if times == 1:
            assert compiled(compiler, program, "cpp").verdict is None
        else:
            with pytest.raises(CompilerFailed, match="Killed signal"):
                compiled(compiler, program, "cpp")
    finally:
        done.set()
        killer.join()
    assert killed
    assert compiled(compiler, program, "cpp").verdict is None


def test_why_a_compilers_zygote_cannot_start_is_the_reason_of_the_lost_run(monkeypatch, compiler):
    """The worker, which would tell only its own standard error, goes on."""
    ours, theirs = socket.socketpair()
    trainer = os.pidfd_open(os.getpid())
    signals = {number: signal.getsignal(number) for number in (signal.SIGPROF, signal.SIGVTALRM)}
    with ours, theirs, contextlib.closing(ZygoteClient(compiler._settings, ours.fileno(), trainer)) as client:
        judge = supervisor.Supervisor(ours, trainer, client)

        def refused(*_):
            raise IsolationError("no memory for another namespace")

        monkeypatch.setattr(supervisor, "ZygoteClient", refused)
        said = judge._judge(SUM_CPP, pickle.dumps(StdioTests(CASES, "cpp")))
        assert isinstance(said, str) and "no memory for another namespace" in said
    os.close(trainer)
    for number, handler in signals.items():
        signal.signal(number, handler)
