"""Runs the suites of hostile and honest programs; as a script too, for an ordinary user.

``python suites.py TIER CHECK NUM_WORKERS`` prints what went wrong, one line each, and nothing if nothing did. With
``--language`` CHECK is ``whole`` or ``calls``.
"""

import argparse
import contextlib
import functools
import glob
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from unittest import mock

from lit_rl.execution import AssertTests, CallTests, Sandbox, SandboxError, StdioTests, Verdict
from lit_rl.execution import sandbox as sandbox_module

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
ORDINARY_USER = 20001
sys.path.insert(0, str(HERE))
import honest_programs  # noqa: E402
import honest_system_calls  # noqa: E402
import hostile_programs  # noqa: E402
import hostile_system_calls  # noqa: E402
import whole_attacks  # noqa: E402

honest_programs.FUNCTION_STYLE.update(honest_system_calls.SYSTEM_CALLS)
hostile_programs.FUNCTION_STYLE.update(hostile_system_calls.SYSTEM_CALLS)

TESTED = ((1, 2), (-1, 1), (10, 20))


def check(kind, seconds):
    """The same task in each way of judging."""
    if kind == "literal":
        lines = [f"assert add({a}, {b}) == {a + b}" for a, b in TESTED]
        return AssertTests("\n".join(lines), None, seconds)
    if kind == "graded":
        body = f"    for a, b in {TESTED}:\n        assert candidate(a, b) == a + b\n"
        return AssertTests("def check(candidate):\n" + body, "add", seconds)
    if kind == "calls":
        return CallTests(tuple((pair, sum(pair)) for pair in TESTED), "add", seconds)
    return StdioTests((("1 2\n3 4\n", "3\n7 7\n"),), timeout_seconds=seconds)


def older_landlock(version):
    """While this context lasts, sandboxes are made as on a kernel with this version of Landlock; ``None``: its own."""
    if version is None:
        return contextlib.nullcontext()
    settings = functools.partial(sandbox_module.ZygoteSettings, landlock_version=version)
    return mock.patch.object(sandbox_module, "ZygoteSettings", settings)


def programs(module, kind, names=None):
    chosen = module.STDIO if kind == "stdio" else module.FUNCTION_STYLE
    return {name: source for name, source in chosen.items() if names is None or name in names}


def run(tier, kind, num_workers=2, names=None, landlock=None):
    """Faults as lines: cheats that passed, honest programs that did not, things left behind."""
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        secret = Path(folder) / "secret"
        secret.write_text("token")
        secret.chmod(0o666)
        before = state(folder)
        os.environ["LIT_RL_TEST_SECRET"] = "token"
        with older_landlock(landlock):
            faults = _judge(tier, kind, num_workers, folder, str(secret), names)
        faults += changes(before, state(folder))
        if secret.read_text() != "token" or secret.stat().st_mode & 0o777 != 0o666:
            faults.append("the secret file was changed")
    return faults


def _judge(tier, kind, num_workers, folder, secret, names):
    faults = []
    weak = {"tier": 0, "allow_weak": True} if tier < 0 else {"tier": tier}
    trainer = str(os.getpid()) if tier >= 0 else "0"  # left open by weak isolation
    with Sandbox(num_workers, 256 << 20, 4 << 20, temporary_folder=folder, **weak) as sandbox:
        if sandbox.tier != tier:
            faults.append(f"tier {sandbox.tier} was used")
        hostile = programs(hostile_programs, kind, names)
        sources = [s.replace("$SECRET", secret).replace("$PID", trainer) for s in hostile.values()]
        outcomes = sandbox.judge_many([(source, check(kind, 0.3)) for source in sources])
        for name, outcome in zip(hostile, outcomes, strict=True):
            if outcome.verdict in (Verdict.PASSED, Verdict.INFRASTRUCTURE_FAILURE):
                faults.append(f"hostile {name}: {outcome.verdict} {outcome.stderr[-300:]}")
        honest = programs(honest_programs, kind, names and honest_system_calls.SYSTEM_CALLS)
        outcomes = sandbox.judge_many([(source, check(kind, 5.0)) for source in honest.values()])
        for name, outcome in zip(honest, outcomes, strict=True):
            if not outcome.passed:
                faults.append(f"honest {name}: {outcome}")
    return faults


