"""A system-call filter: what a Python or a compiled program needs, and nothing that makes a process.

The filter is a classic BPF program, assembled here and installed with ``prctl``; no library is needed. Calls
that are not listed fail with an error and do not end the program: an honest one may have another way.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Sequence

from lit_rl.execution.confinement.kernel import MACHINE, PR_SET_SECCOMP, bare_prctl, check, libc
from lit_rl.execution.confinement.system_calls import ALLOWED, FAKED, NUMBERS, REFUSED, UNSUPPORTED

_MODE_FILTER = 2
_LOAD, _JUMP_EQUAL, _JUMP_GREATER_EQUAL, _JUMP_SET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000
_CLONE_THREAD = 0x00010000
_NEW_NAMESPACES = 0x7E020080
# What only a zygote does; what a program may do to itself alone; what only a compiler's zygote allows.
_ZYGOTE_ONLY = ("pidfd_open", "setsid")
_OWN_ONLY = ("kill", "tgkill", "prlimit64", "sched_setaffinity")
_PROCESSES = ("fork", "vfork", "execve")

_Instruction = tuple[int, int, int, int]
# What stands in a filter for the process id of the program, which is known only after the fork.
_OWN_PID = 0x7FFF1234


class Filter:
    """An assembled filter, to be installed in many processes.

    There are two. The zygote's says once what programs need of the kernel; a program's, stacked on it, takes
    away what the zygote itself needed: to fork, to kill, to set up a child. It is short, for the kernel
    compiles it anew in every child.

    Args:
        code: instructions.

    ``install()`` puts a process, for good, under the filter; it needs ``no_new_privs``.
    """

    def __init__(self, code: Sequence[_Instruction]) -> None:
        packed = b"".join(struct.pack("=HBBI", *part) for part in code)
        buffer = ctypes.create_string_buffer(packed, len(packed))
        program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)), 16)
        words = memoryview(buffer).cast("B").cast("I")
        pid_places = tuple(2 * i + 1 for i, part in enumerate(code) if part[3] == _OWN_PID)
        getpid = os.getpid

        # Not a method: runs in every fork, and each attribute looked up there is memory copied.
        def install() -> None:
            pid = getpid()
            for place in pid_places:
                words[place] = pid
            if bare_prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
                check(libc.prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0), "seccomp filter")  # for its error

        self.install: Callable[[], None] = install


def available() -> bool:
    """Whether there is a table of this machine's system calls."""
    return MACHINE in NUMBERS


def zygote_filter(processes: bool = False) -> Filter:
    """The lists of ``system_calls``, and what a zygote does besides.

    Args:
        processes: allow new processes and execution, for a compiler; file rules say of what.
    """
    # Namespaces are forbidden to all: the flags of clone that make them.
    blocks = {"clone": [_load_argument(0), (_JUMP_SET, 0, 1, _NEW_NAMESPACES), _refuse(), _return(_ALLOW)]}
    # glibc falls back from clone3, whose flags a filter cannot see, to clone.
    blocks["clone3"] = [_return(_ERRNO | errno.ENOSYS)]
    # Local pairs only, for asyncio.
    blocks["socketpair"] = _only_if(0, [1])
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX: asked of any file; none injects input.
    blocks["ioctl"] = _only_if(1, [0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451])
    also = (*_ZYGOTE_ONLY, *_OWN_ONLY, "prctl", "execveat", *(_PROCESSES if processes else ()))
    numbers = NUMBERS[MACHINE]
    actions = {numbers[name]: _ERRNO | errno.EPERM for name in REFUSED if name in numbers}
    actions |= {numbers[name]: _ERRNO | errno.ENOTSUP for name in UNSUPPORTED if name in numbers}
    actions |= {numbers[name]: _ALLOW for name in (*ALLOWED, *FAKED, *also) if name in numbers}
    return Filter([*_head(blocks), *_search(_ranges(actions))])


