"""The options of `specdecode bench`, in the order of its --help."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from specdecode.cli import completion
from specdecode.experiment.model import Load

WHAT, HOW, COUNT, RESULTS = "What is sent", "How it is sent", "What is known of the servers", "Results"
"""Panels of --help."""


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


Targets = Annotated[
    list[str],
    typer.Argument(metavar="[NAME=]URL…", help="Servers to compare, the baseline first; with or without /v1."),
]
Models = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]MODEL",
        help="Served model's name, for all arms or one. Repeatable; default: the only one that a server lists.",
        rich_help_panel=WHAT,
    ),
]
Cases = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME",
        help="Test case by name, or a group: structured, open, sample, all. Repeatable.",
        autocompletion=completion.cases,
        rich_help_panel=WHAT,
    ),
]
OwnPrompts = Annotated[
    list[str] | None,
    typer.Option(metavar="TEXT", help="A prompt of your own. Repeatable.", rich_help_panel=WHAT),
]
PromptFiles = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="FILE",
        help="Prompts of yours, a case for each category, in any form that `specdecode prompts check FILE` reads. "
        "Repeatable.",
        rich_help_panel=WHAT,
    ),
]
Api = Annotated[EndpointOption, typer.Option(help="Which API to call.", rich_help_panel=WHAT)]
InputTokens = Annotated[int, typer.Option(help="Prompt length of line and sonnet cases.", rich_help_panel=WHAT)]
OutputTokens = Annotated[int, typer.Option(help="Longest answer.", rich_help_panel=WHAT)]
IgnoreEos = Annotated[bool, typer.Option(help="Ask for answers of exactly that length.", rich_help_panel=WHAT)]
Temperature = Annotated[float, typer.Option(help="Sampling temperature; 0 compares fairly.", rich_help_panel=WHAT)]
Seed = Annotated[int, typer.Option(help="Of prompts, arrivals and sampling.", rich_help_panel=WHAT)]
Requests = Annotated[int, typer.Option(help="Measured requests a case and arm.", rich_help_panel=HOW)]
Concurrency = Annotated[
    str,
    typer.Option(
        metavar="N[,N…]",
        help="Closed loop: requests under way at any time; several, as `1,2,4,8`, give a curve.",
        rich_help_panel=HOW,
    ),
]
Rate = Annotated[
    str | None,
    typer.Option(
        metavar="R[,R…]",
        help="Open loop: requests a second, whatever the server does; several give a curve.",
        rich_help_panel=HOW,
    ),
]
Spacing = Annotated[Arrivals, typer.Option(help="Open loop: spacing of the requests.", rich_help_panel=HOW)]
Duration = Annotated[
    float | None, typer.Option(help="Seconds of load a case and arm, instead of --requests.", rich_help_panel=HOW)
]
Ramp = Annotated[
    float, typer.Option(help="Seconds until the full concurrency or rate is reached.", rich_help_panel=HOW)
]
Warmup = Annotated[int, typer.Option(help="Requests before, which are not measured.", rich_help_panel=HOW)]
LoadOrder = Annotated[Load, typer.Option(help="Order in which several arms are loaded.", rich_help_panel=HOW)]
Timeout = Annotated[float, typer.Option(help="Seconds until a request has failed.", rich_help_panel=HOW)]
PricePerHour = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME=]USD",
        help="What the servers, or one, cost an hour: gives dollars per million output tokens. Repeatable.",
        rich_help_panel=COUNT,
    ),
]
SpeculativeTokens = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=K",
        help="An arm's k, where its /metrics does not tell it: to estimate acceptance. Repeatable.",
        rich_help_panel=COUNT,
    ),
]
MostTokensPerStep = Annotated[
    list[str] | None,
    typer.Option(
        metavar="NAME=k|k+1",
        help="What an arm's engine yields in a step at most: k with NxD Inference (vLLM on Neuron up to 0.16), k+1 "
        "with others (taken where this is not said). Repeatable.",
        rich_help_panel=COUNT,
    ),
]
Tokenizer = Annotated[
    str | None,
    typer.Option(help="Model folder or tokenizer.json, for prompts of exact length.", rich_help_panel=COUNT),
]
Accounting = Annotated[
    AccountingOption,
    typer.Option(help="Formula of the inter-token latency in LLMPerf's files and CloudWatch.", rich_help_panel=COUNT),
]
SloTtftMs = Annotated[float | None, typer.Option(help="Goodput: largest time to first token.", rich_help_panel=RESULTS)]
SloTpotMs = Annotated[
    float | None, typer.Option(help="Goodput: largest time per output token.", rich_help_panel=RESULTS)
]
SloE2eS = Annotated[float | None, typer.Option(help="Goodput: largest end-to-end latency.", rich_help_panel=RESULTS)]
SloShare = Annotated[
    float, typer.Option(help="Goodput: share of the requests that must be good.", rich_help_panel=RESULTS)
]
MaxErrorRate = Annotated[
    float, typer.Option(help="Share of failed requests that is still success.", rich_help_panel=RESULTS)
]
Out = Annotated[
    Path | None, typer.Option(help="Folder for the results; default: results/<run id>.", rich_help_panel=RESULTS)
]
Resume = Annotated[
    bool,
    typer.Option(help="Go on with the benchmark in --out: the same command again.", rich_help_panel=RESULTS),
]
Upload = Annotated[
    str | None, typer.Option(metavar="S3_URI", help="Upload results as they come.", rich_help_panel=RESULTS)
]
Publish = Annotated[bool, typer.Option(help="Publish the metrics to CloudWatch.", rich_help_panel=RESULTS)]
AsJson = Annotated[bool, typer.Option("--json", help="Print report.json.", rich_help_panel=RESULTS)]
