from __future__ import annotations

from pathlib import Path

import pytest
from specdecode.benchmark.__main__ import fetch_sets
from specdecode.benchmark.adhoc import BadRequest, adhoc_spec, cases_of, endpoints_of
from specdecode.benchmark.client import BodyDialect, request_body
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.prompts import BadPrompts, Prompt, longest, preamble, prompts_of
from specdecode.benchmark.tokens import EstimatedTokens, token_counter
from specdecode.experiment.workload import PromptKind, Workload
from specdecode.prompts import PromptsOf, digest

from tests.specdecode.benchmark.making import case, spec


class WordTokens:
    """A tokenizer of words."""

    exact = True
    description = "words"

    def count(self, text: str) -> int:
        return len(text.split())

    def cut(self, text: str, tokens: int) -> str:
        return " ".join(text.split()[:tokens])


def workload(**fields: object) -> Workload:
    return spec(**fields).workload


def test_a_line_is_repeated_after_llmperfs_preamble() -> None:
    given = case("hello-world", text="hello world ", kind=PromptKind.LINE)
    (prompt,) = prompts_of(given, workload(input_tokens=64, output_tokens=600), EstimatedTokens(), count=1)
    assert prompt.text.startswith(
        "Randomly stream lines from the following text with 600 output tokens. Don't generate eos tokens:\n\n"
        "hello world \nhello world \n"
    )
    assert prompt.input_tokens == 64
    # the preamble is 25 tokens, 39 remain: nine lines of 4 tokens, and 3 characters for the last 3 tokens
    assert prompt.text == preamble(600) + "hello world \n" * 9 + "hel"


def test_sonnets_are_llmperfs_with_llmperfs_random_numbers() -> None:
    """What LLMPerf's own code made of its seed and a tokenizer of four characters a token."""
    given = case(kind=PromptKind.SONNET, text="")
    prompts = prompts_of(given, workload(input_tokens=120, output_tokens=150), EstimatedTokens(), count=2)
    assert [prompt.text.removeprefix(preamble(150)) for prompt in prompts] == LLMPERF_SONNETS


def test_with_the_models_tokenizer_lengths_are_exact() -> None:
    for kind in (PromptKind.LINE, PromptKind.SONNET):
        given = case(kind=kind, text="one two three four five six seven")
        for prompt in prompts_of(given, workload(input_tokens=333), WordTokens(), count=4):
            assert WordTokens().count(prompt.text) == 333


def test_a_prompt_shorter_than_the_preamble_is_the_preamble() -> None:
    (prompt,) = prompts_of(case(kind=PromptKind.LINE, text="a"), workload(input_tokens=5), EstimatedTokens(), count=1)
    assert prompt.text == preamble(8)


def test_a_text_is_sent_as_it_is() -> None:
    assert [prompt.text for prompt in prompts_of(case(text="as it is"), workload(), EstimatedTokens(), count=2)] == [
        "as it is"
    ] * 2


def test_prompts_from_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(
        '{"prompt": "one"}\n\n"two"\n{"messages": [{"role": "user", "content": "three"}], "max_tokens": 5}\n'
    )
    (given,) = cases_of(named=[], prompts=[], files=[path])
    prompts = prompts_of(given, workload(), EstimatedTokens(), count=4, warmups=2)
    assert [prompt.text for prompt in prompts[:4]] == ["one", "two", "three", "one"]
    assert [prompt.id for prompt in prompts[:3]] == ["line-1", "line-3", "line-4"]
    assert {prompt.set for prompt in prompts[:4]} == {f"prompts@{digest(path.read_bytes())}"}
    assert not {prompt.text for prompt in prompts[4:]} & {"one", "two", "three"}
    fewer = prompts_of(given, workload(), EstimatedTokens(), count=1, warmups=2)
    assert [prompt.text for prompt in fewer] == ["one", "two", "three"]
    body = request_body(model="m", prompt=prompts[2], index=0, workload=workload(), dialect=BodyDialect())
    assert body["max_tokens"] == 5
    assert body["messages"] == [{"role": "user", "content": "three"}]