def program_filter(exec_descriptor: int | None = None, processes: bool = False) -> Filter:
    """What a program may not do of what its zygote may.

    Args:
        exec_descriptor: allow ``execveat`` of this descriptor and no other way to execute; for programs that
            were compiled. ``None`` for none.
        processes: as for the zygote.
    """
    own = _only_if(0, [0, _OWN_PID])
    blocks = dict.fromkeys(_OWN_ONLY, own)
    blocks["kill"] = blocks["tgkill"] = _only_if(0, [_OWN_PID])  # 0 would be the whole group
    # 3: whether it can be traced; 15, 16: a thread's name; the last names memory.
    blocks["prctl"] = _only_if(0, [3, 15, 16, 0x53564D41])
    blocks["execveat"] = [_refuse()] if exec_descriptor is None else _execute_only(exec_descriptor)
    if not processes:
        # Threads share memory with the program and die with it.
        blocks["clone"] = [_load_argument(0), (_JUMP_SET, 0, 1, _CLONE_THREAD), _return(_ALLOW), _refuse()]
    numbers = NUMBERS[MACHINE]
    actions = {numbers[name]: _ERRNO for name in FAKED if name in numbers}  # error 0: "done"
    actions |= {numbers[name]: _ERRNO | errno.EPERM for name in _ZYGOTE_ONLY}
    return Filter([*_head(blocks), *_search(_ranges(actions, _ALLOW))])


def _head(blocks: dict[str, list[_Instruction]]) -> list[_Instruction]:
    """Check of the machine, then blocks for calls whose arguments decide; each returns on every path."""
    code = [
        _load(_ARCH),
        (_JUMP_EQUAL, 1, 0, _ARCHITECTURE[MACHINE]),
        _return(_KILL),
        _load(_NR),
    ]
    if MACHINE == "x86_64":
        code += [(_JUMP_GREATER_EQUAL, 0, 1, _X32), _return(_KILL)]
    for name, block in blocks.items():
        code += [(_JUMP_EQUAL, 0, len(block), NUMBERS[MACHINE][name]), *block]
    return code


def _execute_only(descriptor: int) -> list[_Instruction]:
    """AT_EMPTY_PATH of one descriptor, above what the program itself can ever open."""
    return [
        _load_argument(0),
        (_JUMP_EQUAL, 0, 3, descriptor),
        _load_argument(4),
        (_JUMP_EQUAL, 0, 1, 0x1000),
        _return(_ALLOW),
        _refuse(),
    ]


def _only_if(argument: int, values: Sequence[int]) -> list[_Instruction]:
    """Allow if the low half of an argument is one of ``values``."""
    code = [_load_argument(argument)]
    code += [(_JUMP_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [*code, _refuse(), _return(_ALLOW)]


def _load(offset: int) -> _Instruction:
    return (_LOAD, 0, 0, offset)


def _load_argument(index: int) -> _Instruction:
    return _load(_ARGUMENTS + 8 * index)


def _return(action: int) -> _Instruction:
    return (_RETURN, 0, 0, action)


def _refuse() -> _Instruction:
    return _return(_ERRNO | errno.EPERM)


def _ranges(actions: dict[int, int], default: int = _ERRNO | errno.ENOSYS) -> list[tuple[int, int]]:
    """Sorted ``(first number, action)``; each holds up to the next. Numbers in no list: the default."""
    starts: list[tuple[int, int]] = []
    for number in range(max(actions) + 2):
        action = actions.get(number, default)
        if not starts or starts[-1][1] != action:
            starts.append((number, action))
    return starts


def _search(starts: list[tuple[int, int]]) -> list[_Instruction]:
    """Binary search over ranges: the kernel runs the filter for every number when it is installed."""
    if len(starts) == 1:
        return [_return(starts[0][1])]
    middle = len(starts) // 2
    low, high = _search(starts[:middle]), _search(starts[middle:])
    if len(low) > 255:
        raise ValueError("the filter is too long for one jump")
    return [(_JUMP_GREATER_EQUAL, len(low), 0, starts[middle][0]), *low, *high]
