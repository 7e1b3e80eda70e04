"""One recommendation a report: which arm to use, why, and at which cost."""

from __future__ import annotations

from specdecode.analysis.result import Comparison, Pair, Verdict
from specdecode.analysis.verdict import times
from specdecode.analysis.wording import best_pair, differs


def recommendation(comparison: Comparison) -> str | None:
    """`Use sd (draft X, k=5): …`; None where nothing was compared."""
    if not comparison.pairs:
        return None
    paying = [pair for pair in comparison.pairs if _pays(pair)]
    if not paying:
        kept = comparison.pairs[0].baseline
        undecided = [case for pair in comparison.pairs for case in pair.cases if case.verdict is Verdict.CANNOT_TELL]
        settle = next((case.settle for case in undecided if case.settle), "")
        more = f" What would settle it: {settle}." if settle else ""
        return f"Keep {kept}: no arm is shown to be faster than it over the measured prompts.{more}"
    best = best_pair(paying)
    gain = best.group("all")
    found = f"Use {_named(comparison, best.variant)}: {_over(gain.headline.ratio if gain and gain.headline else 1.0)}"
    costs = {
        name: cost
        for name in dict.fromkeys([best.baseline, *(pair.variant for pair in comparison.pairs)])
        if (cost := cost_over(comparison, name, best)) is not None
    }
    if best.variant in costs and best.baseline in costs:
        found += f", at ${costs[best.variant]:,.2f} per million output tokens against ${costs[best.baseline]:,.2f}"
    cheapest = min(costs, key=lambda name: costs[name], default=best.variant)
    found += "."
    if cheapest != best.variant:
        found += f" The cheapest is {_named(comparison, cheapest)}: ${costs[cheapest]:,.2f}."
    if best.group("structured") and best.group("open-ended") and _costs_somewhere(best):
        found += " It costs on: " + ", ".join(c.case for c in best.cases if c.verdict is Verdict.COSTS) + "."
    return f"{found} But {differs(best)}." if differs(best) else found


def cost_over(comparison: Comparison, variant: str, pair: Pair) -> float | None:
    """Dollars per million output tokens of an arm over all cases of `pair`, by tokens; None where one has none."""
    arms = [comparison.arm(variant, case.case) for case in pair.cases]
    priced = [arm for arm in arms if arm and arm.cost_per_million is not None]
    tokens = sum(arm.output_tokens for arm in priced)
    if not tokens or len(priced) < len(arms):
        return None
    return sum((arm.cost_per_million or 0.0) * arm.output_tokens for arm in priced) / tokens


def _pays(pair: Pair) -> bool:
    """It pays over all measured prompts together, or on some while none is worse and the rest is undecided."""
    found = pair.group("all")
    if found is None or found.headline is None:
        return False
    if found.verdict is not Verdict.MIXED:
        return found.verdict is Verdict.PAYS
    return found.headline.ratio > 1.0 and any(case.verdict is Verdict.PAYS for case in pair.cases)


def _costs_somewhere(pair: Pair) -> bool:
    return any(case.verdict is Verdict.COSTS for case in pair.cases)


def _over(ratio: float) -> str:
    return f"{times(ratio)} over the measured prompts"


def _named(comparison: Comparison, name: str) -> str:
    speculation = comparison.experiment.variant(name).speculation
    if speculation is None:
        return name
    return f"{name} (draft {speculation.draft.id}, k={speculation.num_speculative_tokens})"
