"""`specdecode forecast`: what speculation would yield, from a target's answers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from specdecode.cli.options import flat
from specdecode.cli.output import (
    EXIT_ENVIRONMENT,
    EXIT_USAGE,
    complain,
    is_interactive,
    say,
    say_json,
    stop_with,
    text_table,
)
from specdecode.escape import line

if TYPE_CHECKING:
    from specdecode.forecast.answers import WrittenAnswers
    from specdecode.forecast.result import AtK, Forecast, OfDraft
    from specdecode.forecast.server import Reader

MOST_ANSWERS = 2_000


class MostTokensOption(StrEnum):
    K = "k"
    K_PLUS_1 = "k+1"


@dataclass(frozen=True, kw_only=True)
class AnswerOptions:
    """Where the target's answers and the tokens of their prompts come from."""

    answers: Annotated[
        Path,
        typer.Option(metavar="RUN|FILE", help="A run's folder (its baseline's answers), or a log in JSON Lines."),
    ]
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The target's tokenizer, to make a run's prompts again."),
    ] = None
    most_answers: Annotated[int, typer.Option(min=1, max=100_000, help="Answers that are read at most.")] = MOST_ANSWERS


@dataclass(frozen=True, kw_only=True)
class DraftOptions:
    """The drafts, and the engine that they are meant for."""

    draft: Annotated[
        list[str],
        typer.Option(
            metavar="NAME=URL", help="A vLLM server that serves the draft alone, on any hardware. Repeatable."
        ),
    ]
    model: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=MODEL", help="The draft's model, if its server has several. Repeatable."),
    ] = None
    k: Annotated[str, typer.Option(metavar="K,K…", help="Speculative tokens to forecast.")] = "1,2,3,4,5,7,10,15"
    most_tokens_per_step: Annotated[
        MostTokensOption,
        typer.Option(help="Of the engine: k for NxD Inference's, k+1 for vLLM's own and the native plugin."),
    ] = MostTokensOption.K_PLUS_1


def register(app: typer.Typer) -> None:
    """Add the command to `app`."""
    app.command()(flat(forecast))


def forecast(
    given: AnswerOptions,
    drafts: DraftOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON for scripts.")] = False,
) -> None:
    """Tell tokens per step of a draft for every k, from answers of the target. No accelerator, no run.

    A drafted token is accepted if it is what the target writes. So the draft reads the target's answers once, and each
    place says whether it would have written the same. That is exact for greedy decoding (temperature 0). What a lookup
    of n-grams would do comes with it: it needs no model.

    Texts go to the drafts' servers and nowhere else, and the result holds none.

    Tokens per step is also the price that may be paid: speculation pays if a step with k drafts takes less than so
    many plain steps. How long a step takes is known only from a run.

        vllm serve Qwen/Qwen3-0.6B --port 8001
        specdecode forecast --answers results/chat --draft qwen3-0.6b=http://localhost:8001
        specdecode forecast --answers log.jsonl --draft a=http://localhost:8001 --draft b=http://localhost:8002

    A log has one answer a line: {"prompt": …, "answer": …}, {"messages": […]} that ends with the assistant's, OpenAI's
    {"request": …, "response": …}, or ShareGPT's conversations; `category` names the type of a prompt.

    Exit codes: 0 done, 2 bad input, 3 a draft's server cannot be used.
    """
    import asyncio

    from specdecode.forecast.answers import BadAnswers
    from specdecode.forecast.server import BadServer

    try:
        ks = _ks(drafts.k)
        answers = _answers(given)
        found = asyncio.run(_forecast(answers, drafts, ks))
    except BadAnswers as error:
        raise stop_with(f"specdecode forecast: {error}", EXIT_USAGE) from None
    except (BadServer, ExceptionGroup) as error:
        first = error.exceptions[0] if isinstance(error, ExceptionGroup) else error
        if not isinstance(first, BadServer):
            raise
        raise stop_with(f"specdecode forecast: {first}", EXIT_ENVIRONMENT) from None
    for note in found.notes:
        complain(f"note: {note}")
    if as_json:
        say_json(found.model_dump(mode="json"))
    else:
        say(forecast_text(found), end="")


