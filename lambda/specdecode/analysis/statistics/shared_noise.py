"""Noise that requests share because they were measured in the same minutes.

The spread over prompts shows it only if every prompt was measured at a time of its own. So an interval has it besides.
Between arms that alternate (A B, B A) a slow drift cancels; what does not cancel shows as a difference between pairs
of portions, and between the rounds of a case that is left when its prompts and the round itself are taken out: a
two-way residual of case x round. Both are pooled over the cases, since one case has few of them.
"""

import math
from collections import defaultdict
from collections.abc import Hashable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

from specdecode.measures.distribution import mean
from specdecode.measures.student import LogMean

CALM = 3.0
"""Only a case whose requests are noisier than this many times the median counts for clearly less than the others. A
weight that followed each case's own noise closely would prefer cases whose noise looks small by chance."""


class Seen(NamedTuple):
    """What one observation (a prompt, or a conversation) showed in one round."""

    portion: int
    difference: float
    """Log speed-up."""


Rounds = Mapping[int, Mapping[Hashable, Seen]]
"""Of one case: number of a round -> observation -> what it showed."""


class _Residuals(NamedTuple):
    """Squares of one case, each of the variance of one observation in one round."""

    within: float
    """Within portions: noise of single requests, and of prompts if there is one round."""
    between: float
    """Between pairs of portions, a sum of squares."""
    df: float
    """Degrees of freedom of `between`."""
    rounds: tuple[float, ...]
    """Mean of each round, without the prompts' own means."""
    prompts: int


def shared_noise(
    cases: Mapping[str, Rounds], *, weights: Mapping[int, float] | None = None, swapped: bool = False
) -> dict[str, LogMean]:
    """Noise of each case's mean log speed-up, besides the spread over its prompts: mean 0; variance 0 if nothing shows
    it. `weights`: of the rounds in the mean; None: equal. `swapped`: the arms had each other's devices in some rounds,
    and what a round does to all cases cancels. Sources: the analysis of variance of a nested design (Searle, Casella &
    McCulloch 1992, "Variance components", chapter 3), Satterthwaite's degrees of freedom.
    """
    found = {name: residuals for name, rounds in cases.items() if (residuals := _residuals(list(rounds.values())))}
    between = _with_rounds(found, swapped)
    usable = {name: (ss / df, df) for name, (ss, df) in between.items() if df > 0}
    typical = CALM * median(found[name].within for name in usable) if usable else 0.0
    quiet = {name: (found[name].within + typical) ** -2 for name in usable if found[name].within + typical > 0.0}
    if not quiet:
        return {name: LogMean(0.0, 0.0, 1.0, 0) for name in cases}
    total = math.fsum(quiet.values())
    excess = math.fsum(weight * (usable[name][0] - found[name].within) for name, weight in quiet.items()) / total
    parts = [(weight * usable[name][0], usable[name][1]) for name, weight in quiet.items()]
    squares = math.fsum(part**2 / df for part, df in parts)
    df = math.fsum(part for part, _ in parts) ** 2 / squares if squares else 1.0
    noise = {}
    for name, rounds in cases.items():
        own = {number: (weights or {}).get(number, 1.0) for number in rounds}
        whole = math.fsum(own.values())
        of_mean = math.fsum((own[number] / whole) ** 2 / max(1, len(seen)) for number, seen in rounds.items())
        noise[name] = LogMean(0.0, max(0.0, excess) * of_mean, max(1.0, df), 0)
    return noise


def _residuals(rounds: Sequence[Mapping[Hashable, Seen]]) -> _Residuals | None:
    """The squares of a case, over the prompts that each of its rounds has. None if it has fewer than two."""
    common = set.intersection(*(set(each) for each in rounds)) if rounds else set()
    if len(common) < 2:
        return None
    own = {key: mean([each[key].difference for each in rounds]) if len(rounds) > 1 else 0.0 for key in common}
    repeated = max(1, len(rounds) - 1) / len(rounds)
    within = singles = between = 0.0
    df_within = df_singles = df = 0.0
    means = []
    for each in rounds:
        portions: dict[int, list[float]] = defaultdict(list)
        for key in common:
            portions[each[key].portion].append(each[key].difference - own[key])
        values = [value for portion in portions.values() for value in portion]
        centre = mean(values)
        means.append(centre)
        within += math.fsum((value - mean(portion)) ** 2 for portion in portions.values() for value in portion)
        df_within += (len(values) - len(portions)) * repeated
        singles += math.fsum((value - centre) ** 2 for value in values)
        df_singles += (len(values) - 1) * repeated
        ordered = [portions[number] for number in sorted(portions)]
        pairs = [[value for portion in ordered[at : at + 2] for value in portion] for at in range(0, len(ordered), 2)]
        between += math.fsum(len(pair) * (mean(pair) - centre) ** 2 for pair in pairs)
        df += (len(pairs) - 1) * repeated
    noise = within / df_within if df_within else singles / df_singles
    return _Residuals(noise, between, df, tuple(means), len(common))


def _with_rounds(cases: Mapping[str, _Residuals], swapped: bool) -> dict[str, tuple[float, float]]:
    """Sum of squares between portions and between rounds, and its degrees of freedom."""
    found = {name: (each.between, each.df) for name, each in cases.items()}
    most = max((len(each.rounds) for each in cases.values()), default=0)
    crossed = {name: each for name, each in cases.items() if len(each.rounds) == most}
    if most < 2 or (swapped and len(crossed) < 2):
        return found
    of_round = [mean([each.rounds[number] for each in crossed.values()]) if swapped else 0.0 for number in range(most)]
    lost = len(crossed) / (len(crossed) - 1) if swapped else 1.0
    for name, each in crossed.items():
        squares = math.fsum((own - common) ** 2 for own, common in zip(each.rounds, of_round, strict=True))
        ss, df = found[name]
        found[name] = ss + each.prompts * squares * lost, df + most - 1
    return found