def test_prompts_that_say_the_same_are_sent_as_one(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    talk = '"category": "c", "turns": ["Hi", "Why?"]'
    path.write_text(f'{{"id": "a", {talk}}}\n{{"id": "b", {talk}, "system": "Short."}}\n{{"id": "c", {talk}}}\n')
    (given,) = cases_of(named=[], prompts=[], files=[path])
    prompts = prompts_of(given, workload(), EstimatedTokens(), count=6)
    assert [(prompt.id, prompt.turn) for prompt in prompts] == [(i, t) for i in "aba" for t in (0, 1)]


@pytest.mark.parametrize("text", ["{", '{"messages": "x"}', "", "[1]"])
def test_bad_prompt_files_are_explained(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text(text)
    for wrong in (path, tmp_path / "none.jsonl"):
        with pytest.raises(BadRequest, match=f"--prompts {wrong}"):
            cases_of(named=[], prompts=[], files=[wrong])


def test_a_file_that_changed_or_went_is_not_measured(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"prompt": "one"}\n')
    (given,) = cases_of(named=[], prompts=[], files=[path])
    path.write_text('{"prompt": "two"}\n')
    with pytest.raises(BadPrompts, match="SHA-256"):
        prompts_of(given, workload(), EstimatedTokens(), count=1)
    path.unlink()
    with pytest.raises(BadPrompts, match="cannot read"):
        prompts_of(given, workload(), EstimatedTokens(), count=1)


def test_a_system_message_needs_the_chat_endpoint(tmp_path: Path) -> None:
    path = tmp_path / "prompts.jsonl"
    path.write_text('{"id": "s1", "category": "a", "system": "Short.", "turns": ["Why?"]}\n')
    (given,) = cases_of(named=[], prompts=[], files=[path])
    (prompt,) = prompts_of(given, workload(), EstimatedTokens(), count=1)
    body = request_body(model="m", prompt=prompt, index=0, workload=workload(), dialect=BodyDialect())
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    with pytest.raises(BadPrompts, match="s1 has a system message"):
        prompts_of(given, workload(endpoint="completions"), EstimatedTokens(), count=1)


def test_request_bodies() -> None:
    chat = prompts_of(case(kind=PromptKind.LINE, text="a"), workload(), EstimatedTokens(), count=1)[0]
    body = request_body(model="m", prompt=chat, index=3, workload=workload(thinking=False), dialect=BodyDialect())
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    assert body["chat_template_kwargs"] == {"enable_thinking": False}
    assert body["stream_options"] == {"include_usage": True, "continuous_usage_stats": True}
    assert "seed" not in body
    plain = workload(endpoint="completions", temperature=0.7, ignore_eos=True)
    body = request_body(model="m", prompt=chat, index=3, workload=plain, dialect=BodyDialect(running_usage=False))
    assert body["prompt"] == chat.text
    assert body["seed"] == 11111 + 3
    assert body["min_tokens"] == body["max_tokens"] == 8
    assert body["stream_options"] == {"include_usage": True}
    least = BodyDialect(running_usage=False, usage=False, exact_length=False)
    body = request_body(model="m", prompt=chat, index=0, workload=plain, dialect=least)
    assert "stream_options" not in body
    assert "ignore_eos" not in body


def test_no_tokenizer_is_said_and_is_no_failure(tmp_path: Path) -> None:
    counter, problem = token_counter(str(tmp_path))
    assert not counter.exact
    assert "estimated" in problem
    assert token_counter(None) == (counter.__class__(), None) or token_counter(None)[1] is None


def test_cases_of_the_command_line(tmp_path: Path) -> None:
    assert [given.name for given in cases_of(named=[], prompts=[], files=[])] == ["repeat-line", "meaning-of-life"]
    assert len(cases_of(named=["sample"], prompts=[], files=[])) == 10
    structured = {given.name for given in cases_of(named=["structured"], prompts=[], files=[])}
    free = {given.name for given in cases_of(named=["open"], prompts=[], files=[])}
    assert structured.isdisjoint(free)
    assert len(structured | free) == len(cases_of(named=["all"], prompts=[], files=[]))
    own = cases_of(named=["letter-a", "letter-a"], prompts=["mine"], files=[])
    assert [given.name for given in own] == ["letter-a", "prompt-1"]
    with pytest.raises(BadRequest, match="no test case is called nope, what"):
        cases_of(named=["nope", "what"], prompts=[], files=[])
    with pytest.raises(BadRequest, match="no such file"):
        cases_of(named=[], prompts=[], files=[tmp_path / "none"])


def test_targets_of_the_command_line() -> None:
    assert list(endpoints_of(["http://a:1", "sd=http://b/v1", "http://c"], environ={})) == ["base", "sd", "arm-3"]
    assert endpoints_of(["http://a:1/x/v1/"], environ={})["base"].root == "/x"
    with pytest.raises(BadRequest, match=r"two arms are called 'a': write base=URL sd=URL\n'ftp://x'"):
        endpoints_of(["a=http://b", "a=ftp://x"], environ={})


def test_an_arm_s_key_is_its_own_or_the_common_one():
    environ = {"OPENAI_API_KEY": "common", "OPENAI_API_KEY_SD_K7": "own", "OPENAI_API_KEY_Q1p7B": "dotted"}
    found = endpoints_of(["http://a", "sd-k7=http://b", "q1.7b=http://c"], environ=environ)
    assert {name: endpoint.api_key for name, endpoint in found.items()} == {
        "base": "common",
        "sd-k7": "own",
        "q1.7b": "dotted",
    }


def test_values_out_of_range_are_all_named() -> None:
    with pytest.raises(BadRequest, match=r"(?s)--requests: .*\n--concurrency: must be 1 or more, not 0"):
        adhoc_spec(
            run_id="r",
            arms={"base": {}},
            model=None,
            workload={"cases": (case(),), "input_tokens": 1, "output_tokens": 1, "requests": 0, "concurrency": 0},
        )


LLMPERF_SONNETS = [
    """\
And make Time's spoils despised every where.
Since, seldom coming, in the long year set,
That use is not forbidden usury,
And gives thy pen both skill and argument.
Where art thou, Muse, that thou forget'st so long
Sometime too hot the eye of heaven shines,
As tender nurse her babe from faring ill.
For blunting the fine point of seldom pleasure.
In th""",
    """\
To speak of that which gives thee all thy might?
Therefore are feasts so solemn and so rare,
Then let not winter's ragged hand deface
Sing to the ear that doth thy lays esteem
And gives thy pen both skill and argument.
Or whether revolution be the same.
Being had, to triumph, being lack'd, to hope.
Nor lose possession of that fair thou owest;
Like """,
]


def test_the_longest_prompt_is_tried_first_and_leaves_no_prefix() -> None:
    short, long = Prompt(text="a", input_tokens=1), Prompt(text="b c", input_tokens=2)
    chat = Prompt(text="", input_tokens=3, messages=({"role": "system", "content": "s"}, {"role": "user"}))
    assert longest([[short], [long, short]]).text == "Probe: b c"
    found = longest([[long], [chat]]).messages
    assert found is not None
    assert found[0] == {"role": "system", "content": "Probe: s"}
    assert found[1:] == chat.messages[1:] if chat.messages else False


def test_a_pod_fetches_the_sets_from_its_runs_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = b'{"id": "x", "category": "own", "turns": ["hello"]}\n'
    given = PromptsOf(set="mine", sha256=digest(data), category="own")
    own = case("own", kind=PromptKind.SET, text="").model_copy(update={"prompts": given})
    objects = {given.key: data}
    monkeypatch.setattr(S3Folder, "get", lambda self, name: objects.get(name) if self.prefix == "runs/r/" else None)
    monkeypatch.chdir(tmp_path)
    wanted = spec(cases=(own,))
    fetch_sets(wanted, "s3://b/runs/r/")
    (prompt,) = prompts_of(own, wanted.workload, EstimatedTokens(), count=1)
    assert (prompt.text, prompt.id, prompt.set) == ("hello", "x", f"mine@{digest(data)}")
    objects.clear()
    with pytest.raises(PlaceError, match="not there any more"):
        fetch_sets(wanted, "s3://b/runs/r/")


def test_a_third_file_of_the_same_name_takes_no_other_ones_place(tmp_path: Path) -> None:
    files = [tmp_path / folder / "t.jsonl" for folder in ("a", "b", "c")]
    for file in files:
        file.parent.mkdir()
        file.write_text('{"prompt": "?"}\n')
    assert [case.name for case in cases_of(named=(), prompts=(), files=files[:2])] == ["prompts", "t-prompts"]
    with pytest.raises(BadRequest, match="t-prompts already"):
        cases_of(named=(), prompts=(), files=files)
