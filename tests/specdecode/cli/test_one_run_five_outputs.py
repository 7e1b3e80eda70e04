"""One run, five outputs: page, Markdown, terminal, `advise` and CloudWatch show the same numbers and one advice."""

from __future__ import annotations

import csv
import html
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from specdecode.analysis import Comparison, compare_measured, measure
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import render_csv, render_html, render_markdown, render_terminal, write_report
from specdecode.analysis.results.numbers import compact, times
from specdecode.analysis.texts.setting import setting
from specdecode.analysis.texts.wording import first_sentence
from specdecode.cli import app
from specdecode.measures.accounting import Accounting
from specdecode.measures.arm import Key, Measured
from specdecode.measures.publish import metric_data as request_data
from specdecode.measures.publish import places
from typer.testing import CliRunner

from constructs_lib.observability.dashboard_body import EXPERIMENT
from tests.constructs_lib.dashboard_picture import default_body, shown
from tests.specdecode.analysis.simulate import context, experiment, run


@pytest.fixture(scope="module")
def measured() -> tuple[Comparison, dict[Key, Measured]]:
    tested, around = experiment(ks=(3, 7)), context()
    levels = measure(experiment=tested, records=run(tested), context=around)
    return compare_measured(experiment=tested, levels=levels, context=around), dict(levels[0].arms)


def texts(comparison: Comparison) -> dict[str, str]:
    page = html.unescape(re.sub(r"<script.*?</script>|<[^>]+>", " ", render_html(comparison), flags=re.S))
    forms = {"page": page, "markdown": render_markdown(comparison), "terminal": render_terminal(comparison, width=250)}
    return {name: " ".join(text.replace("\\", "").split()) for name, text in forms.items()}


def test_every_text_has_the_same_answer_advice_and_speed_ups(measured: tuple[Comparison, dict[Key, Measured]]) -> None:
    comparison, _ = measured
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
                assert times(case.headline.ratio) in text, (name, case.case)
                assert case.verdict.value in text, (name, case.verdict)


def test_advise_says_what_the_report_says(measured: tuple[Comparison, dict[Key, Measured]], tmp_path: Path) -> None:
    comparison, _ = measured
    write_report(comparison, tmp_path)
    shown = CliRunner().invoke(app, ["advise", str(tmp_path)]).stdout
    assert shown.splitlines()[0] == comparison.advice
    document = json.loads(CliRunner().invoke(app, ["advise", str(tmp_path), "--json"]).stdout)
    assert document["reason"] == comparison.advice


def test_the_published_figures_are_the_reports(measured: tuple[Comparison, dict[Key, Measured]]) -> None:
    comparison, arms = measured
    own = {
        (datum["MetricName"], *(item["Value"] for item in datum["Dimensions"])): datum["Values"][0]
        for datum in metric_data(comparison)
    }
    rows = list(csv.DictReader(io.StringIO(render_csv(comparison))))
    labels = {case.name: case.label for case in comparison.experiment.workload.cases}
    for pair in comparison.pairs:
        arm_label = comparison.experiment.variant(pair.variant).label
        for case in pair.cases:
            assert case.headline is not None
            shown = next(
                row
                for row in rows
                if (row["kind"], row["variant"], row["case"]) == ("speedup", pair.variant, case.case) and row["verdict"]
            )
            assert own["Speedup", arm_label, labels[case.case]] == case.headline.ratio == float(shown["value"])
            assert compact(case.headline) in render_markdown(comparison)
    for (variant, case), each in arms.items():
        data = request_data(each, accounting=Accounting("usage"), places=[[{"Name": "Variant", "Value": "v"}] * 2])
        sent = {datum["MetricName"]: datum for datum in data if len(datum["Dimensions"]) == 2}
        arm = comparison.arm(variant, case)
        assert arm is not None
        for name, tag in (
            ("TTFT", "ttft"),
            ("InterTokenLatency", "time_per_output_token"),
            ("EndToEndLatency", "end_to_end_latency"),
            ("RequestOutputThroughput", "request_output_throughput"),
            ("TokensPerStep", "tokens_per_step"),
            ("OutputTokens", "output_tokens"),
        ):
            values, counts = sent[name]["Values"], sent[name]["Counts"]
            assert sum(counts) == arm.metrics[tag].n
            mean = sum(value * count for value, count in zip(values, counts, strict=True)) / sum(counts)
            assert mean == pytest.approx(arm.metrics[tag].mean), name
        assert sent["ErrorRate"]["Values"] == [arm.totals["error_rate"]]
        if arm.acceptance_rate is not None:
            assert sent["AcceptanceRate"]["Values"] == [arm.acceptance_rate]


def test_the_dashboard_draws_the_reports_figures(measured: tuple[Comparison, dict[Key, Measured]]) -> None:
    """Bars of the deployed body, from what is published: the speed-ups and medians that page and Markdown show."""
    comparison, arms = measured
    tested = comparison.experiment
    labels = {case.name: case.label for case in tested.workload.cases}
    data = list(metric_data(comparison))
    for (variant, case), each in arms.items():
        label = tested.variant(variant).label
        own = places(tested, variant=label, case=labels[case], level=tested.workload.levels[0])
        data += request_data(each, accounting=Accounting("usage"), places=own)
    body = json.loads(json.dumps(default_body()).replace(EXPERIMENT, tested.name))
    widgets = [w for w in body["widgets"] if w["type"] == "metric" and is_bar(w)]
    drawn = {w["properties"]["metrics"][0][0]["expression"]: shown(w, data) for w in widgets}

    def bars_of(metric: str) -> dict[str, list[tuple[float, float]]]:
        wanted = f'Experiment,TestCase,Variant}} MetricName="{metric}" Experiment='
        (bars,) = [bars for expression, bars in drawn.items() if wanted in expression]
        return bars

    speedups = bars_of("Speedup")
    for pair in comparison.pairs:
        for case in pair.cases:
            label = f"{labels[case.case]} {tested.variant(pair.variant).label}"
            assert case.headline is not None and speedups[label] == [(0.0, case.headline.ratio)]
    for arm in comparison.arms:
        for name, tag in (
            ("EndToEndLatency", "end_to_end_latency"),
            ("InterTokenLatency", "time_per_output_token"),
            ("TTFT", "ttft"),
            ("RequestOutputThroughput", "request_output_throughput"),
            ("TokensPerStep", "tokens_per_step"),
        ):
            ((_, value),) = bars_of(name)[f"{labels[arm.case]} {tested.variant(arm.variant).label}"]
            assert value == pytest.approx(arm.metrics[tag].p50), (name, arm.variant, arm.case)


def is_bar(widget: dict[str, Any]) -> bool:
    return bool(widget["properties"]["view"] == "bar")


def test_the_terminal_command_prints_the_same_answer_and_figures(
    measured: tuple[Comparison, dict[Key, Measured]], tmp_path: Path
) -> None:
    comparison, _ = measured
    write_report(comparison, tmp_path)
    printed = CliRunner().invoke(app, ["report", str(tmp_path), "--full"], env={"COLUMNS": "250"}).stdout
    assert " ".join(render_terminal(comparison, width=250).split()) == " ".join(printed.split())
    for fact in setting(comparison):
        for name, text in texts(comparison).items():
            assert " ".join(fact.text.split()) in text, (name, fact.name)
