import json
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from support.completions import batch, judged, problem
from support.tiny_judge import write_judge

from lit_rl.rewards import Composite, Grader, LLMJudgeReward, LocalGrader, RewardOutput, ServerGrader
from lit_rl.rewards.graders import Answer


class Says(Grader):
    """Gives prepared answers and counts what it was asked."""

    def __init__(self, *texts: str | None) -> None:
        self.texts = list(texts)
        self.prompts: list[str] = []

    def answer(self, prompts: Sequence[str]) -> list[Answer]:
        self.prompts += prompts
        return [Answer(self.texts.pop(0), "asleep") for _ in prompts]


def grade(term: LLMJudgeReward, *texts: str) -> RewardOutput:
    task = problem(reference="y = 2")
    return Composite([term])(batch(list(texts)), [judged(text, problem=task) for text in texts])


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("8", "judge: 0 scores in the grader's answer '8'"),
        ("Score: high", "judge: 0 scores in the grader's answer 'Score: high'"),
        ("Score: 8/10", "judge: 0 scores in the grader's answer 'Score: 8/10'"),
        ("Score: 3\nScore: 9", "judge: 2 scores in the grader's answer 'Score: 3\\nScore: 9'"),
        ("Score: 11", "judge: the grader's score 11.0 is not in [0, 10.0]"),
        ("", "judge: 0 scores in the grader's answer ''"),
        (None, "judge: asleep"),
    ],
)
def test_an_answer_that_cannot_be_parsed_is_no_zero(answer: str | None, reason: str) -> None:
    output = grade(LLMJudgeReward(Says(answer)), "a = 1")
    assert output.valid.tolist() == [False]
    assert output.reasons == {0: reason}


def test_the_score_is_a_share_of_the_highest_and_no_program_has_none() -> None:
    output = grade(LLMJudgeReward(Says("Score: 7", "I think.\n Score: 2.5 \n")), "a = 1", "b = 1")
    assert output.rewards.tolist() == pytest.approx([0.7, 0.25])
    unasked = Says()
    assert grade(LLMJudgeReward(unasked), "").rewards.tolist() == [0.0]
    assert not unasked.prompts


def test_equal_content_is_asked_once_and_failures_again() -> None:
    grader = Says("Score: 5", "what?", "Score: 6")
    term = LLMJudgeReward(grader)
    assert grade(term, "a = 1", "a = 1", "b = 1").valid.tolist() == [True, True, False]
    assert grade(term, "a = 1", "b = 1").rewards.tolist() == pytest.approx([0.5, 0.6])
    assert len(grader.prompts) == 3


def test_the_template_is_filled_and_braces_of_programs_stay() -> None:
    grader = Says("Score: 1")
    template = "{{json}} {prompt}|{reference}|{program}|{completion}"
    grade(LLMJudgeReward(grader, template=template), "```\nx = {prompt}\n```")
    assert grader.prompts == ["{json} Write it.|y = 2|x = {prompt}\n|```\nx = {prompt}\n```"]


def test_a_reference_is_needed_only_where_the_template_shows_it() -> None:
    with pytest.raises(ValueError, match="LLMJudgeReward compares with a reference, and this problem has none"):
        LLMJudgeReward(Says()).check_problem(problem())
    LLMJudgeReward(Says(), template="{program}").check_problem(problem())


class Server(BaseHTTPRequestHandler):
    """Answers with the last line of the prompt; `busy` once and `broken` always fail."""

    requests: list[tuple[str, dict[str, object], str | None]] = []  # noqa: RUF012
    busy = True

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        Server.requests.append((self.path, body, self.headers["Authorization"]))
        content = body["messages"][0]["content"]
        if "busy" in content and Server.busy:
            Server.busy = False
            self.send_error(503)
        elif "refused" in content:
            self.send_error(400, "too long")
        else:
            answer = b"no json" if "broken" in content else _chat("Score: 4")
            self.send_response(200)
            self.end_headers()
            self.wfile.write(answer)

    def log_message(self, *args: object) -> None:
        pass


def _chat(text: str) -> bytes:
    return json.dumps({"choices": [{"message": {"content": text}}]}).encode()


@pytest.fixture
def url() -> Iterator[str]:
    Server.requests, Server.busy = [], True
    server = ThreadingHTTPServer(("127.0.0.1", 0), Server)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/v1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_server_is_asked_as_openai_would_be(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    grader = ServerGrader("small", url, max_tokens=9, api_key_variable="JUDGE_KEY")
    assert grade(LLMJudgeReward(grader, template="{program}"), "día").rewards.item() == pytest.approx(0.4)
    message = {"role": "user", "content": "día"}
    body = {"model": "small", "messages": [message], "max_tokens": 9, "temperature": 0.0}
    assert Server.requests == [("/v1/chat/completions", body, "Bearer secret")]


def test_a_busy_server_is_asked_again_and_a_refusal_is_not(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    grader = ServerGrader("small", url, retries=1, max_concurrency=1)
    answers = grader.answer(["busy", "refused", "broken"])
    assert answers[0] == Answer("Score: 4")
    assert answers[1] == Answer(None, "the grader's server said 400 too long")
    assert answers[2].text is None
    assert answers[2].reason.startswith("the grader's server gave no answer: JSONDecodeError")
    asked = [body["messages"][0]["content"] for _, body, _ in Server.requests]  # type: ignore[index]
    assert asked == ["busy", "busy", "refused", "broken", "broken"]
    gone = grade(LLMJudgeReward(ServerGrader("small", "http://127.0.0.1:9/v1", retries=0)), "a = 1")
    assert gone.valid.tolist() == [False], "no zero"
    assert gone.reasons[0].startswith("judge: the grader's server gave no answer: URLError")


@pytest.mark.slow
def test_a_local_model_answers_each_prompt_as_alone(real_data: Path) -> None:
    grader = LocalGrader(str(real_data / "lm" / "stories260K-hf"), max_new_tokens=6, batch_size=2, dtype="float32")
    prompts = ["Once upon a time", "Tom had a", "She"]
    together = grader.answer(prompts)
    assert together == [grader.answer([prompt])[0] for prompt in prompts]
    assert all(answer.text for answer in together)


def test_a_local_model_is_found_by_a_variable(
    tmp_path: Path, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_judge(tmp_path / "judge", byte_tokenizer, "Score: 7")
    monkeypatch.setenv("JUDGES", str(tmp_path))
    term = LLMJudgeReward(LocalGrader("$JUDGES/judge", max_new_tokens=12))
    term.setup()
    assert grade(term, "a = 1", "b = é").rewards.tolist() == pytest.approx([0.7, 0.7])
    missing = LLMJudgeReward(LocalGrader(str(tmp_path / "nowhere")))
    with pytest.raises(FileNotFoundError, match=r"model folder not found: .*nowhere"):
        Composite([missing]).setup()
