"""The program's process, with as little as possible around the program.

Everything here shares an address space with the program and is not trusted. This process reports the values that the
program's functions return. Processes that the program cannot reach decide whether the values are right. Only the
arguments of a test's calls ever arrive here.

At the end of a whole program, a real shutdown would cost more than most programs do: it takes apart all modules that
were loaded before the fork. This process only does what a program can notice: its threads end, its exit functions run,
and its objects are released, so that ``__del__`` runs and files that were left open are written out.
"""

from __future__ import annotations

import _thread
import atexit
import builtins
import contextlib
import gc
import io
import json
import linecache
import marshal
import os
import resource
import sys
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any, NoReturn

from lit_rl.execution.wire import plain
from lit_rl.execution.wire.bounded_json import MAX_CALL_LENGTH, NotCarried, checked_json_text
from lit_rl.execution.wire.channel import Channel
from lit_rl.execution.wire.errors import FILE_NAME, NotCompiled, describe_exception, exception_from_description

# Looked up once, for all forks, and so that a program cannot replace them.
_num_threads, _run_exit_functions, _modules = _thread._count, atexit._run_exitfuncs, sys.modules
_collect, _objects = gc.collect, gc.get_objects
# A program that leaves something to be written out has one of these words in its source. Looking at its objects instead
# would copy the memory of many types that the fork shares.
_FINISHING = ("__del__", "open", "IO", "Buffered", "writer", "detach", "yield", "exec", "eval")
_STDOUT_BUFFER = getattr(sys.__stdout__, "buffer", None)  # a program may detach it
_TEXT, _BUFFERED = io.TextIOWrapper, (io.BufferedWriter, io.BufferedRandom, io.BufferedRWPair)


def finish_program(source: str, print_traceback: Callable[[BaseException], None]) -> None:
    """End the program that ran as ``__main__``."""
    for step in (_join_threads, _run_exit_functions, flush_streams):
        _run_or_print_error(step, print_traceback)
    if any(word in source for word in _FINISHING):
        for step in (_flush_open_files, _release_globals, flush_streams, _flush_open_files):
            _run_or_print_error(step, print_traceback)


def _run_or_print_error(step: Callable[[], Any], print_traceback: Callable[[BaseException], None]) -> None:
    try:
        step()
    except BaseException as error:
        print_traceback(error)


def flush_streams() -> None:
    """Write out what the program printed."""
    for stream in (sys.stdout, sys.stderr, sys.__stdout__, sys.__stderr__, _STDOUT_BUFFER):
        _flush_or_ignore(stream)


def _flush_or_ignore(file: Any) -> None:
    try:  # noqa: SIM105 - each program does this, and a context manager would cost it copies of memory
        file.flush()
    except BaseException:  # it is closed, detached or None
        pass


def _join_threads() -> None:
    if _num_threads() and "threading" in _modules:
        _modules["threading"]._shutdown()


def _release_globals() -> None:
    """Release the program's globals: most have no other reference, and a cycle through them is collected."""
    _modules.pop("__main__", None)
    _collect()


def _flush_open_files() -> None:
    """Write out every open file: text files first, because they write into the others.

    This is done before the globals are released, because in a cycle a file may be closed before its text is written;
    and again afterwards, for what ``__del__`` wrote and for files that a thread or another module holds.
    """
    files = [thing for thing in _objects() if issubclass(type(thing), (_TEXT, *_BUFFERED))]
    for kinds in ((_TEXT,), _BUFFERED):
        for file in files:
            if issubclass(type(file), kinds):
                _flush_or_ignore(file)


JOB, CHANNEL = 3, 4  # descriptors, after 0, 1 and 2
NOT_PYTHON, OUT_OF_MEMORY = 71, 72
"""Exit statuses for a source that does not compile, and for a program that ended with a ``MemoryError``."""

PROGRAM = 40  # descriptor to execute; it lies above all that the program itself can open, see ``_exec_program``

Namespace = dict[str, Any]

