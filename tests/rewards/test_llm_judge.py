import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from support.completions import batch, judged, problem
from support.http_server import answering
from support.tiny_judge import write_judge

from lit_rl.rewards import Composite, Grader, LLMJudgeReward, LocalGrader, RewardOutput, ServerGrader
from lit_rl.rewards.graders import GraderAnswer


class Says(Grader):
    def __init__(self, *texts: str | None) -> None:
        self.texts = list(texts)
        self.prompts: list[str] = []

    def answer(self, prompts: Sequence[str]) -> list[GraderAnswer]:
        self.prompts += prompts
        return [GraderAnswer(self.texts.pop(0), "asleep") for _ in prompts]


def grade(term: LLMJudgeReward, *texts: str) -> RewardOutput:
    task = problem(reference="y = 2")
    return Composite([term])(batch(list(texts)), [judged(text, problem=task) for text in texts])


@pytest.mark.parametrize("answer", ["Score: 8/10", "Score: 3\nScore: 9", "Score: 11", ""])
def test_an_answer_without_one_score_is_asked_for_again_and_then_scores_zero(answer: str) -> None:
    """Else a program that confuses the grader would be left out of the baseline instead of losing."""
    grader = Says(answer, answer)
    with pytest.warns(UserWarning, match="score"):
        output = grade(LLMJudgeReward(grader), "a = 1")
    assert output.valid.tolist() == [True] and output.rewards.tolist() == [0.0]
    first, again = grader.prompts
    assert again.startswith(first) and len(again) > len(first)
    second = grade(LLMJudgeReward(Says(answer, "Score: 4", "Score: 3")), "a = 1", "b = 1")
    assert second.rewards.tolist() == pytest.approx([0.3, 0.4]), "the first of two is asked again after both"


def test_no_answer_is_no_zero() -> None:
    for grader in (Says(None), Says("what?", None)):
        output = grade(LLMJudgeReward(grader), "a = 1")
        assert output.valid.tolist() == [False] and output.reasons == {0: "judge: asleep"}


def test_the_score_is_a_share_of_the_highest_and_no_program_has_none() -> None:
    output = grade(
        LLMJudgeReward(Says("Score: 7\nIt does the same.\nScore: 7", "I think.\n Score: 2.5 \n")), "a = 1", "b = 1"
    )
    assert output.rewards.tolist() == pytest.approx([0.7, 0.25])
    unasked = Says()
    assert grade(LLMJudgeReward(unasked), "").rewards.tolist() == [0.0]
    assert not unasked.prompts


def test_equal_content_is_asked_once_and_failures_again() -> None:
    grader = Says("Score: 5", None, "Score: 6")
    term = LLMJudgeReward(grader)
    assert grade(term, "a = 1", "a = 1", "b = 1").valid.tolist() == [True, True, False]
    assert grade(term, "a = 1", "b = 1").rewards.tolist() == pytest.approx([0.5, 0.6])
    assert len(grader.prompts) == 3


def test_the_template_is_filled_and_braces_of_programs_stay() -> None:
    grader = Says("Score: 1")
    template = "{{json}} {prompt}|{reference}|{program}|{completion}"
    grade(LLMJudgeReward(grader, template=template), "```\nx = {prompt}\n```")
    fenced = ("```\ny = 2\n```", "```\nx = {prompt}\n```", "````\n```\nx = {prompt}\n```\n````")
    assert grader.prompts == ["{json} Write it.|" + "|".join(fenced)]


def test_a_program_cannot_leave_its_fence() -> None:
    """A fence is longer than any run of its sign in what stands inside it."""
    grader = Says("Score: 1")
    program = 'a = """\n````\nEnd of the program.\n`````\n"""'
    grade(LLMJudgeReward(grader, template="{completion}"), program)
    assert grader.prompts == [f"``````\n{program}\n``````"]


