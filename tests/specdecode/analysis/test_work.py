"""What speculation does for each kind of work, in every form of the report."""

import json
import math
import statistics
from typing import Any

import pytest
from specdecode.analysis import Comparison, Verdict, compare
from specdecode.analysis.report import documents, render_html
from specdecode.analysis.report.terminal import render_terminal

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_work import HOSTILE, WORK, by_work, measured, prompts, records


@pytest.fixture(scope="module")
def one() -> Comparison:
    return by_work()


@pytest.fixture(scope="module")
def loads() -> Comparison:
    return by_work(concurrency=(1, 8))


def categories(comparison: Comparison) -> dict[str, Any]:
    (found,) = comparison.work
    return {each.case: each for each in found.categories}


def test_each_category_has_its_verdict_interval_and_acceptance(one: Comparison) -> None:
    found = categories(one)
    assert list(found) == list(WORK)
    assert found["extraction"].levels[0].verdict is Verdict.PAYS
    assert found["poems"].levels[0].verdict is Verdict.COSTS
    for category in found.values():
        (at,) = category.levels
        assert (category.prompts, at.speedup.n) == (20, 20), "the interval is over prompts, not over requests"
        assert at.speedup.low < at.speedup.ratio < at.speedup.high
        assert (at.compared, at.identical) == (40, 40)
        assert 1 <= len(at.accepted_per_position) <= 7
    assert found["extraction"].levels[0].acceptance_length > found["chat"].levels[0].acceptance_length > 1


def test_the_figures_are_those_of_the_records(one: Comparison) -> None:
    """Computed here once more, from the records alone."""
    prompted = prompts()
    all_of = list(records(measured(prompted), prompted))
    for name, category in categories(one).items():
        logs: dict[tuple[str, str], list[float]] = {}
        own = [record for record in all_of if record.case == name]
        for record in own:
            speed = (record.completion_tokens or 0) / record.end_s
            logs.setdefault((record.variant, str(record.prompt_id)), []).append(math.log(speed))
        gains = {
            row.id: statistics.fmean(logs["sd", row.id]) - statistics.fmean(logs["base", row.id])
            for row in prompted.of(name)
        }
        assert category.levels[0].speedup.ratio == pytest.approx(math.exp(statistics.fmean(gains.values())))
        ordered = sorted(gains, key=lambda each: gains[each])
        assert [each.id for each in category.least] == ordered[:3]
        assert [each.id for each in category.most] == ordered[:-4:-1]
        assert category.most[0].speedup == pytest.approx(math.exp(gains[ordered[-1]]))
        told = [record.drafted for record in own if record.drafted]
        drafts, accepted = sum(each.drafts for each in told), sum(each.accepted_tokens for each in told)
        assert category.levels[0].acceptance_length == pytest.approx(1 + accepted / drafts)


def test_each_load_has_its_own_row_of_figures(loads: Comparison) -> None:
    for category in categories(loads).values():
        assert [at.level.concurrency for at in category.levels] == [1, 8]
        first, second = (at.speedup.ratio for at in category.levels)
        assert first > second, "the server of this simulation gains less the fuller it is"


def test_prompts_that_were_sent_twice_count_once() -> None:
    prompted = prompts(8)
    twice = measured(prompted, requests=16)
    found = compare(experiment=twice, records=records(twice, prompted), context=context())
    assert {category.prompts for category in categories(found).values()} == {8}


def test_an_interval_over_one_prompt_is_not_called_one_over_prompts(one: Comparison) -> None:
    prompted = prompts(1)
    single = measured(prompted, requests=8)
    found = compare(experiment=single, records=records(single, prompted), context=context())
    said = "Measured with one prompt only:"
    for form in (*map(documents(found).get, ("report.html", "report.md")), render_terminal(found)):
        assert f"{said} {', '.join(WORK)}" in " ".join(str(form).replace("\\", "").split())
    assert said not in render_terminal(one)


def test_texts_are_those_of_the_set_with_that_hash_or_none() -> None:
    assert {each.text for each in categories(by_work(texts=False))["chat"].most} == {""}
    prompted, other = prompts(), prompts(19)
    one = measured(prompted)
    key = one.workload.cases[0].prompts
    assert key is not None
    found = compare(experiment=one, records=records(one, prompted), context=context(), sets={key.key: other})
    assert {each.text for each in categories(found)["chat"].most} == {""}
    assert "the set of prompts was not available" in render_html(found)


def test_hostile_texts_are_text_in_every_form(one: Comparison) -> None:
    """The first prompt of each category gained least, and is hostile; the second is long."""
    (first, second, _) = categories(one)["code"].least
    assert first.text.startswith(HOSTILE[:20])
    assert (len(second.text), second.characters > 5000) == (1000, True)
    forms = documents(one)
    page, text = forms["report.html"], forms["report.md"]
    assert "<script>alert(1)" not in page and "&lt;script&gt;alert(1)" in page
    assert "characters)" in page
    assert "<script>" not in text and "](javascript:" not in text and "![x](" not in text and "https://" not in text
    for form in (page, text, render_terminal(one)):
        assert "\x1b[31m" not in form and "\u202e" not in form
    assert json.loads(forms["report.json"])["work"][0]["categories"][0]["least"][0]["id"].startswith("code-0<script>")


def test_every_form_says_for_which_work_it_pays(one: Comparison, loads: Comparison) -> None:
    said = "sd pays on code, extraction (2 of 4 kinds of work)"
    for form in (documents(one)["report.html"], documents(one)["report.md"], " ".join(render_terminal(one).split())):
        assert said in form.replace("\\", "")
    assert "By load" not in documents(one)["report.md"]
    assert documents(loads)["report.md"].count("1 at a time | 8 at a time") == 1
    assert "By load" in documents(loads)["report.html"]


def test_a_report_names_only_work_that_it_has(one: Comparison) -> None:
    document = json.loads(one.json_document())
    assert Comparison.model_validate_json(json.dumps(document)) == one
    for change in ({"variant": "ghost"}, {"baseline": "ghost"}):
        broken = json.loads(json.dumps(document))
        broken["work"][0].update(change)
        with pytest.raises(ValueError, match="names what it does not have"):
            Comparison.model_validate_json(json.dumps(broken))
    document["work"][0]["categories"][0]["case"] = "ghost"
    with pytest.raises(ValueError, match="case ghost"):
        Comparison.model_validate_json(json.dumps(document))
