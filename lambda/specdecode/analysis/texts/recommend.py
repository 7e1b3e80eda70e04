"""One recommendation a report: which arm to use, why, and at which cost."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.numbers import compact, times
from specdecode.analysis.results.over_load import Curve, Objective
from specdecode.analysis.results.pairs import CaseResult, Pair, Verdict
from specdecode.analysis.texts.by_load import advice_by_load, listed, side
from specdecode.analysis.texts.wording import SHOWN, best_pair, differs, distrusts, trusted
from specdecode.experiment.workload import Workload

KNOWN = {
    Verdict.PAYS: "pays on",
    Verdict.COSTS: "costs on",
    Verdict.NO_DIFFERENCE: "makes no relevant difference on",
}


def recommended(comparison: Comparison) -> str | None:
    """Name of the arm to use. None if nothing was compared."""
    if not comparison.pairs:
        return None
    pair = chosen(comparison.pairs)
    if pair.distrusted:
        return None
    if not pays(pair):
        return pair.baseline
    total = _total(comparison, pair)
    return total.baseline if total and _costs(total) else pair.variant


def chosen(pairs: Sequence[Pair]) -> Pair:
    """The pair that the recommendation is about: the best pair that pays, else the best of all."""
    return best_pair([pair for pair in pairs if pays(pair)] or trusted(pairs) or pairs)


def over_load(curves: Sequence[Curve], pairs: Sequence[Pair], objectives: Sequence[Objective]) -> str:
    """Text of the chosen pair's curve. Empty for a run of one load."""
    if not curves:
        return ""
    pair = chosen(pairs)
    whole = [each for each in curves if each.group == "all"]
    found = [each for each in whole if (each.variant, each.baseline) == (pair.variant, pair.baseline)]
    if not found:
        return ""
    said = advice_by_load(found[0], objectives)
    return said if len(whole) == 1 else f"{pair.variant}: {said}{_where_it_stops(found[0], whole)}"


def _where_it_stops(curve: Curve, among: Sequence[Curve]) -> str:
    """` Above, sd-k2 pays up to 32 at a time.`: arms that are shown to be faster at a load at which this arm is not."""
    if not curve.crossovers or curve.crossovers[-1].direction != "stops":
        return ""
    slower = [point.level for point in curve.points if side(point) < 0]
    parts = []
    for other in among:
        paying = [point.level for point in other.points if point.level in slower and side(point) > 0]
        if paying and other.baseline == curve.baseline:
            parts.append(f"{other.variant} is faster at {listed(paying)}")
    return f" Above, {', '.join(parts)}." if parts else ""


def at_first_load(text: str, workload: Workload) -> str:
    """`text`, with a note that it is about the first load if there are several."""
    return text if len(workload.levels) == 1 else f"At the first load, {workload.levels[0]}: {text}"


def recommendation(comparison: Comparison) -> str | None:
    """`Use sd (draft X, k=5): …`, or `Keep base for now: …` with the known verdicts and how to settle the others."""
    if not comparison.pairs:
        return None
    pair = chosen(comparison.pairs)
    if pair.distrusted:
        return f"Do not trust this run, and use nothing of it: measure again when the cause is found. {distrusts(pair)}"
    use = pays(pair)
    total = _total(comparison, pair) if use else None
    if total and _costs(total):
        text = _undone(comparison, pair, total)
    else:
        text = _use(comparison, pair, total) if use else _keep(comparison, pair)
    qualified = f" But {found}." if use and (found := differs(pair)) else ""
    whole = f"{text}{_cheapest(comparison, pair)}{_open(pair)}{qualified}"
    return at_first_load(whole, comparison.experiment.workload)


def _total(comparison: Comparison, pair: Pair) -> Pair | None:
    """The pair's arm against the first baseline of its chain. None if there is no chain."""
    return next((chain.total for chain in comparison.chains if chain.variant == pair.variant), None)


def _costs(total: Pair) -> bool:
    found = total.group("all")
    return found is not None and found.verdict is Verdict.COSTS


def _undone(comparison: Comparison, pair: Pair, total: Pair) -> str:
    """The arm pays against a baseline that differs in speculation alone, but costs against the first baseline of the
    chain.
    """
    known = [(each.baseline, each.group("all")) for each in (pair, total)]
    figures = [f"{times(found.headline.ratio)} of {name}" for name, found in known if found and found.headline]
    return f"Keep {total.baseline}: {_named(comparison, pair.variant)} is {', but '.join(figures)}."


