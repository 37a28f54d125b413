"""Programs that use the kernel as honest programs do, in ways that an eager filter or eager file rules break.

Function style: ``add(a, b) == a + b``, right only if what they tried worked.
"""

import textwrap


def checked(body: str) -> str:
    """A program that solves the task after ``body``, whose assertions must hold."""
    return textwrap.dedent(body) + "\ndef add(a, b): return a + b\n"


SYSTEM_CALLS = {
    "locks_its_files": checked("""
        import fcntl, os
        with open('a', 'w+') as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB, 5)
            fcntl.flock(file, fcntl.LOCK_EX)
            copy = fcntl.fcntl(file, fcntl.F_DUPFD_CLOEXEC, 10)
            assert copy >= 10 and fcntl.fcntl(copy, fcntl.F_GETFD) == fcntl.FD_CLOEXEC
            os.set_blocking(copy, False)
            assert not os.get_blocking(copy)
        inside, outside = os.pipe()
        assert fcntl.fcntl(inside, 1032) >= 4096  # how long the pipe is
    """),
    "uses_memory_and_files_of_its_own": checked("""
        import mmap, os, socket, tempfile, threading
        private = mmap.mmap(-1, 8192, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        private[:3] = b'abc'
        with tempfile.TemporaryFile() as file:
            file.write(b'x' * 8192)
            file.flush()
            shared = mmap.mmap(file.fileno(), 8192)
            shared[4096:4099] = private[:3]
            os.posix_fallocate(file.fileno(), 0, 16384)
            file.seek(4095)
            assert file.read(5) == b'xabcx' and os.fstat(file.fileno()).st_size == 16384
        os.closerange(40, 60)
        left, right = socket.socketpair()
        right.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        right.settimeout(5)
        threading.Thread(target=left.sendall, args=(b'x' * 1_000_000,)).start()
        received = 0
        while received < 1_000_000: received += len(right.recv(65536))
    """),
    "signals_itself": checked("""
        import os, signal, threading, time
        heard = []
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGALRM, signal.SIGHUP, signal.SIGRTMIN):
            signal.signal(number, lambda number, frame: heard.append(number))
        os.kill(os.getpid(), signal.SIGTERM)
        signal.raise_signal(signal.SIGUSR1)
        signal.pthread_kill(threading.get_ident(), signal.SIGHUP)
        os.kill(os.getpid(), signal.SIGRTMIN)
        signal.setitimer(signal.ITIMER_REAL, 0.001)
        while signal.SIGALRM not in heard: time.sleep(0.001)
        assert len(heard) == 5, heard
        try:
            os.kill(os.getpid(), signal.SIGINT)
            while True: time.sleep(0.01)
        except KeyboardInterrupt: pass
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == set()
    """),
    "waits_for_signals": checked("""
        import os, signal
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
        os.kill(os.getpid(), signal.SIGUSR2)
        assert signal.sigpending() == {signal.SIGUSR2}
        assert signal.sigwait([signal.SIGUSR2]) == signal.SIGUSR2
        assert signal.sigtimedwait([signal.SIGUSR2], 0.001) is None
        assert os.kill(os.getpid(), 0) is None
    """),
    "two_hundred_threads": checked("""
        import threading
        threading.stack_size(256 << 10)
        barrier, sums = threading.Barrier(201), []
        def work(i):
            barrier.wait()
            sums.append(i)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(200)]
        for thread in threads: thread.start()
        barrier.wait()
        for thread in threads: thread.join()
        assert sum(sums) == 199 * 100
    """),
    "shortens_its_files": checked("""
        import os
        with open('a', 'w') as file: file.write('x' * 100)
        with open('a', 'r+') as file: assert file.truncate(50) == 50
        assert os.path.getsize('a') == 50
        os.close(os.open('a', os.O_WRONLY | os.O_TRUNC))
        assert os.path.getsize('a') == 0
        os.close(os.open('a', os.O_RDWR | os.O_TRUNC | os.O_CREAT, 0o600))
    """),
    "moves_folders": checked("""
        import os, pathlib, shutil
        os.makedirs('a/b/c')
        pathlib.Path('a/b/c/f').write_text('5')
        shutil.copytree('a', 'copy')
        shutil.move('a/b/c/f', 'g')
        shutil.move('a/b', 'elsewhere')
        os.rename('elsewhere', 'again')
        assert sorted(os.listdir('.')) == ['a', 'again', 'copy', 'g'] and pathlib.Path('copy/b/c/f').read_text() == '5'
        shutil.rmtree('copy')
    """),
    "looks_at_itself": checked("""
        import os
        assert os.path.samestat(os.stat('/proc/self/fd/1'), os.fstat(1)) and os.readlink('/proc/self/exe')
        assert os.path.exists('/dev/fd/0') and open('/dev/fd/0').read() == ''
        assert os.stat('/dev/null').st_mode and open('/dev/null', 'w').write('x') == 1
        open('/dev/stdout', 'a').write('seen\\n')
        open('/dev/stderr', 'a').write('seen\\n')
    """),
    "limits_itself": checked("""
        import resource
        for name in ('CPU', 'NPROC', 'NOFILE', 'DATA', 'STACK'):
            which = getattr(resource, 'RLIMIT_' + name)
            soft, hard = resource.getrlimit(which)
            resource.setrlimit(which, (soft, hard))
        resource.setrlimit(resource.RLIMIT_CPU, (1000, 1000))
        assert len(resource.prlimit(0, resource.RLIMIT_NOFILE)) == 2
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > 0
    """),
    "watches_descriptors": checked("""
        import asyncio, os, select, signal, socket, threading
        left, right = socket.socketpair()
        right.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)
        left.settimeout(1)
        event, poll = os.eventfd(1) if hasattr(os, 'eventfd') else os.pipe()[0], select.epoll()
        poll.register(left, select.EPOLLIN)
        right.send(b'abc')
        assert poll.poll(1) and left.recv(9) == b'abc'
        async def main():
            loop, heard = asyncio.get_running_loop(), asyncio.Event()
            loop.add_signal_handler(signal.SIGUSR1, heard.set)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.wait_for(heard.wait(), 2)
            return await asyncio.to_thread(sum, (1, 2))
        assert asyncio.run(main()) == 3
    """),
    "shows_its_stack": checked("""
        import faulthandler, os, signal, sys
        faulthandler.enable()
        faulthandler.dump_traceback(open('t', 'w'))
        faulthandler.dump_traceback_later(60)
        faulthandler.cancel_dump_traceback_later()
        faulthandler.register(signal.SIGUSR1, open('u', 'w'))
        os.kill(os.getpid(), signal.SIGUSR1)
        assert 'most recent call first' in open('t').read() and os.path.getsize('u')
    """),
    "uses_every_library": checked("""
        import bz2, ctypes, curses, decimal, hashlib, locale, lzma, readline, sqlite3, ssl, uuid, zlib
        import ctypes.util, xml.parsers.expat, unicodedata, zoneinfo, tempfile, pathlib
        assert ctypes.CDLL('libm.so.6') and ctypes.CDLL('libc.so.6').abs(-3) == 3
        assert all(m.decompress(m.compress(b'x')) == b'x' for m in (bz2, lzma, zlib))
        assert len(hashlib.sha3_256(b'x').hexdigest()) == 64 and len(hashlib.new('sha512', b'x').hexdigest()) == 128
        locale.setlocale(locale.LC_ALL, 'C.UTF-8')
    """),
    "reads_and_maps_files": checked("""
        import mmap, os
        descriptor = os.open('a', os.O_RDWR | os.O_CREAT, 0o600)
        os.posix_fallocate(descriptor, 0, 8192)
        os.pwrite(descriptor, b'abc', 5)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_SEQUENTIAL)
        with mmap.mmap(descriptor, 8192) as view:
            view[0:2] = b'xy'
            view.flush()
            view.madvise(mmap.MADV_WILLNEED)
            view.resize(4096)
        other = os.open('b', os.O_RDWR | os.O_CREAT, 0o600)
        assert os.sendfile(other, descriptor, 0, 8) == 8 and os.pread(other, 8, 0) == b'xy\\0\\0\\0abc'
        os.chmod('b', 0o400), os.utime('b', (1, 1)), os.sync_file_range if hasattr(os, 'sync_file_range') else 0
        os.fsync(other), os.fdatasync(other), os.close(other)
    """),
}
