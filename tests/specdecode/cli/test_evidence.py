"""`specdecode evidence`: rows go from one user to another, and bad ones are refused."""

import json
from pathlib import Path

import pytest
import yaml
from specdecode.analysis.advice.payoff import Payoff, payoff_line
from specdecode.cli import app
from specdecode.experiment import load
from specdecode.speculation.step_cost import StepCost, arms, published
from typer.testing import CliRunner, Result


def evidence(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["evidence", *arguments])


def test_a_row_that_somebody_gave_is_listed_and_used_once(tmp_path: Path) -> None:
    given = tmp_path / "theirs.yaml"
    row = published()[0].model_copy(update={"source": "a colleague's run", "k": 5, "tokens_per_step": 3.9})
    given.write_text(yaml.safe_dump([row.model_dump(mode="json")]))
    folder = str(tmp_path / "results")
    assert "1 row added, 0 there before" in evidence("add", str(given), "--runs", folder).output
    assert "0 rows added, 1 there before" in evidence("add", str(given), "--runs", folder).output
    listed = evidence("list", "--runs", folder).output
    assert listed.count("a colleague's run") == 1 and "bounded" in listed
    assert yaml.safe_load(evidence("export", "--runs", folder).output) == [], "only your own runs are yours to share"


def test_forecast_plan_and_advise_read_the_same_evidence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def told() -> tuple[float, str, float]:
        texts = [
            CliRunner().invoke(app, [*command, "qwen3-32b-tuning", *form]).stdout
            for command, form in ((["forecast"], ["--json"]), (["plan"], []), (["advise"], ["--json"]))
        ]
        found, advice = Payoff.model_validate(json.loads(texts[0])["payoff"]), json.loads(texts[2])["candidates"]
        best = found.whole.best
        (advised,) = [one["expected"] for one in advice if (one["draft"], one["k"]) == (best.draft, best.k)]
        assert payoff_line(found)[:50] in texts[1] and advised == pytest.approx(best.speedup.value)
        return best.speedup.value, texts[1], advised

    monkeypatch.chdir(tmp_path)
    before = told()
    arm = arms(load("qwen3-32b-tuning"))["Qwen/Qwen3-1.7B"]._asdict()
    row = StepCost(source="mine", **arm | {"k": 7}, speedup=3.0, tokens_per_step=3.3)
    Path("theirs.yaml").write_text(yaml.safe_dump([row.model_dump(mode="json")]))
    assert evidence("add", "theirs.yaml").exit_code == 0
    assert all(one != other for one, other in zip(before, told(), strict=True))


@pytest.mark.parametrize("text", ["[{k: 3}]", "{", "- 1", "[{prompt: secret}]"])
def test_what_are_no_rows_is_refused_in_words(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.yaml").write_text(text)
    result = evidence("add", str(tmp_path / "bad.yaml"), "--runs", str(tmp_path / "results"))
    assert result.exit_code == 2 and "bad.yaml" in result.output and "Traceback" not in result.output
    assert not (tmp_path / "results").exists()


def test_rows_that_cannot_be_true_are_refused_with_every_problem_wherever_they_are_read(tmp_path: Path) -> None:
    row = published()[0].model_dump(mode="json") | {"k": 5, "tokens_per_step": 3.9}
    wrong = [{"speedup": 1e9, "error": 0.0001}, {"tokens_per_step": 40}, {"speedup": 0.001}, {"speedup": 4.5}]
    given, kept = tmp_path / "theirs.yaml", tmp_path / "results" / "evidence.yaml"
    given.write_text(yaml.safe_dump([row, *({**row, **each} for each in wrong), {**row, "speedup": 4.0}]))
    refused = evidence("add", str(given), "--runs", str(kept.parent))
    assert refused.exit_code == 2 and not kept.exists()
    assert [line[:2] for line in refused.output.splitlines()[1:]] == ["1:", "2:", "3:", "4:"]
    assert "40 tokens per step are more than a step yields: 6 at most with k=5" in refused.output
    kept.parent.mkdir()
    given.rename(kept)
    read = CliRunner().invoke(app, ["forecast", "qwen3-32b-tuning", "--runs", str(kept.parent)])
    assert read.exit_code == 2 and "2: 40 tokens per step" in read.output
