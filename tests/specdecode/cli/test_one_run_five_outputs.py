"""One run, five outputs: page, Markdown, terminal, `advise` and CloudWatch show the same numbers and one advice."""

import html
import json
import re
from pathlib import Path

import pytest
from specdecode.analysis import Comparison
from specdecode.analysis.report import render_html, render_markdown, render_terminal, write_report
from specdecode.analysis.results.numbers import compact
from specdecode.analysis.texts.setting import setting
from specdecode.analysis.texts.wording import first_sentence

from tests.specdecode.analysis.simulate import experiment, simulated
from tests.specdecode.cli.calling import call


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return simulated(tested=experiment(ks=(3, 7)))


def texts(comparison: Comparison) -> dict[str, str]:
    page = html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", render_html(comparison), flags=re.S))
    forms = {"page": page, "markdown": render_markdown(comparison), "terminal": render_terminal(comparison, width=250)}
    return {name: " ".join(text.replace("\\", "").split()) for name, text in forms.items()}


def test_every_text_has_the_same_answer_advice_and_speed_ups(comparison: Comparison) -> None:
    assert comparison.advice and comparison.recommendation
    for name, text in texts(comparison).items():
        said = text.replace(" (95% CI", "(95% CI").replace(" ", "")
        first = first_sentence(comparison.recommendation)
        rest = comparison.recommendation.removeprefix(first)
        for sentence in (comparison.answer, first, rest, comparison.advice):
            assert sentence.replace(" ", "") in said, (name, sentence)
        for pair in comparison.pairs:
            for case in pair.cases:
                assert case.headline is not None
                assert compact(case.headline) in text, (name, case.case)
                assert case.verdict.value in text, (name, case.verdict)


def test_advise_says_what_the_report_says(comparison: Comparison, tmp_path: Path) -> None:
    write_report(comparison, tmp_path)
    alone = ("advise", tmp_path, "--runs", tmp_path / "none")
    shown = call(*alone).stdout
    assert shown.splitlines()[0] == comparison.advice
    document = json.loads(call(*alone, "--json").stdout)
    assert document["reason"] == comparison.advice


def test_the_command_prints_the_same(comparison: Comparison, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_report(comparison, tmp_path)
    monkeypatch.setenv("COLUMNS", "250")
    printed = call("report", tmp_path, "--full").stdout
    assert " ".join(render_terminal(comparison, width=250).split()) == " ".join(printed.split())
    for fact, said in setting(comparison).items():
        for name, text in texts(comparison).items():
            assert " ".join(said.split()) in text, (name, fact)
