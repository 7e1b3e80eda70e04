"""Reads a folder with raw records and no report, and makes what `specdecode bench` leaves there."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from pydantic import ValidationError

from specdecode import names
from specdecode.analysis import Comparison, RunContext, compare, compare_measured, lm_eval_scores, measure
from specdecode.analysis.datums import llmperf_files, request_data
from specdecode.analysis.report import all_of, write_report
from specdecode.analysis.results.run_context import Accuracy, of_servers
from specdecode.analysis.statistics.accuracy import NoScores
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.tokens import token_counter
from specdecode.cli.output import complain, say_report, stop_with
from specdecode.cli.written_files import naming
from specdecode.escape import clip
from specdecode.experiment import BenchmarkArm, BenchmarkSpec, Experiment, load_file
from specdecode.experiment.base import MOST_DRAFTED
from specdecode.experiment.benchmark_spec import read_specification
from specdecode.experiment.endpoints import of_one_kind
from specdecode.experiment.model import EndpointExperiment
from specdecode.experiment.most_tokens import MostTokens
from specdecode.experiment.variants import as_model_id
from specdecode.measures.accounting import Accounting
from specdecode.measures.publish import publish as publish_data
from specdecode.prompts import BadPromptSet, PromptSet, read_set
from specdecode.records import SERVERS, RequestRecord, Servers, read_record
from specdecode.untrusted import MAX_FILE_BYTES, Unreadable, in_words, parse_json, placed, read_file, read_lines

REPORT = "report.json"
BENCHMARK = "benchmark.json"
"""What `specdecode bench` was told, from its results folder."""
UNKNOWN = "unknown"


@dataclass(frozen=True)
class Recorded:
    """The content of a folder with raw records."""

    experiment: Experiment
    context: RunContext
    records: list[RequestRecord]
    servers: Servers


def compared_anew(path: Path, price: float | None = None) -> Comparison:
    """The comparison of the raw records in a folder. Ends the command with 2 if it holds none."""
    found = recorded(path, price)
    return compare(
        experiment=found.experiment, records=found.records, context=found.context, sets=sets_of(found.experiment, path)
    )


def sets_of(experiment: Experiment, path: Path) -> dict[str, PromptSet]:
    """The sets of prompts in a run's folder, or where `bench` found them. Unreadable ones are left out."""
    found = {}
    for case in experiment.workload.cases:
        if case.prompts is not None and case.prompts.key not in found:
            file = Path(case.text) if case.text else path / case.prompts.key
            with suppress(Unreadable, BadPromptSet):
                found[case.prompts.key] = read_set(read_file(file), name=case.prompts.set)
    return found


def recorded(path: Path, price: float | None = None) -> Recorded:
    """The raw records in a folder, with the files beside them. Ends the command with 2 if it holds none."""
    raw = sorted((path / "raw").rglob("*.jsonl"))
    servers = _servers(path)
    asked = _asked(path, servers) if raw else None
    if asked is None:
        raise stop_with(f"{path}: neither {REPORT}, nor raw/*.jsonl with experiment.yaml or {BENCHMARK} to make one")
    records = [record for file in raw for record in _records(file)]
    if not any(not record.warmup for record in records):
        raise stop_with(f"{path / 'raw'} holds no record")
    if len(runs := dict.fromkeys(record.run_id for record in records)) > 1:
        named = ", ".join(clip(repr(run), 60) for run in [*runs][:3])
        raise stop_with(f"{path / 'raw'} holds records of {len(runs)} runs ({named}): give each its own folder")
    experiment, seconds = asked
    paid = price if experiment.holds_node else None
    try:
        context = _context(path, records, price=paid, servers=servers, load_seconds=seconds)
    except ValidationError as error:
        raise stop_with(f"{path / 'raw'}: {placed(error.errors()[0])}") from None
    return Recorded(experiment.as_measured(servers.forecast), context, records, servers)


def _context(
    path: Path, records: list[RequestRecord], *, price: float | None, servers: Servers, load_seconds: float | None
) -> RunContext:
    """The run's context, from the files beside its records."""
    starts = [record.started_at for record in records]
    return RunContext(
        run_id=records[0].run_id,
        started_at=datetime.fromtimestamp(min(starts), UTC),
        finished_at=datetime.fromtimestamp(max(record.started_at + record.end_s for record in records), UTC),
        price_per_node_hour=price,
        load_seconds=load_seconds,
        accuracy=tuple(score for file in sorted((path / "accuracy").glob("*.json")) for score in _scores(file)),
        raw_prefix=str(path),
        **of_servers(servers),
    )


def _servers(path: Path) -> Servers:
    """The folder's servers.json. Empty if a benchmark stopped before it wrote the file, or if the file is damaged."""
    file, none = path / SERVERS, Servers(run_id="")
    try:
        return Servers.model_validate(parse_json(read_file(file)), extra="ignore") if file.exists() else none
    except (ValidationError, Unreadable) as error:
        why = placed(error.errors()[0]) if isinstance(error, ValidationError) else error
        complain(f"left out {file}: {why}")
        return none


