"""The number of speculative tokens to serve with at each batch size, from arms with one k each.

At each level the k with the largest speed-up; of those within 1% of it the smallest (as vLLM's tuner, pull request
49163, was to choose; it was not merged). Without speculation is k = 0.
Each k is the best guess, and may not be proven: beside it stand the values of k that it is not shown to be faster
than. A k is not chosen where it costs or makes no relevant difference, the load generator fell behind, or its arm lacks
a case or failed too many requests.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from specdecode.analysis.loads.curve import gains_by_level, within_batch
from specdecode.analysis.results.over_load import KRange, Schedule
from specdecode.analysis.results.pairs import HEADLINE, Estimate, Pair, Verdict
from specdecode.analysis.statistics.measured import AtLevel, lacking
from specdecode.analysis.statistics.verdict import estimate, verdict_of
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError
from specdecode.experiment.workload import Level

TIE = 0.01
MOST_RIVALS = 3
"""Most other k's that the sentence lists."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The choices at one load."""

    load: int
    """Requests in a batch: at most `max_num_seqs`."""
    gains: Mapping[int, float]
    """k -> log speed-up, for each k that may be chosen. k = 0 has 0."""
    pays: frozenset[int] = frozenset()
    """Each k that is shown to be faster than no speculation."""

    @property
    def k(self) -> int:
        """The smallest k within TIE of the best."""
        best = max(self.gains.values())
        return min(k for k, gain in self.gains.items() if gain >= best - TIE)


def schedules(*, experiment: Experiment, levels: Sequence[AtLevel], pairs: Sequence[Pair]) -> tuple[Schedule, ...]:
    """A schedule for each draft, from `pairs` of one setting. Empty for an open loop: its batch sizes are not known."""
    ordered = sorted((at for at in levels if at.level.concurrency), key=lambda at: at.level.value)
    found: dict[str, dict[int, str]] = {}
    for pair in pairs:
        spec = experiment.variant(pair.variant).speculation
        if spec and not spec.num_speculative_tokens_per_batch_size and pair.changes == ("speculation",):
            found.setdefault(spec.draft.id, {0: pair.baseline})[spec.num_speculative_tokens] = pair.variant
    made = (_schedule(experiment, ordered, draft, names) for draft, names in found.items())
    return tuple(each for each in made if each)


def _schedule(
    experiment: Experiment, levels: Sequence[AtLevel], draft: str, names: Mapping[int, str]
) -> Schedule | None:
    """`names`: k -> its arm."""
    base, cases = names[0], [case.name for case in experiment.workload.cases]
    served = {at.level: _served(at, names) for at in levels}

    def over(rival: int, k: int) -> dict[Level, Estimate]:
        """Speed-up of `k` over its rival at each load that both served."""
        there = [at for at in levels if {k, rival} <= served[at.level]]
        own, other = names[k], names[rival]
        found = gains_by_level(experiment=experiment, levels=there, variant=own, baseline=other, cases=cases)
        return {level: estimate(HEADLINE, gain, method="") for level, gain in found.items()}

    over_base, choices = {k: over(0, k) for k in names if k}, list[Choice]()
    for at in levels:
        load = _batch(experiment, at.level, base)
        known = {k: found[at.level] for k, found in over_base.items() if at.level in found}
        verdicts = {k: verdict_of(found) for k, found in known.items()}
        if served[at.level] and not (choices and choices[-1].load == load):
            may = (k for k, own in verdicts.items() if own in (Verdict.PAYS, Verdict.CANNOT_TELL))
            gains = {0: 0.0} | {k: math.log(known[k].ratio) for k in may}
            pays = frozenset(k for k, own in verdicts.items() if own is Verdict.PAYS)
            choices.append(Choice(load=load, gains=gains, pays=pays))
    if len(choices) < 2:
        return None
    batch = experiment.batch_of(experiment.variant(base)) or choices[-1].load
    ranges = []
    for first, last, k in table(choices, batch):
        within = [at.level for at in levels if first <= _batch(experiment, at.level, base) <= last]
        out = {rival for level in within for rival in names.keys() - served[level]}
        beside = {rival: over(rival, k) for rival in sorted(names.keys() - {k, *out})}
        rivals = tuple(rival for rival, found in beside.items() if not (within and _faster(found, within)))
        ranges.append(
            KRange(first=first, last=last, k=k, variant=names[k], rivals=rivals, failed=tuple(sorted(out - {k})))
        )
    return Schedule(
        draft=draft,
        ranges=tuple(ranges),
        measured=tuple(each.load for each in choices),
        measured_to=choices[-1].load,
        engine_takes_it=_engine_takes_it(experiment),
    )


