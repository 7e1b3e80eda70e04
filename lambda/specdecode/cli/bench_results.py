"""What `specdecode bench` makes from the records: the table, the report, LLMPerf's files, CloudWatch's metrics."""

from pathlib import Path

from specdecode import names
from specdecode.analysis import compare_measured, measure
from specdecode.analysis.report import render_terminal, write_report
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.tokens import token_counter
from specdecode.cli.bench_options import ResultOptions
from specdecode.cli.output import complain, say_coloured, say_document
from specdecode.cli.report_recorded import Recorded, recorded, sets_of
from specdecode.cli.report_view import terminal_width
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.measures.accounting import Accounting
from specdecode.measures.llmperf_files import llmperf_folder, llmperf_run
from specdecode.measures.publish import metric_data, places
from specdecode.measures.publish import publish as publish_data


def deliver(spec: BenchmarkSpec, folder: Path, wanted: ResultOptions, run: Recorded | None = None) -> None:
    """Write all figures into the folder, print them, and upload or publish them as `wanted` says. `run`: what is known
    of the records beyond the folder's own files.
    """
    run = run or recorded(folder)
    experiment, context = run.experiment, run.context
    levels = measure(experiment=experiment, records=run.records, context=context)
    comparison = compare_measured(
        experiment=experiment, levels=levels, context=context, sets=sets_of(experiment, folder)
    )
    counter, _ = token_counter(spec.tokenizer)
    accounting = Accounting(spec.accounting, retokenize=counter.count if counter.exact else None)
    written: list[Path] = []
    for at in levels:
        for (variant, case), measured in at.arms.items():
            served = run.servers.arms[variant].model if variant in run.servers.arms else spec.model
            files = llmperf_run(
                spec.workload, at.level, model=served, records=measured.block.records, accounting=accounting
            )
            place = folder.joinpath(*llmperf_folder(spec.workload, at.level, variant=variant, case=case))
            place.mkdir(parents=True, exist_ok=True)
            for name, text in files.items():
                (place / name).write_text(text, encoding="utf-8")
            written += [place / name for name in files]
    page = write_report(comparison, folder)
    if wanted.as_json:
        say_document(comparison.json_document())
    else:
        say_coloured(render_terminal(comparison, width=terminal_width(), brief=True))
    complain(f"report: {page}")
    if wanted.publish:
        from specdecode import aws

        cases = {case.name: case.label for case in spec.workload.cases}
        data = [
            datum
            for at in levels
            for (variant, case), measured in at.arms.items()
            for datum in metric_data(
                measured,
                accounting=accounting,
                places=places(experiment, variant=experiment.variant(variant).label, case=cases[case], level=at.level),
            )
        ]
        for problem in publish_data(data, namespace=names.METRIC_NAMESPACE, client=aws.client("cloudwatch")):
            complain(f"warning: {problem}")
    if wanted.upload:
        target = S3Folder(wanted.upload)
        try:
            for path in [*sorted(folder.glob("report.*")), *written]:
                target.put(path.relative_to(folder).as_posix(), path)
        except PlaceError as error:
            complain(f"warning: {error}")