# Looked up once, for all forks: following a name to its object in a child writes to memory, which the kernel then
# copies. The fewer objects a small program needs, the sooner it starts.
_loads, _pread, _lseek, _close, _exit = marshal.loads, os.pread, os.lseek, os.close, os._exit
_SEEK_END = os.SEEK_END
_modules, _shown_lines = sys.modules, linecache.cache
_line = Channel(CHANNEL).send


def run_job() -> NoReturn:
    """Read the job from its descriptor, run it, and exit without the zygote's clean-up."""
    status = 1
    try:
        job = _loads(_pread(JOB, _lseek(JOB, 0, _SEEK_END), 0))
        if not job.get("answers"):
            _close(JOB)
        status = MODES[job["mode"]](job)
    except BaseException as error:
        print_traceback(error)
    finally:
        flush_streams()
        _exit(status)


def _run_stdio_program(job: dict[str, Any]) -> int:
    """Run a whole program between its stdin and stdout, and end it as the interpreter would."""
    status = 0
    try:
        execute_as_module(job, "__main__")
    except BaseException as error:
        status = _status_after_printing_error(error)
        if status:
            os.write(CHANNEL, json.dumps(describe_exception(error)).encode())
    finish_program(job["source"], print_traceback)
    return status


def _run_calls_job(job: dict[str, Any]) -> int:
    """Make calls with plain arguments; write one line per call with its result."""
    try:
        namespace = execute_as_module(job, "program")
    except BaseException as error:
        _line(json.dumps(describe_exception(error)))
        return exit_status_of_error(error)
    _line("{}")
    status = 0
    for call in job["calls"]:
        try:
            # Packed one by one: no call sees what an earlier call did to its arguments.
            if type(call) is bytes:
                name, values, kwargs = marshal.loads(call)
            else:  # trees, because marshal does not know all their types
                name, values, kwargs = call[0], *[plain.from_json_tree(tree, _refuse_object_tree) for tree in call[1:]]
            result = find_function(namespace, name)(*values, **kwargs)
            _line(plain.dumps_or_reason(values[0] if job.get("in_place") else result))
        except BaseException as error:
            _line(json.dumps(describe_exception(error)))
            status = OUT_OF_MEMORY if isinstance(error, MemoryError) else status
    return status


def exit_status_of_error(error: BaseException) -> int:
    """Return the exit status of a process that ended with an exception."""
    return OUT_OF_MEMORY if isinstance(error, MemoryError) else 1


def _check_syntax(job: dict[str, Any]) -> int:
    """Compile the source and run none of it, so that no program can affect this process's report."""
    try:
        compile(job["source"], FILE_NAME, "exec", 0, True)
    except BaseException:
        return NOT_PYTHON
    return 0


def _run_hosted_program(job: dict[str, Any]) -> int:
    """Run a program whose named functions live in the supervisor; see ``hosting``."""
    channel = Channel(CHANNEL)

    def bind(name: str) -> Callable[..., Any]:
        def function(*args: Any, **kwargs: Any) -> Any:
            try:
                call = checked_json_text(
                    f'["call",{json.dumps(name)},{plain.dumps(args)},{plain.dumps(kwargs)}]', MAX_CALL_LENGTH
                )
            except NotCarried as error:
                call = json.dumps(["call", name, plain.not_carried_tree(error), ["d"]])
            channel.send(call)
            kind, answer = json.loads(channel.receive())
            if kind == "value":
                return plain.from_json_tree(answer, _refuse_object_tree)
            raise exception_from_description(answer)

        function.__name__ = function.__qualname__ = name
        return function

    try:
        time.sleep = lambda seconds: None
        namespace = execute_as_module(job, "program", {name: bind(name) for name in job["functions"]})
        if job["entry_point"]:
            find_function(namespace, job["entry_point"])()
    except BaseException as error:
        status = _status_after_printing_error(error) if isinstance(error, SystemExit) else exit_status_of_error(error)
        if status:
            channel.send(json.dumps(["end", describe_exception(error)]))
            return status
    channel.send('["end",null]')
    return 0


