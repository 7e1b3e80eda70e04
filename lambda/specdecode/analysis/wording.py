"""The answer in a sentence."""

from __future__ import annotations

from collections.abc import Sequence

from specdecode.analysis.result import GroupResult, Pair, Verdict
from specdecode.analysis.verdict import spread, times

SAYS = {
    Verdict.PAYS: "pays",
    Verdict.NO_DIFFERENCE: "shows no difference",
    Verdict.COSTS: "costs",
    Verdict.CANNOT_SAY: "could not be judged",
}
MIXED = "is mixed"
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
        return "Speculative decoding with quantization"
    return f"{pair.variant} (against {pair.baseline})"


def title(pair: Pair, *, among: Sequence[Pair]) -> str:
    """The subject, with the arm's name where several pairs could be meant: `Speculative decoding (sd-k4)`."""
    about = subject(pair)
    return about if len(among) < 2 or pair.variant in about else f"{about} ({pair.variant})"


def best_pair(pairs: Sequence[Pair]) -> Pair:
    """The speculative arm (else any) with the largest speed-up over all cases."""
    return max([pair for pair in pairs if "speculation" in pair.changes] or list(pairs), key=_gain)


def answer(*, pairs: Sequence[Pair]) -> str:
    """The verdict on the best arm, prompt type by prompt type, in one or two sentences."""
    if not pairs:
        return "Nothing could be compared: no two arms completed the same case."
    best = best_pair(pairs)
    about = title(best, among=pairs)
    groups = [group for name in ("structured", "open-ended") if (group := best.group(name))]
    if not groups:
        return f"{about} could not be judged: {best.cases[0].reason}."
    says = [_says(best, group) for group in groups]
    if len(groups) == 2 and says[0] == says[1] and says[0] != MIXED:
        parts = " and ".join(f"{_figure(group)} on {group.group} prompts" for group in groups)
        return f"{about} {says[0]}: {parts}."
    parts = "; ".join(
        f"{said} on {group.group} prompts: {_extremes(best, group) if said == MIXED else _figure(group)}"
        for said, group in zip(says, groups, strict=True)
    )
    return f"{about} {parts}."


def mixed(pair: Pair, group: GroupResult) -> bool:
    """Some cases of the group pay and others cost: its mean is nobody's experience."""
    verdicts = {case.verdict for case in pair.cases if case.case in group.cases}
    return {Verdict.PAYS, Verdict.COSTS} <= verdicts


def _says(pair: Pair, group: GroupResult) -> str:
    return MIXED if mixed(pair, group) else SAYS[group.verdict]


def _extremes(pair: Pair, group: GroupResult) -> str:
    """`0.89× (sonnet) to 1.17× (meaning-of-life)`."""
    found = sorted(
        (case.headline.ratio, case.case) for case in pair.cases if case.case in group.cases and case.headline
    )
    return " to ".join(f"{times(gain)} ({case})" for gain, case in (found[0], found[-1]))


def _figure(group: GroupResult) -> str:
    return spread(group.headline) if group.headline else "no figure"


def _gain(pair: Pair) -> float:
    group = pair.group("all")
    return group.headline.ratio if group and group.headline else 0.0
