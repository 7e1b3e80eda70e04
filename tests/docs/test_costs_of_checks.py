"""README and docs/how-to/check-your-account.md say what the plans say."""

from pathlib import Path

import pytest
from specdecode.experiment import Capacity, engine_names, load_engine, load_preset
from specdecode.planning import make_bill
from specdecode.planning.offers import offers

from tests.plans import plan_for

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "how-to" / "check-your-account.md").read_text("utf-8").split())


@pytest.mark.parametrize(
    ("preset", "price", "says"),
    [
        ("account-check", None, "the node for {low_min:.0f} to {high_min:.0f} minutes"),
        ("account-check", None, "and ${most:.0f} at most"),
        ("account-check", None, "the cluster costs ${resting:.2f} an hour"),
        ("llama-3.1-8b-eagle3-small", 2.57, "for {low_h:.1f} to {high_h:.1f} hours of the node"),
        ("llama-3.1-8b-eagle3-small", 2.57, "a run costs ${low:.2f} to ${high:.2f}, ${most:.0f} at most"),
    ],
)
def test_the_figures_of_the_page_are_those_of_the_plans(preset: str, price: float | None, says: str) -> None:
    capacity = Capacity(price_per_node_hour=price)
    bill = make_bill(plan_for(load_preset(preset), capacity=capacity), capacity)
    hours = bill.node_hours
    text = says.format(
        low_min=hours.low * 60, high_min=hours.high * 60, low_h=hours.low, high_h=hours.high, low=bill.node.low,
        high=bill.node.high, most=bill.most, resting=bill.resting_per_hour,
    )  # fmt: skip
    assert text in PAGE


def test_the_readme_says_what_the_plans_say() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    large, check = (
        make_bill(plan_for(load_preset(name), capacity=Capacity()), Capacity())
        for name in ("gpt-oss-120b-eagle3", "account-check")
    )
    price, node = large.price_per_node_hour, large.node
    assert f"({price:.2f} an hour, only during the run): {node.low:.0f} to {node.high:.0f}" in readme
    assert f", at most {large.most:.0f}." in readme
    assert f": about 1, at most {check.most:.0f}." in readme
    assert f": {large.resting_per_hour:.2f} an hour (" in readme
    offered = offers()
    ended = [offer.engine for offer in offered if offer.engine.support]
    assert f"{len(ended)} of these {len(offered)} presets run on vLLM 0.9.1" in readme
    assert {(engine.name, str(engine.support.ended)) for engine in ended} == {("0.9.1-sdk2.26.1", "2026-02-26")}
    assert "AWS ended on 2026-02-26" in readme
    supported = [engine for engine in map(load_engine, engine_names()) if engine.on_neuron and engine not in ended]
    heads = {family for engine in supported for method in engine.methods.values() for family in method.families}
    assert "(none of them for Qwen3)" in readme and heads and "qwen3" not in heads
