"""Whatever a program leaves in its work folder: it is removed, it is measured, and no other program pays for it."""

import os
import shutil
import socket
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
from suites import children

from lit_rl.execution import Sandbox, StdioTests
from lit_rl.execution.confinement.landlock import landlock_abi_version
from lit_rl.execution.zygote import work_folder
from lit_rl.execution.zygote.work_folder import clear_folder, folder_is_full

ROOT = Path(__file__).parent.parent.parent
# Kernels 5.13 to 5.18 know Landlock only in its first version, where moving between folders is always refused.
FIRST_LANDLOCK = """
from lit_rl.execution.confinement import kernel, landlock
landlock.landlock_abi_version = lambda: 1
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
landlock.restrict_file_access([(folder, landlock.WORK), ("/usr", landlock.READ), ("/lib", landlock.READ)])
"""


def fill(folder):
    """Files that an eager cleaner stumbles over."""
    os.chdir(folder)
    inode = os.stat(".").st_ino
    os.makedirs("a/b/c")
    for number in range(50):
        open(f".{number}-{os.stat('a').st_ino}", "w").close()
        open(f".{number}-{inode}", "w").close()
        open(f"a/.{number}-{os.stat('a/b').st_ino}", "w").close()
    for name in ("-rf", " ", "\n", "..a", "*", "\\", "\udcff\udcfe", "x" * 255, "é" * 127):
        open(name, "w").close()
        os.mkdir(f"a/{name}")
        open(f"a/{name}/{name}", "w").close()
    os.symlink("/", "root")
    os.symlink("loop", "loop")
    os.symlink("..", "a/up")
    os.link("-rf", "a/hard")
    os.mkfifo("fifo")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
    for mode in (0, 0o300, 0o400, 0o100):
        os.makedirs(f"closed{mode}/inside/more")
        open(f"closed{mode}/inside/file", "w").close()
        os.chmod(f"closed{mode}/inside", mode)
        os.chmod(f"closed{mode}", mode)


def deep(levels):
    for _ in range(levels):
        os.mkdir("d" * 200)
        os.chdir("d" * 200)


