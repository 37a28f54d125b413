"""Programs that call functions of an object which lives in the supervisor.

The program's process gets stand-ins of the names in ``Host.functions``, bound in the program's globals. A
call leaves as plain data, ``Host.call`` runs *here*, and its answer goes back as plain data. So what the
object knows, and the trace it keeps, are out of the program's reach, and are still there when the program has
been killed.

An exception that ``call`` raises becomes an exception that the program can catch. It is of the nearest builtin
type, under the name of the type that was raised. The arguments of ``call`` are plain data of exact builtin types,
with ``plain.Opaque`` in place of the program's own objects.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

from lit_rl.execution.interface import Outcome, Verdict
from lit_rl.execution.judging.calls import refuse_object
from lit_rl.execution.judging.supervising.child_files import ChildFiles
from lit_rl.execution.judging.supervising.jobs import JobReport, ZygoteClient
from lit_rl.execution.judging.supervising.own_limits import SupervisorTooSlow, limit_cpu_seconds
from lit_rl.execution.judging.verdicts import describe_exit, outcome_of_child, verdict_of_child, verdict_of_error
from lit_rl.execution.wire import plain
from lit_rl.execution.wire.bounded_json import MAX_CALL_LENGTH, describe_not_carried
from lit_rl.execution.wire.channel import Channel, ChannelClosed, LineTooLong
from lit_rl.execution.wire.printable import make_printable
from lit_rl.execution.wire.program_messages import (
    MAX_MESSAGE_LENGTH,
    Description,
    HostedCall,
    HostedProgramEnd,
    parse_hosted_message,
)
from lit_rl.execution.zygote.zygote import OUT_OF_CPU, STOPPED

_MAX_BYTES = 8 << 20  # of all calls of a run: ten thousand calls of 800 bytes, longer than any order to a robot


class Host(Protocol):
    """An object whose functions a program may call."""

    functions: tuple[str, ...]

    def call(self, name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Answer one call with plain data, or raise an exception, which the program then gets."""


class HostedResult(NamedTuple):
    """Result of a program that ran with a host.

    Args:
        verdict: ``passed`` if the entry point returned; ``timed_out`` after a time limit or too many calls.
        outcome: the verdict with exception type, line, output tails and seconds.
        message: text of the exception that ended the program, as the program reported it.
    """

    verdict: Verdict
    outcome: Outcome
    message: str


def run_hosted(
    client: ZygoteClient,
    program: str,
    host: Host,
    *,
    entry_point: str,
    timeout_seconds: float,
    max_calls: int = 10_000,
) -> HostedResult:
    """Run a program, and its argument-less function ``entry_point``, with the functions of ``host``.

    In the program, ``time.sleep`` returns immediately. CPU seconds count for the program and the host together. At the
    call after ``max_calls``, the program is killed, and the verdict is ``timed_out``.
    """
    theirs, ours = socket.socketpair()
    job = {"mode": "host", "source": program, "functions": list(host.functions), "entry_point": entry_point}
    with ours, ChildFiles(job, channel=theirs.detach()) as child:
        ours.setblocking(False)
        client.start([child], timeout_seconds)
        child.close_channel()  # so that the end of the program is the end of the stream
        session = _HostSession(
            client, program, host, Channel(ours.fileno(), MAX_CALL_LENGTH), timeout_seconds, max_calls
        )
        report = session.serve()
        return session.result(client, child, report)


