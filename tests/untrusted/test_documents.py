"""Hostile text in YAML, logs, evidence and limits: read safely, kept on its line, and never without an end."""

import io
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import yaml
from specdecode.assets import assets_dir
from specdecode.benchmark import answer
from specdecode.benchmark import exchange as exchanges
from specdecode.benchmark.exchange import Exchange
from specdecode.benchmark.progress import LoadProgress
from specdecode.benchmark.results import Results
from specdecode.cli.experiments_view import BlockDumper
from specdecode.experiment import ExperimentError, from_document, load_preset, to_yaml
from specdecode.experiment.documents import parse_yaml
from specdecode.kubernetes.diagnosis import explain, load_table
from specdecode.kubernetes.failure_files import collect_logs, collect_status
from specdecode.manifests import all_objects
from specdecode.pod.program import PodError, say
from specdecode.records import read_record
from specdecode.steps.errors import LONGEST, InvalidExperiment
from specdecode.steps.logs import JsonFormatter
from specdecode.untrusted import MAX_FILE_BYTES, Unreadable, read_file, read_lines

from tests.plans import CTX, plan_for
from tests.specdecode.benchmark.making import client, planned
from tests.specdecode.steps.world import World
from tests.untrusted.hostile import ALL, EVERYTHING

A_DAY_S = 86_400
"""Largest `workload.timeout_s`."""


def test_text_in_yaml_stays_one_scalar() -> None:
    experiment = load_preset("rehearsal").model_copy(update={"description": EVERYTHING})
    assert parse_yaml(to_yaml(experiment), origin="test")["description"] == EVERYTHING
    served = experiment.serving.model_copy(update={"extra_args": tuple(ALL), "env": {"A": EVERYTHING}})
    plan = plan_for(experiment.model_copy(update={"serving": served}))
    objects = all_objects(plan, CTX)
    assert list(yaml.safe_load_all(yaml.dump_all(objects, Dumper=BlockDumper, sort_keys=False))) == objects


@pytest.mark.parametrize("text", ALL)
def test_a_log_record_is_one_line_of_json(text: str) -> None:
    record = logging.LogRecord("specdecode", logging.INFO, "", 0, text, None, None)
    record.fields = {"reason": text, "list": [text]}
    shown = JsonFormatter(step=text).format(record)
    assert shown.isascii()
    assert len(shown.splitlines()) == 1
    assert json.loads(shown)["reason"] == text


def test_pods_write_one_line_a_message(capsys: pytest.CaptureFixture[str]) -> None:
    say(EVERYTHING + "\nspecdecode: error 77: forged")
    stream = io.StringIO()
    LoadProgress(stream).message(EVERYTHING + "\nerror: forged")
    for text in (capsys.readouterr().out, stream.getvalue(), f"{PodError(65, EVERYTHING)}\n"):
        assert text.count("\n") == len(text.splitlines()) == 1
        assert "\x1b" not in text


def test_an_event_of_the_cluster_is_one_line_of_evidence() -> None:
    world = World()
    world.cluster.put(
        {
            "kind": "Event",
            "metadata": {"name": "e", "namespace": "specdecode"},
            "involvedObject": {"kind": "Pod", "name": "p"},
            "reason": "Failed",
            "message": EVERYTHING + "\nforged line",
        }
    )
    found = collect_status(world.rt.kube, selector="specdecode/run=r")
    collect_logs(world.rt.kube, found)
    assert len(found.files["events.txt"].splitlines()) == 1
    assert "\x1b" not in found.files["events.txt"]


def test_a_log_of_one_endless_line_is_searched_in_time() -> None:
    """A pattern with two free parts takes a minute for one line of a hundred kilobytes."""
    table = load_table(assets_dir() / "diagnosis.yaml")
    name, text = explain(table, {"logs": "s3 403 PutObject " * 200_000, "status": "", "error": "x" * 100_000})
    assert len(text) < 1000
    assert name


