"""One recommendation a report: which arm to use, why, and at which cost; its headline, and what to doubt."""

from collections.abc import Sequence

from specdecode.analysis.loads.objective import listed
from specdecode.analysis.results.comparison import AccuracyChange, Comparison
from specdecode.analysis.results.numbers import compact, times
from specdecode.analysis.results.pairs import Action, CaseResult, Decision, Pair, Verdict
from specdecode.analysis.statistics.groups import compared_arms
from specdecode.analysis.statistics.measured import chain_of
from specdecode.analysis.texts.by_load import advice_by_load
from specdecode.analysis.texts.decide import (
    about,
    against_root,
    curve_of,
    decide,
    decided,
    first_load,
    found_over_load,
    total_of,
    worse,
)
from specdecode.analysis.texts.wording import SAYS, SHOWN, alone, answer, differs, distrusts, first_sentence
from specdecode.experiment.model import ImportedExperiment, answers_of
from specdecode.experiment.workload import Level, Workload

OVER = {Verdict.COSTS: "is slower", Verdict.NO_DIFFERENCE: "makes no relevant difference"}
"""What is said of an arm that is not used, over all prompts together."""


def voiced(comparison: Comparison, *, missing: Sequence[str] = (), before: str = "") -> Comparison:
    """The comparison with its decision, and the sentences that say it. The groups' verdicts are the decision's.

    `before` stands before the answer; `missing` is what is not in it.
    """
    decision = decide(comparison)
    at_first = (each for each in decision.findings if each.load == first_load(comparison))
    first = {(each.variant, each.baseline, each.group): each for each in at_first}

    def judged(pair: Pair) -> Pair:
        groups = (
            group.model_copy(update={"verdict": own.verdict, "reason": own.why or group.reason})
            if (own := first.get((pair.variant, pair.baseline, group.group)))
            else group
            for group in pair.groups
        )
        return pair.model_copy(update={"groups": tuple(groups)})

    pairs = tuple(map(judged, comparison.pairs))
    chains = tuple(
        each.model_copy(update={"links": tuple(map(judged, each.links)), "total": judged(each.total)})
        for each in comparison.chains
    )
    told = comparison.model_copy(update={"pairs": pairs, "chains": chains, "decision": decision})
    said = answer(best=about(told), pairs=pairs, chains=told.chains, missing=missing)
    if len(told.experiment.variants) == 1 and not missing:
        wrong = f"IMPOSSIBLE: its figures are not to be trusted: {decision.why}. "
        said = f"{wrong if decision.action is Action.DISTRUST else ''}{alone(told.arms)}"
    if answers := answers_of(told.experiment):
        said = f"A forecast from the answers of {answers}: nothing was measured."
    by_load = before or over_load(told)
    answered = at_first_load(said, told.experiment.workload)
    return told.model_copy(
        update={"answer": f"{by_load} {answered}" if by_load else answered, "recommendation": recommendation(told)}
    )


def over_load(comparison: Comparison) -> str:
    """Text of the curve of the arm that the decision is about; of a chain, against its first baseline. Empty for a run
    of one load.
    """
    pair = about(comparison)
    if pair is None or (found := curve_of(comparison, against_root(comparison, pair))) is None:
        return ""
    if compared_arms(comparison.experiment) > 1:  # the words then name the arms
        found = found.model_copy(update={"of_speculation": False})
    said = advice_by_load(found, comparison.objective, found_over_load(comparison, found))
    first = first_sentence(said)
    return f"{first}{_others(comparison, pair)}{said.removeprefix(first)}"


def _others(comparison: Comparison, pair: Pair) -> str:
    """` But sd-k2 is faster at 32, 64 at a time.`: arms that are to be used at a load at which this one is not."""
    root, using = against_root(comparison, pair).baseline, dict[str, list[Level]]()
    for level in comparison.experiment.workload.levels:
        here = [each for each in decided(comparison).findings if (each.group, each.load) == ("all", level.name)]
        names = [each.variant for each in here if each.action is Action.USE and each.baseline == root]
        for name in names if pair.variant not in names else ():
            using.setdefault(name, []).append(level)
    parts = [f"{name} is faster at {listed(levels)}" for name, levels in using.items()]
    more = f" and {len(parts) - SHOWN} more arms are faster somewhere" if len(parts) > SHOWN else ""
    return f" But {', '.join(parts[:SHOWN])}{more}." if parts else ""


