"""The world of a run on several nodes, whose units are run by hand."""

from __future__ import annotations

import json
from typing import Any

from specdecode import s3_keys
from specdecode.runs.state import RunState, load_state
from specdecode.steps import measure_units, plan, release
from specdecode.steps.runtime import Progress

from tests.specdecode.steps.test_side_by_side import SideBySide
from tests.specdecode.steps.world import arn

GRID = {"sweep": "grid", "nodes": 2, "workload.rounds": 1, "workload.requests": 2}
REQUEST = {"experiment": "rehearsal-sweep", "set": GRID, "accept_cost": 5000, "started_by": "anna"}


class Units(SideBySide):
    """A world whose Step Functions keeps what is started, and whose units are run by hand."""

    def begin_units(self, run_id: str = "run", request: Any = None) -> plan.Planned:
        self.states.executions[arn(run_id)] = "RUNNING"
        planned = plan.plan(self.given(run_id, input=request or REQUEST), self.rt)
        self.finish("StageModels", run_id)
        return planned

    def look(self, run_id: str = "run") -> Progress:
        answer = measure_units.measure_units(self.given(run_id), self.rt)
        assert isinstance(answer, Progress)
        return answer

    def state(self, run_id: str = "run") -> RunState:
        state = load_state(self.rt.store, run_id)
        assert state is not None
        return state

    @property
    def started(self) -> list[str]:
        """Names of the executions that were started, in order."""
        return [given["name"] for given in self.states.started]

    def measure(self, unit: str, *, until: str = "StopArms", waves: int | None = None) -> None:
        """Run a unit's steps, with records of all that it measures (or of its first `waves`)."""
        request = next(json.loads(given["input"]) for given in self.states.started if given["name"] == unit)
        planned = plan.plan(self.given(unit, input=request), self.rt)
        for step in ("StageModels", "AcquireCapacity"):
            self.finish(step, unit)
        for wave in range(planned.waves if waves is None else waves):
            for step in ("Compile", "Serve", "Smoke", "Benchmark", "StopArms"):
                self.finish(step, unit, wave)
        run = measure_units.load_run(self.rt.store, unit)
        for wave in run.plan.waves:
            for arm in wave.arms if run.is_measured(wave.index) else ():
                self.record(unit, arm.variant, wave.round)

    def record(self, run_id: str, variant: str, round_: int) -> None:
        (case, *_) = measure_units.load_run(self.rt.store, run_id).plan.experiment.workload.cases
        key = s3_keys.run_key(run_id, "raw", variant, f"{case.name}.jsonl")
        for index in range(2):
            line = json.dumps(raw(run_id, variant, case.name, round_, index)).encode() + b"\n"
            self.s3.objects[key] = self.s3.objects.get(key, b"") + line

    def end(self, unit: str, status: str = "SUCCEEDED", **why: str) -> None:
        release.release(self.given(unit), self.rt)
        self.states.executions[arn(unit)] = status
        self.states.ends[arn(unit)] = why

    def merged(self, run_id: str = "run") -> set[tuple[str, int, int]]:
        """Variant, unit and round of the records in the run's own folder."""
        found = set()
        for key in self.rt.store.keys(s3_keys.run_key(run_id, "raw", "")):
            for line in self.s3.objects[key].splitlines():
                record = json.loads(line)
                assert record["run_id"] == run_id
                found.add((record["variant"], record["unit"], record["round"]))
        return found


def raw(run_id: str, variant: str, case: str, round_: int, index: int) -> dict[str, Any]:
    speed = 0.01 if variant == "base" else 0.005
    return {
        "schema_version": 1,
        "run_id": run_id,
        "variant": variant,
        "case": case,
        "round": round_,
        "level": "",
        "index": index,
        "started_at": 1.0,
        "sent_s": 10.0 * index,
        "end_s": 33 * speed,
        "chunks": [{"at_s": speed * (at + 1), "chars": 4} for at in range(32)],
        "requested_input_tokens": 8,
        "requested_output_tokens": 32,
        "prompt_tokens": 8,
        "completion_tokens": 32,
        "prompt_sha256": f"{index}",
        "output": "x" * 128,
        "finish_reason": "length",
    }