class _HostSession:
    """Session that answers calls until the program's process ends; it never waits for the program alone.

    Until an answer is sent completely, nothing is read: a program that does not read its answers has to wait itself.
    """

    def __init__(
        self, client: ZygoteClient, program: str, host: Host, channel: Channel, seconds: float, max_calls: int
    ) -> None:
        self._client, self._program, self._host, self._channel = client, program, host, channel
        self._seconds_left, self._max_calls = seconds, max_calls
        self._num_calls = self._num_bytes = 0
        self._line: bytes | None = None
        self._listening = True
        self._is_over = self._ended = False
        self._error: Description | None = None
        self._refused: plain.NotCarried | None = None

    def serve(self) -> JobReport:
        """Answer calls until the zygote reports the end of the job."""
        while True:
            events = select.POLLIN if self._line is None and not self._channel.unsent else select.POLLOUT
            report = self._client.wait_for_report(self._channel.descriptor if self._listening else None, events)
            if report is not None:
                while self._listening and self._exchange_within_limits():  # what the program sent before it ended
                    pass
                return report
            if not self._exchange_within_limits():
                self._stop_program(is_limit=False)  # the channel was ready: only an urgent byte cannot be read

    def _exchange_within_limits(self) -> bool:
        """Read or write what the channel is ready for, on the program's time; return whether anything was done."""
        began = time.thread_time()
        try:
            with limit_cpu_seconds(self._seconds_left):
                return self._exchange_message()
        except (LineTooLong, plain.NotPlain) as error:
            self._refused = error if isinstance(error, plain.NotCarried) else None
            self._stop_program(is_limit=False)
        except ChannelClosed:
            self._listening = False
        except SupervisorTooSlow:
            self._seconds_left = 0.0
        finally:
            spent = time.thread_time() - began
            self._client.charge_cpu_seconds(spent)
            self._seconds_left -= spent
            if self._seconds_left <= 0:
                self._stop_program(OUT_OF_CPU)
        return True

    def _exchange_message(self) -> bool:
        if self._channel.unsent:
            self._channel.flush()
            return True
        if self._line is None:
            if not self._channel.read_available():
                return False
            self._line = self._channel.take_line()
        if self._line is not None:
            self._handle_message(self._line)
            self._line = self._channel.take_line()
        return True

    def _stop_program(self, cause: int = STOPPED, is_limit: bool = True) -> None:
        """End the program at a limit, or after a message that no honest one sends, lest it run to its wall limit."""
        self._is_over, self._listening = self._is_over or is_limit, False
        self._client.stop(cause)

    def _handle_message(self, line: bytes) -> None:
        if self._ended:
            return
        self._num_bytes += len(line)
        if self._num_bytes > _MAX_BYTES:
            raise LineTooLong(f"calls of more than {_MAX_BYTES} bytes together")
        message = parse_hosted_message(line)
        if isinstance(message, HostedProgramEnd):
            self._ended, self._error = True, message.error
            return
        self._num_calls += 1
        if self._num_calls > self._max_calls:
            self._stop_program()
        else:
            self._channel.send(self._host_answer(message))

    def _host_answer(self, call: HostedCall) -> str:
        if call.name not in self._host.functions:
            raise plain.NotPlain(f"a call of {call.name[:100]!r}, which the host does not have")
        try:
            value = self._host.call(*call)
            return json.dumps(["value", plain.to_json_tree(value, refuse_object)])
        except Exception as error:
            types = [kind.__name__ for kind in type(error).__mro__ if kind is not object]
            return json.dumps(["error", {"types": types, "message": host_error_message(error)}])

    def result(self, client: ZygoteClient, child: ChildFiles, report: JobReport) -> HostedResult:
        """Return the result of the run; a program that ended without its last message did not return."""
        verdict = verdict_of_child(client, child, report)
        if self._is_over and verdict not in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            verdict = Verdict.TIMED_OUT
        elif self._refused is not None and verdict not in (Verdict.OUT_OF_MEMORY, Verdict.OUTPUT_LIMIT):
            verdict, self._error = Verdict.WRONG_ANSWER, describe_not_carried(self._refused)
        elif self._error is not None and verdict in (None, Verdict.EXCEPTION):
            verdict = verdict_of_error(client, self._program, self._error, report.children[0].status)
        elif verdict is None:
            verdict = Verdict.PASSED if self._ended else Verdict.EXCEPTION
        error = self._error
        if verdict is Verdict.EXCEPTION and error is None:
            error = describe_exit(report.children[0].status)
        message = str((error or {}).get("message", ""))
        outcome = outcome_of_child(verdict, [], child, report, error)
        return HostedResult(verdict, outcome, message)


def host_error_message(error: Exception) -> str:
    """Return the text of a host's exception, as the program gets it."""
    return make_printable(str(error)[:MAX_MESSAGE_LENGTH])
