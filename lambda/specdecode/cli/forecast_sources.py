"""Where a forecast comes from: options of `specdecode forecast`, answers of a target, and servers of drafts."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from specdecode.cli.output import EXIT_ENVIRONMENT, complain, is_interactive, stop_with
from specdecode.untrusted import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from specdecode.benchmark.tokens import TokenCounter
    from specdecode.experiment import Experiment
    from specdecode.forecast.answers import ToAnswer, WrittenAnswers
    from specdecode.forecast.making import ToWrite
    from specdecode.forecast.result import Forecast
    from specdecode.forecast.server import Draft, Reader

MOST_ANSWERS = 2_000
KS = "1,2,3,4,5,7,10,15"


MostTokensOption = Literal["k", "k+1"]


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Where the target's answers and the tokens of their prompts come from."""

    answers: Annotated[
        Path | None,
        typer.Option(metavar="RUN|FILE", help="A run's folder (its baseline's answers), or a log in JSON Lines."),
    ] = None
    target: Annotated[str | None, typer.Option(metavar="URL", help="Instead: a server of the target, to be asked.")] = (
        None
    )
    prompts: Annotated[
        str | None, typer.Option(metavar="SET|FILE", help="With --target: prompts of a set or a file instead.")
    ] = None
    output_tokens: Annotated[int, typer.Option(min=2, max=100_000, help="With --prompts: longest answer.")] = 256
    tokenizer: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The target's tokenizer, for a run's prompts.")
    ] = None
    most_answers: Annotated[int, typer.Option(min=1, max=100_000, help="Answers that are read at most.")] = MOST_ANSWERS


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """The drafts, and the engine that they are meant for."""

    draft: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=URL|MODEL",
            help="A vLLM server that serves the draft alone, on any hardware; or the model's folder or name on the "
            "hub, which is read here (pip install '.\\[draft]'). Repeatable.",
        ),
    ] = None
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MODEL", help="The draft's model, if its server has several. Repeatable."),
    ] = None
    k: Annotated[
        str | None,
        typer.Option(metavar="K,K…", help=f"Speculative tokens to forecast. Default: the experiment's, or {KS}."),
    ] = None
    most_tokens_per_step: Annotated[
        MostTokensOption | None, typer.Option(help="Of the engine: k with NxD Inference, else k+1.")
    ] = None


def made_of(given: AnswerOptions, drafts: DraftOptions, planned: Experiment | None) -> Forecast:
    """The forecast from answers; what was left out goes to stderr."""
    import asyncio

    from specdecode.forecast.server import BadServer

    lookups = given.answers is not None and given.tokenizer is not None
    if not (drafts.draft or lookups) or (given.answers is None) == (given.target is None):
        raise stop_with(
            "give --draft, and either --answers or --target; for lookups alone, which need no draft: --answers and "
            "--tokenizer FOLDER"
        )
    try:
        found = asyncio.run(_forecast(given, drafts, planned))
    except (BadServer, ExceptionGroup) as error:
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        if not isinstance(first, BadServer):
            raise
        raise stop_with(str(first), EXIT_ENVIRONMENT) from None
    for note in found.notes:
        complain(f"note: {note}")
    return found


def _answers(path: Path, given: AnswerOptions) -> WrittenAnswers:
    from specdecode.cli.report_recorded import recorded
    from specdecode.forecast.answers import of_log, of_run

    if not path.is_dir():
        return of_log(path, most=given.most_answers)
    run = recorded(path)
    base = next(variant.name for variant in run.experiment.variants if variant.compare_to is None)
    return of_run(run.experiment.workload, base, run.records, counter=_counter(given), most=given.most_answers)


def _counter(given: AnswerOptions) -> TokenCounter:
    from specdecode.benchmark.tokens import token_counter

    counter, problem = token_counter(None if given.tokenizer is None else str(given.tokenizer))
    if problem:
        raise stop_with(f"--tokenizer: {problem}")
    return counter


