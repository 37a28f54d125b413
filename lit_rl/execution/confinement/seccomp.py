"""System-call filters that allow what a program, a compiler or a build needs, and nothing else.

Unlisted calls fail with an error and do not end the program, which may have a fallback. A zygote installs
the first filter once. Each of its children stacks a second filter on the first, to take away what only the zygote
needs: to fork, to kill, to set up a child. The second is short, because the kernel compiles it again in every child.

A filter is classic BPF, assembled here without a library. A block is a list of instructions that decides about one call
by its arguments and returns on every path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence

from lit_rl.execution.confinement.kernel import MACHINE, PR_SET_SECCOMP, bare_prctl, check_libc_result, libc
from lit_rl.execution.confinement.system_calls import ALLOWED, BUILDING, FAKED, NUMBERS, UNSUPPORTED

Instruction = tuple[int, int, int, int]
Block = list[Instruction]

OWN_PID = 0x7FFF1234
"""Stands in a block for the process id of the program, which is known only after the fork."""

ALLOW, REFUSE, PRETEND = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000
UNKNOWN, NOT_SUPPORTED = 0x00050000 | errno.ENOSYS, 0x00050000 | errno.ENOTSUP
NO_TERMINAL = 0x00050000 | errno.ENOTTY
_KILL = 0x80000000
_LOAD, _AND, _RETURN = 0x20, 0x54, 0x06
_JUMP, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET = 0x05, 0x15, 0x35, 0x45
_MAX_JUMP_LENGTH = 255  # of a conditional jump
_MODE_FILTER = 2
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000


class SeccompFilter:
    """An assembled filter, to be installed in many processes.

    Args:
        actions: what to do with calls, by the name of the call.
        blocks: blocks for calls whose arguments decide, by the name of the call.
        default: what to do with all other calls.

    ``install()`` puts the calling process under the filter for good; it needs ``no_new_privs``.
    """

    def __init__(self, actions: Mapping[str, int], blocks: Mapping[str, Block], default: int = UNKNOWN) -> None:
        numbers = NUMBERS[MACHINE]
        decided = {name: bpf_return(action) for name, action in actions.items()} | dict(blocks)
        known = {numbers[name]: block for name, block in decided.items() if name in numbers}
        code = [*_seccomp_filter_head(), *_bpf_binary_search(_syscall_number_ranges(known, bpf_return(default)))]
        packed = b"".join(struct.pack("=HBBI", *part) for part in code)
        buffer = ctypes.create_string_buffer(packed, len(packed))
        program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)), 16)
        words = memoryview(buffer).cast("B").cast("I")
        pid_words = tuple(2 * i + 1 for i, part in enumerate(code) if part[3] == OWN_PID)
        getpid = os.getpid

        # Not a method: it runs in every fork, where each attribute lookup copies memory.
        def install() -> None:
            pid = getpid()
            for index in pid_words:
                words[index] = pid
            if bare_prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
                check_libc_result(
                    libc.prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0), "seccomp filter"
                )  # for its error

        self.install: Callable[[], None] = install


def bpf_return(action: int) -> Block:
    """Return a block that decides without looking at the arguments."""
    return [(_RETURN, 0, 0, action)]


def bpf_allow_only_if(
    argument: int, values: Sequence[int], then: Block | None = None, otherwise: int = REFUSE, mask: int | None = None
) -> Block:
    """Continue with ``then``, or allow, if the low half of an argument (after ``mask``, if given) is in ``values``."""
    code = [_load_arg(argument), *([] if mask is None else [(_AND, 0, 0, mask)])]
    code += [(_JUMP_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [*code, *bpf_return(otherwise), *(then or bpf_return(ALLOW))]


def bpf_allow_unless(argument: int, values: Sequence[int], action: int = REFUSE, mask: int | None = None) -> Block:
    """Allow unless the low half of an argument (after ``mask``, if given) is one of ``values``."""
    return bpf_allow_only_if(argument, values, bpf_return(action), ALLOW, mask)


def bpf_branch_if_any_bit(argument: int, bits: int, then: int, otherwise: Block) -> Block:
    """Decide by whether the low half of an argument has any of these bits."""
    return [_load_arg(argument), (_JUMP_SET, 0, 1, bits), *bpf_return(then), *otherwise]


def bpf_branch_if_zero(argument: int, then: int, otherwise: Block) -> Block:
    """Decide by whether both halves of an argument are zero."""
    found = [_load_arg(argument), (_JUMP_EQUAL, 0, 3, 0), _load_arg(argument, high=True), (_JUMP_EQUAL, 0, 1, 0)]
    return [*found, *bpf_return(then), *otherwise]


def _load_arg(argument: int, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4 * high)


def _seccomp_filter_head() -> Block:
    """Check the machine type, then load the number of the call."""
    code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 1, 0, _ARCHITECTURE[MACHINE]), *bpf_return(_KILL), (_LOAD, 0, 0, _NR)]
    if MACHINE == "x86_64":
        code += [(_JUMP_GREATER_EQUAL, 0, 1, _X32), *bpf_return(_KILL)]
    return code


def _syscall_number_ranges(blocks: Mapping[int, Block], default: Block) -> list[tuple[int, Block]]:
    """Return sorted pairs ``(first number, block)``, each valid up to the next; unlisted numbers get the default."""
    starts: list[tuple[int, Block]] = []
    for number in range(max(blocks, default=0) + 2):
        block = blocks.get(number, default)
        if not starts or starts[-1][1] != block:
            starts.append((number, block))
    return starts


def _bpf_binary_search(starts: list[tuple[int, Block]]) -> Block:
    """Make a binary search over ranges, because the kernel runs a filter for every number when it is installed."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _bpf_binary_search(starts[:middle]), _bpf_binary_search(starts[middle:])
    if len(low) > _MAX_JUMP_LENGTH:
        return [(_JUMP_GREATER_EQUAL, 0, 1, starts[middle][0]), (_JUMP, 0, 0, len(low)), *low, *high]
    return [(_JUMP_GREATER_EQUAL, len(low), 0, starts[middle][0]), *low, *high]


