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
    "bad.yaml": "[{k: x, speedup: -1, strange: 1}]",
    "p.jsonl": '{"id":"a"}\n',
    "c.yaml": "extends: qwen3-32b\nworkload: {cases: [nonsense]}\nserving: {tensor_parallel_size: 7}\n",
    "cr/report.json": "{}",
    "e/x": "",
}
WITH_JSON = ("validate", "report", "compare", "advise", "gate", "winner", "runs", "import", "bench")
WRONG = {
    "validate": (
        "nosuch | empty.yaml | list.yaml | tabs.yaml | bad.json | c.yaml | qwen3-32b --set x | "
        "qwen3-32b --set workload.requests=0 | qwen3-32b --set workload.cases=[] | qwen3-32b --set variants=[] | "
        "qwen3-32b --set engine=nope | qwen3-32b --set node=nope"
    ),
    "plan": "nosuch | qwen3-32b --set serving.devices=99",
    "advise": "nosuch/ | empty.yaml",
    "report": "nosuch/ | nosuch.json | cr | e | bad.json | cr --format pdf | cr --price -1 | --nope",
    "compare": "cr | cr cr | nosuch/ cr",
    "gate": "cr | cr..cr | a/..b/ | cr..cr --max-regression x",
    "winner": "cr | nosuch/",
    "runs": "--folder nosuch | --folder e --out x.html",
    "import": (
        "x | base=nosuch sd=nosuch | base=bad.json sd=bad.json | base=empty.yaml sd=list.yaml | base=e sd=e | "
        "base=bad.json --about x | base=bad.json sd=bad.json --about sd:k=x | base=e sd=c.yaml --about sd:k= | "
        "=e sd=c.yaml | Base!=e sd=c.yaml | base= sd=e | base=e sd=c.yaml --about="
    ),
    "prompts": "check nosuch | check p.jsonl | check bad.json | check empty.yaml | show nosuch | nosuch | show",
    "bench": "ftp://x | host:80 | http:// | a=http://x a=http://x",
    "bench http://127.0.0.1:9": (
        "--case nope | --prompts nosuch | --prompts p.jsonl | --requests 0 | --requests x | --concurrency x | "
        "--concurrency 4 --rate 2 | --rate -1 | --temperature -1 | --output-tokens 0 | --timeout 0 | "
        "--load nope | --price-per-hour x | --speculative-tokens base=x | --most-tokens-per-step base=9 | "
        "--resume | --resume --out nosuch | --upload x | --slo-share 2 | --concurrency 1,1 | --nope | "
        "--duration 0 | --duration nan | --duration inf | --ramp -1 | --ramp inf | --max-error-rate nan | "
        "--max-error-rate 2 | --speculative-tokens base=0 | --speculative-tokens base=33 | --out empty.yaml/x"
    ),
    "run": "nosuch | c.yaml",
    "": (
        "manifests nosuch | manifests qwen3-32b --bucket= | engines nosuch | evidence add bad.yaml | "
        "forecast nosuch | evidence add nosuch | plan qwen3-32b --ami= | status --watch a,b | "
        "instance rehearsal --venv e --tool docker | instance qwen3-32b --print --price inf | nosuch | --nope | gate"
    ),
}
"""Command -> what makes it a wrong input, each by itself."""
LEAKS = ("Value error", "value_error", "Input should", "should match pattern", "should have", "after validation")
LEAKS += ("not permitted", "Traceback")
"""Words of pydantic, and of Python."""
LINES = [f"{command} {rest}" for command, wrong in WRONG.items() for rest in wrong.split(" | ")]


@pytest.mark.parametrize("line", LINES)
@pytest.mark.usefixtures("no_region")
def test_a_wrong_input_is_told_in_one_style(line: str, tmp_path: Path) -> None:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    found = CliRunner().invoke(app, line.split())
    assert isinstance(found.exception, SystemExit) and found.exit_code == 2, found.output
    assert found.stderr.startswith("error: "), found.stderr
    assert not any(word in found.stderr for word in LEAKS)
    assert not any(line.endswith(("not ", ": ")) for line in found.stderr.splitlines())
    if line.split()[0] in WITH_JSON:
        document = json.loads(CliRunner().invoke(app, [*line.split(), "--json"]).stdout)
        assert document.get("exit_code") == 2 or document["valid"] is False


MANY = {
    "bench ftp://x --requests 0 --timeout 0 --price-per-hour x --case nope --upload y --resume": (
        *("'ftp://x'", "--price-per-hour x", "no test case is called nope", "--requests:", "--timeout:"),
        *("--resume goes on", "'y' is not an address"),
    ),
    "bench a=http://x b=http://y --price-per-hour 1 --price-per-hour a=2 --price-per-hour 3 --speculative-tokens b=1 "
    "--speculative-tokens b=2": (
        *("--price-per-hour 3: given twice for all arms", "--speculative-tokens b=2: given twice for b"),
    ),
    "bench http://127.0.0.1:9 --tokenizer nosuch --rate 0": ("--tokenizer: cannot read nosuch", "--rate:"),
    "gate x --min-speedup nan --load NaN": ("invalid value for --min-speedup, --load: must be a number;",),
    "bench http://127.0.0.1:9 --rate=": ("--rate: must be a number, not ''",),
    "bench http://127.0.0.1:9 --case=": ("no test case is called ''; there are",),
    "instance rehearsal --store e/x --out e/x/y": ("--store: ", "--out: "),
    "instance rehearsal --store a:b --out c:d": ("--store: no container", "--out: no container"),
    "instance rehearsal --print --ask x --artifacts s3://b/x --out x --resume": (
        *("--ask has no place", "--artifacts has no place", "--out has no place", "--resume has no place"),
    ),
    "instance rehearsal --print --store x --json --skip-compile": (
        *("--store has no place", "--json has no place", "--skip-compile has no place"),
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
    f"import base=/nowhere sd=/nowhere --title {'x' * 201}": ("--title: 1 to 200 characters", "no such file"),
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


def test_what_is_wrong_for_all_arms_is_told_once() -> None:
    found = CliRunner().invoke(app, ["bench", "a=http://x", "b=http://y", "--price-per-hour", "nan"])
    assert found.stderr.count("--price-per-hour: must be a finite number, not nan") == 1