def _asked(path: Path, servers: Servers) -> tuple[Experiment, float | None] | None:
    """What was measured, by experiment.yaml of a run, or by benchmark.json of `specdecode bench`; of the latter the
    seconds of each load too, if it was told any.
    """
    try:
        if (path / "experiment.yaml").exists():
            return load_file(path / "experiment.yaml", measured=True), None
        if (path / BENCHMARK).exists():
            spec = read_specification(path / BENCHMARK)
            return experiment_of(spec, servers), spec.duration_s
    except ValidationError as error:
        raise stop_with(f"{path / BENCHMARK}: {in_words(error.errors()[0])}") from None
    return None


def experiment_of(spec: BenchmarkSpec, servers: Servers) -> Experiment:
    """The experiment behind a bare benchmark, on servers that already ran. The first arm is the baseline."""
    first = spec.arms[0]
    document = {
        "name": spec.experiment,
        "title": f"{', '.join(arm.label for arm in spec.arms)} measured with specdecode bench",
        "target": {"id": _model(first, spec, servers)},
        "variants": [
            {
                "name": arm.variant,
                "label": arm.label,
                "compare_to": None if arm is first else first.variant,
                "endpoint": (known.url if (known := servers.arms.get(arm.variant)) else "") or UNKNOWN,
                "target": {"id": _model(arm, spec, servers)},
                "served_model_name": arm.model,
                "price_per_hour": arm.price_per_hour,
                "speculation": k
                and {
                    "draft": {"id": UNKNOWN},
                    "num_speculative_tokens": k,
                    "most_tokens_per_step": arm.most_tokens_per_step,
                },
            }
            for arm in spec.arms
            for k in [_k(arm, servers)]
        ],
        "workload": spec.workload.model_dump(mode="json"),
    }
    return EndpointExperiment.model_validate(of_one_kind(document))


def _model(arm: BenchmarkArm, spec: BenchmarkSpec, servers: Servers) -> str:
    """The model's name in the form of an id. Servers may name their model by a path."""
    known = servers.arms.get(arm.variant)
    name = arm.model or spec.model or (known.model if known else "") or UNKNOWN
    return as_model_id(name) or UNKNOWN


def _k(arm: BenchmarkArm, servers: Servers) -> int | None:
    """Tokens that the arm drafts in a step: as the user said, else as its server counts (one counter a position)."""
    if arm.num_speculative_tokens is not None or arm.most_tokens_per_step is MostTokens.K:  # whose counters say nothing
        return arm.num_speculative_tokens
    own = [item for item in servers.counters if item.variant == arm.variant and item.trusted and item.drafts]
    per_step = [-(-item.draft_tokens // item.drafts) for item in own]
    most = max([*per_step, *(len(item.accepted_per_position) for item in own)], default=0)
    return most if 1 <= most <= MOST_DRAFTED else None


def _scores(file: Path) -> list[Accuracy]:
    try:
        return lm_eval_scores(file.stem, read_file(file))
    except (NoScores, Unreadable) as error:
        raise stop_with(f"{file} is no result of lm-eval: {error}") from None


def _records(file: Path) -> Iterator[RequestRecord]:
    try:
        for number, line in read_lines(file, limit=MAX_FILE_BYTES):
            try:
                yield read_record(line)
            except ValidationError as error:
                first = in_words(error.errors()[0])
                raise stop_with(f"{file} line {number} is no record: {first}") from None
    except Unreadable as error:
        raise stop_with(f"{file}: {error}") from None


def deliver(
    spec: BenchmarkSpec,
    folder: Path,
    *,
    as_json: bool,
    publish: bool = False,
    upload: str | None = None,
    run: Recorded | None = None,
) -> None:
    """Write all figures into the folder, print them, upload or publish them. `run`: if it is read already."""
    run = run or recorded(folder)
    experiment, context = run.experiment, run.context
    levels = measure(experiment=experiment, records=run.records, context=context)
    comparison = compare_measured(
        experiment=experiment, levels=levels, context=context, sets=sets_of(experiment, folder)
    )
    counter, _ = token_counter(spec.tokenizer)
    accounting = Accounting(spec.accounting, retokenize=counter.count if counter.exact else None)
    served = run.servers.arms
    files = dict(llmperf_files(spec.workload, levels, served=served, model=spec.model, accounting=accounting))
    with naming(folder):
        for name, text in files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text, encoding="utf-8")
        page = write_report(comparison, folder)
    say_report(comparison, "json" if as_json else "terminal", more=all_of(str(folder)))
    complain(f"report: {page}")
    if publish:
        from specdecode import aws

        data = request_data(experiment, levels, accounting)
        for problem in publish_data(data, namespace=names.METRIC_NAMESPACE, client=aws.client("cloudwatch")):
            complain(f"warning: {problem}")
    if upload:
        target = S3Folder(upload)
        try:
            for name in [*sorted(path.name for path in folder.glob("report.*")), *files]:
                target.put(name, folder / name)
        except PlaceError as error:
            complain(f"warning: {error}")
