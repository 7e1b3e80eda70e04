"""When a run does what: its steps in their order, with the least and the most that each is expected to take, and the
longest that it may take.

It is made once, from the waves. History, node hours, warnings and bill are read from it. No deadline shortens an
estimate: a plan warns if one would. Why it is so: ADR 55.
"""

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial

from specdecode.experiment.base import Frozen
from specdecode.experiment.engine import Engine
from specdecode.experiment.model import CompileOn, Experiment, ServedExperiment, Sweep
from specdecode.experiment.prompt_sets import mean_input_tokens
from specdecode.experiment.shapes import COMPILERS
from specdecode.experiment.workload import Level, Load, PromptKind, TestCase
from specdecode.planning.ranges import Range
from specdecode.planning.waves import Arm, Wave, last_served

COUNT_MINUTES = 15
"""Longest time until prompts are counted with the staged tokenizer. It includes the start of a CPU node."""
SMOKE_MINUTES = 15
ACCURACY_MINUTES = 60
"""Limit for each arm: 50 answers of at most 256 tokens, one after the other at 0.2 s a token, are 43 minutes."""
HEALTHY_SHARE = 0.8
"""Share of a compile's deadline until the server must be healthy. The rest is for fetching and storing."""
STOP_MINUTES = 15
"""Longest time until an arm's pods and claims are gone."""
RELEASE_MINUTES = 15
COMPILE, ON_CPU = "Compile", "CompileOnCpu"
BEFORE_THE_NODE = ("Plan", "StageModels", ON_CPU, "Report")
"""Steps that do not hold the node. The last one comes after it."""
NODE_START_MINUTES = Range(low=5, high=15)
"""Minutes from the scaling of the NodePool to a node that takes pods."""
NODE_STOP_MINUTES = Range(low=3, high=10)
ACCURACY_TOKENS = Range(low=50 * 100, high=50 * 256)
"""Output tokens of an arm's accuracy test: 50 answers, each of at most lm-eval's 256."""


class Step(Frozen):
    """One state of the run, in minutes. `Hold` is the end of the state Accuracy, of no round."""

    name: str
    wave: int | None = None
    round: int = 0
    """Of its wave."""
    takes: Range = Range()
    """Its work on the node, and the node's own start and end. Until the high estimate it may end at any moment."""
    deadline_minutes: int = 0
    """The longest time that it may wait; 0 if the state does not wait."""
    works: int = 1
    """Pieces of work that it waits for one after the other."""
    fallback: bool = False
    """Whether it runs only if an artifact from a CPU node does not load. No estimate counts it."""

    @property
    def waits(self) -> bool:
        """Whether the state machine looks at the step again and again."""
        return self.name not in ("Plan", "Advise", "ReleaseCapacity", "Report")


class ArmTimes(Frozen):
    """How long one arm takes to be served, in minutes."""

    variant: str
    load: Range
    """Until it is served from its compiled artifact."""
    compiling: Range
    """Until the server that compiles it is healthy, on the node."""
    on_cpu: Range | None = None
    """Until a running CPU node has compiled it. None if its engine cannot."""
    missing: str = ""
    """Fingerprint of its artifact, if that is still to be compiled."""
    ahead: bool = False
    """Whether CPU nodes compile it."""


class LoadTime(Frozen):
    """How long the cases of one group take at one level, in minutes."""

    level: Level
    group: str
    cases: int
    requests: int
    """Measured requests of one arm in one round."""
    takes: Range
    """In all waves together."""
    longest: Range
    """In a wave with most arms."""