def headline(comparison: Comparison) -> str:
    """The run's answer in one sentence, which stands first in every form: the decision; of several loads up to which
    load to speculate. A second one names other arms that are faster at another load.
    """
    pair, said = about(comparison), comparison.recommendation
    if pair is None or said is None:
        return comparison.answer
    if decided(comparison).action is Action.DISTRUST:
        return f"{distrusts(pair)} {first_sentence(said)}"
    said = said if _worse(comparison, pair) else over_load(comparison) or said
    return f"{first_sentence(said)}{_others(comparison, pair)}"


def doubts(comparison: Comparison) -> list[str]:
    """What a reader must know at once, the weightiest first: each a sentence that the report explains further down."""
    pair, failures = about(comparison), comparison.context.failures
    using = decided(comparison).action is Action.USE
    lost = [_scores(each) for each in comparison.accuracy if each.worse]
    return [
        *([f"Shown to answer worse: {'; '.join(lost)}."] if lost else []),
        *(f"Failed: {each.stage}: {each.message}" for each in failures[:1]),
        *([f"{found[0].upper()}{found[1:]}."] if pair and using and (found := differs(pair)) else []),
        *([elsewhere] if pair and using and (elsewhere := _elsewhere(comparison, pair).strip()) else []),
        *comparison.notes,
    ]


def at_first_load(text: str, workload: Workload) -> str:
    """`text`, with a note that it is about the first load if there are several."""
    return text if len(workload.levels) == 1 else f"At the first load, {workload.levels[0]}: {text}"


def recommendation(comparison: Comparison) -> str | None:
    """The decision in words: `Use sd (draft X, k=5): …`, `Keep base …`, `Do not trust …`; with the known verdicts, and
    what would settle the others. None if nothing was compared.
    """
    decision, pair = decided(comparison), about(comparison)
    if pair is None:
        return None
    if decision.action is Action.DISTRUST:
        return "Do not trust this run: use nothing of it, and measure again when the cause is found."
    total = total_of(comparison, pair)
    if decision.action is Action.USE:
        text = _use(comparison, pair, total)
    elif total and decision.action is Action.KEEP:
        text = _undone(comparison, pair, total)
    else:
        text = _keep(comparison, pair, decision)
    qualified = f" But {found}." if decision.action is Action.USE and (found := differs(pair)) else ""
    return at_first_load(f"{text}{_open(pair)}{qualified}", comparison.experiment.workload)


def _undone(comparison: Comparison, pair: Pair, total: Pair) -> str:
    """The arm of a chain is not used: it may pay against the baseline that differs in speculation alone."""
    known, own = (
        [(each.baseline, each.group("all")) for each in (pair, total)],
        decided(comparison).finding(pair.variant),
    )
    figures = [f"{times(found.headline.ratio)} of {name}" for name, found in known if found and found.headline]
    but = ", but " if own and own.action is Action.USE else ", and "
    lost = f", and {found}" if (found := _worse(comparison, pair)) else ""
    return f"Keep {total.baseline}: {named(comparison, pair.variant)} is {but.join(figures)}{lost}."


def _worse(comparison: Comparison, pair: Pair) -> str:
    """That the arm is shown to answer worse than its baseline, or than the first one of its chain. Else empty."""
    return worse(comparison, pair) or worse(comparison, against_root(comparison, pair))


def _scores(change: AccuracyChange) -> str:
    figures = f"{change.task} {change.metric} {change.before:.3f} to {change.after:.3f}"
    return f"{change.variant} than {change.baseline} ({figures})"


def _use(comparison: Comparison, pair: Pair, total: Pair | None) -> str:
    gain = pair.group("all")
    ratio = times(gain.headline.ratio if gain and gain.headline else 1.0)
    found = f"Use {named(comparison, pair.variant)}: {ratio} as fast{_between(pair)} over {_types(comparison, pair)}"
    cost = ""
    if costs := comparison.costs(pair):
        cost = f" It takes ${costs[1]:,.2f} per million output tokens of all their requests against ${costs[0]:,.2f}."
    whole = total.group("all") if total else None
    if total and whole and whole.headline:
        found += f"; against {total.baseline} {times(whole.headline.ratio)}"
    worse = _listed(pair, Verdict.COSTS)
    pays = [case for case in pair.cases if case.verdict is Verdict.PAYS]
    on = f" It pays on {_listed(pair, Verdict.PAYS)}." if len(pays) < len(pair.cases) else ""
    return f"{found}.{cost}{on}{f' It costs on {worse}.' if worse else ''}{_elsewhere(comparison, pair)}"


