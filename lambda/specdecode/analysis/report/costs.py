"""Cost of a run and of its arms, in words and dollars."""

from __future__ import annotations

from specdecode.analysis.report.numbers import dollars, duration, percent
from specdecode.analysis.results.comparison import Comparison, Pair
from specdecode.analysis.texts.recommend import cost_over

COST_FORMULA = "price per node-hour / 3600 × share of the node's devices × seconds of load / output tokens × 1,000,000"
ENDPOINT_COST_FORMULA = "the server's price per hour / 3600 × seconds of load / output tokens × 1,000,000"


def cost_formula(comparison: Comparison) -> str:
    """How dollars per million output tokens are computed."""
    return COST_FORMULA if comparison.experiment.holds_node else ENDPOINT_COST_FORMULA


def costs(comparison: Comparison, pair: Pair) -> tuple[float, float] | None:
    """Dollars per million output tokens over all compared cases: (baseline, arm). None if one of them is not known."""
    before, after = (cost_over(comparison, name, pair) for name in (pair.baseline, pair.variant))
    return (before, after) if before is not None and after is not None else None


def cost_sentence(comparison: Comparison) -> str:
    """Cost of the run, and how much of it paid for measurement."""
    cost = comparison.cost
    if cost is None:
        prices = {each.name: each.dollars_per_hour(None) for each in comparison.experiment.variants}
        shown = ", ".join(f"{name} {dollars(price)}" for name, price in prices.items() if price is not None)
        return f"What the servers cost per hour, as the experiment says: {shown}."
    price = f"A node costs {dollars(cost.price_per_node_hour)} per hour."
    if cost.total is None or cost.node_hours is None:
        return price
    share = f", {percent(cost.utilization)} of the time paid for" if cost.utilization is not None else ""
    return (
        f"{price} This run held one for {duration(cost.node_hours * 3600)}: {dollars(cost.total)}. "
        f"Measurement took {duration(cost.measured_seconds)}{share}; the rest is compiling, loading and waiting."
    )
