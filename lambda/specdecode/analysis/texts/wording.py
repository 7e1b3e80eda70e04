"""The answer in a sentence or two: the best arm, by kind of prompts; doubts; and what is missing."""

import re
from collections.abc import Sequence

from specdecode.analysis.results.numbers import digits, spread, times
from specdecode.analysis.results.pairs import CaseResult, Chain, GroupResult, Pair, Verdict
from specdecode.analysis.statistics.groups import MIN_TYPES, figure
from specdecode.analysis.statistics.verdict import MAX_FAILED
from specdecode.escape import counted
from specdecode.measures.arm_case import ArmCase

SAYS = {
    Verdict.PAYS: "pays",
    Verdict.NO_DIFFERENCE: "makes no relevant difference",
    Verdict.COSTS: "costs",
    Verdict.CANNOT_TELL: "cannot be judged",
    Verdict.DISTRUST: "is not to be trusted",
}
MAX_DIFFERENT = 0.5
"""Share of greedy answers that differ above which the headline says so. Rounding makes some answers differ late."""
FROM_START = "from the first token on"
SHOWN = 5
"""Most arms or cases that the sentence about missing ones lists."""


def first_sentence(text: str) -> str:
    """Up to the first full stop that ends a sentence; a point within a name or a figure ends none."""
    return re.split(r"(?<=\.) (?=[A-Z])", text, maxsplit=1)[0]


def distrusts(pair: Pair) -> str:
    """`The figures of sd against base are not to be trusted: count: …`."""
    return (
        f"IMPOSSIBLE: the figures of {pair.variant} against {pair.baseline} are not to be trusted: {pair.distrusted}."
    )


def answer(
    *, best: Pair | None, pairs: Sequence[Pair], chains: Sequence[Chain] = (), missing: Sequence[str] = ()
) -> str:
    """`sd against base pays on all prompts: …`: what is known of `best`, the arm that the decision is about; then the
    same against the first baseline of its chain. `missing`: arms and cases that failed or were not measured, in words.
    """
    more = f"; and {len(missing) - SHOWN} more" if len(missing) > SHOWN else ""
    lost = f" Not in this answer: {'; '.join(missing[:SHOWN])}{more}." if missing else ""
    if best is None:
        return f"Nothing could be compared: no two arms completed the same case.{lost}"
    doubt = "".join(f"{distrusts(pair)} " for pair in pairs if pair.distrusted)
    if best.distrusted:
        return f"{doubt.strip()}{lost}"
    known = [f"{_says(best)}{_qualified(best)}"]
    known += [_says(chain.total) for chain in chains if chain.variant == best.variant]
    return f"{doubt}{' '.join(known)}{lost}"


def alone(arms: Sequence[ArmCase]) -> str:
    """What a run of one arm found: medians of its prompt types."""
    figures = [
        f"{name} {digits(low)}{f' to {digits(high)}' if high > low * 1.005 else ''} {unit}"
        for tag, name, scale, unit in (
            ("ttft", "time to first token", 1000, "ms"),
            ("time_per_output_token", "time per output token", 1000, "ms"),
            ("request_output_throughput", "a request gets", 1, "tokens/s"),
        )
        if (known := [own.p50 * scale for arm in arms if (own := arm.metrics.get(tag)) and own.p50 is not None])
        for low, high in [(min(known), max(known))]
    ]
    of = f" (medians of {counted(len(arms), 'prompt type')})" if figures else ""
    return f"One server, compared with nothing: {', '.join(figures) or 'no request was completed'}{of}."


def _says(pair: Pair) -> str:
    """Verdicts by kind of prompts."""
    kinds = "; ".join(_of_kind(pair, found) for found in pair.kinds)
    return f"{pair.variant} against {pair.baseline} {kinds}."


def _of_kind(pair: Pair, found: GroupResult) -> str:
    """`pays on both structured prompts measured: 1.91× to 3.03×`."""
    cases = [case for case in pair.cases if case.case in found.cases]
    prompts = "prompts" if found.group == "all" else f"{found.group} prompts"
    if len(found.judged) >= MIN_TYPES and found.verdict is not Verdict.MIXED:
        return f"{SAYS[found.verdict]} on {prompts}: {figure(found)}"
    if len(cases) == 1:
        (case,) = cases
        return f"{SAYS[case.verdict]} on the {prompts} measured ({case.case}): {_figure(case)}"
    if found.verdict is Verdict.MIXED:
        gains = [times(each.headline.ratio) if each.headline and each.comparable else "no figure" for each in cases]
        shown = list(zip(cases, gains, strict=True))[:SHOWN]
        parts = ", ".join(f"{SAYS[case.verdict]} on {case.case} ({gain})" for case, gain in shown)
        rest = f", and {len(cases) - SHOWN} more" if len(cases) > SHOWN else ""
        return f"differs between the {len(cases)} {prompts[:-1]} types measured: {parts}{rest}"
    return f"{SAYS[found.verdict]} on all {len(cases)} {prompts[:-1]} types measured: {figure(found)}"


def _figure(case: CaseResult) -> str:
    if case.headline is None or case.headline.low is None or not case.comparable or case.late:
        return case.reason
    return spread(case.headline).replace(")", " for this one prompt)" if case.distinct_prompts == 1 else ")")


def differs(pair: Pair) -> str:
    """`the answers differ in 8 of 8 pairs, in 3 of them from the first token on`. Empty if they do not differ, or if
    they may.

    Only greedy answers must not differ. They differ too much if more than MAX_FAILED of the pairs differ from the first
    token on, which no rounding explains, or if more than half of the pairs differ anywhere.
    """
    greedy = [case.equality for case in pair.cases if case.equality.expected]
    compared, parted = (sum(getattr(same, name) for same in greedy) for name in ("compared", "from_start"))
    different = compared - sum(same.identical for same in greedy)
    if parted <= MAX_FAILED * compared:
        return f"the answers differ in {different} of {compared} pairs" if different > MAX_DIFFERENT * compared else ""
    if parted == different:
        return f"the answers differ {FROM_START} in {parted} of {compared} pairs"
    return f"the answers differ in {different} of {compared} pairs, in {parted} of them {FROM_START}"


def _qualified(pair: Pair) -> str:
    """`differs` and its consequence: a difference late in an answer may be rounding."""
    if not (found := differs(pair)):
        return ""
    late = "rounding can do that late in an answer, a wrong verification step too"
    return f" But {found}: {'the arms do not do the same work' if FROM_START in found else late}."
