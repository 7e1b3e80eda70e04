"""The answer as a curve over the load: the speed-up at each level, and the load at which speculation stops paying."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from specdecode.analysis.loads.crossing import AtLoad, Gains, LevelNoise, crossings, level_noise
from specdecode.analysis.results.over_load import ArmAtLoad, Curve, LoadPoint
from specdecode.analysis.results.pairs import HEADLINE, Pair
from specdecode.analysis.statistics import pairing
from specdecode.analysis.statistics.groups import compared_arms, confidence
from specdecode.analysis.statistics.measured import Arms, AtLevel
from specdecode.analysis.statistics.verdict import LENGTH, estimate, lengths_apart, too_many_failed
from specdecode.experiment.model import Experiment
from specdecode.experiment.workload import Level
from specdecode.measures.arm import Measured
from specdecode.measures.distribution import mean, quantile
from specdecode.measures.metrics.formulas import good_requests
from specdecode.measures.plausibility import under_way
from specdecode.measures.student import LogMean, combine

DECODING = "time_per_output_token"
METHOD = "Student's t on the log-ratio of paired prompts, the cases with equal weight; of the measured prompts"
WITH_NOISE = f"{METHOD}, with the noise that all requests of a load share"


@dataclass(frozen=True, kw_only=True)
class _Compared:
    """Both arms at one level, over the cases of the curve."""

    level: Level
    base: Sequence[Measured]
    other: Sequence[Measured]
    gain: LogMean
    """Log speed-up with the noise of the prompts, without the noise that the level's requests share."""
    of_rounds: Sequence[float]
    """Mean gain of each round that has all cases."""
    doubtful: bool
    arm: str
    """Name of the arm that is compared."""
    arms: Arms
    """All that were measured at the level."""

    @property
    def cases(self) -> list[tuple[Measured, Measured]]:
        return list(zip(self.base, self.other, strict=True))


def curves(*, experiment: Experiment, levels: Sequence[AtLevel], pairs: Sequence[Pair]) -> tuple[Curve, ...]:
    """A curve for each pair and group. Empty for a run of one load."""
    if len(levels) < 2:
        return ()
    ordered = sorted(levels, key=lambda each: each.level.value)
    return tuple(
        found
        for pair in pairs
        for group in pair.groups
        if (found := _curve(experiment, ordered, pair, group.group, group.cases))
    )


def gains_by_level(
    *, experiment: Experiment, levels: Sequence[AtLevel], variant: str, baseline: str, cases: Sequence[str]
) -> dict[Level, LogMean]:
    """Log speed-up of any two arms at each level that is not doubtful, with the noise that its requests share."""
    compared, noise, _ = _levels(experiment, levels, (baseline, variant), cases)
    return {each.level: noise.added(each.gain, len(each.of_rounds)) for each in compared if not each.doubtful}


def _levels(
    experiment: Experiment, levels: Sequence[AtLevel], arms: tuple[str, str], cases: Sequence[str]
) -> tuple[list[_Compared], LevelNoise, list[str]]:
    """Both arms at each level that has a speed-up; the noise of a level; and the cases that all those levels have."""
    gains = [{case: gain for case in cases if (gain := _gain(experiment, at, arms, case))} for at in levels]
    there = [(at, found) for at, found in zip(levels, gains, strict=True) if found]
    kept = [case for case in cases if there and all(case in found for _, found in there)]
    compared = [_compared(at, arms, kept, found) for at, found in there] if kept else []
    trusted = [each for each in compared if not each.doubtful]
    return compared, level_noise([Gains(_loads(experiment, each)[1], each.of_rounds) for each in trusted]), kept


def _curve(
    experiment: Experiment, levels: Sequence[AtLevel], pair: Pair, group: str, cases: Sequence[str]
) -> Curve | None:
    compared, noise, kept = _levels(experiment, levels, (pair.baseline, pair.variant), cases)
    if len(compared) < 2:
        return None
    points, trusted = [], dict[Level, AtLoad]()
    for each in map(_beside, compared):
        gain = noise.added(each.gain, len(each.of_rounds))
        points.append(_point(experiment, each, gain))
        if not each.doubtful:
            base_load, load = _loads(experiment, each)
            logs = [mean(list(pairing.logs_of_both(*own, HEADLINE)[0].values())) for own in each.cases]
            seconds = math.exp(-mean(logs)) * within_batch(experiment, each.level, each.arm)
            trusted[each.level] = AtLoad(load=load, base_load=base_load, base_s=seconds, gain=gain)
    there = {each.level for each in compared}
    return Curve(
        variant=pair.variant,
        baseline=pair.baseline,
        of_speculation="speculation" in pair.changes,
        group=group,
        cases=tuple(kept),
        left_out=tuple(case for case in cases if case not in kept),
        points=tuple(points),
        without=tuple(at.level for at in levels if at.level not in there),
        crossovers=tuple(crossings([trusted.get(at.level) for at in levels])),
        shared=math.sqrt(noise.one_round.variance),
        shared_from=noise.source,
        prompts=points[-1].speedup.n,
    )


