"""The table of k by batch size: what it chooses, where it switches, and how it is said."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise

import pytest
from specdecode.analysis import Comparison, compare
from specdecode.analysis.loads.k_by_load import Choice, in_words, table
from specdecode.analysis.report import render_html, render_markdown, render_terminal
from specdecode.analysis.results.over_load import KRange, Schedule
from specdecode.analysis.results.pairs import Verdict
from specdecode.analysis.results.run_context import Accuracy
from specdecode.analysis.texts.decide import decided
from specdecode.analysis.texts.recommend import headline
from specdecode.experiment.files import engine_names, load_engine
from specdecode.experiment.model import Experiment
from specdecode.records import ErrorKind, RequestError, RequestRecord

from tests.specdecode.analysis.simulate import context
from tests.specdecode.analysis.simulate_load import Server, compared, loads, run, true_crossover, true_gain

BASE = Server()
SERVERS = {
    "base": BASE,
    "sd-k2": Server(base_s=0.023, per_sequence_s=0.0012, k=2, acceptance=0.8),
    "sd-k6": Server(base_s=0.027, per_sequence_s=0.0030, k=6, acceptance=0.8),
}
LEVELS = (1, 2, 4, 8, 16, 32, 64)


def simulated(engine: str = "rehearsal-vllm", servers: Mapping[str, Server] = SERVERS) -> Comparison:
    return compared(loads(LEVELS, ks=(2, 6), requests=32).model_copy(update={"engine": engine}), servers)


def failing(tested: Experiment, servers: Mapping[str, Server], arm: str, levels: set[str]) -> Comparison:
    """Every request of an arm fails at some levels."""
    broken = RequestError(kind=ErrorKind.RESET, message="connection reset by peer")

    def change(record: RequestRecord) -> RequestRecord:
        fails = record.variant == arm and record.level in levels
        return record.model_copy(update={"error": broken}) if fails else record

    return compared(tested, servers, change=change)


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return simulated()


def test_a_round_that_one_arm_lacks_chooses_no_k(comparison: Comparison) -> None:
    tested = loads(LEVELS, ks=(2, 6), requests=32).model_copy(update={"engine": "rehearsal-vllm"})
    records = list(run(tested, SERVERS, seed=1))
    again = [
        record.model_copy(update={"round": 1, "end_s": 1.5 * record.end_s})
        for record in records
        if record.variant == "base"
    ]
    planned = loads(LEVELS, ks=(2, 6), requests=32, rounds=2).model_copy(update={"engine": "rehearsal-vllm"})
    found = compare(experiment=planned, records=[*records, *again], context=context())
    assert found.schedule[0].ranges == comparison.schedule[0].ranges


def test_the_schedule_is_near_the_best_arm_at_every_load(comparison: Comparison) -> None:
    (found,) = comparison.schedule
    assert found.ranges[0].first == 1 and found.ranges[-1].last == 64, "to the batch, without a gap"
    assert all(one.last + 1 == other.first for one, other in pairwise(found.ranges))
    at_levels = [each.k for load in LEVELS for each in found.ranges if each.first <= load <= each.last]
    assert at_levels == sorted(at_levels, reverse=True)
    assert {each.variant for each in found.ranges} <= SERVERS.keys() and found.ranges[0].k == 6
    for load in LEVELS:
        (own,) = [each for each in found.ranges if each.first <= load <= each.last]
        best = max(true_gain(BASE, server, load) for server in SERVERS.values())
        assert true_gain(BASE, SERVERS[own.variant], load) > 0.96 * best, load


TWO = {"base": BASE, "sd": SERVERS["sd-k2"]}


def test_an_arm_that_failed_at_the_large_loads_is_not_the_fastest_there() -> None:
    found = failing(loads((1, 2, 4, 8), ks=(5,)), TWO, "sd", {"c4", "c8"})
    assert found.answer.startswith("Speculate at every load that could be compared: ")
    assert "4, 8 at a time have no speed-up: too many requests failed" in found.answer
    assert "32 failed (" in render_html(found) and "none failed" not in render_html(found)
    (schedule,) = found.schedule
    assert [(each.k, each.rivals, each.failed) for each in schedule.ranges] == [(5, (), ()), (0, (), (5,))]
    assert schedule.ranges[0].last == 2, "it is not served with where it failed"
    said = in_words(schedule)
    assert "k=5 (sd) up to 2 requests at a time (shown to be the fastest)" in said
    assert "no speculation (base) from 3 on (k=5 failed there or was not measured)." in said


def test_where_one_of_several_arms_failed_another_is_chosen() -> None:
    tested = loads(LEVELS, ks=(2, 6), requests=32).model_copy(update={"engine": "rehearsal-vllm"})
    for out in ({"c1", "c2", "c4"}, {"c4"}):
        (schedule,) = failing(tested, SERVERS, "sd-k6", out).schedule
        (own,) = [each for each in schedule.ranges if each.first <= 4 <= each.last]
        assert own.k != 6 and 6 in own.failed and 6 not in (own.rivals or ())


def test_an_arm_that_has_one_load_alone_is_chosen_there_and_named_at_the_others() -> None:
    """k = 6 is the fastest at the first load, and nothing is known of it beyond."""
    tested = loads(LEVELS, ks=(2, 6), requests=32).model_copy(update={"engine": "rehearsal-vllm"})
    lacks = [r for r in run(tested, SERVERS, seed=1) if r.variant != "sd-k6" or r.level == "c1"]
    (schedule,) = compare(experiment=tested, records=lacks, context=context()).schedule
    assert (schedule.ranges[0].k, schedule.ranges[0].last) == (6, 1)
    beyond = [each for each in schedule.ranges for load in LEVELS[1:] if each.first <= load <= each.last]
    assert len(beyond) == 6 and all(each.failed == (6,) and each.k != 6 for each in beyond)


def test_a_k_that_makes_no_relevant_difference_is_not_chosen() -> None:
    """It is no reason to speculate, as the decision says."""
    servers = {"base": BASE, "sd": replace(BASE, base_s=0.98 * BASE.base_s, per_sequence_s=0.98 * BASE.per_sequence_s)}
    found = compared(loads(LEVELS, ks=(5,), requests=64, rounds=3), servers, noise=0.001)
    same = [each for each in decided(found).findings if each.verdict is Verdict.NO_DIFFERENCE and each.group == "all"]
    assert len(same) == len(LEVELS)
    assert [each.k for each in found.schedule[0].ranges] == [0]


def test_a_k_that_costs_over_all_prompts_is_not_chosen_for_the_types_that_gain() -> None:
    """Two of three types gain 12% at 8 at a time, and the third loses 60%."""
    tested = loads((1, 8), ks=(5,), requests=32, cases=2)
    types = (*tested.workload.cases, tested.workload.cases[-1].model_copy(update={"name": "last"}))
    workload = tested.workload.model_copy(update={"cases": types})
    tested = tested.model_copy(update={"workload": workload, "engine": "rehearsal-vllm"})

    def change(record: RequestRecord) -> RequestRecord:
        factor = 1.0 if record.variant == "base" else 2.5 if (record.case, record.level) == ("last", "c8") else 0.89
        return record.model_copy(update={"end_s": factor * record.end_s})

    found = compared(tested, {"base": BASE, "sd": BASE}, change=change)
    here = {each.load: each.verdict for each in decided(found).findings if each.group == "all"}
    assert here == {"c1": Verdict.PAYS, "c8": Verdict.COSTS}
    assert [(each.last, each.k) for each in found.schedule[0].ranges] == [(1, 5), (64, 0)]


def test_an_arm_that_answers_worse_is_in_no_schedule() -> None:
    tested = loads(LEVELS, ks=(2, 6), requests=32).model_copy(update={"engine": "rehearsal-vllm"})
    scores = [Accuracy(variant=name, task="gsm8k", metric="em", value=0.4 if name == "sd-k6" else 0.9, stderr=0.01)
              for name in SERVERS]  # fmt: skip
    found = compare(experiment=tested, records=list(run(tested, SERVERS, seed=1)),
                    context=context(accuracy=tuple(scores)))  # fmt: skip
    assert {each.k for each in found.schedule[0].ranges} <= {0, 2} and decided(found).serve == "sd-k2"


def test_where_the_baseline_failed_nothing_is_chosen_from_it() -> None:
    (schedule,) = failing(loads((1, 2, 4, 8), ks=(5,)), TWO, "base", {"c8"}).schedule
    assert schedule.measured_to == 4


def test_what_is_pasted_is_what_vllm_takes(comparison: Comparison) -> None:
    """A list of [first, last, k], ends included, no k above num_speculative_tokens (vLLM's docs)."""
    (found,) = comparison.schedule
    pasted = json.loads("{" + found.paste + "}")
    assert pasted["num_speculative_tokens"] == 6
    rows = pasted["num_speculative_tokens_per_batch_size"]
    assert rows == [[each.first, each.last, each.k] for each in found.ranges]
    for text in (render_terminal(comparison, width=1000), render_markdown(comparison)):
        assert found.paste in text
    assert found.paste.replace('"', "&#34;") in render_html(comparison)


def test_an_engine_with_a_fixed_k_gets_the_arm_for_each_load() -> None:
    found = simulated(engine="0.9.1-sdk2.26.1")
    (schedule,) = found.schedule
    assert schedule.paste == "" and "num_speculative_tokens_per" not in render_markdown(found)
    said = in_words(schedule)
    assert "k=6 (sd-k6) up to" in said and "The engine's k is fixed: each is a server of its own." in said
    assert said in render_terminal(found, width=1000)


def test_only_engines_that_can_change_k_are_given_a_table() -> None:
    assert [name for name in engine_names() if load_engine(name).k_by_batch_size] == [
        "0.32.0-cpu",
        "0.32.0-cpu-large",
        "rehearsal-vllm",
    ]


def choice(load: int, **gains: float) -> Choice:
    known = {int(name[1:]): math.log(gain) for name, gain in gains.items()}
    return Choice(load=load, gains={0: 0.0, **known}, pays=frozenset(k for k, gain in known.items() if gain > 0.05))


def test_ties_go_to_the_smaller_k() -> None:
    assert [choice(1, k2=1.5, k6=1.505).k, choice(1, k2=1.5, k6=1.56).k, choice(1, k2=1.005, k6=0.9).k] == [2, 6, 0]


@pytest.mark.parametrize(
    ("first", "then", "ranges"),
    [
        ({"k5": 1.1}, {"k5": 0.8}, [(1, 1, 0), (2, 2, 5), (3, 32, 0)]),
        ({"k5": 1.1}, {"k5": 1.04}, [(1, 1, 0), (2, 2, 5), (3, 7, 0), (8, 8, 5), (9, 32, 0)]),
        ({"k5": 1.5, "k2": 1.2}, {"k5": 0.9, "k2": 1.1}, [(1, 1, 0), (2, 2, 5), (3, 8, 2), (9, 32, 0)]),
        ({"k5": 1.5, "k2": 0.9}, {"k5": 1.1, "k2": 1.2}, [(1, 1, 0), (2, 7, 5), (8, 8, 2), (9, 32, 0)]),
        ({"k5": 1.5, "k2": 0.9}, {"k5": 0.9, "k2": 1.2}, [(1, 1, 0), (2, 2, 5), (3, 7, 0), (8, 8, 2), (9, 32, 0)]),
        ({"k5": 0.9}, {"k5": 1.3}, [(1, 7, 0), (8, 8, 5), (9, 32, 0)]),
        ({"k5": 1.3}, {"k5": 1.2}, [(1, 1, 0), (2, 8, 5), (9, 32, 0)]),
    ],
)
def test_between_two_loads_only_a_k_is_served_that_is_shown_to_pay_at_both(
    first: dict[str, float], then: dict[str, float], ranges: list[tuple[int, int, int]]
) -> None:
    """Nothing was measured there, and an engine with compiled batch sizes may jump anywhere between them."""
    assert table([choice(2, **first), choice(8, **then)], 32) == ranges


def test_a_range_never_ends_beyond_the_batch_nor_begins_after_it() -> None:
    assert table([choice(1, k5=1.2), choice(64, k5=0.5)], 8) == [(1, 1, 5), (2, 8, 0)]
    assert table([choice(1, k5=1.2), choice(8, k5=1.2)], 8) == [(1, 8, 5)]


def test_no_table_is_pasted_where_nothing_is_worth_it() -> None:
    ranges = (KRange(first=1, last=8, k=0, variant="base"),)
    none = Schedule(draft="d", ranges=ranges, measured_to=8, engine_takes_it=True)
    assert none.paste == "" and in_words(none) == "Draft d: no speculation at any load."


@pytest.mark.parametrize(
    ("measured", "last", "said"),
    [
        ((4, 32), 64, " Not measured: batches of 1 to 3, 5 to 31, 33 to 64."),
        ((1, 2, 4, 5, 8), 9, " Not measured: batches of 3, 6 to 7, 9."),
        ((1, 2, 3), 3, ""),
        ((), 64, ""),
    ],
)
def test_a_schedule_says_of_each_batch_that_was_not_measured_that_it_was_not(
    measured: tuple[int, ...], last: int, said: str
) -> None:
    ranges = (KRange(first=1, last=2, k=5, variant="sd"), KRange(first=3, last=last, k=0, variant="base"))
    found = Schedule(draft="d", ranges=ranges, measured=measured, measured_to=32, engine_takes_it=True)
    assert in_words(found) == f"Draft d: k=5 up to 2 requests at a time, no speculation from 3 on.{said}"


@pytest.mark.parametrize(
    ("rivals", "said"),
    [
        (None, "k=5 up to 4 requests at a time, "),
        ((), "k=5 up to 4 requests at a time (shown to be the fastest), "),
        ((0,), "k=5 up to 4 requests at a time (no speculation may be as fast), "),
        ((2, 3), "k=5 up to 4 requests at a time (k=2, k=3 may be as fast), "),
        ((0, 1, 2, 3, 4), "k=5 up to 4 requests at a time (no speculation, k=1, k=2 and 2 more may be as fast), "),
    ],
)
def test_each_k_says_how_sure_it_is(rivals: tuple[int, ...] | None, said: str) -> None:
    first = KRange(first=1, last=4, k=5, variant="sd", rivals=rivals)
    ranges = (first, KRange(first=5, last=8, k=0, variant="base"))
    found = Schedule(draft="d", ranges=ranges, measured_to=8, engine_takes_it=True)
    assert in_words(found) == f"Draft d: {said}no speculation from 5 on."


def test_a_k_is_shown_only_where_its_interval_is_above_every_other_one(comparison: Comparison) -> None:
    """k = 2 and k = 6 are near each other where the table changes from one to the other; at one at a time they are not.

    The two arms are the same but for their names in the second run: what stands in the table is a guess.
    """
    (found,) = comparison.schedule
    assert found.ranges[-1].rivals == (), "at 64 at a time both lose clearly"
    assert found.ranges[0].rivals in ((), (2,)) and all(each.rivals is not None for each in found.ranges)
    same = {"base": BASE, "sd-k2": BASE, "sd-k6": BASE}
    (guessed,) = simulated(servers=same).schedule
    assert all(set(each.rivals or ()) == {0, 2, 6} - {each.k} for each in guessed.ranges)


def test_no_crossover_that_is_shown_and_a_table_that_ends_without_speculation_do_not_contradict() -> None:
    """The table is the best guess, and says so where the words beside it say that nothing is shown."""
    near = Server(base_s=0.026, per_sequence_s=0.00105, k=5, acceptance=0.55)
    tested = loads((1, 2, 4, 8, 16, 32), ks=(5,), requests=8)
    tested = tested.model_copy(update={"engine": "rehearsal-vllm"})
    for seed in range(20):
        found = compared(tested, {"base": BASE, "sd": near}, seed=seed)
        (schedule,) = found.schedule
        if not found.curve[0].crossovers and schedule.ranges[-1].k == 0:
            break
    else:
        raise AssertionError("no run of 20 has a table that ends without speculation beside no crossover")
    assert schedule.ranges[-1].rivals == (5,)
    assert "no speculation from" in in_words(schedule) and "(k=5 may be as fast)" in in_words(schedule)
    assert "No crossover is shown" in found.answer


def test_a_load_that_queues_says_which_k_a_full_batch_has() -> None:
    """Of 128 at a time the server takes 32: what was best there is best for a batch of 32, and for none beyond."""
    tested = loads((1, 8, 64, 128), ks=(6,), requests=64, batch=32)
    (found,) = compared(tested, {"base": BASE, "sd": SERVERS["sd-k6"]}, queues=True).schedule
    assert [each.k for each in found.ranges] == [6, 0] and found.measured_to == found.ranges[-1].last == 32
    assert found.ranges[0].last == max(load for load in (1, 8) if load < true_crossover(BASE, SERVERS["sd-k6"]))


def test_of_several_arms_the_advice_says_which_one_it_is_about_and_which_pays_beyond() -> None:
    """Or the page would say `not above` of speculation where the table has a smaller k."""
    cheap = Server(base_s=0.023, per_sequence_s=0.0007, k=2, acceptance=0.8)
    found = simulated(servers={**SERVERS, "sd-k2": cheap})
    said = r"sd-k6 is faster than base below .* not above\. But sd-k2 is faster at 16, 32, 64 at a time\."
    assert re.match(said, found.answer) and re.match(said, headline(found))
