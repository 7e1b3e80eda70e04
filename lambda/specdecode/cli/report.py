"""Commands about answers: a run's report, two runs compared, what to try next, the trend, and old results imported."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specdecode.cli.evidence import own_rows
from specdecode.cli.options import RESULTS, WHERE, AsJson, Run, Runs, Where, Written, experiments_or_runs
from specdecode.cli.options import runs as completed_runs
from specdecode.cli.output import (
    EXIT_IMPOSSIBLE,
    answer,
    complain,
    say_json,
    say_report,
    stop_with,
)
from specdecode.untrusted import MOST_DOLLARS

if TYPE_CHECKING:
    from specdecode.analysis import Comparison
    from specdecode.experiment import Experiment


Format = Literal["terminal", "html", "markdown", "csv", "json"]


def report(
    run: Run = None,
    open_page: Annotated[bool, typer.Option("--open", help="Write the HTML page and open it in the browser.")] = False,
    form: Annotated[Format, typer.Option("--format", help="What to print.")] = "terminal",
    out: Written = None,
    price: Annotated[
        float | None, typer.Option(min=0, max=MOST_DOLLARS, help="$ per node-hour, for a folder without report.json.")
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Print all of it, not one screen.")] = False,
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON schema of report.json and stop.")] = False,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Show the answer of a run: whether speculative decoding pays, for which prompts, by how much, and how surely.

    A folder with raw/*.jsonl and experiment.yaml but no report.json is compared again.
    """
    from specdecode.analysis import Comparison
    from specdecode.analysis.report import all_of, write_report
    from specdecode.cli.report_sources import find
    from specdecode.cli.written_files import naming

    if schema:
        say_json(Comparison.model_json_schema())
        return
    comparison = find(run, deployment=where.deployment(), price=price)
    shown = "json" if as_json else "md" if form == "markdown" else form
    say_report(comparison, shown, full=full, more=all_of(run))
    folder = out or (Path("results") / comparison.run_id if open_page else None)
    if folder is not None:
        with naming(folder):
            page = write_report(comparison, folder)
        complain(f"written: {page}")
        if open_page:
            webbrowser.open(page.resolve().as_uri())


