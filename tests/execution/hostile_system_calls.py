# ruff: noqa: E501 - programs are kept on one line each where they fit a screen
"""Programs that reach for other processes, or for what the kernel counts by user, past Python's own functions.

Written with the sandbox's source at hand. ``call(name, ...)`` is a raw system call by the number it has here, so that
an attack does not fail only because the C library or Python knows no function for it.
"""

import platform
import textwrap

from hostile_programs import attack

from lit_rl.execution.confinement.system_calls import NUMBERS

_RAW = """
import ctypes, fcntl, glob, mmap, os, signal, socket, struct, threading, time
_syscall = ctypes.CDLL(None, use_errno=True).syscall
_syscall.restype = ctypes.c_long
_numbers = {numbers}
def call(name, *arguments):
    number = _numbers.get(name, name)
    wide = [ctypes.c_long(x) if isinstance(x, int) else x for x in arguments]
    return _syscall(ctypes.c_long(number), *wide)
def of_the_sandbox(pid):
    try: return open(f'/proc/{pid}/comm').read().startswith('lit_rl')
    except OSError: return True  # files are guarded: try whatever it is
def others():
    me = os.getpid()
    found = [pid for pid in (me - 1, me + 1, me - 2, me - 3, os.getppid(), 1) if pid > 0 and pid != me and of_the_sandbox(pid)]
    return [*found, *([$PID] if $PID else [])]
def any_works(name, *before, after=()):
    return any(call(name, *before, pid, *after) >= 0 for pid in others())
"""
_USED = """
    ioprio_set fcntl kill tgkill tkill rt_sigqueueinfo rt_tgsigqueueinfo prlimit64 setpriority sched_setscheduler
    sched_setparam sched_setattr sched_setaffinity get_robust_list kcmp process_vm_readv process_madvise pidfd_open
    pidfd_getfd timer_create mq_notify mq_open clone setns unshare openat2 open truncate perf_event_open prctl
"""


def raw(body: str) -> str:
    """An attack with ``call`` and its like at hand."""
    numbers = {name: NUMBERS[platform.machine()][name] for name in _USED.split() if name in NUMBERS[platform.machine()]}
    return attack(_RAW.replace("{numbers}", repr(numbers)) + textwrap.dedent(body))


_WAKE = """
    def signal_all(number):
        for pid in others():
            left, right = socket.socketpair()
            for setting in ((8, pid), (10, number), (4, os.O_ASYNC | os.O_NONBLOCK)):
                call('fcntl', left.fileno(), *setting)
            right.send(b'x')
"""

# --- one child of the zygote to another, to the zygote, the supervisor, the trainer --------------------------

