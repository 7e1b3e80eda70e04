"""The options of `specdecode bench`, in the order of its --help. Each class is a panel there."""

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, ClassVar

import typer

from specdecode.cli.options import cases


class EndpointOption(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


class Arrivals(StrEnum):
    POISSON = "poisson"
    CONSTANT = "constant"


class LoadOption(StrEnum):
    INTERLEAVED = "interleaved"
    SEQUENTIAL = "sequential"
    SIMULTANEOUS = "simultaneous"


class AccountingOption(StrEnum):
    USAGE = "usage"
    VLLM = "vllm"
    NEURON = "neuron"
    STOCK = "stock"


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
            metavar="[NAME=]MODEL",
            help="Name of the served model, for all arms or for one. Repeatable. Default: the only model that "
            "the server lists.",
        ),
    ] = None
    case: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="Test case by name, or a group: structured, open, sample, all. Repeatable.",
            autocompletion=cases,
        ),
    ] = None
    prompt: Annotated[
        list[str] | None,
        typer.Option(metavar="TEXT", help="A prompt of your own. Repeatable."),
    ] = None
    prompts: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="FILE",
            help="Your own prompts, a case for each category, in any form that `specdecode prompts check FILE` reads. "
            "Repeatable.",
        ),
    ] = None
    endpoint: Annotated[EndpointOption, typer.Option(help="Which API to call.")] = EndpointOption.CHAT
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
        str,
        typer.Option(
            metavar="N[,N…]",
            help="Closed loop: requests in flight at any time. Several numbers, as `1,2,4,8`, give a curve.",
        ),
    ] = "1"
    rate: Annotated[
        str | None,
        typer.Option(
            metavar="R[,R…]",
            help="Open loop: requests a second, whatever the server does. Several numbers give a curve.",
        ),
    ] = None
    arrivals: Annotated[Arrivals, typer.Option(help="Open loop: spacing of the requests.")] = Arrivals.POISSON
    duration: Annotated[
        float | None, typer.Option(help="Seconds of load for each case and arm, instead of --requests.")
    ] = None
    ramp: Annotated[float, typer.Option(help="Seconds until the full concurrency or rate is reached.")] = 0
    warmup: Annotated[int, typer.Option(help="Requests that are sent first and not measured.")] = 1
    load: Annotated[LoadOption, typer.Option(help="Order in which several arms are loaded.")] = LoadOption.INTERLEAVED
    timeout: Annotated[float, typer.Option(help="Seconds after which a request counts as failed.")] = 1200


@dataclass(frozen=True, kw_only=True)
class ServerOptions:
    """Facts that the servers themselves may not tell."""

    PANEL: ClassVar = "What is known of the servers"

    price_per_hour: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[NAME=]USD",
            help="Dollars that each server (or the one named) costs an hour. It gives dollars per million output "
            "tokens. Repeatable.",
        ),
    ] = None
    speculative_tokens: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=K",
            help="An arm's k, if its /metrics does not tell it. It is used to estimate acceptance. Repeatable.",
        ),
    ] = None
    most_tokens_per_step: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=k|k+1",
            help="Most tokens that an arm's engine yields in a step: k with NxD Inference (vLLM on Neuron up to "
            "0.16), k+1 "
            "with other engines (the default). Repeatable.",
        ),
    ] = None
    tokenizer: Annotated[
        str | None,
        typer.Option(help="Model folder or tokenizer.json, to make prompts of exact length."),
    ] = None
    accounting: Annotated[
        AccountingOption,
        typer.Option(help="Formula of the inter-token latency in LLMPerf's files and CloudWatch."),
    ] = AccountingOption.USAGE


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
    resume: Annotated[
        bool,
        typer.Option(help="Go on with the benchmark in --out. Give the same command again."),
    ] = False
    upload: Annotated[
        str | None, typer.Option(metavar="S3_URI", help="Upload the results to this place while they are written.")
    ] = None
    publish: Annotated[bool, typer.Option(help="Publish the metrics to CloudWatch.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print report.json.")] = False