def _answers(given: AnswerOptions) -> WrittenAnswers:
    from specdecode.benchmark.tokens import token_counter
    from specdecode.cli.report_recorded import recorded
    from specdecode.forecast.answers import of_log, of_run

    if not given.answers.is_dir():
        return of_log(given.answers, most=given.most_answers)
    counter, problem = token_counter(None if given.tokenizer is None else str(given.tokenizer))
    if problem:
        raise stop_with(f"--tokenizer: {problem}", EXIT_USAGE)
    run = recorded(given.answers)
    return of_run(run.experiment, run.records, counter=counter, most=given.most_answers)


async def _forecast(answers: WrittenAnswers, drafts: DraftOptions, ks: tuple[int, ...]) -> Forecast:
    from specdecode.experiment.most_tokens import MostTokens
    from specdecode.forecast.making import forecast as make

    most = MostTokens(drafts.most_tokens_per_step)
    readers = [await _reader(name, url, drafts.model or []) for name, url in map(_named, drafts.draft)]
    return await make(answers, readers, ks=ks, most=most, progress=_progress)


async def _reader(name: str, url: str, models: list[str]) -> Reader:
    from specdecode import names
    from specdecode.benchmark.endpoint import Endpoint
    from specdecode.forecast.server import reader

    try:
        endpoint = Endpoint.of(url, api_key=names.api_key(name, os.environ))
    except ValueError as error:
        raise stop_with(f"--draft {name}: {error}", EXIT_USAGE) from None
    return await reader(name, endpoint, dict(entry.split("=", 1) for entry in models if "=" in entry).get(name))


def _named(draft: str) -> tuple[str, str]:
    name, equals, url = draft.partition("=")
    if not equals or not name or "/" in name:
        raise stop_with(f"--draft {draft}: write NAME=URL, for example qwen3-0.6b=http://localhost:8001", EXIT_USAGE)
    return name, url


def _ks(text: str) -> tuple[int, ...]:
    from specdecode.experiment.base import MOST_DRAFTED

    try:
        found = sorted({int(part) for part in text.split(",")})
    except ValueError:
        found = []
    if not found or not 1 <= found[0] <= found[-1] <= MOST_DRAFTED:
        raise stop_with(f"--k {text}: write numbers from 1 to {MOST_DRAFTED}, for example 3,5,7", EXIT_USAGE)
    return tuple(found)


def _progress(what: str, done: int, of: int) -> None:
    if is_interactive() and (done == of or done % 10 == 0):
        complain(f"{what}: {done} of {of} answers")


def forecast_text(found: Forecast) -> str:
    """A table for each draft, and what its figures mean."""
    parts = [_draft(draft) for draft in found.drafts]
    parts.append(
        "Tokens per step (95% interval over prompts). Speculation pays where a step with k drafts takes less than so\n"
        "many plain steps. What a step takes on the engine is not in this forecast: a run measures it.\n"
    )
    return "\n".join(parts)


def _draft(draft: OfDraft) -> str:
    if not draft.categories:
        return f"{line(draft.draft)}: no answer of two tokens or more\n"
    head = ("prompts", "n", *(f"k={at.k}" for at in draft.categories[0].at))
    rows = [(line(own.category), str(own.prompts), *map(_cell, own.at)) for own in draft.categories]
    kind = " (no model)" if draft.kind == "n-gram" else ""
    return f"{line(draft.draft)}{kind}\n{text_table([head, *rows], left=1)}"


def _cell(at: AtK) -> str:
    spread = "" if at.low is None or at.high is None else f" ({at.low:.2f}-{at.high:.2f})"
    return f"{at.tokens_per_step:.2f}{spread}"
