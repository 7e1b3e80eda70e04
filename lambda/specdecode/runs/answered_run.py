"""The run whose answers another run's drafts read: looked up, and held against the experiment (ADR 212)."""

from collections.abc import Iterator

from specdecode import s3_keys
from specdecode.experiment.model import AnyExperiment, ServedExperiment, answered
from specdecode.experiment.problems import ExperimentError, Problem
from specdecode.experiment.variants import ModelRef
from specdecode.experiment.workload import MOST_REQUESTS, Load, Slo, Workload
from specdecode.planning import Plan
from specdecode.runs.state import PLAN, StateDamaged, load_document
from specdecode.store import Store


def with_prompts_of_answers(store: Store, experiment: AnyExperiment) -> AnyExperiment:
    """The experiment, with the prompts (no text) of the run that its `answers` name, if any.

    Raises ExperimentError with all reasons for which its drafts cannot read that run's answers.
    """
    if not isinstance(experiment, ServedExperiment) or experiment.answers is None:
        return experiment
    earlier = _earlier(store, experiment.answers)
    if problems := list(_problems(store, experiment, experiment.answers, earlier)):
        raise ExperimentError(problems)
    return experiment.model_copy(update={"workload": _read_once(earlier.workload)})


def _earlier(store: Store, run_id: str) -> AnyExperiment:
    try:
        plan = load_document(store, s3_keys.run_key(run_id, PLAN), Plan, "run's plan")
    except StateDamaged as damage:
        raise ExperimentError([_problem(str(damage), "name another run")]) from None
    if plan is None:
        message = f"there is no run {run_id} in {store.url('')}"
        raise ExperimentError([_problem(message, "`specdecode runs` lists them")])
    return plan.experiment


def _problems(store: Store, experiment: ServedExperiment, run_id: str, earlier: AnyExperiment) -> Iterator[Problem]:
    plain = {arm.name: arm for arm in earlier.variants if not arm.speculation and arm not in earlier.readers}
    for arm in answered(experiment):
        if arm.name not in plain:
            message = f"{run_id} has no arm {arm.name!r} that answers without speculation"
            yield _problem(message, f"let the drafts read one that it has: {', '.join(plain) or 'there is none'}")
            continue
        wrote, wanted = earlier.target_of(plain[arm.name]), experiment.target_of(arm)
        if _bytes_of(wrote) != _bytes_of(wanted):
            message = (
                f"{arm.name} of {run_id} was {_named(wrote)}, and the target is {_named(wanted)}: another model, "
                "tokenizer or chat template"
            )
            yield _problem(message, "name a run of this target, or set `target` to that model")
        if not any(key.endswith(".jsonl") for key in store.keys(s3_keys.run_key(run_id, "raw", arm.name, ""))):
            message = f"{run_id} has no raw records of {arm.name}: it measured none, or they have expired"
            yield _problem(message, "name another run (`specdecode runs`)")
    if earlier.workload.temperature > 0:
        message = f"the answers of {run_id} were sampled (temperature {earlier.workload.temperature:g})"
        yield _problem(message, "name a run with temperature 0: with it a forecast is exact")
    window, room = earlier.window, experiment.window or 0
    if window is not None and window > room:
        message = f"the arms of {run_id} had a window of {window} tokens, and the drafts have {room}"
        yield _problem(message, f"--set serving.max_model_len={window}")


def _bytes_of(model: ModelRef) -> tuple[str, ...]:
    return model.id, model.prefix


def _named(model: ModelRef) -> str:
    return f"{model.id}@{model.revision}"


def _read_once(load: Workload) -> Workload:
    """The prompts of all levels of a load. Nobody sends them: they are made again, and their answers are read."""
    once = {
        "cases": tuple(
            case.model_copy(update={"requests": min(load.requests_of(case), MOST_REQUESTS)}) for case in load.cases
        ),
        "concurrency": (1,),
        "rate": None,
        "load": Load.INTERLEAVED,
        "rounds": 1,
        "warmup_requests": 0,
        "slo": Slo(),
    }
    return load.model_copy(update=once)


def _problem(message: str, fix: str) -> Problem:
    return Problem(field="answers", rule="answers", message=message, fix=fix)
