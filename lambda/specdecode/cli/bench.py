"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Container, Mapping
from enum import StrEnum
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from specdecode.cli import completion
from specdecode.cli.options import Profile, Region
from specdecode.cli.output import complain
from specdecode.experiment.model import Load
from specdecode.experiment.most_tokens import MostTokens

WHAT, HOW, COUNT, RESULTS = "What is sent", "How it is sent", "What is known of the servers", "Results"
"""Panels of --help."""
Value = TypeVar("Value")


class EndpointOption(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


class Arrivals(StrEnum):
    POISSON = "poisson"
    CONSTANT = "constant"


class AccountingOption(StrEnum):
    USAGE = "usage"
    VLLM = "vllm"
    NEURON = "neuron"
    STOCK = "stock"


def register(app: typer.Typer) -> None:
    """Add this part's commands to `app`."""
    app.command(no_args_is_help=True)(bench)


def bench(
    targets: Annotated[
        list[str],
        typer.Argument(metavar="[NAME=]URL…", help="Servers to compare, the baseline first; with or without /v1."),
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]MODEL",
            help="Served model's name, for all arms or one. Repeatable; default: the only one that a server lists.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Test case by name, or a group: structured, open, sample, all. Repeatable.",
            autocompletion=completion.cases,
            rich_help_panel=WHAT,
        ),
    ] = None,
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A prompt of your own. Repeatable.", rich_help_panel=WHAT),
    ] = None,
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Prompts of yours, a case for each category, in any form that `specdecode prompts check FILE` reads. "
            "Repeatable.",
            rich_help_panel=WHAT,
        ),
    ] = None,
    endpoint: Annotated[
        EndpointOption, typer.Option(help="Which API to call.", rich_help_panel=WHAT)
    ] = EndpointOption.CHAT,
    input_tokens: Annotated[
        int, typer.Option(help="Prompt length of line and sonnet cases.", rich_help_panel=WHAT)
    ] = 64,
    output_tokens: Annotated[int, typer.Option(help="Longest answer.", rich_help_panel=WHAT)] = 600,
    ignore_eos: Annotated[
        bool, typer.Option(help="Ask for answers of exactly that length.", rich_help_panel=WHAT)
    ] = False,
    temperature: Annotated[
        float, typer.Option(help="Sampling temperature; 0 compares fairly.", rich_help_panel=WHAT)
    ] = 0.0,
    seed: Annotated[int, typer.Option(help="Of prompts, arrivals and sampling.", rich_help_panel=WHAT)] = 11111,
    requests: Annotated[int, typer.Option(help="Measured requests a case and arm.", rich_help_panel=HOW)] = 16,
    concurrency: Annotated[
        str,
        typer.Option(
            metavar="N[,N…]",
            help="Closed loop: requests under way at any time; several, as `1,2,4,8`, give a curve.",
            rich_help_panel=HOW,
        ),
    ] = "1",
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="R[,R…]",
            help="Open loop: requests a second, whatever the server does; several give a curve.",
            rich_help_panel=HOW,
        ),
    ] = None,
    arrivals: Annotated[
        Arrivals, typer.Option(help="Open loop: spacing of the requests.", rich_help_panel=HOW)
    ] = Arrivals.POISSON,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of load a case and arm, instead of --requests.", rich_help_panel=HOW)
    ] = None,
    ramp: Annotated[
        float, typer.Option(help="Seconds until the full concurrency or rate is reached.", rich_help_panel=HOW)
    ] = 0,
    warmup: Annotated[int, typer.Option(help="Requests before, which are not measured.", rich_help_panel=HOW)] = 1,
    load: Annotated[
        Load, typer.Option(help="Order in which several arms are loaded.", rich_help_panel=HOW)
    ] = Load.INTERLEAVED,
    timeout: Annotated[float, typer.Option(help="Seconds until a request has failed.", rich_help_panel=HOW)] = 1200,
    price_per_hour: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]USD",
            help="What the servers, or one, cost an hour: gives dollars per million output tokens. Repeatable.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    speculative_tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=K",
            help="An arm's k, where its /metrics does not tell it: to estimate acceptance. Repeatable.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    most_tokens_per_step: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=k|k+1",
            help="What an arm's engine yields in a step at most: k with NxD Inference (vLLM on Neuron up to 0.16), k+1 "
            "with others (taken where this is not said). Repeatable.",
            rich_help_panel=COUNT,
        ),
    ] = None,
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Model folder or tokenizer.json, for prompts of exact length.", rich_help_panel=COUNT),
    ] = None,
    accounting: Annotated[
        AccountingOption,
        typer.Option(
            help="Formula of the inter-token latency in LLMPerf's files and CloudWatch.", rich_help_panel=COUNT
        ),
    ] = AccountingOption.USAGE,
    slo_ttft_ms: Annotated[
        float | None, typer.Option(help="Goodput: largest time to first token.", rich_help_panel=RESULTS)
    ] = None,
    slo_tpot_ms: Annotated[
        float | None, typer.Option(help="Goodput: largest time per output token.", rich_help_panel=RESULTS)
    ] = None,
    slo_e2e_s: Annotated[
        float | None, typer.Option(help="Goodput: largest end-to-end latency.", rich_help_panel=RESULTS)
    ] = None,
    slo_share: Annotated[
        float, typer.Option(help="Goodput: share of the requests that must be good.", rich_help_panel=RESULTS)
    ] = 0.95,
    max_error_rate: Annotated[
        float, typer.Option(help="Share of failed requests that is still success.", rich_help_panel=RESULTS)
    ] = 0.1,
    out: Annotated[
        Path | None, typer.Option(help="Folder for the results; default: results/<run id>.", rich_help_panel=RESULTS)
    ] = None,
    resume: Annotated[
        bool,
        typer.Option(help="Go on with the benchmark in --out: the same command again.", rich_help_panel=RESULTS),
    ] = False,
    upload: Annotated[
        str | None, typer.Option(metavar="S3_URI", help="Upload results as they come.", rich_help_panel=RESULTS)
    ] = None,
    publish: Annotated[bool, typer.Option(help="Publish the metrics to CloudWatch.", rich_help_panel=RESULTS)] = False,
    region: Region = None,
    profile: Profile = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.", rich_help_panel=RESULTS)] = False,
) -> None:
    """Load one or several servers that already run with the same requests, and compare them.

    Tokens are the server's own count, times are those of the bytes' arrival. The results folder has
    the raw records, the report, which `specdecode report FOLDER` shows again, and LLMPerf's two files.
    Ctrl-C keeps what was measured.

    Keys are never arguments: OPENAI_API_KEY goes to every server, OPENAI_API_KEY_SD to arm `sd` only.

        specdecode bench http://localhost:8000 --case structured --requests 32
        specdecode bench base=https://a.example sd=https://b.example --case count

    Exit codes: 0 all measured, 1 a server or too many requests failed, 2 bad input.
    """
    from specdecode import aws
    from specdecode.benchmark.adhoc import BadRequest, adhoc_spec, cases_of, endpoints_of
    from specdecode.benchmark.launch import EXIT_BAD_INPUT, launch
    from specdecode.benchmark.outcome import Options
    from specdecode.benchmark.results import BadResults, claim_folder, release_folder
    from specdecode.benchmark.s3 import S3Folder
    from specdecode.cli.bench_results import WantedResults, deliver

    try:
        endpoints = endpoints_of(targets, environ=os.environ)
        models = _of_arms("--model", model or [], endpoints, str, what="a model's name")
        prices = _of_arms("--price-per-hour", price_per_hour or [], endpoints, float, what="a number of dollars")
        drafted = _of_arms("--speculative-tokens", speculative_tokens or [], endpoints, int, what="a number of tokens")
        most = _of_arms("--most-tokens-per-step", most_tokens_per_step or [], endpoints, MostTokens, what="k or k+1")
        if upload is not None:
            S3Folder(upload)
        if upload is not None or publish:
            aws.choose(region=region, profile=profile)
        spec = adhoc_spec(
            run_id=time.strftime("bench-%Y%m%d-%H%M%S", time.gmtime()),
            arms={
                name: {
                    "model": models.get(name),
                    "price_per_hour": prices.get(name, prices.get(None)),
                    "num_speculative_tokens": drafted.get(name),
                    "most_tokens_per_step": most.get(name, most.get(None)),
                }
                for name in endpoints
            },
            model=models.get(None),
            workload={
                "cases": cases_of(named=case or [], prompts=prompt or [], files=prompts or []),
                "requests": requests,
                "concurrency": concurrency.split(","),
                "rate": rate.split(",") if rate is not None else None,
                "warmup_requests": warmup,
                "load": load,
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "ignore_eos": ignore_eos,
                "temperature": temperature,
                "endpoint": endpoint.value,
                "timeout_s": timeout,
                "seed": seed,
                "slo": {"ttft_s": _ms(slo_ttft_ms), "tpot_s": _ms(slo_tpot_ms), "e2e_s": slo_e2e_s, "share": slo_share},
            },
            tokenizer=tokenizer,
            accounting=accounting.value,
        )
        spec = claim_folder(out or Path("results") / spec.run_id, spec, resume=resume)
        options = Options(
            folder=out or Path("results") / spec.run_id,
            upload=upload,
            duration_s=duration,
            arrivals=arrivals.value,
            ramp_s=ramp,
        )
    except (BadRequest, BadResults, ValueError) as error:
        complain(f"specdecode bench: {error}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    code, outcome = launch(spec, endpoints, options, max_error_rate=max_error_rate)
    if outcome is None:
        if not release_folder(options.folder):
            complain(f"`specdecode report {options.folder}` compares it; the same command with --resume goes on")
        raise typer.Exit(code)
    deliver(spec, options.folder, WantedResults(upload=upload, publish=publish, as_json=as_json))
    complain(f"results: {options.folder}")
    raise typer.Exit(code)


def _ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _of_arms(
    option: str, given: list[str], arms: Container[str], read: Callable[[str], Value], *, what: str
) -> Mapping[str | None, Value]:
    """`VALUE` (under None: of all arms) and `NAME=VALUE` of an option. ValueError names every one that is neither."""
    found: dict[str | None, Value] = {}
    wrong = []
    for entry in given:
        name, equals, rest = entry.partition("=")
        arm, text = (name, rest) if equals and name in arms else (None, entry)
        try:
            found[arm] = read(text)
        except ValueError:
            wrong.append(f"{option} {entry}: write {what}, or the name of an arm, = and {what}")
    if wrong:
        raise ValueError("; ".join(wrong))
    return found
