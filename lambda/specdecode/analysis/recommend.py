"""One recommendation a report: which arm to use, why, and at which cost."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.by_load import advice_by_load
from specdecode.analysis.result import CaseResult, Comparison, Pair, Verdict
from specdecode.analysis.verdict import compact, times
from specdecode.analysis.wording import SHOWN, best_pair, differs

KNOWN = {
    Verdict.PAYS: "pays on",
    Verdict.COSTS: "costs on",
    Verdict.NO_DIFFERENCE: "makes no relevant difference on",
}


def recommended(comparison: Comparison) -> str | None:
    """Name of the arm to use; None where nothing was compared."""
    if not comparison.pairs:
        return None
    paying = [pair for pair in comparison.pairs if _pays(pair)]
    return best_pair(paying).variant if paying else best_pair(comparison.pairs).baseline


def recommendation(comparison: Comparison) -> str | None:
    """`Use sd (draft X, k=5): …`, or `Keep base for now: …` with what is known and what would settle the rest."""
    if not comparison.pairs:
        return None
    paying = [pair for pair in comparison.pairs if _pays(pair)]
    pair = best_pair(paying or comparison.pairs)
    text = _use(comparison, pair) if paying else _keep(comparison, pair)
    qualified = f" But {found}." if paying and (found := differs(pair)) else ""
    return f"{text}{_cheapest(comparison, pair)}{_open(pair)}{qualified}{_by_load(comparison, pair)}"


def _by_load(comparison: Comparison, pair: Pair) -> str:
    """What the curve of the arm says; nothing of a run of one load."""
    found = next((each for each in comparison.curve if (each.variant, each.group) == (pair.variant, "all")), None)
    if found is None:
        return ""
    workload = comparison.experiment.workload
    return f" This is at {workload.levels[0]}. By load: {advice_by_load(found, workload.slo)}"


def _use(comparison: Comparison, pair: Pair) -> str:
    gain = pair.group("all")
    found = f"Use {_named(comparison, pair.variant)}: {_over(gain.headline.ratio if gain and gain.headline else 1.0)}"
    before, after = (cost_over(comparison, name, pair) for name in (pair.baseline, pair.variant))
    if before is not None and after is not None:
        found += f", at ${after:,.2f} per million output tokens against ${before:,.2f}"
    worse = _listed(pair, Verdict.COSTS)
    return f"{found}.{f' It costs on {worse}.' if worse else ''}"


def _keep(comparison: Comparison, pair: Pair) -> str:
    """What is known of the best arm, verdict by verdict."""
    known = [f"{said} {on}" for verdict, said in KNOWN.items() if (on := _listed(pair, verdict))]
    until = " for now" if _listed(pair, Verdict.CANNOT_TELL) else ""
    about = f" Of {_named(comparison, pair.variant)} is known: it {'; it '.join(known)}." if known else ""
    nothing = f" This run cannot tell whether {_named(comparison, pair.variant)} is faster or slower."
    return f"Keep {pair.baseline}{until}.{about or nothing}"


def _open(pair: Pair) -> str:
    """Where it cannot be told, and what would settle it."""
    cases = [case for case in pair.cases if case.verdict is Verdict.CANNOT_TELL]
    parts = [_with_figure(case) + (f", settled by {case.settle}" if case.settle else "") for case in cases[:SHOWN]]
    return f" Not known on: {_and_more(parts, len(cases), '; ')}." if parts else ""


def _cheapest(comparison: Comparison, pair: Pair) -> str:
    """The cheapest arm of all, where it is another than the recommended one, with both costs told."""
    names = dict.fromkeys([pair.baseline, *(each.variant for each in comparison.pairs)])
    costs = {name: cost for name in names if (cost := cost_over(comparison, name, pair)) is not None}
    cheapest = min(costs, key=lambda name: costs[name], default=None)
    chosen = recommended(comparison)
    if cheapest in (None, chosen) or chosen not in costs:
        return ""
    own = "" if chosen == pair.variant else f" against ${costs[chosen]:,.2f} of {chosen}"
    return f" The cheapest is {_named(comparison, cheapest)}: ${costs[cheapest]:,.2f}{own}."


def _listed(pair: Pair, verdict: Verdict) -> str:
    """`count (1.06×, 0.93-1.21), chat (0.99×, 0.90-1.08) and 3 more`."""
    cases = [case for case in pair.cases if case.verdict is verdict]
    return _and_more([_with_figure(case) for case in cases[:SHOWN]], len(cases), ", ")


def _and_more(parts: Sequence[str], count: int, between: str) -> str:
    return between.join(parts) + (f" and {count - len(parts)} more" if count > len(parts) else "")


def _with_figure(case: CaseResult) -> str:
    return f"{case.case} ({_figure(case)})"


def _figure(case: CaseResult) -> str:
    if case.headline is None or not case.comparable:
        return "no figure"
    return compact(case.headline).replace(" (", ", ").rstrip(")")


def cost_over(comparison: Comparison, variant: str, pair: Pair) -> float | None:
    """Dollars per million output tokens of an arm over all cases of `pair`, by tokens; None where one has none."""
    arms = [comparison.arm(variant, case.case) for case in pair.cases]
    priced = [arm for arm in arms if arm and arm.cost_per_million is not None]
    tokens = sum(arm.output_tokens for arm in priced)
    if not tokens or len(priced) < len(arms):
        return None
    return sum((arm.cost_per_million or 0.0) * arm.output_tokens for arm in priced) / tokens


def _pays(pair: Pair) -> bool:
    """It pays over all measured prompts together; or it is faster over them, and pays on some of them."""
    found = pair.group("all")
    if found is None or found.headline is None or found.verdict in (Verdict.NO_DIFFERENCE, Verdict.COSTS):
        return False
    on_some = any(case.verdict is Verdict.PAYS for case in pair.cases)
    return found.verdict is Verdict.PAYS or (found.headline.ratio > 1.0 and on_some)


def _over(ratio: float) -> str:
    return f"{times(ratio)} over the measured prompts"


def _named(comparison: Comparison, name: str) -> str:
    speculation = comparison.experiment.variant(name).speculation
    if speculation is None:
        return name
    return f"{name} (draft {speculation.draft.id}, k={speculation.num_speculative_tokens})"