def run_language(tier, kind, language, every=1):
    """The same for another language than Python: each such attack, between right programs that still have to pass."""
    if kind == "calls":
        expected = (one for _, one in whole_attacks.CASES)
        cases = tuple(zip(whole_attacks.PAIRS, expected, strict=True))
        check = CallTests(cases, "solve", 0.5, language=language)
        mains = [source + whole_attacks.MAINS.get(language, "") for source in whole_attacks.WHOLE[language]]
        attacks = [(source, check) for source in whole_attacks.CALLS[language] + mains]
        right = [(whole_attacks.CALLED[language], CallTests(cases, "solve", 5.0, language=language))]
    else:
        check = StdioTests(whole_attacks.CASES, language, 0.5)
        attacks = [(source, check) for source in whole_attacks.WHOLE[language]]
        right = [(whole_attacks.RIGHT[language], StdioTests(whole_attacks.CASES, language, 5.0))]
    attacks = attacks[every - 1 :: every]
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        before = state(folder)
        with Sandbox(2, 256 << 20, 4 << 20, temporary_folder=folder, tier=tier) as sandbox:
            outcomes = sandbox.judge_many([*right, *attacks, *right])
        faults = changes(before, state(folder))
    bad = (Verdict.INFRASTRUCTURE_FAILURE, Verdict.NO_PROGRAM, Verdict.PASSED)
    for index, ((source, _), outcome) in enumerate(zip([*right, *attacks, *right], outcomes, strict=True)):
        is_attack = 0 <= index - len(right) < len(attacks)
        if outcome.verdict in bad if is_attack else not outcome.passed:
            faults.append(f"{language} {source[:300]!r}: {outcome.verdict} {outcome.stderr[-300:]!r}")
    return faults


def state(folder):
    """State of the machine that a sandbox must leave as it was."""
    places = [folder, "/tmp", "/dev/shm", "/var/tmp", "/home"]
    escaped = [f for place in places if os.path.isdir(place) for f in os.listdir(place) if "escaped" in f]
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "children": children("self"),
        "processes": processes_with(folder),
        "files": sorted(os.listdir(folder)),
        "escaped files": escaped,
    }


def changes(before, after):
    return [f"{key}: {before[key]} before, {after[key]} after" for key in before if before[key] != after[key]]


def told_of(pid, name):
    """Read from ``/proc`` the facts of a process; empty once it has ended."""
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes().decode("utf-8", "replace")
    except OSError:
        return ""


def processes_with(word):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and word in told_of(pid, "cmdline")]


def children(pid):
    tasks = glob.glob("task/*", root_dir=f"/proc/{pid}")
    return [int(child) for task in tasks for child in told_of(pid, f"{task}/children").split()]


def descendants(pid):
    return [one for child in children(pid) for one in (child, *descendants(child))]


def need_tier(tier):
    import pytest

    try:
        Sandbox(num_workers=1, tier=tier).start().close()
    except SandboxError as error:
        pytest.skip(f"tier {tier} cannot be had here: {error}")


def as_ordinary_user(*arguments, before=None):
    """Run Python with these arguments as a user without privileges; needs root and an interpreter that all may run."""
    import pytest

    if os.geteuid() != 0:
        pytest.skip("not root: the other tests run as an ordinary user already")
    candidates = [os.path.realpath(sys.executable), "/usr/bin/python3"]
    command = "import sys; assert sys.version_info >= (3, 11)"
    for interpreter in candidates:
        try:
            subprocess.run([interpreter, "-S", "-c", command], user=ORDINARY_USER, group=ORDINARY_USER,
                           extra_groups=[], check=True, capture_output=True)  # fmt: skip
        except (OSError, subprocess.CalledProcessError):
            continue
        options = {"user": ORDINARY_USER, "group": ORDINARY_USER, "extra_groups": [], "cwd": "/"}
        environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}
        command = [interpreter, *map(str, arguments)]
        return subprocess.run(command, env=environment, capture_output=True, text=True, preexec_fn=before, **options)
    pytest.skip("no Python 3.11 that an ordinary user may run")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tier", type=int)
    parser.add_argument("kind")
    parser.add_argument("num_workers", type=int)
    parser.add_argument("--landlock", type=int, help="a version to pretend the kernel had")
    parser.add_argument("--language", help="run the attacks in it")
    parser.add_argument("--only", help="system_calls, other_processes, ...: those hostile programs alone")
    options = parser.parse_args()
    if options.language:
        return print("\n".join(run_language(options.tier, options.kind, options.language)))
    names = getattr(hostile_system_calls, options.only.upper()).keys() if options.only else None
    return print("\n".join(run(options.tier, options.kind, options.num_workers, names, options.landlock)))


if __name__ == "__main__":
    main()
