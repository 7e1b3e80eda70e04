"""Several arms at once: none twice, no two that ask the same question, and those on their way count."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from specdecode.experiment.level import Level
from specdecode.experiment.most_tokens import MostTokens
from specdecode.speculation.advisor import Candidate, Observation, advise
from specdecode.speculation.batch import Seen, imagined, next_batch
from specdecode.speculation.loads import LoadsAdvice, advise_over_loads

CANDIDATES = [Candidate(draft, k) for draft in ("small", "large") for k in range(5, 16)]
ONE, FOUR = Level(concurrency=1), Level(concurrency=4)
MOST = MostTokens.K_PLUS_1


def ask(seen: Seen) -> LoadsAdvice:
    known = {level: found for level, found in seen.items() if found}
    if len(seen) > 1 and known:
        return advise_over_loads(CANDIDATES, known, most=MOST)
    return LoadsAdvice(advise(CANDIDATES, [item for found in known.values() for item in found], most=MOST), ())


def batch(seen: Sequence[Observation], count: int, in_flight: Sequence[Candidate] = ()) -> list[Candidate]:
    found = next_batch(ask, {ONE: seen}, count=count, in_flight=in_flight, most=MOST)
    return [belief.candidate for belief in found]


SEEN = [Observation("large", 7, 1.9, 4.1)]


def test_the_first_of_a_batch_is_the_advice_and_a_longer_one_begins_with_the_shorter() -> None:
    assert batch(SEEN, 1) == [ask({ONE: SEEN}).together.compile_next]
    four = batch(SEEN, 4)
    assert four[:2] == batch(SEEN, 2) and four == batch(SEEN, 4), "and it is the same each time"


@pytest.mark.parametrize("seen", [[], SEEN], ids=["nothing measured", "one arm measured"])
def test_no_arm_is_chosen_twice_or_again(seen: Sequence[Observation]) -> None:
    four = batch(seen, 4)
    assert len(four) == len(set(four)) == 4
    assert Candidate("large", 7) not in four or not seen


def test_arms_of_a_batch_ask_different_questions() -> None:
    """By expected improvement alone the second is the neighbour of the first."""
    beliefs = ask({ONE: []}).together.beliefs
    assert abs(beliefs[0].candidate.k - beliefs[1].candidate.k) <= 1
    first, second = batch([], 2)
    assert first.draft != second.draft or abs(first.k - second.k) > 1


def test_arms_on_their_way_count_and_are_not_proposed() -> None:
    first, second, third = batch(SEEN, 3)
    assert batch(SEEN, 2, in_flight=[first]) == [second, third]
    again = batch(SEEN, 1, in_flight=[Candidate("large", 7)])
    assert again == [first], "a measured arm that is measured again adds nothing to be imagined"


def test_a_batch_is_as_large_as_is_worth_it() -> None:
    sure = [Observation("small", k, 1.2, 3.0, 0.005) for k in range(5, 16)]
    sure += [Observation("large", k, 2.0 - 0.02 * abs(k - 9), 4.0, 0.005) for k in range(5, 16, 2)]
    assert len(batch(sure, 16)) < 5
    everything = [*sure, *(Observation("large", k, 1.9, 4.0, 0.005) for k in range(6, 16, 2))]
    assert batch(everything, 4) == []


def test_at_several_loads_an_arm_is_imagined_at_each() -> None:
    seen = {ONE: SEEN, FOUR: [Observation("large", 7, 1.2, 4.1)]}
    found = [belief.candidate for belief in next_batch(ask, seen, count=4, most=MOST)]
    assert len(found) == len(set(found)) == 4
    assert found[0] == ask(seen).together.compile_next


def test_what_is_imagined_is_below_what_is_believed() -> None:
    belief = ask({ONE: SEEN}).together.beliefs[0]
    found = imagined(belief, SEEN, most=MOST)
    assert (found.draft, found.k) == belief.candidate
    assert belief.low < found.speedup < belief.speedup
    assert found.tokens_per_step > 1.0
