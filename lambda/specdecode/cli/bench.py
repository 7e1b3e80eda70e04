"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, TypeVar

import typer

from specdecode.cli.options import Profile, Region, cases
from specdecode.cli.output import complain, say_json, stop_with
from specdecode.untrusted import quoted

LONGEST_S = 604_800
"""A week of load, or of rising to it."""

if TYPE_CHECKING:
    from specdecode.benchmark.endpoint import Endpoint
    from specdecode.experiment.benchmark_spec import BenchmarkSpec
    from specdecode.experiment.workload import TestCase

LoadOption = Literal["interleaved", "sequential", "simultaneous"]
AccountingOption = Literal["usage", "vllm", "neuron", "stock"]
Targets = Annotated[
    list[str],
    typer.Argument(metavar="[NAME=]URL…", help="Servers to compare, the baseline first; with or without /v1."),
]


@dataclass(frozen=True, kw_only=True)
class SentOptions:
    """The prompts, the answers and the API."""

    PANEL: ClassVar = "What is sent"

    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]MODEL", help="Name of the served model. Default: the only one that the server lists."
        ),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME", help="Test case or group: structured, open, sample, all. Repeatable.", autocompletion=cases
        ),
    ] = None
    prompt: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="A prompt of your own. Repeatable.")] = None
    prompts: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Your own prompts, as `specdecode prompts check` reads them. Repeatable."),
    ] = None
    endpoint: Annotated[Literal["chat", "completions"], typer.Option(help="Which API to call.")] = "chat"
    input_tokens: Annotated[int, typer.Option(help="Prompt length of the cases line and sonnet, in tokens.")] = 64
    output_tokens: Annotated[
        int, typer.Option(help="Longest answer, in tokens. Longer answers measure decoding better, and take longer.")
    ] = 160
    ignore_eos: Annotated[bool, typer.Option(help="Ask for answers of exactly that many tokens.")] = False
    temperature: Annotated[float, typer.Option(help="Sampling temperature. 0 makes a fair comparison.")] = 0.0
    seed: Annotated[int, typer.Option(help="Seed of prompts, arrivals and sampling.")] = 11111