class Timeline(Frozen):
    """All times of one run."""

    steps: tuple[Step, ...] = ()
    """In their order. For an adaptive sweep: of all waves that it may take."""
    arms: tuple[ArmTimes, ...] = ()
    """Empty if the arms are servers that already run."""
    loads: tuple[LoadTime, ...] = ()
    certain: int = 0
    """Waves that the run certainly takes. Those after them count in the high estimate alone."""
    cpu_deadline: int = 0
    """Minutes after which a Job that compiles on a CPU node has failed; 0 in the plan of an earlier version."""

    @property
    def holds_node(self) -> bool:
        return bool(self.arms)

    @property
    def to_compile(self) -> tuple[ArmTimes, ...]:
        """One arm for each artifact that is still to be compiled."""
        return tuple({arm.missing: arm for arm in self.arms if arm.missing}.values())

    def most_minutes(self, name: str, wave: int | None = None) -> float:
        """High estimate of a step; 0 in the plan of an earlier version."""
        named = (step for step in self.steps if (step.name, step.wave, step.fallback) == (name, wave, False))
        return sum(step.takes.high for step in named)

    def most_minutes_to_compile(self, variant: str) -> float:
        """The same of one artifact on the node."""
        return sum(arm.compiling.high for arm in self.arms if arm.variant == variant)

    def node_hours(self, *, rounds: int | None = None) -> Range:
        """From the request for the node to its release. `rounds`: without the waves that repeat what a wave before
        them measures, if each is measured in so many rounds.
        """
        steps = [step for step in self.steps if self.holds_node and not step.fallback]
        steps = [step for step in steps if rounds is None or step.round % rounds == 0]
        return Range(
            low=sum(step.takes.low for step in steps if (step.wave or 0) < self.certain) / 60,
            high=sum(step.takes.high for step in steps) / 60,
        )


def make_timeline(
    experiment: Experiment,
    engine: Engine,
    waves: Sequence[Wave],
    *,
    missing: Collection[str],
    checks: int,
    certain: int,
) -> Timeline:
    """The times of a run of `waves`, of which the first `certain` ones are certain. `missing`: fingerprints of the
    artifacts that are still to be compiled; `checks`: groups of arms of the start check.
    """
    arms = tuple(_arms(experiment, engine, waves, missing)) if isinstance(experiment, ServedExperiment) else ()
    return Timeline(
        steps=tuple(_steps(experiment, engine, waves, {arm.variant: arm for arm in arms}, checks)),
        arms=arms,
        loads=tuple(_loads(experiment, engine, waves)),
        certain=certain,
        cpu_deadline=cpu_deadline(experiment, engine),
    )


def cpu_deadline(experiment: Experiment, engine: Engine) -> int:
    """Minutes: `deadlines.compile`, meant for the node, times the engine's factor. Steps ask here, for any old plan."""
    can = engine.artifact and engine.artifact.on_cpu
    return math.ceil(experiment.deadlines.compile * (can.slower if can else 1))


def depth(artifacts: int) -> int:
    """How many artifacts each CPU node compiles, one after the other, if all CPU nodes share the work."""
    return math.ceil(artifacts / COMPILERS)


def request_seconds(experiment: Experiment, engine: Engine, case: TestCase) -> Range:
    """Seconds of a request of a case without speculation and without a queue, by the engine's estimates."""
    load, estimates = experiment.workload, engine.estimates
    answer = load.output_tokens_of(case)
    thousands = (mean_input_tokens(case, answer) or load.input_tokens) / 1000
    reading, writing = map(Range.of, (estimates.seconds_per_1000_input_tokens, estimates.seconds_per_output_token))
    return reading.scaled(thousands) + writing.scaled(answer)


def _arms(
    experiment: ServedExperiment, engine: Engine, waves: Sequence[Wave], missing: Collection[str]
) -> Iterator[ArmTimes]:
    """The arms of `waves`, each once. Their times grow with their weights."""
    guess, can = engine.estimates, engine.artifact and engine.artifact.on_cpu
    for arm in {arm.variant: arm for wave in waves for arm in wave.arms}.values():
        gib = experiment.weights_gib(experiment.variant(arm.variant))
        compiling = Range.of(guess.compile_minutes) + Range.of(guess.compile_minutes_per_gib).scaled(gib)
        yield ArmTimes(
            variant=arm.variant,
            load=Range.of(guess.load_minutes) + Range.of(guess.load_minutes_per_gib).scaled(gib),
            compiling=compiling,
            on_cpu=Range(low=compiling.low, high=compiling.high * can.slower) if can else None,
            missing=arm.fingerprint if arm.fingerprint in missing else "",
            ahead=bool(arm.fallback),
        )


