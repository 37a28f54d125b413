from lit_rl.data.numerical.code_completion import SHIPPED_GAPS, CodeCompletion, CodeGap


def test_the_shipped_program_has_six_places_of_growing_length():
    problems = CodeCompletion().problems("test")
    assert len(problems) == 6
    lengths = [problem.reference.count("\n") for problem in problems]
    assert lengths[0] == 1 and lengths[-1] == 6
    taken = [(place.file, line) for place in SHIPPED_GAPS for line in range(place.first_line, place.last_line + 1)]
    assert len(taken) == len(set(taken)), "no two overlap"
    assert CodeCompletion().problems("train") == []


def test_the_prompt_shows_what_is_before_and_after_but_not_the_lines():
    problem = CodeCompletion().problems("validation")[0]
    request = problem.prompt[-1]["content"]
    assert "gas.u = conserved[1] / gas.rho;" in request and "const double kinetic" in request
    assert problem.reference.strip() not in request
    assert "1 line of code" in request and "'euler.cpp'" in request
    other = CodeCompletion(form="completion").problems("test")[1]
    assert other.prompt.endswith("The missing 2 lines:\n```cpp\n") and other.stop_strings == ("```",)


def test_any_tree_can_be_completed(tmp_path):
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.f90").write_text("program a\nprint *, 1\nend\n")
    data = CodeCompletion(str(tmp_path), [CodeGap("src/main.f90", 2, 2)], build="make", run="./a", outputs=["plt"])
    (problem,) = data.problems("test")
    assert problem.task_id == "code_completion/src/main.f90:2-2" and problem.reference == "print *, 1\n"
    assert problem.check.tree == str(tmp_path) and problem.check.outputs == ("plt",)
    assert "```fortran" in problem.prompt[-1]["content"]
