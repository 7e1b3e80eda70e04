"""Plan: refuse what cannot work, store experiment and plan, say how many waves there are."""

import json
from functools import partial
from typing import Any

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, JsonValue, ValidationError

from specdecode import names, s3_keys
from specdecode.analysis.advice.sweep import first_steps
from specdecode.escape import clip
from specdecode.experiment import (
    Capacity,
    Experiment,
    ExperimentError,
    credentials,
    documents,
    engine_of,
    from_document,
    load_preset,
    to_yaml,
)
from specdecode.experiment.documents import parse_yaml
from specdecode.experiment.model import AnyExperiment, ServedExperiment
from specdecode.experiment.sizing import unfit
from specdecode.experiment.told import without_absent_figures
from specdecode.kubernetes.node_group import NodeGroup
from specdecode.kubernetes.node_room import room_of_group
from specdecode.planning import Plan, SweepStep, make_bill, make_plan, needed_prefixes, paid_compiles, read_inventory
from specdecode.planning.offers import offer_lines
from specdecode.records import CONVERSATIONS, SERVERS, read_record
from specdecode.runs.answered_run import with_prompts_of_answers
from specdecode.runs.state import PLAN, RunState, load_state, save_state
from specdecode.runs.subscriptions import untold
from specdecode.steps.acquire import outside_window
from specdecode.steps.advise import grow
from specdecode.steps.errors import CapacityUnavailable, InvalidExperiment, NobodyTold
from specdecode.steps.paid import check_cost, check_start
from specdecode.steps.prompts import keep_sets, said
from specdecode.steps.run import Run, load_run
from specdecode.steps.runtime import Runtime, StepInput, run_step
from specdecode.store import Store
from specdecode.untrusted import in_words

SHOWN = 100
"""Most characters of a given value, and most problems, in a message."""


class RunRequest(BaseModel):
    """The execution's input: an experiment, or a run to repeat."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    experiment: str | dict[str, JsonValue] | None = None
    """A preset's name, or a whole document. Nothing is run by default: a run costs money."""
    overrides: dict[str, JsonValue] = Field(default_factory=dict, alias="set")
    resume: str | None = None
    """Id of a run to repeat. What it finished is not done again."""
    accept_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """US dollars that it may cost at most. None: what the deployment allows."""
    started_by: str | None = Field(default=None, max_length=2048)
    """Who starts the run. Shown to a user who wants to stop it. It is not checked."""
    scheduled_time: AwareDatetime | None = None
    """For when a schedule starts the run. A second run for that time is refused."""
    comment: JsonValue = Field(default=None, alias="Comment")
    """Not read: the console's form begins with `{"Comment": "Insert your JSON here"}`."""


def parse_request(given: Any) -> RunRequest:
    """The request in an execution's input (null counts as {})."""
    try:
        documents.check_depth(given, origin="input")
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None
    if places := list(credentials.found(given)):
        raise InvalidExperiment(
            "The input holds what looks like a credential, and an execution's input is kept in its history:\n"
            + "\n".join(f"  {place or 'input'}: {kind}" for place, kind in places)
            + f"\n{credentials.ADVICE[0].upper()}{credentials.ADVICE[1:]}."
        )
    try:
        request = RunRequest.model_validate({} if given is None else given)
    except ValidationError as error:
        lines = [
            f"  {clip('.'.join(str(part) for part in item['loc']), SHOWN) or 'input'}: {in_words(item)}"
            for item in error.errors()[:SHOWN]
        ]
        raise InvalidExperiment(
            'The input is not one: {"experiment": "<preset>" or {...}, "set": {"<path>": value}} '
            'or {"resume": "<run id>"}; '
            'beside either "accept_cost": <USD>.\n' + "\n".join(lines)
        ) from None
    if request.resume is not None and request.model_fields_set & {"experiment", "overrides"}:
        raise InvalidExperiment("resume repeats a run exactly: give neither experiment nor set beside it")
    if request.resume is not None and not names.is_run_id(request.resume):
        raise InvalidExperiment(f"{clip(request.resume, SHOWN)!r} is no run's id (`specdecode runs` lists them)")
    return request