def _loads(experiment: Experiment, engine: Engine, waves: Sequence[Wave]) -> Iterator[LoadTime]:
    """By level and by group of cases, in the experiment's order."""
    load, waves_of = experiment.workload, Counter(_batches(experiment, wave) for wave in waves)
    for level in load.levels:
        for group in dict.fromkeys(case.group for case in load.cases):
            cases = [case for case in load.cases if case.group == group]
            takes = {each: _minutes(experiment, engine, cases, [level], each) for each in waves_of}
            yield LoadTime(
                level=level,
                group=group,
                cases=len(cases),
                requests=sum(load.requests_of(case, level) for case in cases),
                takes=sum((takes[each].scaled(count) for each, count in waves_of.items()), Range()),
                longest=max(takes.values(), key=lambda each: each.high),
            )


def _batches(experiment: Experiment, wave: Wave) -> tuple[int | None, ...]:
    """Sequences that each loaded arm of the wave decodes together."""
    found = [experiment.variant(arm.variant) for arm in wave.arms]
    return tuple(experiment.batch_of(each) for each in found if each not in experiment.readers)


def _minutes(
    experiment: Experiment, engine: Engine, cases: Sequence[TestCase], at: Sequence[Level], of: Sequence[int | None]
) -> Range:
    """Minutes for `cases` `at` some levels on all arms `of` a wave, by their batches. In the open loop the rate sets
    the shortest time. Requests beyond a batch wait. A single arm never ends early.
    """
    if not of:
        return Range()
    load, together = experiment.workload, max if experiment.workload.load is Load.SIMULTANEOUS else sum

    def minutes(level: Level, requests: int, request_s: float) -> float:
        requests += load.warmup_requests
        sending = requests / level.rate if level.rate else 0
        asked = min(requests, level.concurrency or requests)
        return together(max(sending, requests * request_s / min(asked, batch or asked)) for batch in of) / 60

    def each(case: TestCase, level: Level) -> Range:
        takes, most = request_seconds(experiment, engine, case), load.requests_of(case, level)
        fewest = load.fewest_of(case, level) if len(of) > 1 else most
        return Range(low=minutes(level, fewest, takes.low), high=minutes(level, most, takes.high))

    return sum((each(case, level) for level in at for case in cases), Range())


def _reading_minutes(experiment: Experiment, engine: Engine) -> Range:
    """Minutes in which the readers read every prompt and answer once, as fast as the heaviest arm by their sizes."""
    load = experiment.workload
    heaviest = max(experiment.target_of(one).size_gib for one in experiment.on_node)
    sizes = sum(experiment.target_of(one).size_gib for one in experiment.readers) / heaviest
    answers = [load.requests_of(case) * (load.input_tokens + load.output_tokens_of(case)) for case in load.cases]
    return Range.of(engine.estimates.seconds_per_1000_input_tokens).scaled(sum(answers) / 60_000 * sizes)


def _accuracy_minutes(experiment: Experiment, engine: Engine) -> Range:
    """Minutes of one arm's accuracy test, with as many requests at once as the server takes."""
    token_s, at_once = engine.estimates.seconds_per_output_token, min(experiment.batch or 1, 50)
    low, high = (
        tokens * seconds / at_once / 60
        for tokens, seconds in zip((ACCURACY_TOKENS.low, ACCURACY_TOKENS.high), token_s, strict=True)
    )
    return Range(low=low, high=high)


def _check_minutes(engine: Engine) -> Range:
    """Minutes for a group of the start check: half of what does not grow with the weights. A guess."""
    return (Range.of(engine.estimates.compile_minutes) + Range.of(engine.estimates.load_minutes)).scaled(0.5)


