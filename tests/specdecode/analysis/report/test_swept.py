"""A run over serving settings and over lengths of answers: what is decided, and its pictures."""

import random
import re
from collections.abc import Iterator
from functools import cache

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import observations
from specdecode.analysis.report import render_html, render_markdown
from specdecode.analysis.report.page import ReportView
from specdecode.analysis.report.swept import Picture
from specdecode.experiment import load_preset
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.records import RequestRecord

from tests.specdecode.analysis.simulate import context, experiment, request, run, simulated

SLOWER = {1: 1.0, 2: 1.2, 4: 1.4}
"""A step of so many requests together, against one of a single request."""
GAIN = {1: 0.5, 2: 0.8, 4: 1.3}
"""A step of the speculating arm beside that: it wins alone, and loses in the full batch."""


def records(tested: Experiment) -> Iterator[RequestRecord]:
    """Four requests at a time. Of a batch of one, three wait."""
    rng, clock = random.Random(7), 0.0
    for case in tested.workload.cases:
        for variant in tested.variants:
            batch = tested.batch_of(variant) or 1
            step = 0.02 * SLOWER[batch] * (GAIN[batch] if variant.speculation else 1.0)
            for index in range(8):
                tokens = tested.workload.output_tokens_of(case)
                found = request(
                    variant=variant.name, case=case.name, index=index, rng=rng, tokens=tokens, step_s=step,
                    ttft_s=0.1 + (4 / batch - 1) * step * tokens, sent_s=clock,
                )  # fmt: skip
                clock += found.end_s / 4
                yield found


@cache
def tuned() -> Comparison:
    tested = load_preset("rehearsal-tuning")
    return compare(experiment=tested, records=list(records(tested)), context=context())


def drawn(pictures: list[tuple[int, Picture]]) -> dict[str, dict[str, dict[float, float]]]:
    """Title -> line -> place -> figure."""
    return {
        picture.title: {
            name: {round(at): figure for at, (figure, *_) in points.items()} for name, _, points in picture.lines
        }
        for _, picture in pictures
    }


def test_the_decision_is_about_the_setting_that_serves_most_and_names_its_baseline() -> None:
    found = tuned()
    gains = {pair.variant: pair.group("all").headline.ratio for pair in found.pairs}  # type: ignore[union-attr]
    assert gains["sd-seqs1"] > 1.5 > 1 > gains["sd-seqs4"], "its own figures say another arm has the largest speed-up"
    decision = found.decision
    assert decision and (decision.baseline, decision.serve, decision.setting) == (
        "base-seqs4",
        "base-seqs4",
        "max_num_seqs=4",
    )
    assert "max_num_seqs=4) is slower" in (found.recommendation or "")
    assert {pair.variant: pair.baseline for pair in found.pairs} == {f"sd-seqs{n}": f"base-seqs{n}" for n in (1, 2, 4)}


def test_the_advisor_learns_from_one_setting_alone() -> None:
    (seen,) = observations([tuned()]).values()
    assert [item.speedup for item in seen] == [pytest.approx(1 / GAIN[4], rel=0.05)]
    assert {measured.variant for theory in tuned().theory for measured in theory.measured} == {"sd-seqs4"}


def test_the_pictures_over_a_setting() -> None:
    view = ReportView(tuned())
    found = drawn(view.pictures.settings)
    (gains,) = found["Speed-up (95% CI)"].values()
    assert list(gains) == [1, 2, 4] and gains[1] > gains[2] > 1 > gains[4]
    speeds = found["Output tokens a second of the server"]
    assert set(speeds) == {"without speculation", "pair-draft, k=5"}
    assert speeds["without speculation"][4] == max(max(line.values()) for line in speeds.values())
    text = render_markdown(tuned()).replace("\\", "")
    assert all(re.search(rf"sd-seqs{n} .*max_num_seqs={n} .*→", text) for n in (1, 2, 4))
    assert view.pairs == [view.best], "one pair in full, all of them in the matrix"


def test_the_pictures_over_the_length_of_the_answer() -> None:
    found = drawn(ReportView(tuned()).pictures.lengths)
    (gains, saved) = (
        found[title] for title in ("Speed-up (95% CI)", "End-to-end gain: seconds that an answer takes less")
    )
    for lines in (gains, saved):
        assert {name: list(line) for name, line in lines.items()} == {
            name: [32, 64, 128, 256] for name in ("repeat-line", "meaning-of-life")
        }
    # 0.02 s x 1.4 a step of one token; the arm's step takes 1.3 of it, beside 0.1 s until the first token
    for length, figure in saved["repeat-line"].items():
        assert figure == pytest.approx(-(GAIN[4] - 1) * 0.028 * (length - 1), rel=0.15)


def test_the_articles_figures_are_request_by_request_for_one_type_of_each_kind() -> None:
    view = ReportView(tuned())
    found = drawn(view.pictures.article)
    assert [re.split("[:,] ", title)[::2] for title in found] == [
        [f"Figure {number}", f"{name}-out256"] for number in (3, 4, 5) for name in ("repeat-line", "meaning-of-life")
    ]
    ttft = found["Figure 5: TTFT (prefill), repeat-line-out256"]
    assert set(ttft) == {"Base-seqs4", "SD-seqs4"}
    assert all(list(line) == list(range(1, 9)) for line in ttft.values())
    assert all(figure == pytest.approx(0.1, rel=0.2) for line in ttft.values() for figure in line.values())
    page = render_html(tuned())
    assert page.count('data-chart="swept"') == 10 and "The article" in page
    assert "What the advisor believes, over k and draft" in page, "the article's figure 1"


def test_the_articles_figures_are_of_its_own_prompts_or_the_longest_and_of_the_rounds_that_both_arms_ran() -> None:
    def case(name: str, source: str, tokens: int | None) -> TestCase:
        return TestCase(name=name, label=name, kind=PromptKind.TEXT, text=name, structured=True, source=source,
                        output_tokens=tokens)  # fmt: skip

    for cases, shown in (
        ((case("counting", "public sample", 900), case("repeat-line", "article", None)), "repeat-line"),
        ((case("short", "", 32), case("default", "", None), case("other", "", None)), "default"),
    ):
        tested = experiment(cases=cases)
        again = [
            each.model_copy(update={"round": 1, "session": 1})
            for each in run(tested)
            if each.variant == "base" and each.case == shown
        ]
        found = compare(experiment=tested, records=[*run(tested), *again], context=context())
        pictures = drawn(ReportView(found).pictures.article)
        assert {title.rpartition(", ")[2] for title in pictures} == {shown}
        assert all(len(points) == 8 for lines in pictures.values() for points in lines.values())


def test_a_run_of_one_setting_and_one_length_has_neither() -> None:
    pictures = ReportView(simulated()).pictures
    assert not pictures.settings and not pictures.lengths and pictures.article
