"""The answer in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.result import GroupResult, Pair, Verdict
from specdecode.analysis.verdict import spread

SAYS = {
    Verdict.PAYS: "pays",
    Verdict.NO_DIFFERENCE: "shows no difference",
    Verdict.COSTS: "costs",
    Verdict.CANNOT_SAY: "could not be judged",
}
SUBJECTS = {
    "speculation": "Speculative decoding",
    "quantization": "Quantization",
    "draft": "The other draft model",
    "k": "The other number of speculative tokens",
}


def subject(pair: Pair) -> str:
    """What the pair is about: `Speculative decoding`, `Quantization`, `Speculative decoding with quantization`."""
    if len(pair.changes) == 1 and pair.changes[0] in SUBJECTS:
        return SUBJECTS[pair.changes[0]]
    if set(pair.changes) == {"speculation", "quantization"}:
        return "Speculative decoding and quantization together"
    return f"{pair.variant} (against {pair.baseline})"


def best_pair(pairs: Sequence[Pair]) -> Pair:
    """The speculative arm (else any) with the largest speed-up over all cases."""
    return max([pair for pair in pairs if "speculation" in pair.changes] or list(pairs), key=_gain)


def answer(*, pairs: Sequence[Pair]) -> str:
    """The verdict on the best arm, prompt type by prompt type, in one or two sentences."""
    if not pairs:
        return "Nothing could be compared: no two arms completed the same case."
    best = best_pair(pairs)
    named = f" ({best.variant})" if len(pairs) > 1 else ""
    groups = [group for name in ("structured", "open-ended") if (group := best.group(name))]
    if not groups:
        return f"{subject(best)}{named} could not be judged: {best.cases[0].reason}."
    if len({group.verdict for group in groups}) == 1 and len(groups) == 2:
        parts = " and ".join(f"{_figure(group)} on {group.group} prompts" for group in groups)
        return f"{subject(best)}{named} {SAYS[groups[0].verdict]}: {parts}."
    return (
        f"{subject(best)}{named} "
        + "; ".join(f"{SAYS[group.verdict]} on {group.group} prompts: {_figure(group)}" for group in groups)
        + "."
    )


def _figure(group: GroupResult) -> str:
    return spread(group.headline) if group.headline else "no figure"


def _gain(pair: Pair) -> float:
    group = pair.group("all")
    return group.headline.ratio if group and group.headline else 0.0
