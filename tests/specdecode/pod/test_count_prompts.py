"""Prompts are counted as the server will: with the model's own tokenizer, inside its own chat template."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from specdecode.exit_codes import Exit
from specdecode.experiment import from_document
from specdecode.experiment.prompt_lengths import CountSpec, PromptLengths, count_spec, do_not_fit
from specdecode.finished import find
from specdecode.pod.bucket import Bucket
from specdecode.pod.count_prompts import NoTemplate, chat_template, count, main
from specdecode.pod.program import PodError
from specdecode.prompts import digest, read_set
from specdecode.store import Store

from tests.finished_folders import mark, stored
from tests.specdecode.steps.aws_fake import FakeS3

ROOT = Path(__file__).resolve().parents[3]
TOKENIZER = (ROOT / "rehearsal/engine/weights/pair-target/tokenizer.json").read_bytes()
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% if enable_thinking is false %}<think></think>{% endif %}"
    "{% endif %}"
)
ROWS = [
    {"id": "short", "category": "triage", "turns": ["one"]},
    {"id": "long", "category": "triage", "turns": ["one two three " * 100], "system": "Be brief.", "output_tokens": 7},
]
DATA = "".join(json.dumps(row) + "\n" for row in ROWS).encode()
SET = f"tickets@{digest(DATA)}"
KEY = f"prompts/{SET}.jsonl"


def spec(**workload: Any) -> CountSpec:
    experiment = from_document(
        {
            "extends": "rehearsal",
            "name": "own",
            "workload": {"cases": [], "prompts": [{"set": SET, "categories": ["triage"]}], **workload},
        }
    )
    found = count_spec(experiment, {})
    assert found is not None
    return found


def bucket(given: CountSpec, **files: bytes) -> Bucket:
    model = {"config.json": b"{}", **{name.replace("__", "."): data for name, data in files.items()}}
    return Bucket("b", FakeS3({KEY: DATA, **stored(given.model, model)}))


def counted(tmp_path: Path, given: CountSpec, **files: bytes) -> PromptLengths:
    (tmp_path / "work").mkdir()
    return count(bucket(given, **files), given, tmp_path / "work")


def test_the_lengths_are_those_of_the_models_tokenizer(tmp_path):
    from rehearsal.engine.tokenizer import Tokenizer

    own = Tokenizer(ROOT / "rehearsal/engine/weights/pair-target/tokenizer.json")
    found = counted(tmp_path, spec(), tokenizer__json=TOKENIZER)
    (rows,) = found.cases.values()
    texts = {row.id: row.text for row in read_set(DATA, name="x").rows}
    assert found.exact
    assert [(row.id, row.tokens, row.answer) for row in rows] == [
        ("long", len(own.encode(texts["long"])), 7),
        ("short", len(own.encode("one")), 64),
    ]


def test_a_chat_is_counted_with_its_template(tmp_path):
    config = json.dumps({"chat_template": CHATML, "eos_token": {"content": "<|im_end|>"}}).encode()
    plain = counted(tmp_path, spec(), tokenizer__json=TOKENIZER)
    (tmp_path / "work").rename(tmp_path / "before")
    given = spec(endpoint="chat", thinking=False)
    chat = counted(tmp_path, given, tokenizer__json=TOKENIZER, tokenizer_config__json=config)
    assert chat.how == "counted with the model's tokenizer and chat template"
    for with_template, without in zip(chat.cases["triage"], plain.cases["triage"], strict=True):
        assert with_template.tokens > without.tokens + 10


def test_a_template_is_a_program_without_rights(tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    for source, why in (
        ("{{ ''.__class__.__mro__[1].__subclasses__() }}", "fails"),
        ("{{ messages.append(1) }}", "fails"),
        ("{% for i in range(999999999) %}{% endfor %}", "fails"),
        ("{{ raise_exception('only user messages') }}", "only user messages"),
        ("{% broken", "fails"),
    ):
        (folder / "chat_template.jinja").write_text(source)
        with pytest.raises(NoTemplate, match=why):
            chat_template(folder, thinking=None)([{"role": "user", "content": "?"}])
    for config in (b"[]", b"{", b'{"chat_template": 7}', b"\xff"):
        (folder / "chat_template.jinja").unlink(missing_ok=True)
        (folder / "tokenizer_config.json").write_bytes(config)
        with pytest.raises(NoTemplate):
            chat_template(folder, thinking=None)


def test_the_rendered_chat_is_transformers(tmp_path):
    """Named templates, `tojson`, loop controls and special tokens, as models use them."""
    source = (
        "{{ bos_token }}{% for m in messages %}{% if loop.index > 1 %}{% break %}{% endif %}"
        "{{ m | tojson }}{% endfor %}{{ strftime_now('%Y')[:2] }}"
    )
    named = [{"name": "tool_use", "template": "no"}, {"name": "default", "template": source}]
    (tmp_path / "tokenizer_config.json").write_text(json.dumps({"chat_template": named, "bos_token": "<s>"}))
    said = chat_template(tmp_path, thinking=None)([{"role": "user", "content": "é<b>"}, {"role": "user"}])
    assert said == '<s>{"role": "user", "content": "é<b>"}20'


@pytest.mark.parametrize("tokenizer", [None, b"{}", b"\x00", b'{"model": {"type": "BPE"}}'])
def test_a_tokenizer_that_cannot_be_used_counts_nothing_and_refuses_nothing(tmp_path, tokenizer):
    files = {} if tokenizer is None else {"tokenizer__json": tokenizer}
    found = counted(tmp_path, spec(), **files)
    assert (found.exact, found.cases) == (False, {})
    assert "tokenizer.json" in found.how


def test_the_program_stores_what_it_counted_under_the_questions_hash(tmp_path, monkeypatch):
    given = spec()
    s3 = FakeS3({KEY: DATA, **stored(given.model, {"tokenizer.json": TOKENIZER})})
    monkeypatch.setattr("specdecode.pod.count_prompts.Bucket", lambda name: Bucket(name, s3))
    (tmp_path / "spec.json").write_text(given.model_dump_json())
    main(["--bucket", "b", "--spec", "spec.json"])
    assert PromptLengths.model_validate_json(s3.objects[given.key]).exact
    assert s3.uploads == [given.key]
    assert spec(output_tokens=65).key != given.key
    (tmp_path / "spec.json").write_text("{")
    with pytest.raises(PodError) as refused:
        main(["--bucket", "b", "--spec", "spec.json"])
    assert refused.value.code == Exit.BAD_SPECIFICATION


def test_a_tokenizer_that_is_not_as_it_was_stored_counts_nothing(tmp_path):
    """Merges that went from it, in as many bytes: it loads, and counts 1,009 tokens where there are 608."""
    given, damaged = spec(), json.loads(TOKENIZER)
    damaged["model"]["merges"] = damaged["model"]["merges"][:25]
    body = json.dumps(damaged, ensure_ascii=False).encode().ljust(len(TOKENIZER))
    assert len(body) == len(TOKENIZER)
    whole = mark(given.model, {"tokenizer.json": TOKENIZER})
    s3 = FakeS3({KEY: DATA, f"{given.model}tokenizer.json": body, f"{given.model}COMPLETE.json": whole})
    with pytest.raises(PodError, match=r"tokenizer\.json differs") as refused:
        count(Bucket("b", s3), given, tmp_path)
    assert refused.value.code == Exit.DAMAGED_MODEL


def test_counts_are_those_of_the_model_that_is_meant(tmp_path):
    """Those of a model that was made anew lie under another key, and no pod counts with one for the other."""
    there = stored(spec().model, {"tokenizer.json": TOKENIZER})
    found = find(Store(s3=FakeS3(there), bucket="b"), spec().model).content
    meant, other = (spec().model_copy(update={"content": content}) for content in (found, "0" * 64))
    assert len({spec().key, meant.key, other.key}) == 3
    known = sha256(spec().model_dump_json(exclude={"content"}).encode()).hexdigest()
    assert spec().key == f"prompts/counted/{known}.json", "what was counted for a model of no known content stays"
    assert count(Bucket("b", FakeS3({KEY: DATA, **there})), meant, tmp_path).exact
    with pytest.raises(PodError, match="other files than when this run began") as refused:
        count(Bucket("b", FakeS3({KEY: DATA, **there})), other, tmp_path)
    assert refused.value.code == Exit.DAMAGED_MODEL


@pytest.mark.parametrize(
    ("size", "endpoint", "cases"),
    [(959, "completions", []), (960, "completions", ["t"]), (759, "chat", []), (760, "chat", ["t"])],
)
def test_only_what_may_not_fit_is_counted(size, endpoint, cases):
    """A window of 1,024 with 64 for the answer: a text has at most a token more than bytes; a template takes room."""
    text = {"name": "t", "label": "t", "kind": "text", "text": "a" * size, "structured": False}
    workload = {"cases": ["count", text], "endpoint": endpoint}
    found = count_spec(from_document({"extends": "rehearsal", "workload": workload}), {})
    assert [each.name for each in found.cases] == cases if found else cases == []


def test_what_does_not_fit_names_itself_its_length_and_the_window():
    experiment = from_document({"extends": "rehearsal", "workload": {"output_tokens": 100}})
    lengths = PromptLengths.model_validate(
        {
            "exact": True,
            "how": "",
            "cases": {
                "a": [{"id": "novel", "tokens": 925, "answer": 100}, {"id": "fits", "tokens": 924, "answer": 100}]
            },
        }
    )
    (said,) = do_not_fit(lengths, experiment)
    assert "workload.cases.a: novel has 925 tokens, with 100 for the answer 1025: max_model_len is 1024" in said
    assert "fits" not in said
