"""A run as the steps after Plan read it from the bucket."""

from dataclasses import dataclass
from datetime import timedelta

from pydantic import ValidationError

from specdecode import s3_keys
from specdecode.experiment import Capacity
from specdecode.manifests import RenderContext
from specdecode.planning import Arm, Plan, Wave
from specdecode.planning.events import SOON_FOR, SOON_S, STILL_ATTENTIVE
from specdecode.planning.measured_with import noted
from specdecode.records import SERVERS, Servers
from specdecode.runs.state import PLAN, RunState, load_document, load_state
from specdecode.steps.errors import InvalidExperiment
from specdecode.steps.runtime import Runtime
from specdecode.store import Store


@dataclass(frozen=True)
class Run:
    plan: Plan
    state: RunState

    def wave(self, index: int) -> Wave:
        """The wave. Its arms have the artifacts that are served, or with which it was measured: the node's in place of
        those that did not load.
        """
        wave, refused = self.plan.waves[index], set(self.state.refused_artifacts)
        if was := {
            arm.variant: arm for arm in self.state.measured_arms if arm.wave == index and self.is_measured(index)
        }:
            return wave.model_copy(update={"arms": tuple(was.get(arm.variant, arm) for arm in wave.arms)})
        if not any(arm.fallback and arm.fingerprint in refused for arm in wave.arms):
            return wave
        arms = (
            arm.model_copy(update={"fingerprint": arm.fallback, "fallback": ""}) if arm.fingerprint in refused else arm
            for arm in wave.arms
        )
        return wave.model_copy(update={"arms": tuple(arms)})

    @property
    def arms(self) -> dict[str, Arm]:
        """Each variant's arm, as in its last wave."""
        return {arm.variant: arm for wave in self.plan.waves for arm in self.wave(wave.index).arms}

    @property
    def measured_arms(self) -> tuple[Arm, ...]:
        """The record's field of that name. What an older version measured counts as the plan has it."""
        known = {arm.wave for arm in self.state.measured_arms}
        older = (arm for index in self.state.measured if index not in known for arm in self.wave(index).served)
        return (*self.state.measured_arms, *older)

    def is_measured(self, wave: int) -> bool:
        """Whether the wave's benchmark is complete, in this run or in the run that it resumes."""
        return wave in self.state.measured

    def is_served(self, wave: int) -> bool:
        """Whether this run serves the wave: neither measured by the run that it resumes, nor given up by a sweep."""
        return wave not in {*self.state.inherited, *self.state.lost}

    def settled(self, wave: int) -> str | None:
        """Why nothing is left to do for the wave. None if something is left."""
        if self.is_measured(wave):
            return "measured already"
        return "the sweep goes on without this arm" if wave in self.state.lost else None

    @property
    def is_all_settled(self) -> bool:
        return all(self.settled(wave.index) for wave in self.plan.waves)

    def measured_with(self, *waves: int) -> dict[str, tuple[str, ...]]:
        """The record's field of that name, when `waves` are measured with what the record has as contents."""
        arms = (arm for index in waves for arm in self.wave(index).served)
        return noted(self.plan, arms, contents=self.state.contents, before=self.state.measured_with)

    def measuring(self, wave: int) -> RunState:
        """The record, when the wave is measured with what it is served with."""
        arms = self.wave(wave).served
        others = (arm for arm in self.state.measured_arms if arm not in arms)
        noted = {"measured_with": self.measured_with(wave), "measured_arms": (*others, *arms)}
        return self.state.model_copy(update=noted)

    @property
    def measured_steps(self) -> tuple[int, ...]:
        """Steps of an adaptive sweep of which all waves are measured, in order."""
        steps = {self.step_of(wave) for wave in self.plan.waves}
        return tuple(
            sorted(steps - {self.step_of(wave) for wave in self.plan.waves if not self.is_measured(wave.index)})
        )

    @property
    def lost_arms(self) -> set[str]:
        """Arms that an adaptive sweep goes on without."""
        served = {arm.variant for wave in self.plan.waves if wave.index in self.state.lost for arm in wave.arms}
        return {item.name for item in self.plan.experiment.variants if item.compare_to is not None} & served

    def step_of(self, wave: Wave) -> int:
        """The step of an adaptive sweep that a wave is of."""
        return wave.round // self.plan.experiment.rounds


def load_run(store: Store, run_id: str) -> Run:
    """The run's plan and state. Raises InvalidExperiment if Plan never stored them, and StateDamaged."""
    plan = load_document(store, s3_keys.run_key(run_id, PLAN), Plan, "run's plan")
    state = load_state(store, run_id)
    if plan is None or state is None:
        raise InvalidExperiment(f"run {run_id} has no plan in s3://{store.bucket}/{s3_keys.run_prefix(run_id)}")
    return Run(plan=plan, state=state)


def render_context(run: Run, rt: Runtime) -> RenderContext:
    """What the manifests need to know about this deployment and about the node that the run holds."""
    capacity = Capacity.model_validate_json(rt.environ["CAPACITY"])
    return RenderContext(
        run_id=run.state.run_id,
        bucket=rt.environ["BUCKET"],
        bundle_uri=rt.environ["BUNDLE_URI"],
        bundle_sha256=rt.environ["BUNDLE_SHA256"],
        region=rt.environ["AWS_REGION"],
        pool=run.state.pool,
        makes_nodes=not rt.is_guest,
        contents=run.state.contents,
        node_storage=capacity.node_storage,
        claims=capacity.claims,
    )


def soon(age: timedelta, *, then_s: int) -> int:
    """Seconds until the next look at something that began `age` ago: short at first, `then_s` afterwards."""
    return SOON_S if age < SOON_FOR else then_s


def attentive(plan: Plan, age: timedelta, *, expected_min: float) -> int:
    """Seconds until the next look at work on the node that began `age` ago and takes `expected_min` minutes or less."""
    expected = timedelta(minutes=expected_min) + STILL_ATTENTIVE
    return plan.attentive_seconds if age <= expected else plan.poll_seconds


def read_servers(store: Store, run_id: str) -> Servers:
    """What the benchmark learned about the servers. Empty if it wrote nothing that can be read."""
    try:
        return Servers.model_validate_json(store.read(s3_keys.run_key(run_id, SERVERS)) or b"")
    except ValidationError:
        return Servers(run_id=run_id)