def experiment_of(request: RunRequest, *, capacity: Capacity) -> AnyExperiment:
    """The validated experiment of a request without `resume`."""
    if request.experiment is None:
        sample = "" if request.comment is None else " (what it holds is the console's own sample)"
        raise InvalidExperiment(
            f'The input names no experiment{sample}, so nothing was started. Give {{"experiment": "<preset>"}}, or '
            f'{{"resume": "<run id>"}}. The presets, by what a first run of each costs:\n{offer_lines(capacity)}'
        )
    try:
        if isinstance(request.experiment, str):
            return load_preset(request.experiment, overrides=request.overrides, capacity=capacity)
        return from_document(request.experiment, overrides=request.overrides, capacity=capacity)
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None


class Planned(BaseModel):
    waves: int
    adaptive: bool
    """Whether the advisor is asked after the last wave."""
    experiment: str
    plan: str
    warnings: tuple[str, ...] = ()
    """The warnings of `specdecode plan`, for a user who starts a run from the console."""


def plan(given: StepInput, rt: Runtime) -> Planned:
    """Store runs/<id>/{experiment.yaml, plan.json, state.json}. A repeated call keeps what the first one stored."""
    known = _known(given, rt.store)
    _check_told(rt)
    request = parse_request(given.input)
    if known is None and request.resume is None:
        _check_empty(rt.store, given.run_id)
    capacity = Capacity.model_validate_json(rt.environ["CAPACITY"])
    experiment, old = _to_measure(rt.store, request, capacity)
    _check_experiment(experiment, given.run_id, capacity, rt)
    engine = engine_of(experiment)
    inventory = read_inventory(rt.store.s3, bucket=rt.store.bucket, prefixes=needed_prefixes(experiment, engine))
    now = rt.now()
    try:
        planned = make_plan(
            experiment,
            engine,
            inventory=inventory,
            capacity=capacity,
            now=now,
            sweep=_sweep_so_far(rt.store, experiment, request),
        )
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None
    if old:
        _check_waves(load_run(rt.store, old.run_id), planned)
    _check_room(planned, rt)
    bill = make_bill(planned, capacity)
    check_cost(bill, accepted=request.accept_cost)
    check_start(rt.store, request.scheduled_time, given.run_id)
    rt.store.write(s3_keys.run_key(given.run_id, "experiment.yaml"), to_yaml(experiment), content_type="text/yaml")
    rt.store.write(s3_keys.run_key(given.run_id, PLAN), planned.model_dump_json(indent=1))
    if known is None:
        state = RunState(
            run_id=given.run_id,
            execution_arn=given.execution_arn,
            execution_started=given.execution_started,
            experiment=experiment.name,
            started_at=now,
            resumed_from=request.resume,
            started_by=request.started_by,
            paid_compiles=paid_compiles(planned, bill, accepted=request.accept_cost),
        )
        save_state(rt.store, inherit(rt.store, state, old) if old else state)
    # Before capacity is taken it is known whether a resumed sweep needs any.
    planned = grow(given.run_id, rt)
    return Planned(
        waves=len(planned.waves),
        adaptive=planned.sweep is not None,
        experiment=experiment.name,
        plan=rt.store.url(s3_keys.run_key(given.run_id, PLAN)),
        warnings=planned.warnings,
    )


def _to_measure(store: Store, request: RunRequest, capacity: Capacity) -> tuple[AnyExperiment, RunState | None]:
    """What a run measures, and the record of the run that it resumes."""
    experiment, old = (
        _resumed(store, request.resume, capacity)
        if request.resume is not None
        else (experiment_of(request, capacity=capacity), None)
    )
    try:
        return with_prompts_of_answers(store, experiment), old
    except ExperimentError as error:
        raise InvalidExperiment(str(error)) from None