def _batch(experiment: Experiment, level: Level, arm: str) -> int:
    """Requests that run together at a level."""
    return round((level.concurrency or 1) * within_batch(experiment, level, arm))


def _faster(found: Mapping[Level, Estimate], within: Sequence[Level]) -> bool:
    """Whether the interval is above 1 at each of the loads."""
    lows = [found[level].low if level in found else None for level in within]
    return all(low is not None and low > 1.0 for low in lows)


def table(choices: Sequence[Choice], batch: int) -> list[tuple[int, int, int]]:
    """First and last batch size and k of each range, from 1 to `batch` without a gap; `choices` by load. A batch size
    between two levels gets a k that is shown to pay at both, else none; and none below the first or beyond the last.
    """
    ends = [(choices[0].load - 1, 0)]
    for before, after in pairwise(choices):
        between = next((k for k in (after.k, before.k) if k in before.pays & after.pays), 0)
        ends += [(before.load, before.k), (after.load - 1, between)]
    ends += [(choices[-1].load, choices[-1].k), (batch, 0)]
    found: list[tuple[int, int, int]] = []
    first = 1
    for end, k in ends:
        if (last := min(batch, end)) >= first:
            if found and found[-1][2] == k:
                first = found.pop()[0]
            found.append((first, last, k))
            first = last + 1
    return found


def _served(at: AtLevel, names: Mapping[int, str]) -> set[int]:
    """Each k whose arm is known over all prompts of the load, as the baseline is."""
    arms = [each.arm for each in at.arms.values()]
    return {k for k, name in names.items() if not lacking(arms, names[0], name)}


def _engine_takes_it(experiment: Experiment) -> bool:
    """Whether the engine changes k with the batch size. Of servers that already run, mostly vLLM, it is assumed."""
    try:
        return experiment.served_by is None or load_engine(experiment.served_by).k_by_batch_size
    except ExperimentError:
        return False


def in_words(found: Schedule) -> str:
    """`Draft d: k=5 up to 8 requests at a time (shown), no speculation from 9 on (k=5 may be as fast).`"""
    last, parts = len(found.ranges) - 1, []
    for number, each in enumerate(found.ranges):
        if not last:
            where = "at any load"
        elif not number:
            where = f"up to {each.last} requests at a time"
        elif number == last:
            where = f"from {each.first} on"
        else:
            where = f"at {each.first}" if each.first == each.last else f"from {each.first} to {each.last}"
        said = [f"{_listed(each.failed)} failed there or was not measured"] if each.failed else []
        if each.rivals:
            said.append(f"{_listed(each.rivals)} may be as fast")
        elif each.rivals is not None and not said:
            said.append("shown to be the fastest")
        what = _listed([each.k]) + ("" if found.engine_takes_it else f" ({each.variant})")
        parts.append(f"{what} {where}" + (f" ({'; '.join(said)})" if said else ""))
    fixed = "" if found.engine_takes_it else " The engine's k is fixed: each is a server of its own."
    return f"Draft {found.draft}: {', '.join(parts)}.{_unmeasured(found)}{fixed}"


def _unmeasured(found: Schedule) -> str:
    """The batch sizes of the schedule that no level had."""
    ends = (0, *found.measured, found.ranges[-1].last + 1)
    gaps = [(before + 1, after - 1) for before, after in pairwise(ends) if after - before > 1]
    sizes = [str(first) if first == last else f"{first} to {last}" for first, last in gaps]
    return f" Not measured: batches of {', '.join(sizes)}." if found.measured and gaps else ""


def _listed(ks: Sequence[int]) -> str:
    names = [f"k={k}" if k else "no speculation" for k in ks]
    more = f" and {len(names) - MOST_RIVALS} more" if len(names) > MOST_RIVALS else ""
    return f"{', '.join(names[:MOST_RIVALS])}{more}"
