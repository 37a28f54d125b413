"""Completions of source files, judged by building, running and comparing the shipped program."""

import os
import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import suites
from support.named_jobs import judge_named, not_among
from support.slow_cases import slow_but

from lit_rl.data.numerical import build_judge as build
from lit_rl.data.numerical.build_check import BuildAndRun
from lit_rl.data.numerical.build_judge import replace_lines_in_file
from lit_rl.data.numerical.code_completion import SHIPPED_TREE, CodeCompletion
from lit_rl.execution import Verdict
from lit_rl.execution.confinement import box
from lit_rl.execution.confinement.box import NOT_CONFINED, TIMED_OUT, BoxError

pytestmark = pytest.mark.skipif(not Path("/usr/bin/g++").exists(), reason="no C++ compiler: install g++")

STAGES = ("compilation", "execution", "header_bleu", "density")
TASK = CodeCompletion(run_seconds=5.0, environment={"CXXFLAGS": "-std=c++17 -O1 -Werror=return-type"})
PROBLEMS = {
    p.task_id.rsplit("/", 1)[1]: replace(p, check=replace(p.check, memory_bytes=1 << 30)) for p in TASK.problems("test")
}


def judge(sandbox, completion, place="velocity", **changes):
    check = replace(PROBLEMS[place].check, **changes)
    (outcome,) = sandbox.judge_many([(completion, check)])
    return outcome


def scores(outcome):
    return tuple(outcome.scores[stage] for stage in STAGES)


CRASH = "gas.v = *static_cast<volatile double *>(nullptr);"
# Lines of one place, other settings, verdicts, and the scores of the stages.
STAGES_REACHED = {
    "not compiling": ("gas.v = conserved[2] / nothing;", {}, "syntax_error", (0, 0, 0, 0)),
    "crashing, by weight": (CRASH, {"weights": (3.0, 1.0, 0.0, 0.0)}, "exception", (1, 0, 0, 0)),
    "endless": ("gas.v = 0; for (volatile int i = 0;;) (void)i;", {"run_seconds": 1.0}, "timed_out", (1, 0, 0, 0)),
    "reading for ever": ('gas.v = 0;\n#include "/dev/zero"', {}, "timed_out syntax_error", (0, 0, 0, 0)),
    "warning of success": ("#warning SUCCESS\n#error no", {}, "syntax_error", (0, 0, 0, 0)),
}
SOME_STAGES = ["not compiling", "crashing, by weight"]


@pytest.mark.parametrize("names", slow_but([SOME_STAGES], [SOME_STAGES, list(STAGES_REACHED)]), ids=["some", "all"])
def test_a_completion_has_the_verdict_and_the_scores_of_the_stages_it_reaches(sandbox, names):
    cases = {name: STAGES_REACHED[name] for name in names}
    check = PROBLEMS["velocity"].check
    outcomes = judge_named(
        sandbox, {name: (lines, replace(check, **changes)) for name, (lines, changes, _, _) in cases.items()}
    )
    for name, (*_, verdicts, wanted) in cases.items():
        assert outcomes[name].verdict in verdicts.split() and scores(outcomes[name]) == wanted, name
    assert "nothing" in outcomes["not compiling"].stderr
    assert outcomes["crashing, by weight"].scores["total"] == 0.75


def test_wrong_physics_scores_between_nothing_and_all_unless_it_is_not_finite(sandbox):
    outcome = judge(sandbox, "gas.v = 0.97 * conserved[2] / gas.rho;")
    assert outcome.verdict is Verdict.WRONG_ANSWER
    compilation, execution, header, density = scores(outcome)
    assert (compilation, execution) == (1.0, 1.0)
    assert 0.5 < density < 1.0 and 0.5 < header <= 1.0
    assert judge(sandbox, "const double zero = 0.0;\ngas.v = zero / zero;").scores["density"] == 0.0


@pytest.mark.parametrize(
    "places", [("velocity",), pytest.param(tuple(PROBLEMS), marks=pytest.mark.slow)], ids=["one", "all"]
)
def test_the_masked_lines_themselves_reach_every_stage(sandbox, places):
    outcomes = sandbox.judge_many([(PROBLEMS[place].reference, PROBLEMS[place].check) for place in places])
    assert [outcome.verdict for outcome in outcomes] == [Verdict.PASSED] * len(places)
    assert [scores(outcome) for outcome in outcomes] == [(1.0, 1.0, 1.0, 1.0)] * len(places)