def _questions(given: AnswerOptions, planned: Experiment | None) -> Sequence[ToAnswer]:
    """What the target's server is to answer: the experiment's prompts, or those of a set."""
    from specdecode.experiment.prompt_sets import set_names, shipped
    from specdecode.forecast.answers import questions_of, questions_of_set
    from specdecode.prompts import BadPromptSet, read_set
    from specdecode.untrusted import Unreadable, read_file

    if not given.prompts and planned:
        return questions_of(planned, _counter(given))
    if not given.prompts:
        raise stop_with("--target: name an EXPERIMENT, or --prompts SET|FILE")
    try:
        known = shipped(given.prompts) or read_set(read_file(Path(given.prompts)), name="prompts")
    except (BadPromptSet, Unreadable) as error:
        sets = f"sets that ship: {', '.join(set_names())}"
        raise stop_with(f"--prompts {given.prompts}: {error}; {sets}") from None
    return questions_of_set(known, output_tokens=given.output_tokens)


async def _forecast(given: AnswerOptions, drafts: DraftOptions, planned: Experiment | None) -> Forecast:
    from specdecode.analysis.advice.sweep import candidates, kind
    from specdecode.experiment.most_tokens import MostTokens
    from specdecode.forecast.local import LocalReader, TokenizerFolder
    from specdecode.forecast.making import ToWrite
    from specdecode.forecast.making import forecast as make

    most = kind(planned) if planned else MostTokens.K_PLUS_1
    if drafts.most_tokens_per_step:
        most = MostTokens(drafts.most_tokens_per_step)
    ks = tuple(sorted({at.k for at in candidates(planned)})) if planned and not drafts.k else _ks(drafts.k or KS)
    named, models = [*map(_named, drafts.draft or ())], drafts.model or []
    answers: WrittenAnswers | ToWrite
    if given.answers is not None:
        answers = _answers(given.answers, given)
    else:
        questions = _questions(given, planned)[: given.most_answers]
        answers = ToWrite(await _reader("target", str(given.target), models), questions)
    readers: list[Draft] = [
        await _reader(name, where, models) if "://" in where else LocalReader(name, where) for name, where in named
    ]
    targets = None if given.tokenizer is None else TokenizerFolder(str(given.tokenizer))
    return await make(answers, readers, ks=ks, most=most, progress=_progress, tokenizer=targets)


async def _reader(name: str, url: str, models: list[str]) -> Reader:
    from specdecode import names
    from specdecode.benchmark.endpoint import Endpoint
    from specdecode.forecast.server import reader

    try:
        endpoint = Endpoint.of(url, api_key=names.api_key(name, os.environ))
    except ValueError as error:
        raise stop_with(f"--draft {name}: {error}") from None
    return await reader(name, endpoint, dict(entry.split("=", 1) for entry in models if "=" in entry).get(name))


def _named(draft: str) -> tuple[str, str]:
    name, equals, url = draft.partition("=")
    if equals and "/" in name:
        raise stop_with(f"--draft {draft}: NAME is without /: {name.rsplit('/', 1)[-1]}={url}")
    if not equals or not name or not url:
        raise stop_with(
            f"--draft {quoted(draft)}: write NAME=URL or NAME=MODEL, for example qwen3-0.6b=http://localhost:8001"
        )
    return name, url


def _ks(text: str) -> tuple[int, ...]:
    from specdecode.experiment.base import MOST_DRAFTED

    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not 1 <= found[0] <= found[-1] <= MOST_DRAFTED:
        raise stop_with(f"--k {quoted(text)}: write numbers from 1 to {MOST_DRAFTED}, for example 3,5,7")
    return tuple(found)


def _progress(what: str, done: int, of: int) -> None:
    if is_interactive() and (done == of or done % 10 == 0):
        complain(f"{what}: {done} of {of} answers")