@pytest.mark.parametrize(
    "change",
    [
        {"variants": [{"extends": "base", "name": f"v{n}", "label": f"v{n}"} for n in range(5000)]},
        {"variants": [{"name": "base", "label": "b", "neuron_config": {"skip": ["x" * 900 + "{0..999}"] * 200}}]},
        {"workload": {"cases": [{"name": f"c{n}"} for n in range(1001)]}},
        {"title": "x" * 1000},
        {"serving": {"env": {f"V{n}": "" for n in range(200)}}},
    ],
    ids=["variants", "ranges", "cases", "title", "variables"],
)
def test_experiments_have_a_size(change: dict[str, Any]) -> None:
    with pytest.raises(ExperimentError):
        from_document({"extends": "rehearsal", **change})


def test_messages_have_an_end() -> None:
    document: dict[str, Any] = {f"{'key' * 30}-{number}": "x" * 100 for number in range(300)}
    with pytest.raises(ExperimentError, match="more") as found:
        from_document({"extends": "rehearsal", **document})
    assert len(str(found.value)) < LONGEST
    assert len(str(InvalidExperiment("x" * 10**6))) == LONGEST


def test_files_are_read_to_a_limit(tmp_path: Path) -> None:
    (tmp_path / "large").write_bytes(b"x" * 101)
    with pytest.raises(Unreadable, match="larger than"):
        read_file(tmp_path / "large", limit=100)
    with pytest.raises(Unreadable, match="a device"):
        read_file(Path("/dev/zero"), limit=1000)
    for nothing in (tmp_path, tmp_path / "none", tmp_path / ("x" * 300)):
        with pytest.raises(Unreadable, match=r"cannot be read|no such file"):
            read_file(nothing)


def test_an_answer_that_never_ends_is_broken_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer, "MAX_CHARACTERS", 1000)
    exchange = Exchange()
    exchange.sent = 0.0
    exchange.received(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n", 0.0, None)
    event = json.dumps({"choices": [{"delta": {"content": "x" * 100}}]}).encode()
    for _ in range(20):
        exchange.received(b"data: " + event + b"\n\n", 0.0, None)
    assert exchange.error is not None
    assert "never ends" in exchange.error.message
    assert not exchange.answer.parts and not exchange.answer.chunks


@pytest.mark.parametrize(("chunks", "characters"), [(answer.MAX_CHUNKS, 0), (1, answer.MAX_CHARACTERS)])
def test_an_answer_beyond_the_longest_is_a_short_record(chunks: int, characters: int) -> None:
    found = answer.Answer()
    found.chunks, found._characters = [(1.0, 1, None, 0)] * chunks, characters
    with pytest.raises(answer.AnswerError, match="never ends"):
        found.take(json.dumps({"choices": [{"delta": {"content": "x"}}]}).encode(), 2.0)
    assert not found.chunks and not found.parts


def test_the_longest_answer_is_a_record_that_is_read(tmp_path: Path) -> None:
    """Each character is escaped to six bytes and each time has all its digits."""
    each, at_s = answer.MAX_CHARACTERS // answer.MAX_CHUNKS, A_DAY_S - 0.123456789
    exchange = Exchange()
    exchange.answer.chunks = [(at_s, each, None, each)] * answer.MAX_CHUNKS
    exchange.answer.parts = ["\0" * answer.MAX_CHARACTERS]
    sender = client("http://127.0.0.1:1")
    sent = sender.origin + A_DAY_S
    made = sender._record(planned("m"), exchange, None, 1_795_000_000.123456, sent, sent + at_s, None)
    results = Results(tmp_path, run_id="run")
    results.append(made)
    ((_, line),) = read_lines(results.raw_path("base", "case"), limit=MAX_FILE_BYTES // 2)
    found = read_record(line)
    assert found.output == made.output, "all of it"
    assert (len(found.chunks), found.chunks[-1]) == (answer.MAX_CHUNKS, made.chunks[-1])


def test_of_a_body_that_is_no_stream_the_start_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchanges, "MAX_KEPT_BYTES", 1000)
    exchange = Exchange()
    exchange.sent = 0.0
    exchange.received(b"HTTP/1.1 503 Slow\r\n\r\n", 0.0, None)
    for _ in range(50):
        exchange.received(b"\x1b[2J" * 100, 0.0, None)
    exchange.closed(None, 0.0)
    assert len(exchange._body) == 1000
    assert exchange.error is not None
    assert "\x1b" not in exchange.error.message