def test_a_completion_changes_and_reads_nothing_outside_its_copy(sandbox, tmp_path):
    before = {path: path.read_bytes() for path in SHIPPED_TREE.iterdir()}
    outside, secret = tmp_path / "outside", tmp_path / "secret"
    outside.write_text("untouched")
    os.chmod(outside, 0o666)
    secret.write_text('"the key"')
    os.chmod(secret, 0o644)
    judge(
        sandbox,
        "#include <cstdlib>\ngas.v = 0; static int once = 0;\n"
        f'if (!once++) std::system("rm -rf {SHIPPED_TREE}/*; echo x > {outside}");',
    )
    assert {path: path.read_bytes() for path in SHIPPED_TREE.iterdir()} == before
    assert outside.read_text() == "untouched"
    for line in (f'#include "{secret}"', f'asm(".incbin \\"{secret}\\"");'):
        outcome = judge(sandbox, f"gas.v = 0;\n{line}")
        assert outcome.verdict is Verdict.SYNTAX_ERROR and "the key" not in outcome.stderr


def test_nothing_built_of_the_masked_lines_is_within_reach(sandbox):
    """The right program, or its object file, must not lie around to be copied or linked."""
    for name in ("euler.o", "blast"):
        line = f'// gas.v = conserved[2];\nasm(".incbin \\"{name}\\"");'
        assert judge(sandbox, line).verdict is not Verdict.PASSED
    listing = '#include <cstdlib>\ngas.v = 0; std::system("ls *.o > plt00001");'
    assert judge(sandbox, listing).scores["density"] == 0.0


# A build script of the task, masked as a whole: the completion says what is built, run and written.
SCRIPT = {"file": "run.sh", "first_line": 1, "last_line": 999, "build": "sh run.sh build && echo SUCCESS"}


@pytest.fixture
def script_task(tmp_path):
    """Makes a check whose masked lines are a shell script that writes one plotfile of amrex_plotfiles."""
    shutil.copytree(Path(__file__).parent / "amrex_plotfiles/plt_double", tmp_path / "tree/stored")
    lines = "[ $1 = build ] || cp -r stored plt\n" + "#\n" * 10
    (tmp_path / "tree/run.sh").write_text(lines)

    def make(**changes):
        settings = {**SCRIPT, "last_line": 11, "run": "sh run.sh run", "outputs": ("plt",), "run_seconds": 20.0}
        return BuildAndRun(**{"tree": str(tmp_path / "tree"), **settings, **changes})

    return make


PRINTS = "[ $1 = run ] || { printf 'one\\033[2J\\007\\ntwo\\n'; exit 1; }"
# Each script, and the verdicts that it may have: of a user without rights, and of root.
SCRIPTS = {
    PRINTS: "syntax_error",
    "true": "exception",
    "mkdir -p plt/Header": "wrong_answer",
    "[ $1 = build ] || cp -r stored plt": "passed",
    "cp -r stored plt; chmod 000 plt": "wrong_answer passed",
    "cp -r stored plt; chmod 000 .": "wrong_answer passed exception",
    "rm -rf plt; cp -r stored plt; rm plt/Level_0/Cell_D*; mkdir plt/Level_0/Cell_D_00000": "wrong_answer",
    "mv run.sh x; exit 200": "exception syntax_error",
    "kill -9 $$": "exception syntax_error",
    "kill -9 $PPID": "exception wrong_answer",
    "[ $1 = run ] || { chmod 000 . ; exit 0; }; cp -r stored plt": "passed exception",
    "rm -rf plt; ln -s / plt": "exception",
    "mkdir -p plt; rm -f plt/Header; ln -s /dev/zero plt/Header": "wrong_answer",
    "mkdir -p plt; rm -f plt/Header; mkfifo plt/Header || true": "wrong_answer",
    "\ud800\udfff\udc80 \x00": "exception syntax_error",
    "cp -r stored plt; head -c 2000000 /dev/zero | tr '\\0' ' ' >> plt/Header": "wrong_answer",
    "cp -r stored plt; head -c 3000000 /dev/zero | tr '\\0' 'a ' > plt/Header": "wrong_answer",
}