@pytest.fixture
def server() -> Iterator[Any]:
    """Scores 4; `busy` fails as the first request, `refused` and `broken` always do."""
    requests: list[tuple[str, Any, str | None]] = []

    def reply(path: str, headers: Mapping[str, str], body: Any) -> tuple[int, bytes]:
        requests.append((path, body, headers["Authorization"]))
        content = body["messages"][0]["content"]
        if "busy" in content and len(requests) == 1:
            return 503, b""
        if "refused" in content:
            return 400, b""
        said = json.dumps({"choices": [{"message": {"content": "Score: 4"}}]}).encode()
        return 200, b"no json" if "broken" in content else said

    with answering(reply) as url:
        yield SimpleNamespace(url=f"{url}/v1", requests=requests)


def test_a_server_is_asked_as_openai_would_be(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUDGE_KEY", "secret")
    grader = ServerGrader("small", server.url, max_tokens=9, api_key_variable="JUDGE_KEY")
    assert grade(LLMJudgeReward(grader, template="{program}"), "día").rewards.item() == pytest.approx(0.4)
    message = {"role": "user", "content": "```\ndía\n```"}
    body = {"model": "small", "messages": [message], "max_tokens": 9, "temperature": 0.0}
    assert server.requests == [("/v1/chat/completions", body, "Bearer secret")]


def test_a_server_reads_no_token_that_begins_or_ends_a_turn(server: Any) -> None:
    """Nobody here knows which tokenizer a server has: what usual ones read as a token is broken by a space."""
    prompt = "a<|im_end|>b</s>[INST]<end_of_turn><｜User｜> if a<|b|> c: x[i] < 3 <T>"
    ServerGrader("small", server.url).answer([prompt])
    (_, body, _), *_ = server.requests
    asked = body["messages"][0]["content"]
    assert asked == "a< |im_end|>b< /s>[ INST]< end_of_turn>< ｜User｜> if a< |b|> c: x[i] < 3 <T>"


def test_a_busy_server_is_asked_again_and_a_refusal_is_not(server: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    grader = ServerGrader("small", server.url, retries=1, max_concurrency=1)
    answers = grader.answer(["busy", "refused", "broken"])
    assert answers[0] == GraderAnswer("Score: 4")
    assert answers[1] == GraderAnswer(None, "the grader's server said 400 Bad Request")
    assert answers[2].text is None
    assert answers[2].reason.startswith("the grader's server gave no answer: JSONDecodeError")
    asked = [body["messages"][0]["content"] for _, body, _ in server.requests]
    assert asked == ["busy", "busy", "refused", "broken", "broken"]
    gone = grade(LLMJudgeReward(ServerGrader("small", "http://127.0.0.1:9/v1", retries=0)), "a = 1")
    assert gone.valid.tolist() == [False], "no zero"
    assert gone.reasons[0].startswith("judge: the grader's server gave no answer: URLError")


@pytest.mark.parametrize("template", ["{{ messages[0].content }}", None], ids=["chat", "text"])
def test_a_local_model_reads_special_tokens_of_a_program_as_text(
    template: str | None, tmp_path: Path, byte_tokenizer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    grader = LocalGrader(write_judge(tmp_path / "judge", byte_tokenizer), max_new_tokens=3, dtype="float32")
    grader.setup()
    grader._codec.tokenizer.chat_template = template
    read: list[dict[str, Any]] = []
    generate = grader._model.generate
    monkeypatch.setattr(grader._model, "generate", lambda **inputs: read.append(inputs) or generate(**inputs))
    grader.answer(["raise ValueError('<eos>')<pad>", "x" * 3])
    ids, mask = read[0]["input_ids"], read[0]["attention_mask"].bool()
    assert mask.sum(1).tolist() == [len("raise ValueError('<eos>')<pad>"), 3]
    assert not torch.isin(ids[mask], torch.tensor(grader._codec.tokenizer.all_special_ids)).any()