def compare_runs(
    runs: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN RUN...",
            help="Run ids, folders or report.json files, two or more.",
            autocompletion=completed_runs,
        ),
    ],
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Show what changed between runs, or what repeated runs show together, with intervals over runs.

    Runs of the same question are taken together: two versions with three runs each give a change with its interval.
    With one run a side, a change cannot be told from the usual variation between runs. Each load is compared by itself;
    what a run's own report does not judge is left out, with its reason.

    Of the runs that `run --nodes` started it shows every arm beside the baseline of its own run, the fastest first.
    """
    from specdecode.analysis.several_runs.difference import Joint, difference, joint, left_out_text
    from specdecode.cli.report_sources import find_each
    from specdecode.cli.report_view import difference_text, joint_text

    deployment = where.deployment()
    asked = [run for given in runs for run in given.split(",")]
    if len(asked) < 2:
        raise stop_with("give two runs or more: `specdecode compare RUN RUN`")
    measured = find_each(asked, deployment=deployment)
    found = joint(measured) or difference(measured)
    alone = all(variant.compare_to is None for run in measured for variant in run.experiment.variants)
    if alone and not (isinstance(found, Joint) or found.carried):
        ends = "..".join(name.rstrip("/") for name in (asked[0], asked[-1]))
        raise stop_with(
            "each of these runs has one server, compared with nothing: there is no speed-up to compare. Measure both "
            "in one run (`specdecode bench base=URL sd=URL`), or hold the throughput of one run to that of another: "
            f"`specdecode gate {quote(ends)} --max-regression 3%`"
        )
    text = joint_text(found) if isinstance(found, Joint) else difference_text(found) + left_out_text(found)
    answer(as_json, found.model_dump(mode="json"), lambda: text)


def advise(
    reference: Annotated[
        str,
        typer.Argument(
            metavar="PRESET|RUN",
            help="A preset, a run id, a run's folder or a report.json.",
            autocompletion=experiments_or_runs,
        ),
    ],
    also: Annotated[
        list[str] | None, typer.Option("--run", metavar="RUN", help="Another run to learn from. Repeatable.")
    ] = None,
    group: Annotated[
        Literal["all", "structured", "open-ended"], typer.Option(help="Prompts that the recommendation is for.")
    ] = "all",
    runs: Runs = RESULTS,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """Say which draft and number of speculative tokens to compile next, or to stop, and what the rest can gain.

    For runs at several loads: the best measured k at each load, and the compile that gains most on average over them.

    Exit codes: 0 advised, 2 bad input or runs of something else, 3 AWS cannot be reached, 5 a run is not to be trusted.
    """
    from specdecode.analysis.advice.sweep import advise_sweep
    from specdecode.cli.report_sources import find, once, preset_of
    from specdecode.cli.report_view import advice_document, advice_text

    deployment = where.deployment()
    measured = [find(run, deployment=deployment) for run in also or ()]
    experiment = preset_of(reference)
    if experiment is None:
        comparison = find(reference, deployment=deployment)
        experiment, measured = comparison.experiment, [comparison, *measured]
    measured = once(measured)
    _check_advisable(experiment, measured)
    found = advise_sweep(experiment, measured, group=group, own=own_rows(runs))
    document = advice_document(found, experiment, measured, group=group)
    answer(as_json, document, lambda: advice_text(document))


def _check_advisable(experiment: Experiment, measured: list[Comparison]) -> None:
    """End the command if there is nothing to advise on, or runs measured something else or are not to be trusted."""
    from specdecode.analysis.results.pairs import Action
    from specdecode.analysis.several_runs.alike import not_learnable
    from specdecode.analysis.texts.decide import decided

    if not any(variant.speculation for variant in experiment.variants):
        raise stop_with(f"{experiment.name} has no arm with speculation: nothing to advise on")
    unlike = {item.run_id: found for item in measured if (found := not_learnable(experiment, item.experiment))}
    if unlike:
        told = "\n".join(f"{run}: {'; '.join(found[:5])}" for run, found in unlike.items())
        why = "from runs that measured something else"
        raise stop_with(f"nothing can be learned for {experiment.name} {why}:\n{told}")
    decisions = {item.run_id: decided(item) for item in measured}
    wrong = [f"{run}: {own.why}" for run, own in decisions.items() if own.action is Action.DISTRUST]
    if wrong:
        why = "nothing is learned from runs that are not to be trusted:"
        raise stop_with("\n".join([why, *wrong]), EXIT_IMPOSSIBLE)


def runs(
    folder: Annotated[Path | None, typer.Option(help="Look below this folder instead of in the bucket.")] = None,
    experiment: Annotated[str | None, typer.Option(help="Only runs of this experiment that have a report.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write the trend as an HTML page to this file.")] = None,
    where: Where = WHERE,
    as_json: AsJson = False,
) -> None:
    """List all runs with their state and answer, the newest last, and what runs like the newest show together."""
    from specdecode.analysis.report import render_trend
    from specdecode.analysis.several_runs.difference import trend
    from specdecode.cli.report_recorded import REPORT
    from specdecode.cli.report_sources import find_all
    from specdecode.cli.report_view import list_of_runs, runs_text
    from specdecode.cli.written_files import naming, unwritable

    if folder is not None and not folder.is_dir():
        raise stop_with(f"{folder}: no such folder")
    if wrong := unwritable({"--out": out}, inputs=folder.rglob(REPORT) if folder else ()):
        raise stop_with("\n".join(wrong))
    deployment = where.deployment()
    executions = [] if folder else list(deployment.executions(limit=1000))
    points = trend(find_all(folder or deployment))
    points = [point for point in points if experiment in (None, point.experiment)]
    if out is not None:
        if not points:
            raise stop_with("no run has a report yet: there is no trend to draw")
        with naming(out):
            out.write_text(render_trend(points), encoding="utf-8")
        complain(f"written: {out}")
    found = list_of_runs(points, executions, all_of_them=experiment is None)
    answer(as_json, found, lambda: runs_text(found))
