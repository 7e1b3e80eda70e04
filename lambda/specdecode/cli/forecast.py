"""`specdecode forecast`: what speculation would yield, from a target's answers."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from specdecode.cli.forecast_sources import AnswerOptions, DraftOptions, made_of
from specdecode.cli.options import RESULTS, WHERE, AsJson, Runs, Where, experiments_or_runs
from specdecode.cli.output import answer, complain, stop_with

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from specdecode.cli.runs_deployment import Deployment
    from specdecode.experiment import Experiment
    from specdecode.experiment.told import Forecasted


def forecast(
    given: AnswerOptions,
    drafts: DraftOptions,
    experiment: Annotated[
        str | None,
        typer.Argument(
            metavar="[EXPERIMENT]",
            help="A preset or a YAML file: also speed-up and dollars.",
            autocompletion=experiments_or_runs,
        ),
    ] = None,
    write: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the experiment with its forecast.")] = None,
    page: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the forecast as an HTML page.")] = None,
    of: Annotated[str | None, typer.Option(metavar="RUN", help="Instead of answers: a run that forecast.")] = None,
    where: Where = WHERE,
    runs: Runs = RESULTS,
    as_json: AsJson = False,
) -> None:
    """Tell what speculation would yield, from answers of the target. No accelerator, no run.

    A drafted token is accepted if it is what the target writes. So the draft reads the target's answers once, and each
    place says whether it would have written the same. That is exact for greedy decoding (temperature 0). What
    lookups in the text would do (n-grams, suffixes) comes with it: they need no model.

    With an EXPERIMENT it also tells the speed-up of each arm with its range, what a million tokens cost (at the
    deployment's price of the node, else AWS's), which arms are worth a compile, and what it cannot know. Without
    answers tokens per step are guessed.

    Texts go to the drafts' servers and nowhere else, and the result holds none.

        specdecode forecast qwen3-32b-tuning
        vllm serve Qwen/Qwen3-0.6B --port 8001
        specdecode forecast --answers results/chat --draft qwen3-0.6b=http://localhost:8001
        specdecode forecast qwen3-32b-tuning --answers log.jsonl --draft qwen3-0.6b=http://… --write my.yaml
        specdecode forecast qwen3-32b-tuning --target http://gpu:8000 --draft qwen3-0.6b=http://localhost:8001

    A log has one answer a line: {"prompt": …, "answer": …}, {"messages": […]} that ends with the assistant's,
    OpenAI's {"request": …, "response": …}, or ShareGPT's conversations; `category` names the type of a prompt.

    Exit codes: 0 done, 2 bad input, 3 a draft's server cannot be used.
    """
    from specdecode.analysis.advice.payoff import HEAD, heads, payoff
    from specdecode.analysis.report.html import render_forecast
    from specdecode.cli.evidence import own_rows
    from specdecode.cli.forecast_view import forecast_text, payoff_text, told_text
    from specdecode.experiment import load
    from specdecode.experiment.capacity import kept_capacity
    from specdecode.forecast.result import forecasted

    _check(given, drafts, of, experiment, {"--write": write, "--page": page})
    planned = load(experiment) if experiment else None
    known = {name.lower() for one in (heads(planned) if planned else ()) for name in (one, one.rsplit("/", 1)[-1])}
    if wrong := [name for one in drafts.draft or () if (name := one.partition("=")[0]).lower() in known]:
        raise stop_with("\n".join(f"--draft {name}: {HEAD}" for name in wrong))
    made = made_of(given, drafts, planned) if given.answers or given.target or drafts.draft else None
    told = tuple(one for draft in made.drafts for one in forecasted(draft, draft.draft)) if made else ()
    if of:
        told = _of_run(of, where.deployment(), planned)
    if planned is None and not told:
        raise stop_with("give an EXPERIMENT, --of a run, or --answers or --target with --draft")
    if planned is None and write:
        raise stop_with("--write: name the EXPERIMENT that gets the forecast")
    if planned and not told:
        told = planned.forecast
    elif planned:
        planned = planned.model_copy(update={"forecast": _of_experiment(told, planned)})
    try:
        found = payoff(planned, own_rows(runs), kept_capacity(where.region)) if planned else None
    except ValueError as error:
        raise stop_with(str(error)) from None
    if planned and write and not planned.forecast:
        raise stop_with("--write: no forecast to write: give --answers or --target with --draft, or --of a run")
    if planned and write:
        _write(write, _document(str(experiment), planned))
        complain(f"`specdecode plan {write}`, `specdecode run {write}`")
    if page:
        title = planned.title if planned else of or "Tokens per step"
        _write(page, render_forecast(title, told, found))
    tokens = made.model_dump(mode="json") if made else [one.model_dump(mode="json") for one in told] or None
    document = {"tokens": tokens, "payoff": found.model_dump(mode="json")} if found else tokens
    parts = [forecast_text(made)] if made else [told_text(told)] if told else []
    answer(as_json, document, lambda: "\n".join([*parts, *([payoff_text(found)] if found else [])]))


def _check(
    given: AnswerOptions, drafts: DraftOptions, of: str | None, experiment: str | None, files: Mapping[str, Path | None]
) -> None:
    """End the command for options that say nothing without others, and for files that it could not write."""
    from specdecode.cli.written_files import unwritable

    problems = unwritable(files, inputs=[Path(file) for file in (given.answers, experiment) if file])
    if not (given.answers or given.target or drafts.draft):
        problems += [
            f"--{each.name.replace('_', '-')} is about answers: give --answers or --target too, or leave it out"
            for options in (given, drafts)
            for each in fields(options)
            if getattr(options, each.name) != each.default
        ]
    elif of:
        problems.append("--of takes the forecast of a run, in place of answers: leave out it or the others")
    if problems:
        raise stop_with("\n".join(problems))


def _of_run(run: str, deployment: Deployment, planned: Experiment | None) -> tuple[Forecasted, ...]:
    """What a run forecast, by the k of the planned experiment's engine: each has another k for as many verified."""
    from specdecode.analysis.advice.sweep import kind
    from specdecode.cli.report_sources import find
    from specdecode.experiment import engine_of
    from specdecode.experiment.base import MOST_DRAFTED

    experiment = find(run, deployment=deployment).experiment
    if not experiment.forecast:
        raise stop_with(f"--of {run}: the run has no forecast: none of its arms read (docs/how-to/forecast.md)")
    verified = (engine_of(experiment).most_tokens_per_step if experiment.holds_node else kind(experiment)).verified(1)
    more = verified - kind(planned).verified(1) if planned else 0
    moved = (
        one.model_copy(update={"at": tuple((k + more, *rest) for k, *rest in one.at if 1 <= k + more <= MOST_DRAFTED)})
        for one in experiment.forecast
    )
    return tuple(one for one in moved if one.at)


