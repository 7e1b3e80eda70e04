"""Each kind of experiment and of arm answers for itself."""

from typing import Any

import pytest
from specdecode.experiment import from_document, load_preset
from specdecode.experiment.model import Experiment

K5 = {"draft": {"id": "a/draft"}, "num_speculative_tokens": 5}
BY_LOAD = {**K5, "num_speculative_tokens_per_batch_size": [[1, 4, 5], [5, 8, 0]]}


def elsewhere(speculation: dict[str, Any] | None = None) -> Experiment:
    arm: dict[str, Any] = {"name": "b", "label": "B", "compare_to": "a", "endpoint": "https://b.example"}
    arm |= {"speculation": speculation} if speculation else {"price_per_hour": 7}
    variants = [{"name": "a", "label": "A", "endpoint": "https://a.example"}, arm]
    return from_document({"extends": "rehearsal", "name": "elsewhere", "title": "t", "variants": variants})


def test_k_and_cost_of_an_arm_that_the_run_serves_and_of_a_server_that_already_runs() -> None:
    assert load_preset("rehearsal").variant("base").k == 0
    assert elsewhere().variant("b").k is None
    assert load_preset("rehearsal").variant("base").dollars_per_hour(9.0) == 9.0
    assert elsewhere().variant("b").dollars_per_hour(9.0) == 7
    assert elsewhere().variant("a").dollars_per_hour(9.0) is None, "no price is given"


@pytest.mark.parametrize(("speculation", "k"), [(K5, 5), (BY_LOAD, None)])
def test_k_is_not_one_number_if_it_depends_on_the_load(speculation: dict[str, Any], k: int | None) -> None:
    assert elsewhere(speculation).variant("b").k == k


def test_a_run_holds_a_node_and_stages_weights_only_for_arms_that_it_serves() -> None:
    here, there = load_preset("rehearsal"), elsewhere(K5)
    assert (here.holds_node, there.holds_node) == (True, False)
    assert here.staged and there.staged == ()
    assert (here.served_by, there.served_by, there.batch) == ("rehearsal-cpu", None, None)
    assert (here.variant("base").address, there.variant("b").address) == (None, "https://b.example")
