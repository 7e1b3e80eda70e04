"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from specdecode.cli.bench_options import ResultOptions, SendingOptions, SentOptions, ServerOptions, Targets
from specdecode.cli.options import Profile, Region
from specdecode.cli.output import complain, say_json, stop_with

if TYPE_CHECKING:
    from specdecode.benchmark.endpoint import Endpoint
    from specdecode.experiment.workload import TestCase


def bench(
    targets: Targets,
    sent: SentOptions,
    sending: SendingOptions,
    known: ServerOptions,
    results: ResultOptions,
    region: Region = None,
    profile: Profile = None,
) -> None:
    """Load one or several servers that already run with the same requests, and compare them.

    Tokens are the server's own count, times are those of the bytes' arrival. The results folder has
    the raw records, the report, which `specdecode report FOLDER` shows again, and LLMPerf's two files.
    Ctrl-C keeps what was measured. It says how long it takes at most before it starts; at the defaults,
    all thirteen cases on two servers of 10 ms a token take less than five minutes.

    Keys are never arguments: OPENAI_API_KEY goes to every server, OPENAI_API_KEY_SD to arm `sd` only.

        specdecode bench http://localhost:8000 --case structured --requests 32
        specdecode bench base=https://a.example sd=https://b.example --case count

    Exit codes: 0 all measured, 1 a server or too many requests failed, 2 bad input.
    """
    from specdecode import aws
    from specdecode.benchmark.adhoc import BadRequest, adhoc_spec, cases_of, endpoints_of
    from specdecode.benchmark.loading import Options
    from specdecode.benchmark.place import S3Folder
    from specdecode.benchmark.results import BadResults, claim_folder, release_folder
    from specdecode.benchmark.runner import EXIT_BAD_INPUT, launch
    from specdecode.cli.report_recorded import deliver
    from specdecode.cli.runs_view import new_run_id

    problems: list[str] = []

    @contextmanager
    def told() -> Iterator[None]:
        try:
            yield
        except (BadRequest, BadResults, ValueError) as error:
            problems.append(str(error))

    endpoints: dict[str, Endpoint] = {}
    with told():
        endpoints = endpoints_of(targets, environ=os.environ)
    names = endpoints or dict.fromkeys(
        given[0] if given[1:] and "/" not in given[0] else "base" for given in (t.split("=") for t in targets)
    )
    model, arms = _known(names, sent, known, problems)
    cases: Sequence[TestCase] = ()
    with told():
        cases = cases_of(named=sent.case or [], prompts=sent.prompt or [], files=sent.prompts or [])
    spec = None
    with told():
        spec = adhoc_spec(
            run_id=new_run_id("bench"),
            arms=arms,
            model=model,
            workload=_workload(cases or cases_of(named=[], prompts=[], files=[]), sent, sending, results),
            tokenizer=known.tokenizer,
            accounting=known.accounting,
        )
    if results.resume and results.out is None:
        problems.append("--resume goes on with the benchmark in --out: give that folder, results/bench-…")
    with told():
        if results.upload is not None:
            S3Folder(results.upload)
        if results.upload is not None or results.publish:
            aws.choose(region=region, profile=profile)
    folder = results.out or Path("results") / (spec.run_id if spec else "")
    with told():
        if spec and not problems:
            spec = claim_folder(folder, spec, resume=results.resume)
    if problems or spec is None:
        raise stop_with("\n".join(problems), EXIT_BAD_INPUT)
    places = Options(
        folder=folder,
        upload=results.upload,
        duration_s=sending.duration,
        arrivals=sending.arrivals,
        ramp_s=sending.ramp,
    )
    code, outcome = launch(spec, endpoints, places, max_error_rate=results.max_error_rate)
    if isinstance(outcome, str):
        if not release_folder(folder):
            again = "" if results.resume else f" with --resume{'' if results.out else f' --out {quote(str(folder))}'}"
            complain(f"`specdecode report {quote(str(folder))}` compares it; the same command{again} goes on")
        if results.as_json:
            say_json({"error": outcome, "exit_code": code})
        raise typer.Exit(code)
    deliver(spec, folder, results)
    complain(f"results: {folder}")
    raise typer.Exit(code)


def _known(
    names: Collection[str], sent: SentOptions, known: ServerOptions, problems: list[str]
) -> tuple[str | None, dict[str, dict[str, Any]]]:
    """What the user said about the servers: the model of all, and the fields of each arm of the specification."""
    from specdecode.experiment.most_tokens import MostTokens

    read = partial(of_arms, arms=names, problems=problems)
    models = read("--model", sent.model, str, what="NAME")
    prices = read("--price-per-hour", known.price_per_hour, float, what="DOLLARS")
    drafted = read("--speculative-tokens", known.speculative_tokens, int, what="TOKENS")
    most = read("--most-tokens-per-step", known.most_tokens_per_step, MostTokens, what="k or k+1")
    return models.get(None), {
        name: {
            "model": models.get(name),
            "price_per_hour": prices.get(name, prices.get(None)),
            "num_speculative_tokens": drafted.get(name),
            "most_tokens_per_step": most.get(name, most.get(None)),
        }
        for name in names
    }


def _workload(
    cases: Sequence[TestCase], sent: SentOptions, sending: SendingOptions, results: ResultOptions
) -> dict[str, Any]:
    """The fields of the experiment's `workload`."""
    return {
        "cases": cases,
        "requests": sending.requests,
        "concurrency": sending.concurrency.split(","),
        "rate": sending.rate.split(",") if sending.rate is not None else None,
        "warmup_requests": sending.warmup,
        "load": sending.load,
        "input_tokens": sent.input_tokens,
        "output_tokens": sent.output_tokens,
        "ignore_eos": sent.ignore_eos,
        "temperature": sent.temperature,
        "endpoint": sent.endpoint,
        "timeout_s": sending.timeout,
        "seed": sent.seed,
        "slo": {
            "ttft_s": results.slo_ttft_ms and results.slo_ttft_ms / 1000,
            "tpot_s": results.slo_tpot_ms and results.slo_tpot_ms / 1000,
            "e2e_s": results.slo_e2e_s,
            "share": results.slo_share,
        },
    }


Value = TypeVar("Value")


def of_arms(
    option: str,
    given: list[str] | None,
    read: Callable[[str], Value],
    *,
    arms: Container[str],
    what: str,
    problems: list[str],
) -> Mapping[str | None, Value]:
    """An option's values: `VALUE` (key None: for all arms) or `NAME=VALUE`. What is neither goes to `problems`."""
    found: dict[str | None, Value] = {}
    for entry in given or ():
        name, equals, rest = entry.partition("=")
        arm, text = (name, rest) if equals and name in arms else (None, entry)
        try:
            found[arm] = read(text)
        except ValueError:
            problems.append(f"{option} {entry}: write {what}, or ARM={what} for one arm")
    return found
