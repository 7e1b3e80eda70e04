"""Report: compare the arms from the raw records, write the report, publish its figures, answer with the verdict."""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

from botocore.exceptions import BotoCoreError, ClientError
from pydantic import BaseModel, ValidationError

from specdecode import names, s3_keys
from specdecode.analysis import AtLevel, Comparison, RunContext, compare_measured, lm_eval_scores, measure
from specdecode.analysis.datums import llmperf_files, metric_data, request_data
from specdecode.analysis.loads.objective import carried
from specdecode.analysis.report import documents
from specdecode.analysis.results.comparison import read_report
from specdecode.analysis.results.pairs import Verdict
from specdecode.analysis.results.run_context import Accuracy, Compiled, Failure, Served, known_of
from specdecode.analysis.statistics.accuracy import NoScores
from specdecode.experiment import Capacity, Experiment
from specdecode.experiment.model import CompileOn, answers_of
from specdecode.manifests.serve_command import recipe, served_model
from specdecode.measures.accounting import Accounting
from specdecode.measures.publish import calls
from specdecode.measures.publish import problems as unfit
from specdecode.measures.publish import publish as send
from specdecode.planning import Plan, fingerprint
from specdecode.planning.measured_with import mixed, newest, remade
from specdecode.records import RequestRecord, Servers, read_record
from specdecode.runs.state import RunState, StateDamaged, load_state, save_state
from specdecode.steps import logs, used
from specdecode.steps.compile import what_it_cost
from specdecode.steps.errors import ReportFailed
from specdecode.steps.prompts import kept_sets
from specdecode.steps.run import Run, load_run, read_servers
from specdecode.steps.runtime import Runtime, StepInput, run_step
from specdecode.store import Store
from specdecode.untrusted import Unreadable, in_words

