"""Wrong inputs, looked at one by one: exit code 2, one style, what to do; as JSON with --json; never a traceback."""

import json
from pathlib import Path

import pytest
from specdecode.cli import app
from typer.testing import CliRunner

FILES = {
    "empty.yaml": "",
    "list.yaml": "- a",
    "tabs.yaml": "a:\n\t- b",
    "bad.json": "{",
    "p.jsonl": '{"id":"a"}\n',
    "c.yaml": "extends: qwen3-32b\nworkload: {cases: [nonsense]}\nserving: {tensor_parallel_size: 7}\n",
    "cr/report.json": "{}",
    "e/x": "",
}
WITH_JSON = ("validate", "report", "compare", "advise", "gate", "winner", "runs", "import", "bench")
WRONG = """
validate nosuch
validate empty.yaml
validate list.yaml
validate tabs.yaml
validate bad.json
validate c.yaml
validate qwen3-32b --set x
validate qwen3-32b --set workload.requests=0
validate qwen3-32b --set engine=nope
validate qwen3-32b --set node=nope
plan nosuch
plan qwen3-32b --set serving.devices=99
instance qwen3-32b --print --price inf
manifests nosuch
engines nosuch
forecast nosuch
advise nosuch/
advise empty.yaml
report nosuch/
report nosuch.json
report cr
report e
report bad.json
report cr --format pdf
report cr --price -1
compare cr
compare cr cr
compare nosuch/ cr
gate cr
gate cr..cr
gate a/..b/
gate cr..cr --max-regression x
winner cr
winner nosuch/
runs --folder nosuch
runs --folder e --out x.html
import x
import base=nosuch sd=nosuch
import base=bad.json sd=bad.json
import base=empty.yaml sd=list.yaml
import base=e sd=e
import base=bad.json --about x
import base=bad.json sd=bad.json --about sd:k=x
prompts check nosuch
prompts check p.jsonl
prompts check bad.json
prompts check empty.yaml
prompts show nosuch
evidence add nosuch
bench ftp://x
bench host:80
bench http://
bench a=http://x a=http://x
bench http://127.0.0.1:9 --case nope
bench http://127.0.0.1:9 --prompts nosuch
bench http://127.0.0.1:9 --prompts p.jsonl
bench http://127.0.0.1:9 --requests 0
bench http://127.0.0.1:9 --requests x
bench http://127.0.0.1:9 --concurrency x
bench http://127.0.0.1:9 --concurrency 4 --rate 2
bench http://127.0.0.1:9 --rate -1
bench http://127.0.0.1:9 --temperature -1
bench http://127.0.0.1:9 --output-tokens 0
bench http://127.0.0.1:9 --timeout 0
bench http://127.0.0.1:9 --load nope
bench http://127.0.0.1:9 --price-per-hour x
bench http://127.0.0.1:9 --speculative-tokens base=x
bench http://127.0.0.1:9 --most-tokens-per-step base=9
bench http://127.0.0.1:9 --resume
bench http://127.0.0.1:9 --resume --out nosuch
bench http://127.0.0.1:9 --upload x
bench http://127.0.0.1:9 --slo-share 2
bench http://127.0.0.1:9 --concurrency 1,1
bench http://127.0.0.1:9 --nope
instance rehearsal --venv e --tool docker
run nosuch
run c.yaml
status --watch a,b
nosuch
--nope
gate
report --nope
prompts nosuch
prompts show
""".strip().splitlines()


@pytest.mark.parametrize("line", WRONG)
@pytest.mark.usefixtures("no_region")
def test_a_wrong_input_is_told_in_one_style(line: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = CliRunner().invoke(app, line.split())
    assert isinstance(found.exception, SystemExit) and found.exit_code == 2, found.output
    assert found.stderr.startswith("error: "), found.stderr
    assert not any(word in found.stderr for word in ("Value error", "should match pattern", "Traceback"))
    if line.split()[0] in WITH_JSON:
        document = json.loads(CliRunner().invoke(app, [*line.split(), "--json"]).stdout)
        assert document.get("exit_code") == 2 or document["valid"] is False


MANY = {
    "bench ftp://x --requests 0 --timeout 0 --price-per-hour x --case nope --upload y --resume": (
        *("'ftp://x'", "--price-per-hour x", "no test case is called nope", "--requests:", "--timeout:"),
        *("--resume goes on", "'y' is not an address"),
    ),
    "instance rehearsal --store e/x --out e/x/y": ("--store: ", "--out: "),
    "instance rehearsal --store a:b --out c:d": ("--store: no container", "--out: no container"),
    "instance rehearsal --print --ask x --artifacts s3://b/x --out x --resume": (
        *("--ask has no place", "--artifacts has no place", "--out has no place", "--resume has no place"),
    ),
    "instance llama-3.1-8b-eagle3-small": ("--price of `plan` and `instance`",),
    "validate qwen3-32": ("did you mean 'qwen3-32b'?",),
    "validate nowhere.yaml": ("no such file",),
    "plan rehearsal --set x": ("path=value",),
    "plan rehearsal --ami latest": ("--ami",),
    "plan qwen3-32b --ami v20260714": ("ami-driver",),
    "manifests rehearsal --bundle-uri http://x": ("--bundle-uri",),
    "engines 0.9.1": ("no engine is called",),
    "import base=/nowhere": ("two arms are needed",),
    "import base sd=/nowhere --about sd:speed=9": ("base: write NAME=PATH", "KEY one of draft, k, most_tokens"),
    "import Base!=/nowhere sd=/nowhere": ("/nowhere: no such file or folder",),
    "import a=x b --about c:k=y --about a:k=0": ("x: no such file", "b: write NAME=PATH", "--about c:", "--about a:k:"),
    "validate c.yaml --set x --set engine=nope --set title.sub=1": (
        *("--set x:", "title.sub:", "'nonsense'", "engine: no engine", "serving.tensor_parallel_size:"),
    ),
}


@pytest.mark.parametrize("line", MANY)
def test_all_problems_are_told_at_once(line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "c.yaml").write_text(FILES["c.yaml"])
    (tmp_path / "e").mkdir()
    (tmp_path / "e" / "x").touch()
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, line.split())
    assert found.exit_code == 2 and not (tmp_path / "results").exists()
    assert [words for words in MANY[line] if words not in found.stderr] == []