@dataclass(frozen=True, kw_only=True)
class SendingOptions:
    """The load: how many requests, how close together."""

    PANEL: ClassVar = "How it is sent"

    requests: Annotated[
        int, typer.Option(help="Measured requests for each case and arm. More make intervals narrower.")
    ] = 5
    concurrency: Annotated[
        str, typer.Option(metavar="N[,N…]", help="Closed loop: requests in flight. Several numbers give a curve.")
    ] = "1"
    rate: Annotated[
        str | None, typer.Option(metavar="R[,R…]", help="Open loop: requests a second. Several numbers give a curve.")
    ] = None
    arrivals: Annotated[Literal["poisson", "constant"], typer.Option(help="Open loop: their spacing.")] = "poisson"
    duration: Annotated[
        float | None, typer.Option(help="Seconds of load for each case and arm, instead of --requests.")
    ] = None
    ramp: Annotated[float, typer.Option(help="Seconds until the full concurrency or rate is reached.")] = 0
    warmup: Annotated[int, typer.Option(help="Requests that are sent first and not measured.")] = 1
    load: Annotated[LoadOption, typer.Option(help="Order in which several arms are loaded.")] = "interleaved"
    timeout: Annotated[float, typer.Option(help="Seconds after which a request counts as failed.")] = 1200


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Facts that the servers themselves may not tell."""

    PANEL: ClassVar = "What is known of the servers"

    price_per_hour: Annotated[
        list[str] | None, typer.Option(metavar="[NAME=]USD", help="Dollars that a server costs an hour. Repeatable.")
    ] = None
    speculative_tokens: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=K", help="An arm's k, if its /metrics does not tell it. Repeatable."),
    ] = None
    most_tokens_per_step: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=k|k+1", help="Most tokens of a step: k with NxD Inference, else k+1. Repeatable."),
    ] = None
    tokenizer: Annotated[
        str | None, typer.Option(help="Model folder or tokenizer.json, for prompts of exact length.")
    ] = None
    accounting: Annotated[
        AccountingOption, typer.Option(help="Formula of the inter-token latency in LLMPerf's files.")
    ] = "usage"


@dataclass(frozen=True, kw_only=True)
class ResultOptions:
    """Where the figures go, and what counts as success."""

    PANEL: ClassVar = "Results"

    slo_ttft_ms: Annotated[float | None, typer.Option(help="Goodput: largest time to first token.")] = None
    slo_tpot_ms: Annotated[float | None, typer.Option(help="Goodput: largest time per output token.")] = None
    slo_e2e_s: Annotated[float | None, typer.Option(help="Goodput: largest end-to-end latency.")] = None
    slo_share: Annotated[float, typer.Option(help="Goodput: share of the requests that must be good.")] = 0.95
    max_error_rate: Annotated[
        float, typer.Option(help="Largest share of failed requests with which the benchmark still succeeds.")
    ] = 0.1
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: results/<run id>.")] = None
    resume: Annotated[bool, typer.Option(help="Go on with the benchmark in --out. Give the same command again.")] = (
        False
    )
    upload: Annotated[
        str | None, typer.Option(metavar="S3_URI", help="Upload the results to this place while they are written.")
    ] = None
    publish: Annotated[bool, typer.Option(help="Publish the metrics to CloudWatch.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False


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
    Ctrl-C keeps what was measured. It says before it starts about how long it takes; at the defaults,
    all thirteen cases on two servers of 10 ms a token take less than five minutes.

    Keys are never arguments: OPENAI_API_KEY goes to every server, OPENAI_API_KEY_SD to arm `sd` only.

        specdecode bench http://localhost:8000 --case structured --requests 32
        specdecode bench base=https://a.example sd=https://b.example --case count

    Exit codes: 0 all measured, 1 a server or too many requests failed, 2 bad input.
    """
    from specdecode import aws
    from specdecode.benchmark.adhoc import adhoc_spec, cases_of, endpoints_of
    from specdecode.benchmark.loading import Options
    from specdecode.benchmark.place import S3Folder
    from specdecode.benchmark.results import claim_folder, release_folder
    from specdecode.benchmark.runner import EXIT_BAD_INPUT, launch
    from specdecode.benchmark.tokens import token_counter
    from specdecode.cli.report_recorded import deliver
    from specdecode.cli.runs_view import new_run_id
    from specdecode.cli.written_files import naming, only_writer

    problems: list[str] = []
    if wrong := token_counter(known.tokenizer)[1]:
        problems.append(f"--tokenizer: {wrong}")

    @contextmanager
    def told() -> Iterator[None]:
        try:
            yield
        except ValueError as error:
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
    problems += [
        f"{option} {value:g}: a number from {low:g} to {high:,g} is needed"
        for option, value, low, high in (
            ("--duration", sending.duration, 0.01, LONGEST_S),
            ("--ramp", sending.ramp, 0, LONGEST_S),
            ("--max-error-rate", results.max_error_rate, 0, 1),
        )
        if value is not None and not low <= value <= high
    ]
    if results.resume and results.out is None:
        problems.append("--resume goes on with the benchmark in --out: give that folder, results/bench-…")
    if results.resume and sending.duration is not None:
        problems.append("--resume sends the requests that are left, and --duration has none: choose another --out")
    with told():
        if results.upload is not None:
            S3Folder(results.upload)
        if results.upload is not None or results.publish:
            aws.choose(region=region, profile=profile)
    folder = results.out or Path("results") / (spec.run_id if spec else "")
    if spec and not problems:
        spec = spec.model_copy(update={"duration_s": sending.duration})
        problems += _idle(spec, sending)
    with told(), naming(folder):
        if spec and not problems:
            spec = claim_folder(folder, spec, resume=results.resume)
    if problems or spec is None:
        each = dict.fromkeys("\n".join(problems).splitlines())  # what is wrong for all arms is told once
        raise stop_with("\n".join(each), EXIT_BAD_INPUT)
    places = Options(
        folder=folder, upload=results.upload, arrivals=sending.arrivals, ramp_s=sending.ramp, same_urls=True
    )
    with only_writer(folder):
        code, outcome = launch(spec, endpoints, places, max_error_rate=results.max_error_rate)
    if isinstance(outcome, str):
        if not release_folder(folder):
            again = "" if results.resume else f" with --resume{'' if results.out else f' --out {quote(str(folder))}'}"
            goes_on = f"; the same command{again} goes on" if spec.duration_s is None else ""
            complain(f"`specdecode report {quote(str(folder))}` compares it{goes_on}")
        if results.as_json:
            say_json({"error": outcome, "exit_code": code})
        raise typer.Exit(code)
    deliver(spec, folder, as_json=results.as_json, publish=results.publish, upload=results.upload)
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


def _idle(spec: BenchmarkSpec, sending: SendingOptions) -> Iterator[str]:
    """Each rate whose first request falls due after the end of the load."""
    from specdecode.benchmark.load import LoadPlan, arrival_times

    for level in spec.workload.levels:
        if level.rate is not None and spec.duration_s is not None:
            load = LoadPlan(
                requests=None,
                rate=level.rate,
                arrivals=sending.arrivals,
                ramp_s=sending.ramp,
                seed=spec.workload.seed,
            )
            if (first := next(arrival_times(load))) >= spec.duration_s:
                yield (
                    f"no request falls due in {spec.duration_s:g} s at {level}, the first one after {first:.3g} s: "
                    "raise --duration or --rate"
                )


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
        if arm in found:
            problems.append(f"{option} {quoted(entry)}: given twice for {arm or 'all arms'}, and only one value counts")
        try:
            if not text.strip():
                raise ValueError("nothing is said")
            found[arm] = read(text)
        except ValueError:
            problems.append(f"{option} {quoted(entry)}: write {what}, or ARM={what} for one arm")
    return found