OTHER_PROCESSES = {
    "opens_descriptors_of_others": raw("""
        for pid in others():
            for number in range(10):
                try: return os.open(f'/proc/{pid}/fd/{number}', os.O_RDWR) >= 0
                except OSError: pass
    """),
    "writes_the_graders_result": raw(
        _WAKE
        + """
    for pid in others():
        for number in range(1, 8):
            try:
                descriptor = os.open(f'/proc/{pid}/fd/{number}', os.O_RDWR)
                os.pwrite(descriptor, b'["passed", null, null, 3]', 0)
            except OSError: pass
    signal_all(signal.SIGINT)
    time.sleep(0.05)
    os._exit(0)
    """
    ),
    "stops_the_others": raw(_WAKE + "    signal_all(signal.SIGSTOP)\n    return False"),
    "kills_the_others": raw(_WAKE + "    signal_all(signal.SIGKILL)\n    return False"),
    "interrupts_the_others": raw(_WAKE + "    signal_all(signal.SIGINT)\n    return False"),
    "reads_memory_of_others": raw("""
        for pid in others():
            for name in ('mem', 'environ', 'maps', 'auxv', 'pagemap', 'syscall', 'stack', 'io', 'map_files', 'fd', 'fdinfo'):
                try:
                    path = f'/proc/{pid}/{name}'
                    if os.path.isdir(path): return os.listdir(path)
                    if os.open(path, os.O_RDONLY) >= 0: return True
                except OSError: pass
    """),
    "writes_settings_of_others": raw("""
        for pid in others():
            for name in ('mem', 'comm', 'autogroup', 'sched', 'timerslack_ns', 'coredump_filter', 'clear_refs', 'oom_score_adj', 'loginuid', 'task/%d/comm' % pid):
                try: descriptor = os.open(f'/proc/{pid}/{name}', os.O_WRONLY)
                except OSError: continue
                if name == 'mem': return True
                try: return os.write(descriptor, b'1') > 0
                except OSError: pass
    """),
    "follows_links_of_others": raw("""
        for pid in others():
            for name in ('exe', 'cwd', 'root', 'ns/mnt', 'ns/user'):
                try: return os.readlink(f'/proc/{pid}/{name}')
                except OSError: pass
    """),
    "queues_signals": raw("""
        info = (ctypes.c_int * 32)(0, 0, -1)
        return any_works('rt_sigqueueinfo', after=(0, info)) or any(call('rt_tgsigqueueinfo', p, p, 0, info) >= 0 for p in others())
    """),
    "asks_who_is_alive": raw("""
        return any(call(n, *a, 0) >= 0 for p in others() for n, a in (('kill', [p]), ('tgkill', [p, p]), ('tkill', [p])))
    """),
    "reads_limits_of_others": raw(
        "old = (ctypes.c_long * 2)()\nreturn any(call('prlimit64', p, 7, 0, old) == 0 for p in others())"
    ),
    "slows_others": raw(
        "return any(call('setpriority', 0, p, 19) == 0 for p in others()) or call('setpriority', 1, 0, 19) == 0 or call('setpriority', 2, 0, 19) == 0"
    ),
    "reschedules_others": raw("""
        parameter = (ctypes.c_int * 16)(48, 5)
        return any(call(n, p, *rest) == 0 for p in others() for n, *rest in (('sched_setscheduler', 5, parameter), ('sched_setparam', parameter), ('sched_setattr', parameter, 0)))
    """),
    "pins_others": raw("return any(call('sched_setaffinity', p, 8, (ctypes.c_ulong * 1)(1)) == 0 for p in others())"),
    "delays_reading_of_others": raw("return any(call('ioprio_set', 1, p, 3 << 13) == 0 for p in others())"),
    "robust_list_of_others": raw("""
        where, size = ctypes.c_void_p(), ctypes.c_size_t()
        return any(call('get_robust_list', p, ctypes.byref(where), ctypes.byref(size)) == 0 for p in others())
    """),
    "compares_with_others": raw(
        "return any(call('kcmp', os.getpid(), p, kind, 1, 1) >= 0 for p in others() for kind in (0, 1, 2))"
    ),
    "advises_memory_of_others": raw("""
        for pid in others():
            handle = call('pidfd_open', pid, 0)
            if handle >= 0: return True
        left, _ = socket.socketpair()
        for number in (77,):  # SO_PEERPIDFD
            try: handle = struct.unpack('i', left.getsockopt(socket.SOL_SOCKET, number, 4))[0]
            except OSError: continue
            if call('pidfd_getfd', handle, 0, 0) >= 0 or call(448, handle, 0) >= 0: return True
            if call('process_madvise', handle, None, 0, 21, 0) >= 0: return True
    """),
    "watches_performance_of_others": raw("""
        attributes = (ctypes.c_uint32 * 32)(1, 128, 0)
        return any(call('perf_event_open', attributes, p, -1, -1, 0) >= 0 for p in others())
    """),
}

# --- signals that the kernel sends on a program's behalf -----------------------------------------------------

_COMMANDS = {"owner": 8, "signal_number": 10, "owner_by_kind": 15, "lease": 1024, "folder_notes": 1026, "seals": 1033}
_REQUESTS = {
    "owner": 0x8901,
    "socket_owner": 0x8902,
    "asynchronous": 0x5452,
    "group": 0x5410,
    "control": 0x540E,
    "console": 0x541C,
    "hang_up": 0x5437,
}
SENT_SIGNALS = {
    f"descriptor_command_{name}": raw(f"""
        inside, outside = os.pipe()
        pair = (ctypes.c_int * 2)(1, os.getppid())
        return any(call('fcntl', d, {number}, v) >= 0 for d in (0, 1, 4, inside, os.open('.', 0)) for v in (0, 1, os.getppid(), pair))
    """)
    for name, number in _COMMANDS.items()
} | {
    f"descriptor_request_{name}": raw(f"""
        left, _ = socket.socketpair()
        value = (ctypes.c_int * 4)(os.getppid())
        return any(call({16 if platform.machine() == "x86_64" else 29}, d, {number} | high, value) >= 0 for d in (0, 1, 2, 4, left.fileno()) for high in (0, 1 << 32))
    """)
    for name, number in _REQUESTS.items()
}
SENT_SIGNALS |= {
    "timer_for_another_thread": raw("""
        event = (ctypes.c_int * 16)(0, 0, signal.SIGKILL, 4)
        for pid in others():
            event[4] = pid
            if call('timer_create', 1, event, (ctypes.c_int * 2)()) == 0: return True
    """),
    "timer_that_kills": raw(
        "event = (ctypes.c_int * 16)(0, 0, signal.SIGKILL, 0)\nreturn call('timer_create', 1, event, (ctypes.c_int * 2)()) == 0"
    ),
    "queue_that_signals": raw(
        "return call('mq_open', b'q', 0o102, 0o600, None) >= 0 or call('mq_notify', 4, (ctypes.c_int * 16)()) == 0"
    ),
    "signal_at_the_end_of_its_parent": raw(
        "return call('prctl', 1, signal.SIGKILL, 0, 0, 0) == 0 or call('prctl', 36, 1, 0, 0, 0) == 0"
    ),
    "thread_that_signals_at_its_end": raw(
        "return call('clone', 0x10100 | 0x8000 | 17, 0, 0, 0, 0) > 0 or call('clone', 0x4100 | 17, 0, 0, 0, 0) > 0"
    ),
}