def _compared(at: AtLevel, arms: tuple[str, str], cases: Sequence[str], gains: Mapping[str, LogMean]) -> _Compared:
    base, other = ([at.arms[name, case] for case in cases] for name in arms)
    gain, of_rounds = combine([gains[case] for case in cases], [1.0 / len(cases)] * len(cases)), []
    for number in sorted({record.round for each in other for record in each.block.records}):
        both = zip(base, other, strict=True)
        found = [each for pair in both if (each := pairing.paired(*pair, HEADLINE, 0.0, {number: 1.0}))]
        if len(found) == len(cases):
            of_rounds.append(mean([each.mean for each in found]))
    return _Compared(
        level=at.level,
        base=base,
        other=other,
        gain=gain,
        of_rounds=of_rounds or [gain.mean],
        doubtful=any(each.arm.late for each in (*base, *other)),
        arm=arms[1],
        arms=at.arms,
    )


def _beside(at: _Compared) -> _Compared:
    """Both arms in the rounds that count, case by case."""
    base, other = zip(*(pairing.beside(*own) for own in at.cases), strict=True)
    return replace(at, base=base, other=other)


def _loads(experiment: Experiment, at: _Compared) -> tuple[float, float]:
    """Requests under way in the batch: (baseline, arm). For an open loop: requests sent a second."""
    if at.level.rate is not None:
        return at.level.value, at.level.value
    full = within_batch(experiment, at.level, at.arm)
    return _under_way(at.base) * full, _under_way(at.other) * full


def within_batch(experiment: Experiment, level: Level, arm: str) -> float:
    """Share of the requests at a time that the arm's server takes into a batch; 1 if that is not known. By Little's law
    the time of a request grows with all of them, while the server does the work of a full batch.
    """
    batch = experiment.batch_of(experiment.variant(arm))
    if batch is None or level.concurrency is None:
        return 1.0
    return min(1.0, batch / level.concurrency)


def _gain(experiment: Experiment, at: AtLevel, arms: tuple[str, str], case: str) -> LogMean | None:
    """Log speed-up on the headline metric. None if it is no fair comparison."""
    base, other = (at.arms.get((name, case)) for name in arms)
    if base is None or other is None or too_many_failed(base.arm, other.arm):
        return None
    if lengths_apart(pairing.paired(base, other, LENGTH, 0.0)):
        return None
    return pairing.paired(base, other, HEADLINE, pairing.wave_reach(at.arms, [(base, other)], HEADLINE))


def _point(experiment: Experiment, at: _Compared, gain: LogMean) -> LoadPoint:
    level, base, other = at.level, at.base, at.other
    under_way = mean([_under_way(base), _under_way(other)])
    batch = experiment.batch_of(experiment.variant(at.arm))
    at_once = level.concurrency if level.concurrency is not None else under_way
    steps = _values(other, "tokens_per_step")
    accepted = mean(steps) if steps else None
    reach = pairing.wave_reach(at.arms, at.cases, DECODING)
    decoding = [found for pair in at.cases if (found := pairing.paired(*pair, DECODING, reach))]
    faster = combine(decoding, [1.0 / len(decoding)] * len(decoding)) if len(decoding) == len(base) else None
    together = gain.interval(confidence(compared_arms(experiment) * (len(experiment.workload.levels) - 1)))
    return LoadPoint(
        level=level,
        under_way=under_way,
        speedup=estimate(HEADLINE, gain, method=WITH_NOISE),
        faster=together is not None and together[0] > 1.0,
        decoding=estimate(DECODING, faster, method=METHOD) if faster else None,
        base=_arm(experiment, base),
        other=_arm(experiment, other),
        acceptance_length=accepted,
        break_even=accepted / faster.ratio if accepted and faster else None,
        queueing=batch is not None and at_once > batch,
        doubtful=at.doubtful,
    )


def _arm(experiment: Experiment, cases: Sequence[Measured]) -> ArmAtLoad:
    seconds = math.fsum(each.arm.load_seconds for each in cases)
    sending = math.fsum(each.block.sending_s or each.arm.load_seconds for each in cases)
    tokens = sum(each.arm.output_tokens for each in cases)
    costs = [(each.arm.cost_per_million, each.arm.output_tokens) for each in cases]
    priced = [cost * weight for cost, weight in costs if cost is not None]
    requests = sum(each.arm.requests for each in cases)
    good = sum(good_requests(each.block) for each in cases) if experiment.workload.slo.asked else None
    ttft, tpot = _values(cases, "ttft"), _values(cases, DECODING)
    return ArmAtLoad(
        output_throughput=tokens / seconds
        if seconds > 0 and all(each.arm.output_throughput is not None for each in cases)
        else None,
        user_speed=_quantile(_values(cases, HEADLINE), 0.5),
        ttft_p50=_quantile(ttft, 0.5),
        ttft_p95=_quantile(ttft, 0.95),
        tpot_p50=_quantile(tpot, 0.5),
        tpot_p95=_quantile(tpot, 0.95),
        cost_per_million=math.fsum(priced) / tokens if tokens and len(priced) == len(costs) else None,
        good_share=good / requests if good is not None and requests else None,
        goodput=good / sending if good is not None and sending > 0 else None,
    )


def _values(cases: Sequence[Measured], metric: str) -> list[float]:
    return sorted(value for each in cases for _, value in each.values.get(metric, ()))


def _quantile(ordered: Sequence[float], q: float) -> float | None:
    return quantile(ordered, q) if ordered else None


def _under_way(cases: Sequence[Measured]) -> float:
    """Requests under way, over the cases. The first and last of a level run beside fewer than the level says."""
    return mean([under_way(each.block.records) for each in cases])
