"""How long a run is expected to hold the node, as a range. No deadline shortens it: a plan warns if one would."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set

from specdecode.experiment.engine import Engine
from specdecode.experiment.model import Experiment, Frozen, Load, ServedExperiment, TestCase
from specdecode.experiment.prompt_sets import mean_input_tokens
from specdecode.experiment.workload import Level
from specdecode.planning.waves import Wave, first_served


class Range(Frozen):
    """A low and a high estimate."""

    low: float
    high: float

    def scaled(self, factor: float) -> Range:
        return Range(low=self.low * factor, high=self.high * factor)


def span(part: Range) -> str:
    """`1.1 to 3.9`."""
    return f"{part.low:.1f} to {part.high:.1f}"


def money(part: Range) -> str:
    """`$39 to $139`, with cents below ten dollars."""
    digits = 0 if part.low >= 10 else 2
    return f"${part.low:,.{digits}f} to ${part.high:,.{digits}f}"


def total(parts: Iterable[Range]) -> Range:
    """Sum of the lows, sum of the highs."""
    parts = list(parts)
    return Range(low=sum(part.low for part in parts), high=sum(part.high for part in parts))


NODE_START_MINUTES = Range(low=5, high=15)
"""Minutes from the scaling of the NodePool to a node that takes pods."""
NODE_STOP_MINUTES = Range(low=3, high=10)
ACCURACY_TOKENS = Range(low=50 * 100, high=50 * 256)
"""Output tokens of an arm's accuracy test: 50 answers, each of at most lm-eval's 256."""


def node_minutes(experiment: ServedExperiment, engine: Engine, waves: tuple[Wave, ...], compiles: Set[str]) -> Range:
    """Minutes for which the run holds the node, from request to release. `compiles`: the missing fingerprints."""
    parts, left = [NODE_START_MINUTES, NODE_STOP_MINUTES], set(compiles)
    for wave in waves:
        for arm in wave.arms:
            if arm.fingerprint in left:
                left.remove(arm.fingerprint)
                parts.append(compile_minutes(experiment, engine, arm.variant))
        parts.append(slowest_load(experiment, engine, wave))
        parts.append(benchmark_minutes(experiment, engine, arms=len(wave.arms)))
        if experiment.accuracy:
            parts += [accuracy_estimate(experiment, engine) for _ in first_served(waves, wave)]
    return total(parts)


def slowest_load(experiment: ServedExperiment, engine: Engine, wave: Wave) -> Range:
    """Minutes until all arms of a wave are served. They load side by side."""
    loads = [load_minutes(experiment, engine, arm.variant) for arm in wave.arms]
    return Range(low=max(load.low for load in loads), high=max(load.high for load in loads))


def compile_minutes(experiment: ServedExperiment, engine: Engine, variant: str) -> Range:
    """Minutes until the server that compiles `variant` is healthy."""
    return _by_weights(experiment, variant, engine.estimates.compile_minutes, engine.estimates.compile_minutes_per_gib)


def load_minutes(experiment: ServedExperiment, engine: Engine, variant: str) -> Range:
    """Minutes until `variant` is served from its compiled artifact."""
    return _by_weights(experiment, variant, engine.estimates.load_minutes, engine.estimates.load_minutes_per_gib)


def _by_weights(
    experiment: ServedExperiment, variant: str, fixed: tuple[float, float], each: tuple[float, float]
) -> Range:
    gib = experiment.weights_gib(experiment.variant(variant))
    return Range(low=fixed[0] + each[0] * gib, high=fixed[1] + each[1] * gib)


class CostPart(Frozen):
    """The part of a run for one group of cases (the public sample, a set of prompts)."""

    group: str
    cases: int
    requests: int
    """Measured requests of one arm in one round."""
    node_hours: Range
    """Node hours of all arms and rounds."""


def parts(experiment: Experiment, engine: Engine, waves: tuple[Wave, ...]) -> tuple[CostPart, ...]:
    """The load of a run by groups of cases, in their order."""
    load = experiment.workload
    groups = dict.fromkeys(case.group for case in load.cases)
    return tuple(
        CostPart(
            group=group,
            cases=len(own := [case for case in load.cases if case.group == group]),
            requests=sum(map(load.requests_of, own)),
            node_hours=total(
                level_minutes(experiment, engine, own, level, arms=len(wave.arms))
                for wave in waves
                for level in load.levels
            ).scaled(1 / 60),
        )
        for group in groups
    )


class LevelCost(Frozen):
    """The part of a run for one load."""

    level: Level
    requests: int
    """Measured requests of one arm in one round."""
    node_hours: Range
    """Node hours of all cases, arms and rounds."""


def levels(experiment: Experiment, engine: Engine, waves: tuple[Wave, ...]) -> tuple[LevelCost, ...]:
    """The loads of a run, in the experiment's order."""
    load = experiment.workload
    return tuple(
        LevelCost(
            level=level,
            requests=sum(load.requests_of(case, level) for case in load.cases),
            node_hours=total(
                level_minutes(experiment, engine, load.cases, level, arms=len(wave.arms)) for wave in waves
            ).scaled(1 / 60),
        )
        for level in load.levels
    )


def benchmark_minutes(experiment: Experiment, engine: Engine, *, arms: int) -> Range:
    """Minutes for all cases at all levels on all arms of a wave, whatever the deadline."""
    return total(
        level_minutes(experiment, engine, experiment.workload.cases, level, arms=arms)
        for level in experiment.workload.levels
    )


def request_seconds(experiment: Experiment, engine: Engine, case: TestCase) -> Range:
    """Seconds of a request of a case without speculation and without a queue, by the engine's estimates."""
    load, estimates = experiment.workload, engine.estimates
    answer = load.output_tokens_of(case)
    thousands = (mean_input_tokens(case, answer) or load.input_tokens) / 1000
    low, high = (
        estimates.seconds_per_1000_input_tokens[at] * thousands + estimates.seconds_per_output_token[at] * answer
        for at in (0, 1)
    )
    return Range(low=low, high=high)


def level_minutes(
    experiment: Experiment, engine: Engine, cases: Sequence[TestCase], level: Level, *, arms: int
) -> Range:
    """Minutes for `cases` at one level on all arms of a wave. In the open loop the rate sets the shortest time.

    If there are more requests at a time than the compiled batch holds, the rest wait. An arm by itself never ends
    early.
    """
    load = experiment.workload
    asked = level.concurrency or 1
    at_once = min(asked, experiment.batch or asked)
    turns = 1 if load.load is Load.SIMULTANEOUS else arms

    def case_s(case: TestCase, at: int) -> float:
        asked = load.fewest_of(case, level) if at == 0 and arms > 1 else load.requests_of(case, level)
        requests = asked + load.warmup_requests
        takes = request_seconds(experiment, engine, case)
        request_s = (takes.low, takes.high)[at]
        return max(requests / level.rate, request_s) if level.rate else requests * request_s / at_once

    low, high = (sum(case_s(case, at) for case in cases) * turns / 60 for at in (0, 1))
    return Range(low=low, high=high)


def accuracy_estimate(experiment: Experiment, engine: Engine) -> Range:
    """Minutes of one arm's accuracy test, with as many requests at once as the server takes."""
    token_s, at_once = engine.estimates.seconds_per_output_token, experiment.batch or 1
    low, high = (
        tokens * seconds / min(at_once, 50) / 60
        for tokens, seconds in zip((ACCURACY_TOKENS.low, ACCURACY_TOKENS.high), token_s, strict=True)
    )
    return Range(low=low, high=high)