def _steps(
    experiment: Experiment, engine: Engine, waves: Sequence[Wave], times: Mapping[str, ArmTimes], checks: int
) -> Iterator[Step]:
    """`times`: of each arm, if the run serves it."""
    deadlines, compiled, tested = experiment.deadlines, set[str](), set[str]()
    yield Step(name="Plan")
    if times:
        yield from _before_the_node(experiment, engine, times)
    yield Step(
        name="AcquireCapacity",
        deadline_minutes=deadlines.capacity if times else 0,
        takes=NODE_START_MINUTES if times else Range(),
    )
    if checks:
        limit, takes = deadlines.start_check * checks, _check_minutes(engine).scaled(checks)
        yield Step(name="StartCheck", deadline_minutes=limit, takes=takes, works=checks)
    cases, levels, reading = experiment.workload.cases, experiment.workload.levels, _reading_minutes(experiment, engine)
    load = {
        each: _minutes(experiment, engine, cases, levels, each) + reading
        for each in {_batches(experiment, wave) for wave in waves}
    }
    for wave in waves:
        step = partial(Step, wave=wave.index, round=wave.round)
        if times:
            yield from _until_served(experiment, wave, times, compiled)
        yield step(name="Smoke", deadline_minutes=SMOKE_MINUTES)
        yield step(name="Benchmark", deadline_minutes=deadlines.benchmark, takes=load[_batches(experiment, wave)])
        new = {arm.variant for arm in wave.arms} - tested
        tested |= new
        if experiment.accuracy and new:
            one = _accuracy_minutes(experiment, engine)
            yield step(name="Accuracy", deadline_minutes=ACCURACY_MINUTES * len(new), takes=one.scaled(len(new)))
        if (held := experiment.holds_arms) and last_served(tuple(waves), wave):
            yield Step(name="Hold", wave=wave.index, deadline_minutes=held, takes=Range(low=held, high=held))
        yield step(name="StopArms", deadline_minutes=STOP_MINUTES)
        if experiment.sweep is Sweep.ADAPTIVE:
            yield step(name="Advise")
    yield Step(name="ReleaseCapacity", deadline_minutes=RELEASE_MINUTES, takes=NODE_STOP_MINUTES if times else Range())
    yield Step(name="Report")


def _before_the_node(experiment: Experiment, engine: Engine, times: Mapping[str, ArmTimes]) -> Iterator[Step]:
    """Staging weights, counting prompts (those made to a length, as LLMPerf does, need none), and compiling ahead."""
    own = any(case.kind in (PromptKind.TEXT, PromptKind.SET) for case in experiment.workload.cases)
    yield Step(name="StageModels", deadline_minutes=experiment.deadlines.staging + (COUNT_MINUTES if own else 0))
    if count := len({arm.missing for arm in times.values() if arm.ahead and arm.missing}):
        yield Step(name=ON_CPU, deadline_minutes=cpu_deadline(experiment, engine) * depth(count), works=count)


def _until_served(
    experiment: Experiment, wave: Wave, times: Mapping[str, ArmTimes], compiled: set[str]
) -> Iterator[Step]:
    """Compiling and serving the arms of `wave`, which load side by side. `compiled`: fingerprints of the waves before.
    It is changed.
    """
    step, deadlines = partial(Step, wave=wave.index, round=wave.round), experiment.deadlines

    def compiling(arms: Collection[Arm]) -> Step:
        takes = sum((times[arm.variant].compiling for arm in arms), Range())
        return step(name=COMPILE, deadline_minutes=deadlines.compile * len(arms), takes=takes, works=len(arms))

    each = [times[arm.variant].load for arm in wave.arms]
    takes = Range(low=max(one.low for one in each), high=max(one.high for one in each))
    serve = step(name="Serve", deadline_minutes=deadlines.serve, takes=takes)
    first = {arm.fingerprint: arm for arm in wave.arms if arm.fingerprint not in compiled}
    compiled.update(first)
    if experiment.compile.on is not CompileOn.CPU:
        yield compiling([arm for arm in first.values() if times[arm.variant].missing])
    for arm in first.values():
        if arm.fallback:  # if it does not load, it is served in vain and stopped, and the node compiles it
            stop = step(name="StopArms", deadline_minutes=STOP_MINUTES)
            yield from (each.model_copy(update={"fallback": True}) for each in (serve, stop, compiling([arm])))
    yield serve
