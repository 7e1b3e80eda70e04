"""What a report says of sets and of conversations, in every form."""

import pytest
from specdecode.analysis.report.html import render_html
from specdecode.analysis.report.tables import TURNS, turn_table
from specdecode.analysis.report.terminal import render_markdown
from specdecode.analysis.results.comparison import Comparison
from specdecode.records import SetFacts

from tests.specdecode.analysis.simulate import context, experiment, run, simulated

SHA = "5f" * 32


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    """Every other request the second turn of a conversation; the set's licence and an arm's name try to be markup."""
    records = [
        r.model_copy(update={"turn": r.index % 2, "prompt_tokens": 50, "cached_tokens": 32 * (r.index % 2)})
        for r in run(experiment())
    ]
    facts = SetFacts(name="talks", version="3", licence="<b>CC0", sha256=SHA, prompts=3)
    return simulated(records, around=context(sets=(facts,), prefix_caching={"base": True}))


@pytest.mark.parametrize("render", [render_html, render_markdown])
def test_sets_and_turns_are_in_the_report(comparison: Comparison, render) -> None:
    text = render(Comparison.model_validate_json(comparison.json_document()))
    assert SHA in text
    assert "<b>CC0" not in text
    assert "Conversations turn by turn" in text
    assert "base on" in text.replace("\\", "")
    first = comparison.experiment.workload.cases[0].name
    arm = comparison.arm("sd", first)
    assert arm is not None
    assert [(each.turn, each.cached_tokens) for each in arm.turns] == [(1, 0.0), (2, 32.0)]
    for each in arm.turns:
        assert each.ttft.p50 is not None
        assert f"{each.ttft.p50 * 1000:.1f} ms" in text.replace("\\", "")


def test_where_nothing_was_a_conversation_nothing_is_said_of_turns() -> None:
    plain = simulated()
    for text in (render_html(plain), render_markdown(plain)):
        assert "turn by turn" not in text
        assert "SHA-256" not in text


def test_turns_stand_in_their_order_and_every_figure_says_what_it_is(comparison: Comparison) -> None:
    found = turn_table(comparison)
    first = comparison.experiment.workload.cases[0].name
    own = [(turn, arm) for case, arm, turn, *_ in found.texts if case == first]
    assert own == [("1", "base"), ("1", "sd"), ("2", "base"), ("2", "sd")]
    page = render_html(comparison)
    for column in TURNS[2:]:
        assert page.count(f'title="{column.title}"') == 1 + len(found.rows), column.header