# --- what the kernel counts by user, and what only it guards ---------------------------------------------------

SHARED = {
    "thousands_of_bare_threads": raw("""
        machine = bytes.fromhex('b82200000031ff31f631d20f05ebf2')  # pause, for ever
        if os.uname().machine != 'x86_64': return False
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(machine)
        entry = ctypes.addressof(ctypes.c_char.from_buffer(code))
        stack = mmap.mmap(-1, 4096)
        stack[2048:2056] = struct.pack('Q', entry)  # where the C library's clone finds its function
        top = ctypes.addressof(ctypes.c_char.from_buffer(stack)) + 1024
        clone = ctypes.CDLL(None).clone
        clone.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        told = ctypes.create_string_buffer(256)
        ctypes.CDLL(None).sysinfo(told)
        (tasks,), made = struct.unpack_from('H', told, 80), 0  # of the whole machine
        while made < 4000 and clone(entry, top, 0x10f00, None) > 0: made += 1
        return made > 600 + tasks
    """),
    "raises_its_number_of_threads": raw("""
        import resource
        before = resource.getrlimit(resource.RLIMIT_NPROC)
        for wanted in ((before[1], before[1]), (-1, -1), (1 << 20, 1 << 20)):
            try: resource.setrlimit(resource.RLIMIT_NPROC, wanted)
            except (OSError, ValueError): pass
            if call('prlimit64', 0, 6, (ctypes.c_long * 2)(*wanted), 0) == 0 and resource.getrlimit(resource.RLIMIT_NPROC) != before: return True
        return resource.getrlimit(resource.RLIMIT_NPROC) != before
    """),
    "queues_thousands_of_its_own_signals": raw("""
        signal.pthread_sigmask(signal.SIG_BLOCK, [40])
        for _ in range(3000): os.kill(os.getpid(), 40)
        queued = 0
        while signal.sigtimedwait([40], 0): queued += 1
        return queued > 1000
    """),
    "long_pipes": raw("inside, outside = os.pipe()\nreturn fcntl.fcntl(outside, 1031, 1 << 20) >= 1 << 20"),
    "code_in_a_socket": raw("""
        left, _ = socket.socketpair()
        code = ctypes.create_string_buffer(struct.pack('HBBI', 6, 0, 0, 0))
        left.setsockopt(socket.SOL_SOCKET, 26, struct.pack('HxxxxxxQ', 1, ctypes.addressof(code)))
        return True
    """),
    "old_interface_of_32_bits": raw("""
        if os.uname().machine != 'x86_64': return False
        code = mmap.mmap(-1, 4096, prot=7)
        code.write(bytes.fromhex('b814000000cd80c3'))  # getpid as in 1995
        return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))() > 0
    """),
    "new_mount_calls": raw(
        "return any(call(n, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() not in (1, 38) for n in (428, 429, 430, 431, 432, 433, 442, 443, 447, 448))"
    ),
    "calls_of_the_future": raw(
        "return any(call(n, 0, 0, 0, 0, 0) >= 0 or ctypes.get_errno() != 38 for n in range(463, 600))"
    ),
    "namespaces_by_clone": raw(
        "return any(call('clone', flag | 0x10f00, 0, 0, 0, 0) > 0 for flag in (1 << 17, 1 << 25, 1 << 26, 1 << 27, 1 << 28, 1 << 29, 1 << 30))"
    ),
    "opens_by_structure": raw(
        "how = (ctypes.c_uint64 * 3)(os.O_TRUNC, 0, 0)\nreturn call('openat2', -100, b'$SECRET', how, 24) >= 0"
    ),
    "truncates_what_it_only_reads": raw("""
        import os as library
        for path in ('$SECRET', library.__file__):
            try: return os.open(path, os.O_RDONLY | os.O_TRUNC) >= 0
            except OSError: pass
    """),
    "changes_a_library_by_its_second_name": raw("""
        for path in (os.__file__, glob.glob('/usr/lib/*/libc.so.6')[0]):
            for name, make in (('one', os.link), ('two', os.symlink)):
                try:
                    make(path, name)
                    return os.open(name, os.O_WRONLY) >= 0
                except OSError: pass
    """),
}

PACKAGES = {
    "looks_into_system_packages": raw("""
        for pattern in ('/usr/lib/python3*/dist-packages/*', '/usr/lib/python3*/site-packages/*', '/usr/local/lib*/python3*/*-packages/*',
                        '/usr/lib64/python3*/site-packages/*', '/usr/local/lib/*', '/usr/lib/node_modules/*', '/usr/lib/ruby/*', '/root/.local/lib/*/*/*', '/home/*/.local/lib/*'):
            for path in glob.glob(pattern):
                try:
                    if '.so' in os.path.basename(path) or os.path.isdir(path) and not os.listdir(path): continue
                    if os.path.isdir(path) or os.open(path, os.O_RDONLY) >= 0: return path
                except OSError: pass
    """),
}

SYSTEM_CALLS = OTHER_PROCESSES | SENT_SIGNALS | SHARED | PACKAGES
