"""Assembling and installing a system-call filter: classic BPF, no library.

A block is a list of instructions that decides about one call by its arguments and returns on every path.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from collections.abc import Callable, Mapping, Sequence

from lit_rl.execution.confinement.kernel import MACHINE, PR_SET_SECCOMP, bare_prctl, check, libc
from lit_rl.execution.confinement.system_calls import NUMBERS

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
_LONGEST_JUMP = 255  # of a conditional jump
_MODE_FILTER = 2
_ARCHITECTURE = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NR, _ARCH, _ARGUMENTS = 0, 4, 16
_X32 = 0x40000000


class Filter:
    """An assembled filter, to be installed in many processes.

    Args:
        actions: what to do with a call, by its name.
        blocks: calls whose arguments decide, by their names.
        default: what to do with all others.

    ``install()`` puts the calling process under the filter for good; it needs ``no_new_privs``.
    """

    def __init__(self, actions: Mapping[str, int], blocks: Mapping[str, Block], default: int = UNKNOWN) -> None:
        numbers = NUMBERS[MACHINE]
        decided = {name: always(action) for name, action in actions.items()} | dict(blocks)
        known = {numbers[name]: block for name, block in decided.items() if name in numbers}
        code = [*_head(), *_search(_ranges(known, always(default)))]
        packed = b"".join(struct.pack("=HBBI", *part) for part in code)
        buffer = ctypes.create_string_buffer(packed, len(packed))
        program = ctypes.create_string_buffer(struct.pack("=HxxxxxxQ", len(code), ctypes.addressof(buffer)), 16)
        words = memoryview(buffer).cast("B").cast("I")
        pid_words = tuple(2 * i + 1 for i, part in enumerate(code) if part[3] == OWN_PID)
        getpid = os.getpid

        # Not a method: runs in every fork, and each attribute looked up there is memory copied.
        def install() -> None:
            pid = getpid()
            for index in pid_words:
                words[index] = pid
            if bare_prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0):
                check(libc.prctl(PR_SET_SECCOMP, _MODE_FILTER, program, 0, 0), "seccomp filter")  # for its error

        self.install: Callable[[], None] = install


def always(action: int) -> Block:
    """A block that decides without looking at the arguments."""
    return [(_RETURN, 0, 0, action)]


def only_if(
    argument: int, values: Sequence[int], then: Block | None = None, otherwise: int = REFUSE, mask: int | None = None
) -> Block:
    """Go on with ``then``, or allow, if the low half of an argument (after ``mask``, if given) is one of ``values``."""
    code = [_load(argument), *([] if mask is None else [(_AND, 0, 0, mask)])]
    code += [(_JUMP_EQUAL, len(values) - i, 0, value) for i, value in enumerate(values)]
    return [*code, *always(otherwise), *(then or always(ALLOW))]


def unless(argument: int, values: Sequence[int], action: int = REFUSE, mask: int | None = None) -> Block:
    """Allow unless the low half of an argument (after ``mask``, if given) is one of ``values``."""
    return only_if(argument, values, always(action), ALLOW, mask)


def if_any_bit(argument: int, bits: int, then: int, otherwise: Block) -> Block:
    """Decide by whether the low half of an argument has any of these bits."""
    return [_load(argument), (_JUMP_SET, 0, 1, bits), *always(then), *otherwise]


def if_null(argument: int, then: int, otherwise: Block) -> Block:
    """Decide by whether an argument, both halves of it, is zero."""
    found = [_load(argument), (_JUMP_EQUAL, 0, 3, 0), _load(argument, high=True), (_JUMP_EQUAL, 0, 1, 0)]
    return [*found, *always(then), *otherwise]


def _load(argument: int, high: bool = False) -> Instruction:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * argument + 4 * high)


def _head() -> Block:
    """Check the machine type, then load the number of the call."""
    code = [(_LOAD, 0, 0, _ARCH), (_JUMP_EQUAL, 1, 0, _ARCHITECTURE[MACHINE]), *always(_KILL), (_LOAD, 0, 0, _NR)]
    if MACHINE == "x86_64":
        code += [(_JUMP_GREATER_EQUAL, 0, 1, _X32), *always(_KILL)]
    return code


def _ranges(blocks: Mapping[int, Block], default: Block) -> list[tuple[int, Block]]:
    """Sorted ``(first number, block)``; each applies up to the next. Unlisted numbers get the default."""
    starts: list[tuple[int, Block]] = []
    for number in range(max(blocks, default=0) + 2):
        block = blocks.get(number, default)
        if not starts or starts[-1][1] != block:
            starts.append((number, block))
    return starts


def _search(starts: list[tuple[int, Block]]) -> Block:
    """Binary search over ranges: the kernel runs the filter for every number when it is installed."""
    if len(starts) == 1:
        return starts[0][1]
    middle = len(starts) // 2
    low, high = _search(starts[:middle]), _search(starts[middle:])
    if len(low) > _LONGEST_JUMP:
        return [(_JUMP_GREATER_EQUAL, 0, 1, starts[middle][0]), (_JUMP, 0, 0, len(low)), *low, *high]
    return [(_JUMP_GREATER_EQUAL, len(low), 0, starts[middle][0]), *low, *high]
