"""Several runs: of one question together, with an interval over runs; of two questions against each other; or parts of
one sweep, each arm beside the baseline of its own run (ADR 188).
"""

import math
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from statistics import geometric_mean

from specdecode.analysis.results.comparison import Comparison
from specdecode.analysis.results.pairs import HEADLINE, ArmFinding, Estimate, Pair, Verdict
from specdecode.analysis.several_runs.alike import incomparable, other_objective, paths
from specdecode.analysis.statistics.verdict import estimate
from specdecode.analysis.texts.decide import decided, first_load
from specdecode.escape import line
from specdecode.experiment.base import Frozen
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import Level
from specdecode.measures.student import combine, log_mean
from specdecode.untrusted import WrongInput


class OverRuns(Frozen):
    """One arm and case over runs of the same question."""

    speedup: Estimate
    """Geometric mean over the runs. The interval is over runs; a single run has none."""
    verdicts: tuple[Verdict, ...]


class Carried(Frozen):
    """Load that one arm carried within the service-level objective, in each run. None: not even the smallest load."""

    variant: str
    before: tuple[Level | None, ...]
    after: tuple[Level | None, ...] = ()
    """The same for the runs of the second question. Empty if all runs ask one question."""


class CaseChange(Frozen):
    """One arm and case at one load in both sets of runs."""

    variant: str
    case: str
    """With the load if the runs had several: `repeat, 8 at a time`."""
    before: OverRuns
    after: OverRuns
    change: Estimate
    """after / before: above 1 the speed-up grew. It has no interval if a set is a single run."""
    shown: bool
    """The interval of the change excludes 1."""


class RunDifference(Frozen):
    """The runs of the second question against those of the first."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    cases: tuple[CaseChange, ...]
    only_before: tuple[str, ...]
    only_after: tuple[str, ...]
    settings: tuple[str, ...]
    """Differences in versions and experiment, one line each."""
    incomparable: tuple[str, ...]
    """Differences that make speed-ups incomparable (model, load, lengths, sampling)."""
    left_out: tuple[str, ...] = ()
    """Cases of which a run's report judges no figure, and why."""
    carried: tuple[Carried, ...] = ()
    """Largest load at which each arm keeps the objective. Empty unless both sets have the same objective."""
    other_objective: tuple[str, ...] = ()
    """Differences in the objective. If there are any, `carried` is not compared."""


class Repeated(Frozen):
    """Runs of one question together."""

    runs: tuple[str, ...]
    cases: dict[str, OverRuns]
    """`variant/case` -> its figure over the runs; with the load if they had several."""
    left_out: tuple[str, ...] = ()
    """Cases of which a run's report judges no figure, and why."""
    carried: tuple[Carried, ...] = ()


class TrendPoint(Frozen):
    """One run of a series."""

    run_id: str
    experiment: str
    started_at: datetime
    answer: str
    speedups: dict[str, float]
    """`variant/group` -> speed-up on the headline metric."""
    over_runs: dict[str, Estimate]
    """Geometric mean over this run and all earlier runs of the same question."""
    failed: int


OVER_RUNS = "Student's t on the log speed-ups of the runs"
BETWEEN = "ratio of two sets of runs; Welch's t on the log speed-ups of the runs"
Key = tuple[str, str]
"""Variant, and case (with the load if the run had several)."""
Cases = Mapping[Key, ArmFinding]
"""One run's figures as its report judges them."""


class NoSets(WrongInput):
    """A run is given twice, or there are more than two questions. The message says which."""


def difference(comparisons: Sequence[Comparison]) -> RunDifference | Repeated:
    """Combine runs of one question, or compare the runs of a second question with those of the first. Raises NoSets."""
    ids = [item.run_id for item in comparisons]
    if len(set(ids)) < len(ids):
        raise NoSets("a run is given twice: it would pass for more evidence than it is")
    sets: list[list[Comparison]] = []
    for item in comparisons:
        own = next((known for known in sets if not settings(known[0], item)), None)
        if own is None:
            sets.append([item])
        else:
            own.append(item)
    if len(sets) == 1:
        return Repeated(
            runs=tuple(ids),
            cases={"/".join(key): found for key, found in _over_runs([_cases(run) for run in sets[0]]).items()},
            left_out=_left_out(sets[0]),
            carried=_carried(sets[0]),
        )
    if len(sets) > 2:
        told = "; ".join(f"{own[0].run_id}: {', '.join(settings(sets[0][0], own[0])[:3])}" for own in sets[1:])
        raise NoSets(f"these runs ask {len(sets)} different questions; give runs of two at most ({told})")
    return _between(*sets)


