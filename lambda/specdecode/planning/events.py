"""The states that a run goes through, and how much of an execution's history they can use.

Why it is so: ADR 55.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import NamedTuple

from specdecode.experiment.compiling import CompileOn
from specdecode.experiment.engine import Engine
from specdecode.experiment.errors import ExperimentError, Problem
from specdecode.experiment.model import Experiment, Frozen, PromptKind, ServedExperiment, Sweep
from specdecode.planning import compiling, cost
from specdecode.planning.waves import Wave, first_served

HISTORY_LIMIT = 20_000
"""Step Functions ends an execution at 25,000 events; the rest is for retries and for cleaning up."""
EVENTS_PER_LOOK = 9
"""Task entered, scheduled, started, succeeded, exited; Choice entered, exited; Wait entered, exited."""
LAST_LOOK = 7
"""The same without the Wait."""
EVENTS_PER_WAVE = 11
"""The states between waves: the advisor, and the questions whether it is asked and whether more waves follow."""
EVENTS_ONCE = 60
"""All states that do not wait, the clean-up among them."""

QUEUE_LIMIT = timedelta(hours=24)
"""How long a run waits for others."""
QUEUE_POLL_S = 300
SHORTEST_POLL_S = 60
LONGEST_POLL_S = 600
ATTENTIVE_S = (15, 20, 30, 45)
"""Intervals between looks while work on the node is expected to end: what ends unnoticed bills for that long. Longer
ones are those of all looks."""
STILL_ATTENTIVE = timedelta(minutes=1)
"""For which looks stay close together after the high estimate of the work: its pods start first, and no estimate has
that. Without it a benchmark of seconds is looked at once, and then after a minute."""
SOON_S = 20
SOON_FOR = timedelta(minutes=2)
"""Smoke tests, endings and allocations take seconds, mostly: they are looked at every SOON_S at first."""
JOB_GRACE_MINUTES = 2 * LONGEST_POLL_S // 60
"""For which a Job may go on after the limit of its step.

The step's next look then ends it with a cause, pod and log still there. The Job controller's own deadline, which
deletes the pod and its log, is for a pipeline that no longer looks.
"""
STOP_POLL_S = 60
COUNT_MINUTES = 15
"""Until prompts are counted with the staged tokenizer; a CPU node comes first."""
SMOKE_MINUTES = 15
ACCURACY_MINUTES = 60
"""For each arm: 50 answers of at most 256 tokens, one after the other at 0.2 s a token, are 43 minutes."""
HEALTHY_SHARE = 0.8
"""Of a compile's deadline: until the server is healthy. The rest is for fetching weights and storing the artifact."""
DIAGNOSE_MINUTES = 17
"""Three tries of a function that may take 5.5 minutes."""
STOP_MINUTES = 15
"""Longest time until an arm's pods and claims are gone."""
RELEASE_MINUTES = 15


BEFORE_THE_NODE = ("Plan", "StageModels", "CompileOnCpu", "MeasureUnits", "Report")
"""Steps without the node, the last one after it."""


class Step(Frozen):
    """One state of the run, and the longest time it may wait."""

    name: str
    wave: int | None = None
    deadline_minutes: int = 0
    """0: it does not wait, or has nothing to wait for."""
    expected_minutes: float = 0
    """What its work on the node takes by the high estimates: until then its end may come at any moment."""
    works: int = 1
    """Pieces of work that it waits for one after the other."""
    fallback: bool = False
    """Only where an artifact that was compiled on a CPU node does not load."""

    @property
    def waits(self) -> bool:
        """Whether the state machine looks at it again and again."""
        return self.name not in ("Plan", "Advise", "ReleaseCapacity", "Report")