def test_no_completion_is_our_fault_whatever_it_does(sandbox, script_task):
    outcomes = judge_named(sandbox, {script: (script, script_task()) for script in SCRIPTS})
    assert "one\ufffd[2J\ufffd\ntwo" in outcomes[PRINTS].stderr  # fit for a log
    assert {script: end for script, end in outcomes.items() if end.verdict not in SCRIPTS[script].split()} == {}


KERNELS = [(True, None), (False, None), (True, 1), (False, 1)]


@pytest.mark.parametrize("folder", ["/opt", "/usr/lib"])
@pytest.mark.parametrize(("namespaces", "version"), slow_but(KERNELS[1:3], KERNELS))
def test_a_tree_is_hidden_where_the_toolchain_is_visible(folder, namespaces, version, boxed_at):
    if not os.access(folder, os.W_OK):
        pytest.skip(f"{folder} cannot be written")
    with tempfile.TemporaryDirectory(dir=folder) as made:
        os.chmod(made, 0o755)
        for name in ("tree/sub/secret", "beside", ".git/objects/secret", "copies/secret"):
            path = Path(made, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("int secret;")
        Path(made, "linked").symlink_to("tree")
        files = "tree/sub/secret linked/sub/secret .git/objects/secret copies/secret beside"
        command = f"cd {made}; for f in {files} {made}/tree/sub/secret; do cat $f && echo $f; done; gcc --version"
        hidden = [*build.folders_to_hide(f"{made}/linked"), f"{made}/copies"]
        report = boxed_at(command, hidden=hidden, namespaces=namespaces, landlock_version=version)
        assert report.log.count("int secret;") == 1 and "int secret;beside" in report.log
        assert report.status == 0, report.log


def test_a_masked_tree_that_could_not_be_made_is_not_kept(monkeypatch, tmp_path, script_task):
    check = script_task()
    monkeypatch.setattr(build, "replace_lines_in_file", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        build._masked_source_tree(check, str(tmp_path))
    assert not build._masked and not list(tmp_path.glob("lit_rl-build-*"))


def test_a_run_that_is_lost_is_judged_again_beside_the_unchanged_tree(monkeypatch, tmp_path, script_task):
    limited = []  # when the supervisor's own limits begin
    on_report = lambda: limited.append(list(tmp_path.glob("*/plt")))  # noqa: E731
    client = SimpleNamespace(settings=SimpleNamespace(temporary_folder=str(tmp_path)), on_report=on_report)
    if os.geteuid() == 0:
        for parent in (tmp_path, *tmp_path.parents[:-2]):
            os.chmod(parent, 0o755)
    boxed, failing = build._run_sandboxed, []

    def fails(command, folder, *rest):
        if failing and (
            failing[0] == "always" or (folder / "mine").exists() or b"mine" in (folder / "run.sh").read_bytes()
        ):
            failing.append(command)
            raise BoxError("no processes")
        return boxed(command, folder, *rest)

    check, mine = script_task(), "[ $1 = build ] || cp -r stored plt  # mine"
    monkeypatch.setattr(build, "_run_sandboxed", fails)
    assert build.judge_build_and_run(client, mine, check).passed and len(limited) == 1 and limited[0]
    failing.append("mine")
    outcome = build.judge_build_and_run(client, mine, check)
    assert outcome.verdict is Verdict.EXCEPTION and "no processes" in outcome.stderr and len(failing) == 3
    failing[:] = ["always"]
    with pytest.raises(BoxError):
        build.judge_build_and_run(client, mine, check)
    build._remove_masked_source_trees()


BROKEN = {
    "/nowhere/at/all": {"tree": "/nowhere/at/all"},
    "'false' fails": {"build": "false"},
    "'exit 3' fails": {"run": "exit 3"},
    "to build, to run or to write the output to compare": {"outputs": ("plt00009",)},
    "temperature": {"variable": "temperature"},
    "not a file of the tree": {"file": "missing.sh"},
    "lines": {"first_line": 400, "last_line": 401},
}


def test_a_broken_task_is_an_infrastructure_failure_that_says_why(sandbox, script_task):
    jobs = {message: ("true", script_task(**changes)) for message, changes in BROKEN.items()}
    outcomes = judge_named(sandbox, jobs)
    assert not_among(outcomes, Verdict.INFRASTRUCTURE_FAILURE) == {}
    assert {message for message, outcome in outcomes.items() if message not in outcome.stderr} == set()


def test_filling_in_lines_keeps_the_others(tmp_path):
    file = tmp_path / "f.txt"
    for first, last, completion, expected in (
        (2, 2, "B", "a\nB\nc\n"),
        (2, 3, "", "a\n"),
        (1, 0, "x\ny\n", "x\ny\na\nb\nc\n"),
        (3, 3, "  C\n\n", "a\nb\n  C\n"),
    ):
        file.write_text("a\nb\nc\n")
        replace_lines_in_file(file, first, last, completion)
        assert file.read_text() == expected
    (tmp_path / "link").symlink_to(file)
    (tmp_path / "tree").mkdir()
    (tmp_path / "tree/folder").symlink_to(tmp_path)
    for path in ("link", "tree/folder/f.txt", "tree/../f.txt"):
        with pytest.raises(ValueError, match="not a file of the tree"):
            replace_lines_in_file(tmp_path / path, 1, 1, "x")


@pytest.fixture(params=[True, False], ids=["namespaces", "file rules alone"])
def boxed(request, boxed_at):
    return lambda command, **limits: boxed_at(command, {"seconds": 5.0, **limits}, namespaces=request.param)


@pytest.mark.parametrize(
    ("command", "limits"),
    [
        ("while :; do : >> $((n=n+1)); done", {"seconds": 60.0, "folder_files": 2000}),
        (
            "for i in 1 2 3 4 5 6 7 8; do dd if=/dev/zero of=f$i bs=1M count=16 2>/dev/null; sleep 0.2; done; sleep 9",
            {"seconds": 20.0, "folder_bytes": 24 << 20},
        ),
    ],
    ids=["many empty files", "few long ones"],
)
def test_a_full_folder_ends_the_box(boxed, command, limits):
    report = boxed(command, **limits)
    assert report.status is None and not report.timed_out and report.wall_seconds < 10


def test_a_folder_that_is_filled_at_the_last_moment_is_full(boxed, monkeypatch):
    """As when a box ends between two looks, which are far apart where a folder holds many files."""
    monkeypatch.setattr(box, "_MEASURE_SECONDS", 100.0)
    command = "n=0; while [ $n -lt 90 ]; do : >> f$((n=n+1)); done"
    assert boxed(command, folder_files=90).status == 0
    assert boxed(command + "; : >> last", folder_files=90).status is None


def test_a_box_lets_its_folder_be_written_and_the_toolchain_be_used_and_keeps_a_commands_status(boxed):
    report = boxed("echo 'int main(){return 7;}' > a.cpp && g++ a.cpp -o a && ./a; echo $? SUCCESS")
    assert report.status == 0 and report.log.strip() == "7 SUCCESS"
    for status in (TIMED_OUT, NOT_CONFINED):
        report = boxed(f"exit {status}")
        assert report.status == status and not report.timed_out


@pytest.mark.parametrize(
    "command",
    [
        "cat /etc/passwd",
        "ls /root /home /proc",
        "echo x > /tmp/lit_rl_box_escape",
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 80))'",
        "dd if=/dev/zero of=big bs=1M count=2048",
    ],
)
def test_a_box_refuses_the_rest(boxed, command):
    assert boxed(command, file_bytes=8 << 20).status not in (0, None)


def test_a_box_ends_at_its_time_or_with_its_command_and_everything_in_it(boxed):
    report = boxed("(setsid sleep 77.25 &) ; sleep 77.25", seconds=0.5)
    assert report.timed_out and report.status is None
    assert boxed("(setsid sleep 77.25 &) ; echo left").status == 0
    assert suites.processes_with("77.25") == []