# Without FILES, a thread has a descriptor table of its own, and so as many descriptors again as a process may open.
_CLONE_THREAD = 0x00000100 | 0x00000800 | 0x00010000 | 0x00000400  # VM, SIGHAND, THREAD, FILES
_NEW_NAMESPACES = 0x7E020080
_O_ACCMODE, _O_TRUNC, _O_TMPFILE = 0o3, 0o1000, 0o20000000  # the last without O_DIRECTORY, which has two values
_CLOSE_RANGE_CLOEXEC = 4
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_AT_EMPTY_PATH = 0x1000
_RLIMIT_CPU, _RLIMIT_NPROC = 0, 6
# What only a zygote does; what a program may do to itself alone; what only a compiler's zygote allows. Messages hold
# descriptors that no limit of a process counts, and the kernel lets a user, its zygote included, send only so many.
_ZYGOTE_ONLY = ("pidfd_open", "process_vm_readv", "setsid", "sendmsg", "sendmmsg")
_OWN_ONLY = ("kill", "tgkill", "prlimit64", "sched_setaffinity")
_PROCESSES = ("fork", "vfork", "execve")
# Commands of fcntl: copies and flags of descriptors, locks, the length of a pipe. Not among them are those that make
# the kernel send signals to a process (owner, signal, lease, notes of a folder), seals and longer pipes.
_FCNTL = (0, 1, 2, 3, 4, 5, 6, 7, 9, 11, 16, 36, 37, 38, 1025, 1027, 1030, 1032, 1034)
# TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: asked of any file; none injects input or sends signals.
_IOCTL = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# Options of sockets: lengths, time limits, reused addresses. Not listed: code that the kernel runs for each packet.
_SOCKET_OPTIONS = (1, 2, 7, 8, 9, 20, 21)
_BUFFER_LENGTHS = (7, 8)  # what a buffer holds counts as memory of no process: setting them is pretended


def zygote_seccomp_filter(processes: bool = False, truncation: bool = True) -> SeccompFilter:
    """Return the filter of a zygote: the lists of ``system_calls``, plus further calls that a zygote needs."""
    blocks = _common_syscall_blocks()
    # Local pairs only, for asyncio.
    blocks["socketpair"] = bpf_allow_only_if(0, [1])
    blocks["setsockopt"] = bpf_allow_only_if(2, _SOCKET_OPTIONS, bpf_allow_unless(2, _BUFFER_LENGTHS, PRETEND))
    # One mapped page keeps all of such memory alive, and its other pages then count as memory of no process.
    blocks["mmap"] = bpf_allow_unless(3, [_MAP_SHARED | _MAP_ANONYMOUS], mask=_MAP_SHARED | _MAP_ANONYMOUS)
    blocks["fallocate"] = bpf_allow_only_if(1, [0])  # other modes take disk beyond the longest file
    also = (*_ZYGOTE_ONLY, *_OWN_ONLY, "prctl", "execveat", *(_PROCESSES if processes else ()))
    return SeccompFilter(_common_syscall_actions(also, truncation), blocks)