def _types(comparison: Comparison, pair: Pair) -> str:
    """`the 9 prompt types measured together`: what a figure of all prompts is over."""
    if isinstance(comparison.experiment, ImportedExperiment):
        return "the requests imported"
    count = sum(case.comparable for case in pair.cases)
    return f"the {count} prompt types measured together" if count > 1 else "the one prompt type measured"


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


def _keep(comparison: Comparison, pair: Pair, decision: Decision) -> str:
    """Verdicts on the best arm, each with its cases."""
    clear = (Verdict.PAYS, Verdict.COSTS, Verdict.NO_DIFFERENCE)
    known = [f"{SAYS[verdict]} on {on}" for verdict in clear if (on := _listed(pair, verdict))]
    more, arm = decision.action is Action.MEASURE, named(comparison, pair.variant)
    found = decision.finding(pair.variant)
    over = OVER.get(found.verdict, "is not faster on all prompts") if found else "is not faster"
    over = (lost := _worse(comparison, pair)) or over
    ratio = f"{times(found.speedup.ratio)} over {_types(comparison, pair)}" if found and found.speedup else ""
    ratio = ratio and f" ({'a speed-up of ' if lost else ''}{ratio})"
    why = decision.why or f"this run cannot tell whether {arm} is faster or slower"
    kept = f"Keep {chain_of(comparison.experiment, pair.variant)[0]} for now, and measure more: {why}." if more else ""
    about = f" Known of {arm}: it {'; it '.join(known)}." if known else ""
    return f"{kept or f'Keep {pair.baseline}: {arm} {over}{ratio}.'}{about}{_not_among_all(pair, decision)}"


def _between(pair: Pair) -> str:
    """` (1.85-2.11 as one of 8 arms)`: the interval that holds for all arms together; empty of a run of one arm."""
    if pair.among is None or pair.among.arms < 2:
        return ""
    found = pair.among.speedup
    return f" ({found.low:.2f}–{found.high:.2f} as one of {pair.among.arms} arms)"


def _not_among_all(pair: Pair, decision: Decision) -> str:
    """What would settle whether an arm that pays on some prompts is faster over all; empty of any other."""
    if decision.action is not Action.MEASURE or pair.among is None or pair.among.faster:
        return ""
    if not any(case.verdict is Verdict.PAYS for case in pair.cases):
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
    by_settle: dict[str, list[str]] = {}
    for case in cases[:SHOWN]:
        by_settle.setdefault(case.settle, []).append(_with_figure(case))
    parts = [", ".join(which) + (f", settled by {settle}" if settle else "") for settle, which in by_settle.items()]
    more = f"; and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
    return f" Not known on: {'; '.join(parts)}{more}." if parts else ""


def _listed(pair: Pair, verdict: Verdict) -> str:
    """`count (1.06×, 0.93-1.21), chat (0.99×, 0.90-1.08) and 3 more`."""
    cases = [_with_figure(case) for case in pair.cases if case.verdict is verdict]
    return ", ".join(cases[:SHOWN]) + (f" and {len(cases) - SHOWN} more" if len(cases) > SHOWN else "")


def _with_figure(case: CaseResult) -> str:
    known = case.headline if case.comparable else None
    return f"{case.case} ({compact(known).replace(' (', ', ').rstrip(')') if known else 'no figure'})"


def named(comparison: Comparison, name: str) -> str:
    """`sd (draft X, k=5)`; of an arm without a draft and settings of its own its name."""
    variant = comparison.experiment.variant(name)
    spec, setting = variant.speculation, comparison.experiment.setting_in_words(variant)
    told = [f"draft {spec.draft.id}, {spec.k_in_words}"] if spec else []
    return f"{name} ({', '.join([*told, *([setting] if setting else [])])})" if told or setting else name