def _known(given: StepInput, store: Store) -> RunState | None:
    """The run's record, if an earlier call stored one. Refuses a name that is no run id, or an earlier run's: Step
    Functions frees a name after 90 days (StartExecution, parameter `name`).
    """
    if not names.is_run_id(given.run_id):
        raise InvalidExperiment(
            f"the execution's name {given.run_id!r} becomes the run's id: use letters, digits, '.', '_' and '-'"
        )
    known = load_state(store, given.run_id)
    if known and not known.is_of(given.execution_started):
        raise InvalidExperiment(
            f"the name {given.run_id} was used by a run that started at {known.started_at:%Y-%m-%d %H:%M} UTC, "
            "and its results are kept: start this one with another name"
        )
    return known


def _check_empty(store: Store, run_id: str) -> None:
    """Refuse a new run below whose name measurements lie."""
    if found := store.keys(s3_keys.run_key(run_id, "raw/")):
        raise InvalidExperiment(
            f"{len(found)} files of measurements lie below {store.url(s3_keys.run_prefix(run_id))} already "
            "and would count as this run's: start it with another name"
        )


def _check_experiment(experiment: AnyExperiment, run_id: str, capacity: Capacity, rt: Runtime) -> None:
    """Refuse what this run cannot be: at this time, or with prompts that are not there."""
    if experiment.holds_node and (closed := outside_window(capacity.of(experiment.node), rt.now())):
        raise CapacityUnavailable(closed)
    if problems := keep_sets(rt.store, experiment, run_id=run_id)[1]:
        raise InvalidExperiment(said(problems))


def _check_room(planned: Plan, rt: Runtime) -> None:
    """Refuse a run whose pods find no place on the next node of a node group. Nodes of our pools are as their shape."""
    shape = planned.experiment.shape
    if not (isinstance(planned.experiment, ServedExperiment) and shape.has_devices):
        return
    if rt.environ.get(names.RIGHTS_VARIABLE) != names.GROUP_RIGHTS or not isinstance(rt.pools, NodeGroup):
        return
    group = rt.pools.described()
    why = [] if group is None else list(unfit(planned.served, planned.engine, room_of_group(group, None, shape)))
    if why:
        raise InvalidExperiment(f"the run finds no place: {'; '.join(why)} (`specdecode preflight` says what to do)")


def _check_told(rt: Runtime) -> None:
    """Refuse a run whose alerts nobody gets, wherever it is started. Without ALERTS_TOPIC no address is needed."""
    if "ALERTS_TOPIC" in rt.environ:
        topic = rt.environ["ALERTS_TOPIC"]
        pages = rt.clients("sns").get_paginator("list_subscriptions_by_topic").paginate(TopicArn=topic)
        found = [item for page in pages for item in page["Subscriptions"]]
        if problem := untold(found, address=rt.environ.get("ALERTS_ADDRESS")):
            raise NobodyTold(f"{problem[0]}: {problem[1]}")


def _resumed(store: Store, run_id: str, capacity: Capacity) -> tuple[AnyExperiment, RunState]:
    text, state = store.read(s3_keys.run_key(run_id, "experiment.yaml")), load_state(store, run_id)
    if text is None or state is None:
        raise InvalidExperiment(f"there is no run {run_id} to resume (`specdecode runs` lists them)")
    try:
        document = parse_yaml(text.decode("utf-8", "replace"), origin=f"experiment.yaml of {run_id}")
        return from_document(without_absent_figures(document), capacity=capacity), state
    except ExperimentError as error:
        raise InvalidExperiment(f"run {run_id} cannot be resumed: {error}") from None