def program_seccomp_filter(exec_descriptor: int | None = None, processes: bool = False) -> SeccompFilter:
    """Return the filter that denies a program the calls that only its zygote may make.

    Args:
        exec_descriptor: for compiled programs, the descriptor that ``execveat`` may execute, and no other way to
            execute. It lies above all that the program itself can ever open. ``None`` allows no ``execveat``.
        processes: as for the zygote.
    """
    # A program may not SIGKILL itself, so SIGKILL always came from outside: from the zygote, or for lack of memory.
    catchable = bpf_allow_unless(1, [signal.SIGKILL])
    blocks: dict[str, Block] = {
        "kill": bpf_allow_only_if(0, [OWN_PID], catchable),  # 0 would be the whole group
        "tgkill": bpf_allow_only_if(0, [OWN_PID], bpf_allow_unless(2, [signal.SIGKILL])),
        "sched_setaffinity": bpf_allow_only_if(0, [0, OWN_PID]),
        "prlimit64": bpf_allow_only_if(0, [0, OWN_PID], bpf_branch_if_zero(2, ALLOW, _pretend_rlimits_set(1))),
        "setrlimit": _pretend_rlimits_set(0),
        # 3: whether it can be traced; 15, 16: a thread's name; the last names memory.
        "prctl": bpf_allow_only_if(0, [3, 15, 16, 0x53564D41]),
        "execveat": bpf_return(REFUSE),
    }
    if exec_descriptor is not None:
        blocks["execveat"] = bpf_allow_only_if(0, [exec_descriptor], bpf_allow_only_if(4, [_AT_EMPTY_PATH]))
    if not processes:
        # Threads share memory with the program and die with it.
        blocks["clone"] = bpf_allow_only_if(0, [_CLONE_THREAD], mask=_CLONE_THREAD)
    actions = dict.fromkeys(FAKED, PRETEND) | dict.fromkeys(_ZYGOTE_ONLY, REFUSE)
    return SeccompFilter(actions, blocks, ALLOW)


def compiler_seccomp_filter(alone: bool, truncation: bool = True) -> SeccompFilter:
    """Return the filter of a build: the calls that a shell, make, compilers and compiled programs need.

    Args:
        alone: no process outside can be named or signalled. Otherwise signals are refused altogether: a filter
            shared by many processes cannot tell which process ids are theirs.
        truncation: as for a zygote.
    """
    blocks = _common_syscall_blocks()
    # By number, each of these calls could reach a process of the same user outside; 0 is the caller.
    for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam"):
        blocks[name] = bpf_allow_only_if(0, [0])
    blocks["setpriority"] = bpf_allow_only_if(0, [0], bpf_allow_only_if(1, [0]))
    blocks["execveat"] = bpf_return(UNKNOWN)
    blocks["ioctl"] = bpf_allow_only_if(1, _IOCTL, otherwise=NO_TERMINAL)  # cp copies by itself where it cannot clone
    also = (*BUILDING, *_PROCESSES, "prctl", *(("kill", "tkill", "tgkill") if alone else ()))
    return SeccompFilter(_common_syscall_actions(also, truncation), blocks)


def _common_syscall_blocks() -> dict[str, Block]:
    # Older versions of Landlock let a file be truncated when it is opened for reading, without the right to write.
    truncating = _O_TRUNC | _O_ACCMODE

    def opening(argument: int) -> Block:
        # A file without a name escapes the measuring of a folder.
        named = bpf_allow_unless(argument, [_O_TRUNC, _O_ACCMODE, truncating], mask=truncating)
        return bpf_branch_if_any_bit(argument, _O_TMPFILE, NOT_SUPPORTED, named)

    return {
        # The flags of clone that make namespaces are forbidden to all.
        "clone": bpf_branch_if_any_bit(0, _NEW_NAMESPACES, REFUSE, bpf_return(ALLOW)),
        "close_range": bpf_allow_only_if(2, [0, _CLOSE_RANGE_CLOEXEC]),  # never into a descriptor table of its own
        # The arguments of these two lie where a filter cannot look; glibc falls back to the older calls.
        "clone3": bpf_return(UNKNOWN),
        "openat2": bpf_return(UNKNOWN),
        "open": opening(1),
        "openat": opening(2),
        "ioctl": bpf_allow_only_if(1, _IOCTL),
        "fcntl": bpf_allow_only_if(1, _FCNTL),
    }


def _pretend_rlimits_set(argument: int) -> Block:
    """Pretend that changing the limits on CPU seconds and tasks succeeded, since the sandbox sets these."""
    return bpf_allow_unless(argument, [_RLIMIT_CPU, _RLIMIT_NPROC], PRETEND)


def _common_syscall_actions(also: Iterable[str], truncation: bool) -> dict[str, int]:
    """Return the action for each numbered call, by name; ``also`` is allowed besides the usual ones."""
    actions = dict.fromkeys(NUMBERS[MACHINE], REFUSE) | dict.fromkeys(UNSUPPORTED, NOT_SUPPORTED)
    actions |= dict.fromkeys((*ALLOWED, *FAKED, *also), ALLOW)
    return actions if truncation else actions | {"truncate": REFUSE}
