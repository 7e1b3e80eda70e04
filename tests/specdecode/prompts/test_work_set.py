"""The set that ships: 13 kinds of work, written by hand, no two prompts alike."""

import itertools
from pathlib import Path

import pytest
from specdecode.experiment import credentials
from specdecode.experiment.prompt_sets import set_names, shipped
from specdecode.prompts import PromptSet, about_tokens

ROOT = Path(__file__).resolve().parents[3]
CATEGORIES = {
    *("code", "code-editing", "math", "reasoning", "extraction", "tool-calls", "translation", "summarization"),
    *("retrieval", "question-answering", "creative-writing", "role-play", "chat"),
}
SHINGLE = 5
"""Words."""
ALIKE = 0.15
"""Share of the shorter prompt's shingles that another one may have too."""


@pytest.fixture(scope="module")
def work() -> PromptSet:
    found = shipped("work")
    assert found is not None
    return found


def shingles(text: str) -> set[tuple[str, ...]]:
    words = text.lower().split()
    return {tuple(words[at : at + SHINGLE]) for at in range(max(1, len(words) - SHINGLE + 1))}


def alike(texts: dict[str, str]) -> list[tuple[str, str]]:
    cut = {name: shingles(text) for name, text in texts.items()}
    return [
        (a, b)
        for (a, one), (b, other) in itertools.combinations(cut.items(), 2)
        if len(one & other) / min(len(one), len(other)) > ALIKE
    ]


def test_thirteen_categories_of_twenty_prompts(work: PromptSet) -> None:
    assert set(work.categories) == CATEGORIES
    assert all(len(work.of(category)) >= 20 for category in CATEGORIES)
    assert (work.licence, bool(work.version)) == ("Apache-2.0", True)


def test_no_two_prompts_are_alike(work: PromptSet) -> None:
    """Also not with another noun in the same sentence, which the second check shows to be found."""
    texts = {row.id: " ".join(row.turns) for row in work.rows}
    assert alike(texts) == []
    swapped = texts["math/mixture"].replace("chemist", "cook").replace("litres", "pints")
    assert alike({**texts, "swapped": swapped}) == [("math/mixture", "swapped")]


def test_short_and_long_are_far_apart(work: PromptSet) -> None:
    """Short ones leave room for 600 tokens of answer in a window of 1,024; long ones are of 1,000 to 4,000 tokens."""
    lengths = {row.id: about_tokens(row.text) for row in work.rows}
    assert not {name: length for name, length in lengths.items() if 300 < length < 1000 or length > 4000}
    assert {row.is_long == (lengths[row.id] >= 1000) for row in work.rows} == {True}
    assert sum(length >= 3000 for length in lengths.values()) >= 3


def test_every_kind_of_work_has_long_ones(work: PromptSet) -> None:
    long = {category: len(work.of(category, "long")) for category in CATEGORIES}
    assert min(long.values()) >= 1
    more = ("retrieval", "summarization", "extraction", "code-editing", "question-answering")
    assert min(long[category] for category in more) >= 2


def test_several_languages_and_conversations(work: PromptSet) -> None:
    foreign = {row.category for row in work.rows if not row.text.isascii()}
    assert {"translation", "chat", "summarization", "retrieval", "extraction", "math", "code"} <= foreign
    assert all(len(row.turns) == 3 for row in work.of("chat"))
    assert {row.system is not None for row in work.of("role-play")} == {True}


def test_what_ships_is_small_and_holds_no_secret(work: PromptSet) -> None:
    for name in set_names():
        assert (ROOT / "assets" / "prompts" / "sets" / f"{name}.jsonl").stat().st_size < 512 * 1024
    assert not [place for place, _ in credentials.found(work.model_dump(mode="json"))]
