"""`specdecode prompts`: what ships, a file checked, and a file put under its hash into a bucket."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from specdecode.cli import app, prompts
from specdecode.experiment import from_document
from specdecode.prompts import digest
from specdecode.store import Store
from typer.testing import CliRunner, Result

GOOD = (
    '{"id": "a", "category": "triage", "turns": ["Which team?", "Why?"]}\n'
    '{"id": "b", "category": "triage", "turns": ["And now?"]}\n'
)


class S3:
    def __init__(self) -> None:
        self.objects: dict[str, bytes] = {}

    def put_object(self, *, Bucket: str, Key: str, Body: bytes, ContentType: str) -> None:
        assert (Bucket, ContentType) == ("b", "application/x-ndjson")
        self.objects[Key] = Body


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["prompts", *arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "My Tickets.jsonl"
    path.write_text(GOOD)
    return path


def test_what_ships_is_listed_and_shown() -> None:
    (work,) = [found for found in json.loads(run("list", "--json").stdout) if found["name"] == "work"]
    assert work["categories"]["chat"]["several_turns"] == work["categories"]["chat"]["prompts"] >= 20
    shown = run("show", "work", "--id", "math/dice-sum")
    pair = next(found for found in json.loads(run("list", "--json").stdout) if found["name"] == "pair")
    assert pair["categories"]["lists"]["tokens_about"] == [7, 13]
    assert "at least 15" in shown.stdout
    assert run("show", "work", "--category", "cooking").exit_code == 2
    assert "wrok: neither a file nor a set that ships (" in run("show", "wrok").stderr


def test_a_file_is_checked_as_a_run_reads_it(file: Path) -> None:
    found = json.loads(run("check", str(file), "--json").stdout)
    assert (found["name"], found["prompts"], found["sha256"]) == ("my-tickets", 2, digest(GOOD.encode()))
    file.write_text(GOOD + '{"prompt": 3}\n{"prompt": "' + "word " * 2000 + '"}\n')
    refused = run("check", str(file))
    assert refused.exit_code == 2
    assert "line 3: prompt is no text" in refused.stderr
    file.write_text('{"id": "novel", "category": "x", "turns": ["' + "word " * 2000 + '"]}\n')
    refused = run("check", str(file), "--max-model-len", "1024")
    assert refused.exit_code == 2
    assert "novel: at least 2600 tokens" in refused.stderr
    assert run("check", str(file), "--max-model-len", "2600").exit_code == 0
    file.write_text('{"id": "talk", "category": "x", "turns": ["one two", "three"]}\n')
    refused = run("check", str(file), "--max-model-len", "1202")
    assert "talk: at least 1203 tokens with its answers" in refused.stderr
    assert "1 conversation of 2 turns" in refused.stdout
    for missing in (file.with_name("none.jsonl"), file.parent):
        assert run("check", str(missing)).exit_code == 2


def test_what_a_reader_would_stumble_over_is_said(file: Path) -> None:
    rows = [("a", "C++"), ("a", "C++"), ("a", "C#"), ("b", "C#")]
    file.write_text(json.dumps({"prompt": "写" * 100}))
    assert "60-60" in run("check", str(file)).stdout
    file.write_text("".join(json.dumps({"prompt": text, "category": name}) + "\n" for text, name in rows))
    said = " ".join(run("check", str(file)).stdout.split())
    assert "Category c: C++ in the file Category c-2: C# in the file" in said
    assert "Repeated: 1 of the prompts, word for word in one category; an interval counts them once" in said
    assert json.loads(run("check", str(file), "--json").stdout)["labels"][1] == {"category": "c-2", "in_file": "C#"}


@pytest.mark.parametrize("place", ["a turn", "a call of a tool before it"])
def test_a_credential_among_the_prompts_is_not_stored_nor_repeated(file: Path, place: str) -> None:
    token = "hf_" + "aB3" * 10
    row: dict[str, object] = {"id": "a", "category": "x", "turns": ["hello", f"use {token}"]}
    if place != "a turn":
        call = {"id": "1", "type": "function", "function": {"name": "get", "arguments": json.dumps({"key": token})}}
        row |= {"turns": ["go on"], "history": [{"role": "assistant", "content": None, "tool_calls": [call]}]}
    file.write_text(json.dumps(row))
    refused = run("check", str(file))
    assert refused.exit_code == 2
    assert "Hugging Face token" in refused.stderr
    assert token not in refused.output


def test_add_puts_the_bytes_under_their_hash(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    s3 = S3()
    monkeypatch.setattr(prompts, "_store", lambda *_, **__: Store(s3=s3, bucket="b"))
    sha = digest(GOOD.encode())
    key = f"prompts/my-tickets@{sha}.jsonl"
    said = json.loads(run("add", str(file), "--json").stdout)
    assert s3.objects == {key: GOOD.encode()}
    assert said["url"] == f"s3://b/{key}"
    printed = run("add", str(file)).stdout
    snippet: dict[str, Any] = yaml.safe_load(printed[printed.index("workload:") :])
    assert snippet["workload"]["prompts"] == [said["experiment"]]
    given = from_document({"extends": "rehearsal", **snippet})
    assert (given.workload.cases[-1].name, given.workload.cases[-1].requests) == ("triage", 3), "each turn is a request"
    assert run("add", str(file), "--name", "Tickets!").exit_code == 2


def test_add_passes_on_what_is_structured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompts, "_store", lambda *_, **__: Store(s3=S3(), bucket="b"))
    path = tmp_path / "lists.jsonl"
    header = {"set": {"name": "lists", "structured": ["7"]}}
    row = {"id": "a", "category": "7", "turns": ["Five colours as a JSON list."]}
    path.write_text(f"{json.dumps(header)}\n{json.dumps(row)}\n", encoding="utf-8")
    printed = run("add", str(path)).stdout
    given = from_document({"extends": "rehearsal", **yaml.safe_load(printed[printed.index("workload:") :])})
    assert given.workload.cases[-1].structured


def test_a_set_of_yours_is_not_called_like_one_that_ships(tmp_path: Path) -> None:
    """An experiment that names it would be refused."""
    path = tmp_path / "work.jsonl"
    path.write_text(GOOD, encoding="utf-8")
    refused = run("add", str(path), "--bucket", "b")
    assert refused.exit_code == 2
    assert "--name" in refused.output