def make_steps(
    experiment: Experiment, engine: Engine, waves: tuple[Wave, ...], compiles: frozenset[str]
) -> tuple[Step, ...]:
    """The steps in their order. `compiles`: the fingerprints that are still missing."""
    deadlines, left = experiment.deadlines, set(compiles)
    beforehand, served = compiling.ahead_fingerprints(waves), set[str]()
    steps = [Step(name="Plan")]
    here = experiment if isinstance(experiment, ServedExperiment) else None
    if here is None:
        steps.append(Step(name="TakeTurn"))
    else:
        steps.append(Step(name="StageModels", deadline_minutes=deadlines.staging + _counting(experiment)))
        if count := len(beforehand & left):
            limit = compiling.cpu_deadline(here, engine) * compiling.turns(count)
            steps.append(Step(name="CompileOnCpu", deadline_minutes=limit, works=count))
        steps += [
            Step(
                name="AcquireCapacity",
                deadline_minutes=deadlines.capacity,
                expected_minutes=cost.NODE_START_MINUTES.high,
            ),
        ]
    for wave in waves:
        if here:
            serve = Step(
                name="Serve",
                wave=wave.index,
                deadline_minutes=deadlines.serve,
                expected_minutes=cost.slowest_load(here, engine, wave).high,
            )
            if here.compile.on is CompileOn.CPU:
                doubtful = {arm.fingerprint: arm.variant for arm in wave.arms if arm.fallback}
                for variant in (name for made, name in doubtful.items() if made not in served):
                    steps += _back_on_the_node(serve, _compile(here, engine, wave, [variant]))
                served |= doubtful.keys()
            else:
                compiled = {arm.fingerprint: arm.variant for arm in wave.arms if arm.fingerprint in left}
                left -= compiled.keys()
                steps.append(_compile(here, engine, wave, list(compiled.values())))
            steps.append(serve)
        steps += [
            Step(name="Smoke", wave=wave.index, deadline_minutes=SMOKE_MINUTES),
            Step(
                name="Benchmark",
                wave=wave.index,
                deadline_minutes=deadlines.benchmark,
                expected_minutes=cost.benchmark_minutes(experiment, engine, arms=len(wave.arms)).high,
            ),
        ]
        if limit := accuracy_minutes(experiment, waves, wave):
            expected = cost.accuracy_estimate(experiment, engine).high * len(first_served(waves, wave))
            steps.append(Step(name="Accuracy", wave=wave.index, deadline_minutes=limit, expected_minutes=expected))
        steps.append(Step(name="StopArms", wave=wave.index, deadline_minutes=STOP_MINUTES))
        if experiment.sweep is Sweep.ADAPTIVE:
            steps.append(Step(name="Advise", wave=wave.index))
    steps += [Step(name="ReleaseCapacity", deadline_minutes=RELEASE_MINUTES), Step(name="Report")]
    return tuple(steps)


def _compile(experiment: ServedExperiment, engine: Engine, wave: Wave, variants: list[str]) -> Step:
    return Step(
        name="Compile",
        wave=wave.index,
        deadline_minutes=experiment.deadlines.compile * len(variants),
        expected_minutes=sum(cost.compile_minutes(experiment, engine, name).high for name in variants),
        works=len(variants),
    )


def _back_on_the_node(serve: Step, compiles: Step) -> list[Step]:
    """What an artifact costs that does not load: a wave that is served in vain and stopped, and a compile."""
    stop = Step(name="StopBeforeCompile", wave=serve.wave, deadline_minutes=STOP_MINUTES)
    return [step.model_copy(update={"fallback": True}) for step in (serve, stop, compiles)]


def _counting(experiment: Experiment) -> int:
    """Longest time that counting prompts takes; those of LLMPerf's way are made to measure."""
    own = any(case.kind in (PromptKind.TEXT, PromptKind.SET) for case in experiment.workload.cases)
    return COUNT_MINUTES if own else 0


def late_minutes(poll_s: int) -> float:
    """For which a Job may outlive the limit of its step: until the pipeline has ended it, or Kubernetes without it."""
    return max(JOB_GRACE_MINUTES, poll_s / 60 + DIAGNOSE_MINUTES + STOP_MINUTES)


def longest_node_minutes(steps: Iterable[Step], *, poll_s: int) -> float:
    """Minutes from the request for the node until it is given up, if every step lasts until its deadline.

    A deadline is seen at the next look. The last step then fails: its cause is looked for, its pods are stopped.
    What functions add that fail again and again is in docs/reference/bounds.md.
    """
    held = list(steps)
    if not any(step.name == "AcquireCapacity" for step in held):
        return 0
    held = [step for step in held if step.name not in BEFORE_THE_NODE]
    looks = sum(step.waits for step in held) * poll_s / 60
    return sum(step.deadline_minutes for step in held) + looks + DIAGNOSE_MINUTES + STOP_MINUTES


