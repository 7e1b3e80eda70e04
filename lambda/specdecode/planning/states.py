"""The states that a run goes through, in their order, each with the longest time that it may take.

Why it is so: ADR 55.
"""

from __future__ import annotations

from specdecode.experiment.engine import Engine
from specdecode.experiment.model import (
    CompileOn,
    EndpointExperiment,
    Experiment,
    Frozen,
    PromptKind,
    ServedExperiment,
    Sweep,
)
from specdecode.planning import compiling, cost, start_check
from specdecode.planning.waves import Wave, first_served

COUNT_MINUTES = 15
"""Longest time until prompts are counted with the staged tokenizer. It includes the start of a CPU node."""
SMOKE_MINUTES = 15
ACCURACY_MINUTES = 60
"""Limit for each arm: 50 answers of at most 256 tokens, one after the other at 0.2 s a token, are 43 minutes."""
HEALTHY_SHARE = 0.8
"""Share of a compile's deadline until the server must be healthy. The rest is for fetching weights and storing the
artifact."""
STOP_MINUTES = 15
"""Longest time until an arm's pods and claims are gone."""
RELEASE_MINUTES = 15


BEFORE_THE_NODE = ("Plan", "StageModels", "CompileOnCpu", "Report")
"""Steps that do not hold the node. The last one comes after it."""


class Step(Frozen):
    """One state of the run, and the longest time it may wait."""

    name: str
    wave: int | None = None
    deadline_minutes: int = 0
    """0 if the state does not wait."""
    expected_minutes: float = 0
    """High estimate of its work on the node. Until then the work may end at any moment."""
    works: int = 1
    """Pieces of work that it waits for one after the other."""
    fallback: bool = False
    """Whether it runs only if an artifact from a CPU node does not load."""

    @property
    def waits(self) -> bool:
        """Whether the state machine looks at the step again and again."""
        return self.name not in ("Plan", "Advise", "ReleaseCapacity", "Report")


def make_steps(
    experiment: ServedExperiment,
    engine: Engine,
    waves: tuple[Wave, ...],
    compiles: frozenset[str],
    checks: tuple[str, ...] = (),
) -> tuple[Step, ...]:
    """The steps in their order, if the run serves the arms. `compiles`: the fingerprints that are still missing;
    `checks`: the arms of the start check.
    """
    deadlines, left = experiment.deadlines, set(compiles)
    steps = [
        Step(name="Plan"),
        Step(name="StageModels", deadline_minutes=deadlines.staging + _counting(experiment)),
    ]
    if count := len(compiling.ahead_fingerprints(waves) & left):
        limit = compiling.cpu_deadline(experiment, engine) * compiling.turns(count)
        steps.append(Step(name="CompileOnCpu", deadline_minutes=limit, works=count))
    steps.append(
        Step(
            name="AcquireCapacity",
            deadline_minutes=deadlines.capacity,
            expected_minutes=cost.NODE_START_MINUTES.high,
        )
    )
    if count := len(start_check.groups(experiment, engine, checks)):
        limit, expected = deadlines.start_check * count, start_check.expected_minutes(engine).high * count
        steps.append(Step(name="StartCheck", deadline_minutes=limit, expected_minutes=expected, works=count))
    doubted = set[str]()
    for wave in waves:
        steps += _until_served(experiment, engine, wave, left, doubted)
        steps += _measuring(experiment, engine, waves, wave)
        if experiment.sweep is Sweep.ADAPTIVE:
            steps.append(Step(name="Advise", wave=wave.index))
    return (*steps, Step(name="ReleaseCapacity", deadline_minutes=RELEASE_MINUTES), Step(name="Report"))


def endpoint_steps(experiment: EndpointExperiment, engine: Engine, waves: tuple[Wave, ...]) -> tuple[Step, ...]:
    """The steps in their order, if the arms are servers that already run."""
    return (
        Step(name="Plan"),
        Step(name="AcquireCapacity"),
        *(step for wave in waves for step in _measuring(experiment, engine, waves, wave)),
        Step(name="ReleaseCapacity", deadline_minutes=RELEASE_MINUTES),
        Step(name="Report"),
    )


def _until_served(
    experiment: ServedExperiment, engine: Engine, wave: Wave, left: set[str], doubted: set[str]
) -> list[Step]:
    """Compiling and serving the arms of `wave`.

    `left`: fingerprints that no earlier wave compiles; `doubted`: those that CPU nodes compiled and that an earlier
    wave serves. Both are changed.
    """
    serve = Step(
        name="Serve",
        wave=wave.index,
        deadline_minutes=experiment.deadlines.serve,
        expected_minutes=cost.slowest_load(experiment, engine, wave).high,
    )
    if experiment.compile.on is not CompileOn.CPU:
        compiled = {arm.fingerprint: arm.variant for arm in wave.arms if arm.fingerprint in left}
        left.difference_update(compiled)
        return [_compile(experiment, engine, wave, list(compiled.values())), serve]
    doubtful = {arm.fingerprint: arm.variant for arm in wave.arms if arm.fallback}
    again = [name for made, name in doubtful.items() if made not in doubted]
    doubted.update(doubtful)
    steps = [step for name in again for step in _back_on_the_node(serve, _compile(experiment, engine, wave, [name]))]
    return [*steps, serve]


def _measuring(experiment: Experiment, engine: Engine, waves: tuple[Wave, ...], wave: Wave) -> list[Step]:
    """Measuring the arms of `wave` while they serve, and stopping them."""
    steps = [
        Step(name="Smoke", wave=wave.index, deadline_minutes=SMOKE_MINUTES),
        Step(
            name="Benchmark",
            wave=wave.index,
            deadline_minutes=experiment.deadlines.benchmark,
            expected_minutes=cost.benchmark_minutes(experiment, engine, arms=len(wave.arms)).high,
        ),
    ]
    if limit := accuracy_minutes(experiment, waves, wave):
        expected = cost.accuracy_estimate(experiment, engine).high * len(first_served(waves, wave))
        steps.append(Step(name="Accuracy", wave=wave.index, deadline_minutes=limit, expected_minutes=expected))
    return [*steps, Step(name="StopArms", wave=wave.index, deadline_minutes=STOP_MINUTES)]


def _compile(experiment: ServedExperiment, engine: Engine, wave: Wave, variants: list[str]) -> Step:
    return Step(
        name="Compile",
        wave=wave.index,
        deadline_minutes=experiment.deadlines.compile * len(variants),
        expected_minutes=sum(cost.compile_minutes(experiment, engine, name).high for name in variants),
        works=len(variants),
    )


def _back_on_the_node(serve: Step, compiles: Step) -> list[Step]:
    """Extra steps if an artifact does not load: a wave that is served in vain and stopped, and a compile."""
    stop = Step(name="StopArms", wave=serve.wave, deadline_minutes=STOP_MINUTES)
    return [step.model_copy(update={"fallback": True}) for step in (serve, stop, compiles)]


def _counting(experiment: Experiment) -> int:
    """Minutes for counting prompts. 0 if all prompts are made to a length, as LLMPerf does."""
    own = any(case.kind in (PromptKind.TEXT, PromptKind.SET) for case in experiment.workload.cases)
    return COUNT_MINUTES if own else 0


def accuracy_minutes(experiment: Experiment, waves: tuple[Wave, ...], wave: Wave) -> int:
    """Longest time of the accuracy test in `wave`; 0 if the experiment has no such test, or if an earlier
    wave tested these arms.
    """
    return ACCURACY_MINUTES * len(first_served(waves, wave)) if experiment.accuracy else 0