def _of_experiment(told: Sequence[Forecasted], planned: Experiment) -> tuple[Forecasted, ...]:
    """The forecast as a part of the experiment: of its own drafts. Ends the command if none is."""
    from specdecode.analysis.advice.sweep import speculative
    from specdecode.forecast.making import NO_MODEL

    ids = {one.speculation.draft.id for one in speculative(planned) if one.speculation}
    known = {name.lower(): one for one in ids for name in (one, one.rsplit("/", 1)[-1])}
    found = [one.model_copy(update={"draft": known[name]}) for one in told if (name := one.draft.lower()) in known]
    if strange := {one.draft for one in told if one.draft.lower() not in known} - NO_MODEL:
        names_of = ", ".join(sorted(one.rsplit("/", 1)[-1].lower() for one in ids))
        said = f"{', '.join(sorted(strange))}: {planned.name} has no such draft: name it {names_of}"
        if not found:
            raise stop_with(f"--draft {said}")
        complain(f"left out {said}")
    return tuple(found)


def _document(reference: str, planned: Experiment) -> str:
    """The experiment with its forecast, as YAML that extends a preset or repeats a file."""
    import yaml

    from specdecode.assets import preset_names
    from specdecode.experiment.documents import parse_yaml

    if reference in preset_names():
        document: dict[str, Any] = {"extends": reference}
    else:
        document = dict(parse_yaml(Path(reference).read_text(), origin=reference))
    document["forecast"] = [one.model_dump(mode="json") for one in planned.forecast]
    return yaml.safe_dump(document, sort_keys=False, width=120, default_flow_style=None)


def _write(file: Path, text: str) -> None:
    """Raises OSError, with the file's name."""
    from specdecode.cli.written_files import naming

    with naming(file):
        file.write_text(text, encoding="utf-8")
    complain(f"wrote {file}")