def accuracy_minutes(experiment: Experiment, waves: tuple[Wave, ...], wave: Wave) -> int:
    """Longest time of the accuracy test in `wave`; 0 where it is not asked for or its arms had theirs in another."""
    return ACCURACY_MINUTES * len(first_served(waves, wave)) if experiment.accuracy else 0


def worst_case_events(steps: Iterable[Step], *, poll_s: int, attentive_s: int) -> int:
    """Events of an execution in which every wait lasts until its deadline, after a day in the queue."""
    steps = tuple(steps)
    looks = _looks(QUEUE_LIMIT, QUEUE_POLL_S) + _patient_looks(timedelta(minutes=STOP_MINUTES), STOP_POLL_S)
    looks += sum(_most_looks(step, poll_s, attentive_s) for step in steps)
    return EVENTS_PER_LOOK * looks + EVENTS_PER_WAVE * _waves(steps) + EVENTS_ONCE


def fewest_events(steps: Iterable[Step]) -> int:
    """Events of an execution in which all that is started is done at the second look."""
    steps = tuple(step for step in steps if not step.fallback)
    waiting = sum(EVENTS_PER_LOOK + LAST_LOOK if step.name != "Compile" else LAST_LOOK for step in steps if step.waits)
    return waiting + EVENTS_PER_WAVE * _waves(steps)


class Looks(NamedTuple):
    """How often a run's steps are looked at."""

    attentive_s: int
    """While the end of work on the node is expected."""
    poll_s: int
    """Before and after that."""


def choose_looks(steps: tuple[Step, ...]) -> Looks:
    """The shortest intervals that keep the worst case within HISTORY_LIMIT; that of expected ends counts first.

    LONGEST_POLL_S where none does: the plan then warns that the history may end the run. Raises ExperimentError where
    it certainly does.
    """
    if (fewest := fewest_events(steps)) > HISTORY_LIMIT:
        raise ExperimentError(
            [
                Problem(
                    field="workload.rounds",
                    rule="history",
                    message=f"{_waves(steps)} waves make at least {fewest} history events, of which an execution may "
                    f"have {HISTORY_LIMIT}",
                    fix="measure fewer rounds or fewer variants in one run, the rest in another",
                    source="Step Functions service quotas: 25,000 events in an execution's history",
                )
            ]
        )
    for poll_s in range(SHORTEST_POLL_S, LONGEST_POLL_S, 60):
        for attentive_s in (*ATTENTIVE_S, poll_s):
            if worst_case_events(steps, poll_s=poll_s, attentive_s=attentive_s) <= HISTORY_LIMIT:
                return Looks(attentive_s, poll_s)
    return Looks(LONGEST_POLL_S, LONGEST_POLL_S)


def _waves(steps: Iterable[Step]) -> int:
    return len({step.wave for step in steps} - {None})


def _most_looks(step: Step, poll_s: int, attentive_s: int) -> int:
    limit = timedelta(minutes=step.deadline_minutes)
    if not step.waits:
        return 0
    if step.name == "Smoke":
        return _patient_looks(limit, poll_s)
    if step.name in ("StopArms", "StopBeforeCompile"):
        return _patient_looks(limit, STOP_POLL_S)
    devices = _patient_looks(timedelta(), poll_s) if step.name == "Serve" else 0
    longer = step.works * STILL_ATTENTIVE if step.expected_minutes else timedelta()
    expected = min(limit, timedelta(minutes=step.expected_minutes) + longer)
    return int(expected.total_seconds() // attentive_s) + step.works + _looks(limit - expected, poll_s) + devices


def _looks(limit: timedelta, interval_s: int) -> int:
    return int(limit.total_seconds() // interval_s) + 1


def _patient_looks(limit: timedelta, then_s: int) -> int:
    return _looks(SOON_FOR, SOON_S) + _looks(max(limit - SOON_FOR, timedelta()), then_s)
