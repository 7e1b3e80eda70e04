"""A draft that is read here: without its libraries a sentence, with them the bits of the embedded engine."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from specdecode.benchmark.endpoint import Endpoint
from specdecode.cli import app
from specdecode.forecast.answers import WrittenAnswer
from specdecode.forecast.local import LocalReader
from specdecode.forecast.server import BadServer, reader
from typer.testing import CliRunner

from tests.rehearsal.engine import conftest as engine
from tests.rehearsal.engine.conftest import DRAFT, serve

ROOT = Path(__file__).resolve().parents[3]
TORCH = ROOT / ".rehearsal" / "vllm" / "bin" / "python"
MODEL = ROOT / ".rehearsal" / "vllm" / "models" / "pair-draft-llama"
READ = """
import asyncio, json, sys
from specdecode.forecast.answers import WrittenAnswer
from specdecode.forecast.local import LocalReader
from specdecode.forecast.server import BadServer
async def read(draft, answers):
    tokens = [await draft.tokens(WrittenAnswer(**each)) for each in answers]
    return [[one.prompt, one.answer, await draft.bits(one)] for one in tokens]
try:
    answers = json.loads(sys.argv[2])
    print(json.dumps(asyncio.run(read(LocalReader("small", sys.argv[1]), answers))))
except BadServer as error:
    print(json.dumps(str(error)))
"""
ASKED = ["Count from 3.", "Write a small program.", "What is the meaning of life?", "List five animals."]


CODE = """
from pathlib import Path
from transformers import LlamaConfig, LlamaForCausalLM as Model, PreTrainedTokenizerFast as Words
Path({ran!r}).touch()
class Config(LlamaConfig):
    model_type = "own"
"""


def read_here(folder: Path, answers: list[dict[str, object]]) -> object:
    command = [str(TORCH), "-c", READ, str(folder), json.dumps(answers)]
    environment = {"PYTHONPATH": str(ROOT / "lambda"), "HF_HUB_OFFLINE": "1", "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False, input="y\n" * 9)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("where", ["/nonexistent", "./none", "a/b/c", ""])
def test_what_is_missing_is_said(tmp_path: Path, where: str) -> None:
    """A folder; or, for one that is there, the libraries."""
    if not where and find_spec("torch"):
        pytest.skip("torch is installed")
    (log := tmp_path / "log.jsonl").write_text(json.dumps({"prompt": "a", "answer": "b c"}))
    result = CliRunner().invoke(app, ["forecast", "--answers", str(log), "--draft", f"small={where or tmp_path}"])
    said = f"small from {where}: there is no such folder" if where else "pip install '.[draft]'"
    assert result.exit_code == 3 and said in result.output and "Traceback" not in result.output


@pytest.mark.parametrize("refuses", ["AutoTokenizer", "AutoModelForCausalLM"])
def test_a_model_s_own_code_is_refused_without_a_question(monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    def loaded(name: str) -> object:
        def from_pretrained(where: str, *, trust_remote_code: bool | None = None, **_: object) -> object:
            assert trust_remote_code is False, "else transformers asks"
            if name == refuses:
                raise ValueError("Please pass the argument `trust_remote_code=True` to allow custom code to be run.")
            return SimpleNamespace(eval=lambda: None)

        return SimpleNamespace(from_pretrained=from_pretrained)

    names = ("AutoTokenizer", "AutoModelForCausalLM")
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(inference_mode=None))
    monkeypatch.setitem(sys.modules, "transformers", SimpleNamespace(**{name: loaded(name) for name in names}))
    with pytest.raises(BadServer, match="no code of a model is run here"):
        LocalReader("small", "owner/model")


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason="`make install-vllm` brings torch, transformers and the pair as folders")
@pytest.mark.parametrize("of", ["config.json", "tokenizer_config.json"])
def test_a_folder_s_own_code_is_not_run(tmp_path: Path, of: str) -> None:
    """Of the model and of the tokenizer, with a yes to each question."""
    folder = shutil.copytree(MODEL, tmp_path / "model")
    (folder / "code.py").write_text(CODE.format(ran=str(tmp_path / "ran")))
    own = {
        "config.json": {
            "model_type": "own",
            "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
        },
        "tokenizer_config.json": {"tokenizer_class": "Words", "auto_map": {"AutoTokenizer": [None, "code.Words"]}},
    }[of]
    (folder / of).write_text(json.dumps(json.loads((folder / of).read_text()) | own))
    found = read_here(folder, [])
    assert not (tmp_path / "ran").exists()
    assert "no code of a model is run here" in str(found)


def test_the_extra_is_what_the_locked_environment_has() -> None:
    locked = (ROOT / "requirements" / "vllm.txt").read_text()
    extra = (ROOT / "pyproject.toml").read_text().split("draft = ")[1].splitlines()[0]
    for pin in yaml.safe_load(extra):
        assert f"\n{pin}+cpu \\\n" in locked or f"\n{pin} \\\n" in locked, pin


@pytest.mark.slow
@pytest.mark.skipif(not MODEL.exists(), reason="`make install-vllm` brings torch, transformers and the pair as folders")
def test_its_bits_are_those_of_the_engine(tmp_path: Path) -> None:
    """Texts as a prompt and as a chat, tokenized by either; and what cannot be read is said."""

    async def served(url: str) -> tuple[list[dict[str, object]], list[list[object]]]:
        draft = await reader("small", Endpoint.of(url))
        answers, found = [], []
        for number, asked in enumerate(ASKED):
            prompt = asked if number % 2 else ({"role": "user", "content": asked},)
            answer = WrittenAnswer(
                category="all", prompt=prompt, text=f"1. {asked} 2, 3, 4, 5, 6, 7 and so on. It is so."
            )
            tokens = await draft.tokens(answer)
            answers.append({"category": "all", "prompt": prompt, "text": answer.text})
            found.append([list(tokens.prompt), list(tokens.answer), await draft.bits(tokens)])
        return answers, found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(engine, "TARGET", DRAFT)
        with serve() as server:
            answers, found = asyncio.run(served(f"http://127.0.0.1:{server.port}"))
    assert read_here(MODEL, answers) == found
    assert any(bit for _, _, bits in found for bit in bits)
    strange = [{**answers[0], "prompt_ids": [1, 2], "answer_ids": [3, 10**6]}]
    assert "token 1000000 is none of them" in str(read_here(MODEL, strange))
    assert "small from" in str(read_here(tmp_path, answers))
