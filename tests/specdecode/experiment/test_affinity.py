"""EFA interfaces: who looks for them, and what the report says of it."""

import pytest
from specdecode.experiment import load_engine, load_preset
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.effective import SKIP, pinned
from specdecode.experiment.model import ServedExperiment
from specdecode.experiment.rules import check
from specdecode.planning import Plan

from tests.plans import plan_for


def given(preset: str, **env: str) -> ServedExperiment:
    experiment = load_preset(preset)
    assert isinstance(experiment, ServedExperiment)
    serving = experiment.serving.model_copy(update={"env": {**experiment.serving.env, **env}})
    return experiment.model_copy(update={"serving": serving})


def planned(preset: str, capacity: Capacity, **env: str) -> Plan:
    experiment = given(preset, **env)
    return plan_for(experiment, engine=load_engine(experiment.engine), capacity=capacity)


def skips(plan: Plan) -> str | None:
    return {**plan.engine.env, **plan.served.serving.env}.get(SKIP)


def said(plan: Plan) -> str | None:
    return pinned(plan.served, plan.engine)


WITH, WITHOUT = Capacity(node="trn2.48xlarge", efa_interfaces=True), Capacity(node="trn2.48xlarge")


def test_workers_look_for_interfaces_where_the_node_has_them_or_the_experiment_says_so():
    plan = planned("llama-3.1-8b-eagle3", WITH)
    assert (skips(plan), said(plan)) == ("0", "pinned by the node's EFA interfaces")
    plan = planned("llama-3.1-8b-eagle3", WITHOUT)
    assert (skips(plan), said(plan)) == ("1", f"not pinned ({SKIP})")
    assert skips(planned("llama-3.1-8b-eagle3", WITH, **{SKIP: "1"})) == "1"
    plan = planned("llama-3.1-8b-eagle3", WITHOUT, **{SKIP: "0"})
    assert (skips(plan), said(plan)) == ("0", "pinned by the node's EFA interfaces")


@pytest.mark.parametrize(
    ("capacity", "value", "refused"),
    [
        (WITHOUT.model_copy(update={"ami": "v20260714"}), "0", "no EFA interface"),
        (WITHOUT.model_copy(update={"ami": "v20260714"}), "1", ""),
        (WITH.model_copy(update={"ami": "v20260714"}), "0", ""),
        (WITHOUT, "0", ""),
        (WITHOUT, "", "reads NEURON_SKIP_EFA_AFFINITY as a number, and it is ''"),
    ],
    ids=["ours", "not looked for", "with interfaces", "a node of others", "nothing"],
)
def test_a_worker_that_would_find_none_is_refused(capacity: Capacity, value: str, refused: str):
    experiment = given("llama-3.1-8b-eagle3", **{SKIP: value})
    found = [each for each in check(experiment, load_engine(experiment.engine), capacity) if each.rule == "native-efa"]
    assert [refused in each.message for each in found] == [True] * (3 if refused else 0)


def test_the_node_of_another_shape_has_none():
    capacity = WITH.model_copy(update={"price_per_node_hour": 3.0})
    assert not capacity.of("trn2.3xlarge").efa_interfaces


@pytest.mark.parametrize("preset", ["qwen3-32b", "account-check"])
def test_other_engines_pin_nothing(preset: str):
    plan = planned(preset, WITH)
    assert (skips(plan), said(plan)) == (None, None)


def test_what_is_compiled_is_the_same():
    """Pods of a deployment with the interfaces load what one without them has compiled."""
    with_them, without = planned("llama-3.1-8b-eagle3", WITH), planned("llama-3.1-8b-eagle3", WITHOUT)
    assert [each.fingerprint for each in with_them.artifacts] == [each.fingerprint for each in without.artifacts]
