"""The options of `specdecode bench`, in the order of its --help. Each class is a panel there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import typer

from specdecode.cli.options import cases

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