def _between(before: Sequence[Comparison], after: Sequence[Comparison]) -> RunDifference:
    old, new = ([_cases(run) for run in side] for side in (before, after))
    first, second = _over_runs(old), _over_runs(new)
    wrong = tuple(incomparable(before[0].experiment, after[0].experiment))
    otherwise = tuple(other_objective(before[0].experiment, after[0].experiment))
    changes = []
    for key in (key for key in first if key in second):
        stats = [log_mean(list(map(math.log, _ratios(own, key)))) for own in (new, old)]
        change = estimate(first[key].speedup.metric, combine(stats, (1.0, -1.0)), method=BETWEEN)
        shown = change.low is not None and change.high is not None and not change.low <= 1.0 <= change.high
        changes.append(
            CaseChange(
                variant=key[0],
                case=key[1],
                before=first[key],
                after=second[key],
                change=change,
                shown=shown and not wrong,
            )
        )
    return RunDifference(
        before=tuple(item.run_id for item in before),
        after=tuple(item.run_id for item in after),
        cases=tuple(changes),
        only_before=tuple("/".join(key) for key in first if not any(key in run for run in new)),
        only_after=tuple("/".join(key) for key in second if not any(key in run for run in old)),
        left_out=_left_out((*before, *after)),
        settings=tuple(settings(before[0], after[0])),
        incomparable=wrong,
        carried=() if wrong or otherwise else _carried(before, after),
        other_objective=otherwise,
    )


def _carried(before: Sequence[Comparison], after: Sequence[Comparison] = ()) -> tuple[Carried, ...]:
    """Carried loads of the arms that have an objective in every run."""
    first, second = (
        [{each.variant: each.keeps for each in item.objective} for item in items] for items in (before, after)
    )
    return tuple(
        Carried(variant=name, before=tuple(run[name] for run in first), after=tuple(run[name] for run in second))
        for name in first[0]
        if all(name in run for run in (*first, *second))
    )


def _over_runs(runs: Sequence[Cases]) -> dict[Key, OverRuns]:
    """Figures over runs of each arm and case that every run judges."""
    return {
        key: OverRuns(speedup=_over(HEADLINE, ratios), verdicts=tuple(cases[key].verdict for cases in runs))
        for key in runs[0]
        if len(ratios := _ratios(runs, key)) == len(runs)
    }


def _over(metric: str, ratios: Sequence[float]) -> Estimate:
    return estimate(metric, log_mean(list(map(math.log, ratios))), method=OVER_RUNS)


def _ratios(runs: Sequence[Cases], key: Key) -> list[float]:
    return [found.speedup.ratio for cases in runs if (found := cases.get(key)) and found.speedup]


def _left_out(runs: Sequence[Comparison]) -> tuple[str, ...]:
    why: dict[tuple[str, str], list[str]] = {}
    for run in runs:
        for key, found in _cases(run).items():
            if found.speedup is None:
                why.setdefault((run.run_id, found.why), []).append("/".join(key))
    return tuple(f"{run}: {', '.join(cases)}: {reason}" for (run, reason), cases in why.items())


def left_out_text(found: RunDifference | Repeated) -> str:
    """What is in no figure, and why. Empty if nothing is left out."""
    listed = "".join(f"  {line(item)}\n" for item in found.left_out)
    return f"\nLeft out, since the run's own report does not judge it:\n{listed}" if listed else ""


def trend(comparisons: Sequence[Comparison]) -> list[TrendPoint]:
    """The runs in the order of their start."""
    points = []
    ordered = sorted(comparisons, key=lambda item: item.context.started_at)
    for at, item in enumerate(ordered):
        speedups = _group_speedups(item)
        same = [earlier for earlier in ordered[: at + 1] if not settings(earlier, item)]
        points.append(
            TrendPoint(
                run_id=item.run_id,
                experiment=item.experiment.name,
                started_at=item.context.started_at,
                answer=item.answer,
                speedups=speedups,
                over_runs={
                    name: _over("", [found[name] for each in same if name in (found := _group_speedups(each))])
                    for name in speedups
                },
                failed=sum(arm.failed for arm in item.arms),
            )
        )
    return points


