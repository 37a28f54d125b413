"""Starting the sandbox's own processes: fresh interpreters that inherit nothing but one socket."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lit_rl.errors import LitRLError, UsageError
from lit_rl.execution.confinement.cgroup import ControlGroup
from lit_rl.execution.confinement.kernel import libc
from lit_rl.execution.zygote.work_folder import clear_folder

WEAK = -1
# For the log: what each tier enforces. docs/sandbox.md says what each tier leaves open.
TIERS = {
    WEAK: "resource limits only; programs reach this user's files and processes",
    0: "system-call and file filters; programs see which paths exist",
    1: "system-call filter, namespaces; memory limit per process only",
    2: "system-call filter, namespaces, control group",
}
_START_SECONDS = 60.0
_ADDR_NO_RANDOMIZE, _ASK_ONLY = 0x0040000, 0xFFFFFFFF
_COMPILERS_STACK = 8 << 20  # each thread of a compiler reserves this much, too
_ROOT = str(Path(__file__).resolve().parent.parent)

# The packages' own __init__ files would load more than these processes need, and every fork pays for what the
# zygote has loaded: so the packages are made empty, with a path to find modules in.
_BOOTSTRAP = """
import sys, types
for name, path in (("lit_rl", {root!r}), ("lit_rl.execution", {root!r} + "/execution")):
    module = types.ModuleType(name)
    module.__path__ = [path]
    sys.modules[name] = module