def _exec_program(job: dict[str, Any]) -> int:
    """Become the program in the channel's descriptor, or the runtime that finds the program there.

    If a driver's answers are wanted, the job's own descriptor is emptied and takes them.
    """
    if job["answers"]:
        os.ftruncate(JOB, os.lseek(JOB, 0, os.SEEK_SET))
        os.set_inheritable(JOB, True)
    command = job["command"]
    os.set_inheritable(CHANNEL, True)
    os.dup2(os.open(command[0], os.O_RDONLY) if command else CHANNEL, PROGRAM, inheritable=False)
    os.closerange(CHANNEL + bool(command), PROGRAM)
    # The filter lets descriptor 40 be executed. It is then closed, and no other descriptor can get its number.
    resource.setrlimit(resource.RLIMIT_NOFILE, (32, 32))
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    bounds = [size for size in (job["stack_bytes"], hard) if size != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_STACK, (min(bounds, default=resource.RLIM_INFINITY), hard))
    os.execve(PROGRAM, [*(command or ["program"]), *job["arguments"]], job["environment"])
    return 70


def _run_checker(job: dict[str, Any]) -> int:
    """Run a checker with its files in the work folder; its arguments are the names of the files that it compares."""
    write_files(job["files"])
    sys.argv[1:] = job["arguments"]
    sys.path.insert(0, os.getcwd())
    return _run_stdio_program(job) if "source" in job else _exec_program(job)


def write_files(files: dict[str, bytes]) -> None:
    """Write files of a job into the work folder."""
    for name, content in files.items():
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        with open(name, "xb") as file:
            file.write(content)


MODES: dict[str, Callable[[dict[str, Any]], int]] = {
    "stdio": _run_stdio_program,
    "calls": _run_calls_job,
    "host": _run_hosted_program,
    "parse": _check_syntax,
    "run": _exec_program,
    "check": _run_checker,
}
"""Functions that a job may ask for: each gets the job and returns an exit status. The zygote adds its own."""


def execute_as_module(job: dict[str, Any], name: str, bound: Namespace | None = None) -> Namespace:
    """Compile and run the program's source as the module ``name``; return its namespace.

    The module is registered, so that pickle and dataclasses find the program's classes.
    """
    module = ModuleType(name)
    _modules[name] = _modules["__main__"] = module
    namespace = module.__dict__
    namespace["__file__"], namespace["__builtins__"] = FILE_NAME, builtins
    if bound:
        namespace.update(bound)
    source = job["source"]
    try:
        code = compile(source, FILE_NAME, "exec", 0, True)  # without this file's future imports
    except (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError, UnicodeError) as error:
        raise NotCompiled(error) from error
    # So that inspect.getsource and tracebacks of the program show its lines.
    _shown_lines[FILE_NAME] = (len(source), None, source.splitlines(True), FILE_NAME)
    exec(code, namespace)
    return namespace


def find_function(namespace: Namespace, name: str) -> Any:
    """Return the function ``name``: ``f``, ``Class.method`` (of a fresh instance), or a method of ``Solution``."""
    head, _, method = name.partition(".")
    if method:
        owner = namespace.get(head)
        if owner is not None:
            return getattr(owner() if isinstance(owner, type) else owner, method)
        head = method
    if head in namespace:
        return namespace[head]
    solution = namespace.get("Solution")
    if isinstance(solution, type) and hasattr(solution, head):
        return getattr(solution(), head)
    raise NameError(f"the program defines no {name}")


def _refuse_object_tree(tree: list[Any]) -> Any:
    raise plain.NotPlain("an object where plain data belongs")


def _status_after_printing_error(error: BaseException) -> int:
    """Return the exit status that the interpreter would give; print the traceback to stderr."""
    if isinstance(error, SystemExit):
        if error.code is None or isinstance(error.code, int):
            return (error.code or 0) & 0xFF
        print(error.code, file=sys.stderr)
        return 1
    print_traceback(error)
    return exit_status_of_error(error)


def print_traceback(error: BaseException) -> None:
    """Print the traceback of a program's exception, without the frames around the program."""
    shown = error.cause if isinstance(error, NotCompiled) else error
    trace = shown.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename != FILE_NAME:
        trace = trace.tb_next
    with contextlib.suppress(BaseException):
        sys.excepthook(type(shown), shown.with_traceback(trace), trace)
