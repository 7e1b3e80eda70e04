"""Report: compare the arms from the raw records, write the report, publish its figures, answer with the verdict."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel, ValidationError

from specdecode import __version__, layout, names
from specdecode.analysis import Comparison, RunContext, compare, engine_counters, lm_eval_scores
from specdecode.analysis.accuracy import NoScores
from specdecode.analysis.context import Accuracy, Failure
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import render_csv, render_html, render_markdown
from specdecode.benchmark.packed import read_record
from specdecode.benchmark.publish import SPOOL, Publisher, spooled
from specdecode.benchmark.records import RequestRecord
from specdecode.experiment import Capacity
from specdecode.planning import Plan
from specdecode.runs.state import RunState
from specdecode.runs.store import Store
from specdecode.tasks import logs
from specdecode.tasks.errors import ReportFailed
from specdecode.tasks.previous import last_good
from specdecode.tasks.run import load_run
from specdecode.tasks.runtime import Runtime, StepInput, run_step


class Reported(BaseModel):
    """The execution's output."""

    run_id: str
    verdict: str
    report: str
    summary: str
    raw: str
    unpublished: tuple[str, ...] = ()
    """Why figures are missing in CloudWatch; the report is whole all the same."""


def report(given: StepInput, rt: Runtime) -> Reported:
    run = load_run(rt.store, given.run_id)
    records = list(read_records(rt.store, given.run_id))
    if not records:
        raise ReportFailed(f"there is no record in {rt.store.url(layout.run_key(given.run_id, 'raw'))}/")
    context = run_context(run.plan, run.state, rt)
    comparison = compare(experiment=run.plan.experiment, records=records, context=context)
    for name, text, content_type in (
        ("report.json", comparison.json_document(), "application/json"),
        ("report.html", render_html(comparison), "text/html"),
        ("report.md", render_markdown(comparison), "text/markdown"),
        ("report.csv", render_csv(comparison), "text/csv"),
    ):
        rt.store.write(layout.run_key(given.run_id, name), text, content_type=f"{content_type}; charset=utf-8")
    return Reported(
        run_id=given.run_id,
        verdict=comparison.answer,
        report=rt.store.url(layout.run_key(given.run_id, "report.html")),
        summary=rt.store.url(layout.run_key(given.run_id, "report.json")),
        raw=rt.store.url(layout.run_key(given.run_id, "raw")) + "/",
        unpublished=publish(comparison, run.state, rt),
    )


def publish(comparison: Comparison, state: RunState, rt: Runtime) -> tuple[str, ...]:
    """Send the comparison's figures, and the benchmark's that CloudWatch did not take then; what went wrong, in words.

    A figure not sent fails no run.
    """
    spool = layout.run_key(state.run_id, SPOOL)
    publisher = Publisher(namespace=names.METRIC_NAMESPACE, folder=None, client=rt.clients("cloudwatch"))
    waiting, problems = spooled(rt.store.read(spool) or b""), list[str]()
    sent = 0
    while sent < len(waiting) and not problems:
        problems = publisher.publish(waiting[sent])
        sent += not problems
    if sent:
        left = "".join(json.dumps(call) + "\n" for call in waiting[sent:])
        rt.store.write(spool, left, content_type="application/jsonl")
    own = metric_data(comparison, previous=last_good(rt.store, comparison, before=state))
    problems += publisher.publish(own, at_once=True)
    if problems:
        logs.info("unpublished", problems=problems)
    return tuple(dict.fromkeys(problems))


def read_records(store: Store, run_id: str) -> Iterator[RequestRecord]:
    """All records below raw/. A line that is none means that the file is damaged: ReportFailed names it."""
    for key in store.keys(layout.run_key(run_id, "raw") + "/"):
        if not key.endswith(".jsonl"):
            continue
        for number, line in enumerate(store.lines(key), start=1):
            if not line.strip():
                continue
            try:
                yield read_record(line)
            except ValidationError as error:
                raise ReportFailed(f"{store.url(key)} line {number} is no record: {error.errors()[0]['msg']}") from None


def run_context(plan: Plan, state: RunState, rt: Runtime) -> RunContext:
    """What the comparison needs to know of the run around its records."""
    finished = state.released_at or rt.now()
    held = (finished - state.held_since).total_seconds() if state.held_since else None
    capacity = Capacity.model_validate_json(rt.environ["CAPACITY"])
    elsewhere = plan.experiment.has_endpoints
    scores, unread = read_scores(rt.store, state.run_id)
    return RunContext(
        run_id=state.run_id,
        started_at=state.started_at,
        finished_at=rt.now(),
        price_per_node_hour=None if elsewhere else capacity.price_per_node_hour,
        node_seconds=held,
        capacity_type="none" if elsewhere else capacity.type,
        device_groups=state.device_groups,
        counters=engine_counters(rt.store.read_json(layout.run_key(state.run_id, "summary.json"))),
        versions={"specdecode": __version__} | ({} if elsewhere else {"engine image": plan.engine.reference}),
        failures=(*state.failures, *unread),
        accuracy=tuple(scores),
        sweep=plan.sweep.steps if plan.sweep else (),
        raw_prefix=rt.store.url(layout.run_prefix(state.run_id)),
        notes=(plan.engine.caveat,) if plan.engine.caveat and not elsewhere else (),
    )


def read_scores(store: Store, run_id: str) -> tuple[list[Accuracy], list[Failure]]:
    """The scores below accuracy/, a file of lm-eval for each arm that was tested, and the files that hold none."""
    prefix = layout.run_key(run_id, "accuracy", "")
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


def handler(event: dict[str, Any], context: Any) -> dict[str, Any]:
    return run_step(report, event, context)
