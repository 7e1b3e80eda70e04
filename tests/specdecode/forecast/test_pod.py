"""`python -m specdecode.forecast`: a run's load, and then drafts that read what it has answered."""

import json
from pathlib import Path

import pytest
from specdecode.benchmark.place import S3Folder
from specdecode.experiment import load_preset
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkReader, BenchmarkSpec
from specdecode.experiment.most_tokens import MostTokens
from specdecode.forecast.__main__ import KS, main
from specdecode.records import Servers
from specdecode.store import Store

from tests.rehearsal.engine import conftest as engine
from tests.rehearsal.engine.conftest import DRAFT, serve
from tests.specdecode.steps.aws_fake import FakeS3

CASES = {"workload.cases": ["json-records"], "workload.requests": 2, "workload.warmup_requests": 0}
TALK = {"workload.prompts": [{"set": "pair", "categories": ["talk"], "output_tokens": 24}]}
DEAD = "http://127.0.0.1:9"


def test_the_forecast_of_a_run_is_what_an_arm_that_speculates_then_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """For every type of prompts, one with conversations of two turns among them."""
    experiment = load_preset("rehearsal-forecast", overrides=CASES | TALK)
    draft = BenchmarkReader(variant="draft", reads="base", draft="a/draft", most_tokens_per_step=MostTokens.K_PLUS_1)
    arms = BenchmarkArm(variant="base", label="Base"), BenchmarkArm(variant="sd", label="SD", compare_to="base")
    spec = BenchmarkSpec(
        run_id="r", experiment="x", wave=0, round=0, model="", arms=arms, readers=(draft,), workload=experiment.workload
    )
    (file := tmp_path / "spec.json").write_text(spec.model_dump_json())
    config = json.dumps({"model": str(DRAFT), "num_speculative_tokens": 5})
    with serve() as base, serve("--speculative-config", config) as sd:
        monkeypatch.setattr(engine, "TARGET", DRAFT)
        with serve() as reading:
            urls = [f"http://127.0.0.1:{server.port}" for server in (base, sd, reading)]
            given = ["--spec", str(file), "--out", str(tmp_path), "--arm", f"base={urls[0]}", "--arm", f"sd={urls[1]}"]
            assert main(given) == main([*given, "--reader", f"other={urls[2]}"]) == 2
            assert "--reader: one for each of draft" in capsys.readouterr().err
            assert main([*given, "--reader", f"draft={DEAD}"]) == 1 and "draft at" in capsys.readouterr().err
            assert main([*given, "--reader", f"draft={urls[2]}"]) == 0, "what was measured is kept, and read now"
            reads_an_earlier_run(tmp_path, urls[2], monkeypatch, capsys)
    found = Servers.model_validate_json((tmp_path / "servers.json").read_bytes())
    assert found.arms.keys() == {"base", "sd"}
    told = {one.case: {k: tokens for k, tokens, _ in one.at} for one in found.forecast if one.draft == "a/draft"}
    assert told.keys() == {"json-records", "talk"} and all(at.keys() == {*KS} for at in told.values())
    for case, at in told.items():
        lines = (tmp_path / "raw" / "sd" / f"{case}.jsonl").read_text().splitlines()
        counts = [[chunk["tokens"] for chunk in json.loads(line)["chunks"][1:]] for line in lines]
        assert at[5] == pytest.approx(sum(map(sum, counts)) / sum(map(len, counts)), rel=1e-3), case
    assert "a/draft" in {one.draft for one in experiment.as_measured(found.forecast).forecast}
    assert [arm.name for arm in experiment.as_measured(found.forecast).variants] == ["base", "sd"]


def reads_an_earlier_run(
    first: Path, url: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the records of `first` in the bucket: the same forecast, without a load, and no word of them is kept."""
    s3, touched = FakeS3(), set[tuple[str, str]]()
    s3.objects = {f"runs/r/raw/base/{file.name}": file.read_bytes() for file in (first / "raw" / "base").iterdir()}
    s3.before = lambda operation, key: touched.add((operation, key))
    monkeypatch.setattr(S3Folder, "store", property(lambda self: Store(s3=s3, bucket=self.bucket)))
    (again := first / "again").mkdir()
    spec = BenchmarkSpec.model_validate_json((first / "spec.json").read_bytes())
    spec = spec.model_copy(update={"run_id": "again", "arms": spec.arms[:1]})
    (file := again / "spec.json").write_text(spec.model_dump_json())
    given = ["--spec", str(file), "--out", str(again), "--upload", "s3://b/runs/again/", "--reader", f"draft={url}"]
    given += ["--answers", "s3://b/runs/r/raw/"]
    assert main(given) == 0
    kept, before = (again / "servers.json").read_bytes(), (first / "servers.json").read_bytes()
    assert Servers.model_validate_json(kept).forecast == Servers.model_validate_json(before).forecast
    records = [json.loads(line) for name, data in s3.objects.items() if "/raw/" in name for line in data.splitlines()]
    words = {word for record in records for word in record["output"].split() if len(word) > 4}
    assert words and not [word for word in words if word.encode() in kept]
    writes = {key for operation, key in touched if operation == "PutObject"}
    assert writes == {"runs/again/servers.json"}
    capsys.readouterr()
    changed(s3, prompt_tokens=7)
    assert main(given) == 1 and "its tokenizer or chat template is another one" in capsys.readouterr().err
    changed(s3, prompt_sha256="0" * 64)
    assert main(given) == 1 and "prompts cannot be made again" in capsys.readouterr().err
    s3.objects["runs/r/raw/base/talk.jsonl"] = b'{"output": "a secret"}'
    assert main(given) == 1
    said = capsys.readouterr().err
    assert "runs/r/raw/base/talk.jsonl line 1 is no record" in said and "secret" not in said


def changed(s3: FakeS3, **fields: object) -> None:
    """Every record has `fields`."""
    for name, data in s3.objects.items():
        if name.endswith(".jsonl"):
            lines = [json.dumps({**json.loads(line), **fields}) for line in data.splitlines()]
            s3.objects[name] = "\n".join(lines).encode()
