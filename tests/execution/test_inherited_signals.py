"""A verdict does not depend on the signals that whoever started the run ignores, as ``nohup`` and cron do."""

import signal
import subprocess
import sys

JUDGE = """
from lit_rl.execution import Sandbox, StdioTests
PROGRAM = '''
import signal
print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)
for number in (signal.SIGHUP, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1):
    print(signal.getsignal(number) == signal.SIG_DFL)
'''
with Sandbox(num_workers=1) as sandbox:
    outcome = sandbox.submit(PROGRAM, StdioTests((("", "True\\n" * 5),))).result(60)
    print(outcome.verdict)
"""


def ignore_much():
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1):
        signal.signal(number, signal.SIG_IGN)


def test_programs_hear_what_the_trainer_ignores():
    run = subprocess.run([sys.executable, "-c", JUDGE], capture_output=True, text=True, preexec_fn=ignore_much)
    assert run.stdout.strip() == "passed", run.stdout + run.stderr