CONTENT_TYPES = {
    "json": "application/json; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "md": "text/markdown; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


class Reported(BaseModel):
    run_id: str
    verdict: str
    report: str
    page: str
    """The report in the console of S3, for a signed-in user: "Open" shows it."""
    summary: str
    raw: str
    carried: tuple[str, ...] = ()
    """The largest load of each arm at the service-level objective, in words. Empty if there is no objective."""
    unpublished: tuple[str, ...] = ()
    """Why figures are missing in CloudWatch. The report is whole all the same."""


def report(given: StepInput, rt: Runtime) -> Reported:
    """Write the run's report, and publish its figures."""
    run = load_run(rt.store, given.run_id)
    records, servers = list(read_records(rt.store, given.run_id)), read_servers(rt.store, given.run_id)
    if not records and not (answers_of(run.plan.experiment) and servers.forecast):
        raise ReportFailed(f"there is no record in {rt.store.url(s3_keys.run_key(given.run_id, 'raw'))}/")
    experiment = run.plan.experiment.as_measured(servers.forecast)
    context = run_context(run.plan, run.state, rt, servers)
    if experiment.holds_node:
        told = remade(contents=run.state.contents, measured=run.state.measured_with)
        notes = (*context.notes, *mixed(run.measured_arms), *told, *used.differences(run, rt.store))
        context = context.model_copy(update={"notes": notes})
    levels = measure(experiment=experiment, records=records, context=context)
    sets = kept_sets(rt.store, experiment, run_id=given.run_id)
    comparison = compare_measured(experiment=experiment, levels=levels, context=context, sets=sets)
    for name, text in documents(comparison).items():
        rt.store.write(s3_keys.run_key(given.run_id, name), text, content_type=CONTENT_TYPES[name.rpartition(".")[2]])
    model, load = served_model(experiment), experiment.workload
    for path, text in llmperf_files(load, levels, served=servers.arms, model=model, accounting=ACCOUNTING):
        rt.store.write(s3_keys.run_key(given.run_id, path), text, content_type=CONTENT_TYPES["json"])
    unpublished = publish(comparison, levels, run, rt)
    return Reported(
        run_id=given.run_id,
        verdict=comparison.answer,
        report=rt.store.url(s3_keys.run_key(given.run_id, "report.html")),
        page=console_page(rt.store.bucket, s3_keys.run_key(given.run_id, "report.html"), rt.environ["AWS_REGION"]),
        summary=rt.store.url(s3_keys.run_key(given.run_id, "report.json")),
        raw=rt.store.url(s3_keys.run_key(given.run_id, "raw")) + "/",
        carried=tuple(map(carried, comparison.objective)),
        unpublished=unpublished,
    )


def console_page(bucket: str, key: str, region: str) -> str:
    """Address of an object in the console of S3."""
    host = "amazonaws.cn" if region.startswith("cn-") else "aws.amazon.com"
    query = urlencode({"region": region, "prefix": key})
    return f"https://{region}.console.{host}/s3/object/{bucket}?{query}"


def read_records(store: Store, run_id: str) -> Iterator[RequestRecord]:
    """All records below raw/. A line that is no record means that the file is damaged: ReportFailed names the file."""
    for key in store.keys(s3_keys.run_key(run_id, "raw") + "/"):
        if not key.endswith(".jsonl"):
            continue
        for number, line in enumerate(store.lines(key), start=1):
            if not line.strip():
                continue
            try:
                yield read_record(line)
            except ValueError as error:
                first = in_words(error.errors()[0]) if isinstance(error, ValidationError) else error
                raise ReportFailed(f"{store.url(key)} line {number} is no record: {first}") from None


def run_context(plan: Plan, state: RunState, rt: Runtime, servers: Servers) -> RunContext:
    """What the comparison needs to know about the run, beside its records."""
    finished = state.released_at or rt.now()
    held = (finished - state.held_since).total_seconds() if state.held_since else None
    capacity = Capacity.model_validate_json(rt.environ["CAPACITY"]).of(plan.experiment.node)
    holds_node, run = plan.experiment.holds_node, Run(plan=plan, state=state)
    scores, unread = read_scores(rt.store, state.run_id)
    return RunContext(
        run_id=state.run_id,
        started_at=state.started_at,
        finished_at=rt.now(),
        price_per_node_hour=capacity.price_per_node_hour if holds_node else None,
        node_seconds=held,
        capacity_type=capacity.type if holds_node else "none",
        device_groups=state.device_groups,
        failures=(*state.failures, *unread),
        accuracy=tuple(scores),
        served=served(run, bucket=rt.store.url("")) if holds_node else (),
        compiled=compiled(run),
        start_check=what_it_cost(run),
        sweep=plan.sweep.steps if plan.sweep else (),
        raw_prefix=rt.store.url(s3_keys.run_prefix(state.run_id)),
        **known_of(plan, servers),
    )


def read_scores(store: Store, run_id: str) -> tuple[list[Accuracy], list[Failure]]:
    """The scores below accuracy/ (a file of lm-eval for each tested arm), and the files without scores."""
    prefix = s3_keys.run_key(run_id, "accuracy", "")
    scores: list[Accuracy] = []
    failures: list[Failure] = []
    for key in store.keys(prefix):
        variant = key.removeprefix(prefix).removesuffix(".json")
        try:
            scores += lm_eval_scores(variant, store.read(key) or b"")
        except NoScores as error:
            text = f"{store.url(key)} is no result of lm-eval: {error}"
            failures.append(Failure(stage="Accuracy", variant=variant, message=text))
    return scores, failures


def served(run: Run, *, bucket: str) -> tuple[Served, ...]:
    """How to serve each arm again. `bucket`: `s3://name/`."""
    experiment, engine = run.plan.served, run.plan.engine
    arms = run.arms
    found = []
    for variant in experiment.on_node:
        arm = arms.get(variant.name)
        made = arm.fingerprint if arm else fingerprint(experiment, variant, engine)
        key = s3_keys.compiled_prefix(made) if engine.artifact else None
        text = recipe(experiment, variant, engine, bucket=bucket, artifact=key)
        hash_of = partial(newest, contents=run.state.contents, measured=run.state.measured_with)
        models = {f"{bucket}{model.prefix}": hash_of(model.prefix) for model in experiment.models_of(variant)}
        where, content = (f"{bucket}{key}", hash_of(key)) if key else ("", "")
        found.append(Served(variant=variant.name, recipe=text, artifact=where, artifact_sha256=content, models=models))
    return tuple(found)


def compiled(run: Run) -> tuple[Compiled, ...]:
    """Where each arm's artifact was compiled: the newest, if there were several (`mixed`). Only for a run that compiles
    without the accelerator.
    """
    if run.plan.experiment.compile.on is not CompileOn.CPU:
        return ()
    made, bad = [arm for wave in run.plan.waves for arm in wave.arms], run.state.refused_artifacts
    refused = {arm.variant for arm in made if arm.fingerprint in bad}
    return tuple(
        Compiled(
            variant=name,
            on=CompileOn.CPU if arm.fallback else CompileOn.ACCELERATOR,
            refused=name in refused and not arm.fallback,
        )
        for name, arm in sorted(run.arms.items())
    )


ACCOUNTING = Accounting("usage")
"""The pipeline's formula. `specdecode bench --accounting` chooses another."""


def publish(comparison: Comparison, levels: Sequence[AtLevel], run: Run, rt: Runtime) -> tuple[str, ...]:
    """Send the comparison's figures, and once those of each measured wave's requests. Returns in words what was not
    sent: it fails no run, and a resumed run sends it.
    """
    client = rt.clients("cloudwatch")
    problems = _send_requests(comparison, levels, run, rt)
    own = metric_data(comparison, previous=last_good(rt.store, comparison, before=run.state))
    problems += send(own, namespace=names.METRIC_NAMESPACE, client=client)
    if problems:
        logs.info("unpublished", problems=problems)
    return tuple(dict.fromkeys(problems))


def _send_requests(comparison: Comparison, levels: Sequence[AtLevel], run: Run, rt: Runtime) -> list[str]:
    """Send the metrics of each wave's requests that no report has sent before, and note each call that was taken."""
    client, experiment = rt.clients("cloudwatch"), comparison.experiment
    every = [record for at in levels for each in at.arms.values() for record in each.block.records]
    found: list[str] = []
    for wave in run.plan.waves:
        if wave.index in run.state.published or not run.is_measured(wave.index):
            continue
        arms = {arm.variant for arm in wave.arms}
        own = [record for record in every if record.round == wave.round and record.variant in arms]
        data = list(
            request_data(
                experiment, measure(experiment=experiment, records=own, context=comparison.context), ACCOUNTING
            )
        )
        taken = run.state.published_data.get(wave.index, 0)
        for call in calls(data[taken:]):
            told = send(call, namespace=names.METRIC_NAMESPACE, client=client)
            found += told
            if len(told) > sum(len(unfit(datum)) for datum in call):
                return found
            taken += len(call)
            _note(rt.store, run, wave.index, taken, is_whole=taken == len(data))
    return found


def _note(store: Store, run: Run, wave: int, taken: int, *, is_whole: bool) -> None:
    """Note how many of the wave's metrics were taken: in the run's record, and in that of the resumed run if it has
    measured the wave. The latter is not needed here, so that its faults are not this run's.
    """

    def note(run_id: str) -> None:
        if state := load_state(store, run_id):
            whole = {"published": tuple(sorted({*state.published, wave}))}
            part = {"published_data": {**state.published_data, wave: taken}}
            save_state(store, state.model_copy(update=whole if is_whole else part))

    note(run.state.run_id)
    if run.state.resumed_from and wave in run.state.inherited:
        with suppress(StateDamaged, BotoCoreError, ClientError):
            note(run.state.resumed_from)


LOOKED_AT = 500
"""Most states that are read: the report has minutes for this many (docs/reference/faults.md)."""
_TIME = re.compile(r"(?<=-)\d{8}-\d{6}(?=-)")


def last_good(store: Store, comparison: Comparison, *, before: RunState) -> Comparison | None:
    """The newest earlier report on the same question with at least one verdict. None if there is none.

    It reads one small object for each of the LOOKED_AT newest runs (by the time in their ids), and reports only of runs
    of the same experiment. A report that this version cannot read is skipped.
    """
    newest = sorted(store.folders("runs/"), key=_began, reverse=True)[:LOOKED_AT]
    states = [_state(store, run_id) for run_id in newest]
    earlier = [
        state
        for state in states
        if state and state.experiment == before.experiment and state.started_at < before.started_at
    ]
    for state in sorted(earlier, key=lambda state: state.started_at, reverse=True):
        found = _report(store, state.run_id)
        if found and _question(found.experiment) == _question(comparison.experiment) and _is_judged(found):
            return found
    return None


def _began(run_id: str) -> str:
    """The time in an id that the command line made. "" for other ids (the console's)."""
    found = _TIME.search(run_id)
    return found[0] if found else ""


def _state(store: Store, run_id: str) -> RunState | None:
    try:
        return load_state(store, run_id)
    except StateDamaged:
        return None


def _report(store: Store, run_id: str) -> Comparison | None:
    data = store.read(s3_keys.run_key(run_id, "report.json"))
    try:
        return None if data is None else read_report(data)
    except Unreadable:
        return None


def _question(experiment: Experiment) -> tuple[Any, ...]:
    """What must be equal so that two speed-ups can be compared: all but the engine, whose version may be the reason."""
    return (
        experiment.name,
        experiment.target,
        [experiment.serving_of(each) for each in experiment.variants],
        experiment.variants,
        experiment.workload,
    )


def _is_judged(comparison: Comparison) -> bool:
    return any(
        result.verdict not in (Verdict.CANNOT_TELL, Verdict.DISTRUST)
        for pair in comparison.pairs
        for result in pair.cases
    )


handler = partial(run_step, report)
