"""Benchmark: run the wave's Job. If an arm dies under it, the next look sees it."""

from functools import partial

from specdecode import manifests
from specdecode.runs.state import change_state
from specdecode.steps.acquire import on_the_node
from specdecode.steps.errors import BenchmarkFailed
from specdecode.steps.jobs import advance_job, check_alive
from specdecode.steps.run import Run, attentive, render_context
from specdecode.steps.runtime import Progress, Runtime, StepInput, run_step


@on_the_node
def benchmark(given: StepInput, rt: Runtime, run: Run) -> Progress:
    ctx = render_context(run, rt)
    wave = run.wave(given.wave)
    check_alive(rt.kube, given.run_id, wave, failure=BenchmarkFailed)
    if (noted := run.measuring(given.wave)) != run.state:
        change_state(rt.store, given.run_id, measured_with=noted.measured_with, measured_arms=noted.measured_arms)
    found = advance_job(run, rt, manifests.benchmark(run.plan, wave, ctx), failure=BenchmarkFailed)
    if found.done:
        change_state(rt.store, given.run_id, measured=tuple(sorted({*run.state.measured, given.wave})))
    expected = run.plan.timeline.most_minutes("Benchmark", given.wave)
    return Progress(
        done=found.done, message=found.message, wait_s=attentive(run.plan, found.age, expected_min=expected)
    )


handler = partial(run_step, benchmark)