def _check_waves(old: Run, planned: Plan) -> None:
    """Refuse a resumed run that has other waves where `old` has measured ones: by their indices they count as done."""
    for index in old.state.measured:
        was, now = (
            [
                f"round {wave.round + 1} of {', '.join(sorted(arm.variant for arm in wave.arms))}"
                for wave in plan.waves[index:][:1]
            ]
            for plan in (old.plan, planned)
        )
        if was != now:
            raise InvalidExperiment(
                f"run {old.state.run_id} cannot be resumed: its wave {index + 1} measured {''.join(was)}, and now that "
                f"would be {''.join(now) or 'no wave at all'}, since this version or deployment plans otherwise: start "
                "the experiment as a new run"
            )


def _sweep_so_far(store: Store, experiment: Experiment, request: RunRequest) -> tuple[SweepStep, ...]:
    """The steps of an adaptive sweep: those of the run that is resumed, or the first one."""
    data = store.read(s3_keys.run_key(request.resume, PLAN)) if request.resume else None
    old = Plan.model_validate_json(data).sweep if data else None
    return old.steps if old else first_steps(experiment)


def inherit(store: Store, state: RunState, old: RunState) -> RunState:
    """Copy records, scores, counters and servers' words of `old`; `state` with what is measured and published.

    Whole waves are not measured again. In others the benchmark sends only requests without a record or that failed: the
    reason that ended the wave may be why.
    """
    base, target = s3_keys.run_prefix(old.run_id), s3_keys.run_prefix(state.run_id)
    whole = _measured_blocks(store, old)
    # the others are notes of clients: of a Job that has ended
    for key in (key for key in store.keys(base + "raw/") if key.endswith(".jsonl")):
        named = f"run {old.run_id} cannot be resumed: {store.url(key)}"
        data = _records(store.read(key) or b"", named, run_id=state.run_id, whole=whole)
        store.write(target + key[len(base) :], data, content_type="application/x-ndjson")
    for folder in ("accuracy", CONVERSATIONS):
        for key in store.keys(f"{base}{folder}/"):
            store.copy(key, target + key[len(base) :])
    for key in store.keys(f"{base}used/"):
        path = key.removeprefix(f"{base}used/")
        store.copy(key, f"{target}used/" + (path if "/" in path else f"{old.run_id}/{path}"))
    servers = store.read_json(base + SERVERS)
    if servers is not None:
        store.write(target + SERVERS, json.dumps({**servers, "run_id": state.run_id}))
    taken = {
        "measured": old.measured,
        "inherited": old.measured,
        "measured_with": _measured_with(store, old),
        "measured_arms": load_run(store, old.run_id).measured_arms,
        "published": tuple(wave for wave in old.published if wave in old.measured),
        "published_data": old.published_data,
        "device_groups": old.device_groups,
    }
    return state.model_copy(update=taken)


def _measured_blocks(store: Store, old: RunState) -> set[tuple[str, int]]:
    """Variant and round of everything that `old` measured to the end."""
    data = store.read(s3_keys.run_key(old.run_id, PLAN))
    if data is None:
        return set()
    waves = [wave for wave in Plan.model_validate_json(data).waves if wave.index in old.measured]
    return {(arm.variant, wave.round) for wave in waves for arm in wave.arms}


def _measured_with(store: Store, old: RunState) -> dict[str, tuple[str, ...]]:
    """What `old` was measured with. A record of an older version says it by its contents alone."""
    if old.measured_with or not old.contents:
        return old.measured_with
    return load_run(store, old.run_id).measured_with(*set(old.measured).difference(old.inherited))


def _records(data: bytes, named: str, *, run_id: str, whole: set[tuple[str, int]]) -> bytes:
    """The records that count, as of `run_id`: the benchmark refuses another run's. A cut last line is dropped."""
    kept = []
    for number, line in enumerate(data.split(b"\n")[:-1], 1):
        try:
            record = read_record(line)
        except ValueError:
            raise InvalidExperiment(f"{named}: line {number} is no record") from None
        if record.error is None or (record.variant, record.round) in whole:
            kept.append(json.dumps({**json.loads(line), "run_id": run_id}).encode() + b"\n")
    return b"".join(kept)


handler = partial(run_step, plan)