def run(code, *arguments):
    """Run code in a process of its own, whose working directory and rules may change; its standard output."""
    head = f"import os, sys\nsys.path[:0] = [{str(ROOT)!r}, {str(Path(__file__).parent)!r}]\nfolder = sys.argv[1]\n"
    command = [sys.executable, "-c", head + textwrap.dedent(code), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    return done.stdout


IMPORTS = "from test_work_folder import fill, deep\nfrom lit_rl.execution.zygote.work_folder import *\n"


@pytest.mark.parametrize("rules", ["", FIRST_LANDLOCK])
def test_any_content_is_removed(tmp_path, rules):
    if rules and not landlock_abi_version():
        pytest.skip("this kernel has no Landlock")
    run(IMPORTS + "fill(folder)\n" + rules + "os.chdir('/')\nclear_folder(folder)\n", tmp_path)
    assert os.listdir(tmp_path) == []


def test_a_deep_tree_is_removed_with_few_descriptors(tmp_path):
    code = IMPORTS + (
        "import resource\nos.chdir(folder)\ndeep(1500)\nos.chdir('/')\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (10, 10))\nclear_folder(folder)\n"
        "print(len(os.listdir('/proc/self/fd')))\n"
    )
    assert int(run(code, tmp_path)) <= 5
    assert os.listdir(tmp_path) == []


def test_a_cleaner_that_fails_or_is_late_says_so_and_keeps_no_descriptor(tmp_path):
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(FileNotFoundError):
        clear_folder(str(tmp_path / "missing"))
    (tmp_path / "a").mkdir()
    with pytest.raises(OSError, match="too long"):
        clear_folder(str(tmp_path), seconds=-1.0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_no_depth_and_no_mode_hides_files_from_the_measure(tmp_path):
    code = IMPORTS + (
        "os.chdir(folder)\nos.mkdir('x', 0o300)\nopen('x/y', 'wb').write(b'1' * 100000)\n"
        "folder_is_full(folder, 50000)\nprint(folder_is_full(folder, 50000), folder_is_full(folder, 500000))\n"
        "deep(1500)\nprint(folder_is_full(folder, 500000))\n"
        "open('y', 'wb').write(b'1' * 500000)\nprint(folder_is_full(folder, 500000))\n"
    )
    assert run(code, tmp_path).split() == ["True", "False", "False", "True"]
    clear_folder(str(tmp_path))  # too deep for others


def test_folders_that_are_moved_each_time_we_are_in_them_count_as_full(tmp_path, monkeypatch):
    (tmp_path / "a/b").mkdir(parents=True)
    before = len(os.listdir("/proc/self/fd"))
    measure = work_folder._deduct_and_list_folders

    def move_meanwhile(folder, left):
        names = measure(folder, left)
        here = Path(os.readlink(f"/proc/self/fd/{folder}"))
        if here.name == "b":
            here.rename(tmp_path / "b" if here.parent.name == "a" else tmp_path / "a/b")
        return names

    monkeypatch.setattr(work_folder, "_deduct_and_list_folders", move_meanwhile)
    assert folder_is_full(str(tmp_path), 1 << 30)
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_folder_that_cannot_be_emptied_costs_a_zygote_and_no_verdict(tmp_path):
    if not shutil.which("chattr") or os.geteuid() != 0:
        pytest.skip("no file can be made immutable here")
    quick = StdioTests((("", "[]"),))
    program = "import time\nopen('kept', 'w').close()\ntime.sleep(1.0)\nprint([])"
    with Sandbox(num_workers=1, tier=0, temporary_folder=str(tmp_path)) as sandbox:
        worker = sandbox._workers[0]._process.pid
        future = sandbox.submit(program, quick)
        deadline = time.monotonic() + 20
        while not (made := list(tmp_path.glob("*/box-*/kept"))) and time.monotonic() < deadline:
            time.sleep(0.01)
        if subprocess.run(["chattr", "+i", *made], capture_output=True).returncode:
            pytest.skip("this file system knows no immutable files")
        try:
            assert future.result(60).passed
            lists = "import os\nprint(os.listdir('.'))"
            assert [outcome.passed for outcome in sandbox.judge_many([(lists, quick)] * 3)] == [True] * 3
            assert sandbox._workers[0]._process.pid == worker
        finally:
            subprocess.run(["chattr", "-i", *made], check=True)
    assert os.listdir(tmp_path) == []


LOOK = """
import os
before = os.stat('.')
os.listdir('.')
open('new', 'w').close()
made = os.stat('new')
print([before.st_ino, before.st_size, before.st_nlink, before.st_blocks, before.st_mtime, before.st_atime, made.st_ino,
       *os.statvfs('.')[:8]])
"""
LEAVES = {
    "files": "for i in range(300): open(str(i), 'w').close()",
    "deep": "os.makedirs('a/b/c'); [open(f'a/b/c/{i}', 'w').close() for i in range(9)]",
    "times": "os.listdir('.'); os.utime('.', (5, 7)); os.chmod('.', 0o755)",
    "files without a name": "for i in range(300): os.close(os.open('.', os.O_TMPFILE | os.O_RDWR))",
    "memory": "import mmap\nfor i in range(300): mmap.mmap(-1, 4096).close()",
}


LOOK_ON_DISK = "import os\ns = os.stat('.')\nprint(s.st_mtime, s.st_nlink, os.listdir('.'))"


@pytest.mark.parametrize(("tier", "look", "begins"), [(1, LOOK, "["), (0, LOOK_ON_DISK, "0.0")], ids=["1", "0"])
def test_a_work_folder_tells_nothing_of_the_program_before(tier, look, begins):
    """In tier 0 the numbers of files are those of the disk; the times are the same for each program."""
    quick = StdioTests((("", "x"),))
    with Sandbox(num_workers=1, tier=tier) as sandbox:
        judge = sandbox._workers[0]._process.pid
        zygotes = children(judge)
        first = sandbox.submit(look, quick).result(60).stdout
        told = {}
        for kind, lines in LEAVES.items():
            outcomes = sandbox.judge_many([("import os\n" + lines, quick), (look, quick)])
            told[kind] = {outcome.stdout for outcome in outcomes[1::2]}
        assert told == {kind: {first} for kind in LEAVES} and first.startswith(begins)
        assert tier or children(judge) == zygotes