from lit_rl.execution.{module} import main
main()
"""


def start_process(
    module: str, arguments: list[str], connection: socket.socket | None = None, log: int | None = None
) -> subprocess.Popen[bytes]:
    """Start a fresh interpreter that runs ``main`` of a module of this package, with one socket or a file for output.

    The interpreter has no site packages, a session of its own (Ctrl-C goes to the trainer alone), and an environment
    that is empty but for a fixed hash seed (so that a program's sets iterate in the same order in every run). It is no
    fork of this process: nothing of a trainer's memory, descriptors or threads goes along.
    """
    code = _BOOTSTRAP.format(root=_ROOT, module=module)
    interpreter = getattr(sys, "_base_executable", None) or sys.executable
    return subprocess.Popen(
        [interpreter, "-s", "-S", "-P", "-X", "utf8", "-c", code, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if log is None else log,
        stderr=log,
        # LD_BIND_NOW: the C library's functions are looked up once, not in every fork.
        env={"LD_BIND_NOW": "1", "PYTHONHASHSEED": "0" if module == "zygote.zygote" else "random"},
        pass_fds=[] if connection is None else [connection.fileno()],
        start_new_session=True,
        cwd="/",
    )


@contextlib.contextmanager
def _fix_child_stack_layout(stack_bytes: int) -> Iterator[None]:
    """Give processes started in this context a stack of up to ``stack_bytes``, and the same addresses each time.

    When a process is executed, the kernel keeps as much room free below its stack as the limit then allows. Sets of
    objects keep their order between runs if addresses stay the same. Protection rests on the kernel, not on addresses
    that are hard to guess: a program sees its own anyway. Some containers forbid this; addresses are then random.
    """
    before, (soft, hard) = libc.personality(_ASK_ONLY), resource.getrlimit(resource.RLIMIT_STACK)
    if before >= 0:
        libc.personality(before | _ADDR_NO_RANDOMIZE)
    resource.setrlimit(resource.RLIMIT_STACK, (min(stack_bytes, hard) if hard >= 0 else stack_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_STACK, (soft, hard))
        if before >= 0:
            libc.personality(before)


class ZygoteSettings(NamedTuple):
    """Settings of a zygote.

    Args:
        memory_bytes: most resident memory of one program.
        output_bytes: longest stdout, stderr or file of one program.
        work_bytes: most that all files of one program may take.
        tier: isolation to use; ``None`` for the best available tier.
        allow_weak: whether isolation weaker than tier 0 is acceptable.
        packages: folders and files that programs may read besides the standard library.
        imports: names of modules in ``packages``, which are loaded before programs run.
        readable: further paths to show.
        executables: files and folders that a compiler may execute, or that may be executed once as a program's runtime.
        processes: allow new processes and execution, for compilers.
        reserves: limit the memory that is used, not the address space; for compilers and runtimes.
        reuses_folder: run all programs in one work folder. Files in memory are numbered on from one program to the
            next, so each can tell how many the last one made: only for compilers and checkers, which no policy writes.
        temporary_folder: where the work folder is made.
        landlock_version: behave as a kernel with this version of Landlock, for tests; ``None`` for the kernel's own.
    """

    memory_bytes: int
    output_bytes: int
    work_bytes: int = 64 << 20
    tier: int | None = None
    allow_weak: bool = False
    packages: tuple[str, ...] = ()
    imports: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    executables: tuple[str, ...] = ()
    processes: bool = False
    reserves: bool = False
    reuses_folder: bool = False
    temporary_folder: str = "/tmp"
    landlock_version: int | None = None


class IsolationError(LitRLError, RuntimeError):
    """No zygote can be started with the requested isolation."""


class ZygoteProcess:
    """The supervisor's end of a running zygote."""

    def __init__(self, settings: ZygoteSettings, tier: int) -> None:
        self.settings = settings
        self.tier = tier
        os.makedirs(settings.temporary_folder, 0o711, exist_ok=True)
        self._folder = tempfile.mkdtemp(prefix="box-", dir=settings.temporary_folder)
        self.group: ControlGroup | None = None
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        options = json.dumps({**settings._asdict(), "tier": tier, "folder": self._folder})
        try:
            with _fix_child_stack_layout(_COMPILERS_STACK if settings.processes else settings.memory_bytes):
                self._process = start_process("zygote.zygote", [str(theirs.fileno()), options], theirs)
        finally:
            theirs.close()
        try:
            if tier >= 2:
                self.group = ControlGroup(self._process.pid, settings.memory_bytes + settings.work_bytes)
            self.control.settimeout(_START_SECONDS)
            answer = self.control.recv(4096).decode("utf-8", "replace")
            self.control.settimeout(None)
        except OSError as error:
            answer = str(error)
        if answer != "ready":
            self.close()
            kind, _, reason = answer.partition(": ")
            failed = IsolationError(reason or answer or "the zygote ended while starting")
            raise OSError(errno.EAGAIN, reason) if kind == "short" else failed

    def close(self) -> None:
        """End the zygote and its child, and remove the work folder."""
        self.control.close()
        try:
            self._process.wait(2)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self.group is not None:
            self.group.remove()
        with contextlib.suppress(OSError):  # what stays is removed with the sandbox's own folder
            clear_folder(self._folder)
            os.rmdir(self._folder)
            os.rmdir(os.path.dirname(self._folder))  # succeeds for the last folder in it


def start_zygote(settings: ZygoteSettings) -> ZygoteProcess:
    """Start a zygote in the requested tier, or in the highest tier that works."""
    reasons = []
    tiers = [settings.tier] if settings.tier is not None else [2, 1, 0]
    for tier in tiers if not settings.allow_weak else [*tiers, WEAK]:
        try:
            return ZygoteProcess(settings, tier)
        except IsolationError as error:
            reasons.append(f"tier {tier}: {error}")
    raise IsolationError(
        f"programs cannot be confined on this machine ({'; '.join(reasons)}): use a kernel with Landlock and "
        "seccomp, or set allow_weak=True to run programs with resource limits alone"
    )


def find_package_paths(names: Sequence[str]) -> dict[str, list[str]]:
    """Return the folders and files of each named package, with shared libraries that wheels put next to the package.

    Only named packages become visible: the packages that they depend on must be named, too.
    """
    found = {}
    for name in names:
        spec = importlib.util.find_spec(name) if "." not in name else None
        if spec is None or (spec.origin is None and not spec.submodule_search_locations):
            raise UsageError(f"packages names {name!r}, which is no installed module: give the name that is imported")
        paths = list(spec.submodule_search_locations or [str(spec.origin)])
        beside = [os.path.join(os.path.dirname(path), f"{name}.libs") for path in paths]
        found[name] = [os.path.realpath(path) for path in (*paths, *beside) if os.path.exists(path)]
    return found