def _group_speedups(item: Comparison) -> Mapping[str, float]:
    return {
        f"{each.variant}/{each.group}": each.speedup.ratio
        for each in decided(item).findings
        if each.group and each.speedup and each.load == first_load(item)
    }


def _cases(run: Comparison) -> Cases:
    levels = {level.name: level for level in run.experiment.workload.levels}
    return {
        (each.variant, f"{each.case}, {levels[each.load]}" if len(levels) > 1 else each.case): each
        for each in decided(run).findings
        if each.case and each.load in levels
    }


def settings(before: Comparison, after: Comparison, *, but: Collection[str] = ()) -> list[str]:
    """Differences between two runs' questions, a line each: versions, and the experiment without the fields `but`."""
    old, new = before.context.versions, after.context.versions
    found = [
        f"{name}: {old.get(name, 'unknown')} -> {new.get(name, 'unknown')}"
        for name in sorted(old.keys() | new.keys())
        if old.get(name, "unknown") != new.get(name, "unknown")
    ]
    return [*found, *paths(_question(before.experiment, but), _question(after.experiment, but))]


def _question(experiment: Experiment, but: Collection[str]) -> dict[str, object]:
    """The question of an experiment, with its number of rounds, without title, description and deadlines."""
    plain = experiment.model_dump(mode="json", exclude={"title", "description", "deadlines", *but})
    return {**plain, "workload": {**plain["workload"], "rounds": experiment.rounds}}


ARMS = ("variants", "published")
"""Fields of an experiment in which the parts of a sweep differ."""


class JointArm(Frozen):
    """One compared arm of a sweep that several runs measured."""

    variant: str
    run_id: str
    """The run that measured it."""
    baseline: str
    """Arm that it is compared with, measured by the same run."""
    baseline_speed: float | None
    """Tokens per second of that arm's requests in this run: median, geometric mean over the cases."""
    speedup: Estimate | None
    """Over all measured prompts, with the interval that holds for all arms of its run."""
    verdict: Verdict | None
    cost: float | None
    baseline_cost: float | None
    """US dollars per million output tokens."""


class Joint(Frozen):
    """The parts of one sweep together. Arms of different runs were measured on different nodes."""

    runs: tuple[str, ...]
    arms: tuple[JointArm, ...]
    """The fastest first."""
    not_measured: tuple[str, ...]
    first_of: Level | None = None
    """The load that the figures are of, if the runs had several."""


def joint(runs: Sequence[Comparison]) -> Joint | None:
    """All compared arms, the fastest first. None if there are none, runs differ in more, or two have the same one."""
    first, *others = runs
    asked = [variant.name for run in runs for variant in run.experiment.variants if variant.compare_to is not None]
    known = {variant.name: variant for variant in first.experiment.variants}
    alike = all(
        not settings(first, other, but=ARMS)
        and all(known.get(variant.name, variant) == variant for variant in other.experiment.variants)
        for other in others
    )
    if not others or not asked or not alike or len(set(asked)) < len(asked):
        return None
    arms = [_arm(run, pair) for run in runs for pair in run.pairs]
    return Joint(
        runs=tuple(run.run_id for run in runs),
        arms=tuple(sorted(arms, key=lambda arm: -arm.speedup.ratio if arm.speedup else 0.0)),
        not_measured=tuple(name for name in asked if name not in {arm.variant for arm in arms}),
        first_of=first.experiment.workload.levels[0] if len(first.experiment.workload.levels) > 1 else None,
    )


def _arm(run: Comparison, pair: Pair) -> JointArm:
    group = pair.group("all")
    arms = (run.arm(pair.baseline, case.case) for case in pair.cases)
    speeds = [summary.p50 for arm in arms if arm and (summary := arm.metrics.get(HEADLINE)) and summary.p50]
    return JointArm(
        variant=pair.variant,
        run_id=run.run_id,
        baseline=pair.baseline,
        baseline_speed=geometric_mean(speeds) if speeds else None,
        speedup=pair.among.speedup if pair.among else None,
        verdict=group.verdict if group else None,
        cost=run.cost_over(pair.variant, pair),
        baseline_cost=run.cost_over(pair.baseline, pair),
    )
