"""The number of speculative tokens to serve with at each batch size, from arms with one k each.

At each level the k with the largest speed-up, by the median over cases and rounds; of those within 1% of it the
smallest (as vLLM's tuner, pull request 49163, was to choose; it was not merged). Without speculation is k = 0.
Each k is the best guess, and may not be proven: beside it stand the values of k that it is not shown to be faster
than. A k whose arm failed too many requests at a load is not chosen there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from specdecode.analysis.loads.curve import gains_by_level, within_batch
from specdecode.analysis.results.over_load import Curve, KRange, Schedule
from specdecode.analysis.results.pairs import HEADLINE, Pair
from specdecode.analysis.statistics import pairing
from specdecode.analysis.statistics.measured import AtLevel
from specdecode.analysis.statistics.verdict import too_many_failed
from specdecode.experiment.files import load_engine
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError
from specdecode.experiment.workload import Level
from specdecode.measures.student import NOMINAL

TIE = 0.01
MOST_RIVALS = 3
"""Most other k's that the sentence lists."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """The choices at one load."""

    load: int
    """Requests in a batch: at most `max_num_seqs`."""
    gains: Mapping[int, float]
    """k -> log speed-up, for each k that served this load. k = 0 has 0."""
    pays: frozenset[int] = frozenset()
    """Each k that is shown to be faster than no speculation."""

    @property
    def k(self) -> int:
        """The smallest k within TIE of the best."""
        best = max(self.gains.values())
        return min(k for k, gain in self.gains.items() if gain >= best - TIE)


def schedules(
    *, experiment: Experiment, levels: Sequence[AtLevel], pairs: Sequence[Pair], curves: Sequence[Curve]
) -> tuple[Schedule, ...]:
    """A schedule for each draft, from `pairs` of one setting. Empty for an open loop: its batch sizes are not known."""
    ordered = sorted((at for at in levels if at.level.concurrency), key=lambda at: at.level.value)
    found: dict[str, dict[int, Curve]] = {}
    for curve in curves:
        spec = experiment.variant(curve.variant).speculation
        own = [each for each in pairs if (each.variant, each.baseline) == (curve.variant, curve.baseline)]
        alone = any(each.changes == ("speculation",) for each in own)
        if curve.group == "all" and spec and not spec.num_speculative_tokens_per_batch_size and alone:
            found.setdefault(spec.draft.id, {})[spec.num_speculative_tokens] = curve
    made = (_schedule(experiment, ordered, draft, of_k) for draft, of_k in found.items())
    return tuple(each for each in made if each)


def _schedule(
    experiment: Experiment, levels: Sequence[AtLevel], draft: str, of_k: Mapping[int, Curve]
) -> Schedule | None:
    cases = set.intersection(*(set(curve.cases) for curve in of_k.values()))
    base = next(iter(of_k.values())).baseline
    names = {0: base, **{k: curve.variant for k, curve in of_k.items()}}
    failed = {at.level: [k for k, name in names.items() if _failed(at, name, cases)] for at in levels}
    there = {at.level: [k for k, curve in of_k.items() if at.level in {p.level for p in curve.points}] for at in levels}
    choices = [
        Choice(
            load=_batch(experiment, at.level, base),
            gains={0: 0.0, **{k: _gain(at, of_k[k], cases) for k in sorted(there[at.level])}},
            pays=frozenset(k for k in there[at.level] if _faster(experiment, levels, [at], names[k], names[0], cases)),
        )
        for at in levels
        if cases and 0 not in failed[at.level] and set(of_k) == {*there[at.level], *failed[at.level]}
    ]
    choices = [own for before, own in pairwise([None, *choices]) if own and not (before and before.load == own.load)]
    if len(choices) < 2:
        return None
    batch = experiment.batch_of(experiment.variant(base)) or choices[-1].load
    ranges = []
    for first, last, k in table(choices, batch):
        within = [at for at in levels if first <= _batch(experiment, at.level, base) <= last]
        out = {rival for at in within for rival in failed[at.level]}
        rivals = [
            rival
            for rival in sorted(names)
            if rival not in {k, *out} and not _faster(experiment, levels, within, names[k], names[rival], cases)
        ]
        ranges.append(
            KRange(first=first, last=last, k=k, variant=names[k], rivals=tuple(rivals), failed=tuple(sorted(out - {k})))
        )
    return Schedule(
        draft=draft,
        ranges=tuple(ranges),
        measured=tuple(each.load for each in choices),
        measured_to=choices[-1].load,
        engine_takes_it=_engine_takes_it(experiment),
    )


def _failed(at: AtLevel, variant: str, cases: set[str]) -> bool:
    """Whether too many of the arm's requests failed there."""
    return any(too_many_failed(at.arms[variant, case].arm) for case in cases if (variant, case) in at.arms)


def _batch(experiment: Experiment, level: Level, arm: str) -> int:
    """Requests that run together at a level."""
    return round((level.concurrency or 1) * within_batch(experiment, level, arm))


def _faster(
    experiment: Experiment,
    levels: Sequence[AtLevel],
    within: Sequence[AtLevel],
    variant: str,
    rival: str,
    cases: set[str],
) -> bool:
    """Whether the interval of arm over rival is above 1 at each of the loads `within`."""
    gains = gains_by_level(experiment=experiment, levels=levels, variant=variant, baseline=rival, cases=sorted(cases))
    found = [gains[at.level].interval(NOMINAL) if at.level in gains else None for at in within]
    return bool(found) and all(interval and interval[0] > 1.0 for interval in found)


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


def _gain(at: AtLevel, curve: Curve, cases: set[str]) -> float:
    """Median over cases and rounds of the log speed-up."""
    found = []
    for case in sorted(cases):
        base, other = at.arms[curve.baseline, case], at.arms[curve.variant, case]
        rounds = sorted(pairing.rounds_of_both([base], [other]))
        found += [stat for number in rounds if (stat := pairing.paired(base, other, HEADLINE, {number: 1.0}))]
    return median(stat.mean for stat in found)


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
        said = [f"{_listed(each.failed)} failed there"] if each.failed else []
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