def _use(comparison: Comparison, pair: Pair, total: Pair | None) -> str:
    gain = pair.group("all")
    found = f"Use {_named(comparison, pair.variant)}: {_over(gain.headline.ratio if gain and gain.headline else 1.0)}"
    found += _between(pair)
    before, after = (comparison.cost_over(name, pair) for name in (pair.baseline, pair.variant))
    if before is not None and after is not None:
        found += f", at ${after:,.2f} per million output tokens against ${before:,.2f}"
    whole = total.group("all") if total else None
    if total and whole and whole.headline:
        found += f"; against {total.baseline} {times(whole.headline.ratio)}"
    worse = _listed(pair, Verdict.COSTS)
    return f"{found}.{f' It costs on {worse}.' if worse else ''}{_elsewhere(comparison, pair)}"


def _elsewhere(comparison: Comparison, pair: Pair) -> str:
    """That the arm may be faster on the measured node alone, and what would tell. Empty if the run held no node: its
    servers ran already.
    """
    if pair.among is None or pair.among.elsewhere is not False or comparison.context.capacity_type == "none":
        return ""
    return (
        f" That is shown for the measured node alone: on another, {pair.variant} may not be faster. Before you rely on "
        f"it, measure {pair.baseline} and {pair.variant} once more, on another node."
    )


def _keep(comparison: Comparison, pair: Pair) -> str:
    """Verdicts on the best arm, each with its cases."""
    known = [f"{said} {on}" for verdict, said in KNOWN.items() if (on := _listed(pair, verdict))]
    until = " for now" if _listed(pair, Verdict.CANNOT_TELL) or pays_by_itself(pair) else ""
    about = f" Known of {_named(comparison, pair.variant)}: it {'; it '.join(known)}." if known else ""
    nothing = f" This run cannot tell whether {_named(comparison, pair.variant)} is faster or slower."
    return f"Keep {pair.baseline}{until}.{about or nothing}{_not_among_all(pair)}"


def _between(pair: Pair) -> str:
    """` (1.85-2.11 as one of 8 arms)`: the interval that holds for all arms together; empty of a run of one arm."""
    if pair.among is None or pair.among.arms < 2:
        return ""
    found = pair.among.speedup
    return f" ({found.low:.2f}–{found.high:.2f} as one of {pair.among.arms} arms)"


def _not_among_all(pair: Pair) -> str:
    """Why an arm that pays by itself is not recommended, and what would settle it; empty of any other."""
    if pair.among is None or pair.among.faster or not pays_by_itself(pair):
        return ""
    together = f" Over all measured prompts it is {compact(pair.among.speedup)}: not shown to be faster"
    if pair.among.arms < 2:
        return f"{together}. More prompts would settle it."
    return (
        f"{together} as one of {pair.among.arms} arms, of which the best may be faster by chance. Measure "
        f"{pair.baseline} and {pair.variant} again, without the others."
    )


def _open(pair: Pair) -> str:
    """Cases without a verdict, and what would settle them."""
    cases = [case for case in pair.cases if case.verdict is Verdict.CANNOT_TELL]
    parts = [_with_figure(case) + (f", settled by {case.settle}" if case.settle else "") for case in cases[:SHOWN]]
    return f" Not known on: {_and_more(parts, len(cases), '; ')}." if parts else ""


def _cheapest(comparison: Comparison, pair: Pair) -> str:
    """The cheapest arm and both costs, if it is not the recommended arm."""
    others = (name for each in comparison.pairs for name in (each.baseline, each.variant))
    names = dict.fromkeys([pair.baseline, *others])
    costs = {name: cost for name in names if (cost := comparison.cost_over(name, pair)) is not None}
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


def pays(pair: Pair) -> bool:
    """Whether it pays by itself, and is shown to be faster when judged among all arms of its run."""
    return pays_by_itself(pair) and (pair.among is None or pair.among.faster)


def pays_by_itself(pair: Pair) -> bool:
    """Whether it pays over all measured prompts together; or is faster over them and pays on some of them."""
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
    return f"{name} (draft {speculation.draft.id}, {speculation.k_in_words})"
