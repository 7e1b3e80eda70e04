"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
import time
from collections.abc import Container
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from specdecode.cli.output import complain, say, say_json
from specdecode.experiment.model import Load


class Endpoint(StrEnum):
    CHAT = "chat"
    COMPLETIONS = "completions"


class Arrivals(StrEnum):
    POISSON = "poisson"
    CONSTANT = "constant"


class Accounting(StrEnum):
    USAGE = "usage"
    NEURON = "neuron"
    STOCK = "stock"


def register(app: typer.Typer) -> None:
    """Add this part's commands to `app`."""
    app.command(no_args_is_help=True)(bench)


def bench(
    targets: Annotated[list[str], typer.Argument(metavar="[NAME=]URL…", help="Servers to compare, base first.")],
    model: Annotated[str | None, typer.Option(help="Served model's name; default: the only one served.")] = None,
    case: Annotated[
        list[str] | None,
        typer.Option(help="Test case by name, or a group: structured, open, sample, all. Repeatable."),
    ] = None,
    prompt: Annotated[list[str] | None, typer.Option(help="A prompt of your own. Repeatable.")] = None,
    prompts: Annotated[list[Path] | None, typer.Option(help="JSON Lines with `prompt` or `messages`.")] = None,
    requests: Annotated[int, typer.Option(help="Measured requests a case and arm.")] = 16,
    concurrency: Annotated[int, typer.Option(help="Closed loop: requests under way at any time.")] = 1,
    rate: Annotated[float | None, typer.Option(help="Open loop: requests a second, whatever the server does.")] = None,
    arrivals: Annotated[Arrivals, typer.Option(help="Open loop: spacing of the requests.")] = Arrivals.POISSON,
    duration: Annotated[
        float | None, typer.Option(help="Seconds of load a case and arm, instead of --requests.")
    ] = None,
    ramp: Annotated[float, typer.Option(help="Seconds until the full concurrency or rate is reached.")] = 0,
    warmup: Annotated[int, typer.Option(help="Requests before, which are not measured.")] = 1,
    load: Annotated[Load, typer.Option(help="Order in which several arms are loaded.")] = Load.INTERLEAVED,
    input_tokens: Annotated[int, typer.Option(help="Prompt length of line and sonnet cases.")] = 64,
    output_tokens: Annotated[int, typer.Option(help="Longest answer.")] = 600,
    ignore_eos: Annotated[bool, typer.Option(help="Ask for answers of exactly that length.")] = False,
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 compares fairly.")] = 0.0,
    endpoint: Annotated[Endpoint, typer.Option(help="Which API to call.")] = Endpoint.CHAT,
    timeout: Annotated[float, typer.Option(help="Seconds until a request has failed.")] = 1200,
    seed: Annotated[int, typer.Option(help="Of prompts, arrivals and sampling.")] = 11111,
    tokenizer: Annotated[str | None, typer.Option(help="Model folder or tokenizer.json, for exact lengths.")] = None,
    accounting: Annotated[
        Accounting, typer.Option(help="usage: the server's counts; neuron, stock: LLMPerf's figures.")
    ] = Accounting.USAGE,
    slo_ttft_ms: Annotated[float | None, typer.Option(help="Goodput: largest time to first token.")] = None,
    slo_tpot_ms: Annotated[float | None, typer.Option(help="Goodput: largest time per output token.")] = None,
    slo_e2e_s: Annotated[float | None, typer.Option(help="Goodput: largest end-to-end latency.")] = None,
    speculative_tokens: Annotated[
        list[str] | None, typer.Option(metavar="NAME=K", help="An arm's k, to estimate acceptance without counters.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; default: results/<run id>.")] = None,
    resume: Annotated[bool, typer.Option(help="Go on with the benchmark in --out.")] = False,
    upload: Annotated[str | None, typer.Option(metavar="S3_URI", help="Upload results as they come.")] = None,
    publish: Annotated[bool, typer.Option(help="Publish the metrics to CloudWatch.")] = False,
    max_error_rate: Annotated[float, typer.Option(help="Share of failed requests that is still success.")] = 0.1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Load one or several servers with the same requests and compare them.

        specdecode bench http://localhost:8000 --case structured --concurrency 4 --requests 32

        specdecode bench base=http://host-a:8000 sd=http://host-b:8000 --case repeat-line --case meaning-of-life

    Tokens are the server's own count, times are those of the bytes' arrival. Raw records, a summary and LLMPerf's two
    files are in the results folder. The key of a protected server is taken from OPENAI_API_KEY_BASE,
    OPENAI_API_KEY_SD and so on, or from OPENAI_API_KEY for all. Exit codes: 0 all measured, 1 a server or too many
    requests failed, 2 bad input.
    """
    from specdecode.benchmark.adhoc import BadRequest, adhoc_spec, cases_of, endpoints_of
    from specdecode.benchmark.launch import EXIT_BAD_INPUT, launch
    from specdecode.benchmark.metrics import Slo
    from specdecode.benchmark.outcome import Options
    from specdecode.benchmark.results import BadResults, claim_folder
    from specdecode.benchmark.s3 import S3Folder
    from specdecode.benchmark.table import summary_table

    try:
        endpoints = endpoints_of(targets, environ=os.environ)
        counts = _counts(speculative_tokens or [], endpoints)
        if upload is not None:
            S3Folder(upload)
        spec = adhoc_spec(
            run_id=time.strftime("bench-%Y%m%d-%H%M%S", time.gmtime()),
            arms={name: counts.get(name) for name in endpoints},
            model=model,
            workload={
                "cases": cases_of(named=case or [], prompts=prompt or [], files=prompts or []),
                "requests": requests,
                "concurrency": concurrency,
                "rate": rate,
                "warmup_requests": warmup,
                "load": load,
                "input_tokens": input_tokens,
                "output_tokens": output_tokens,
                "ignore_eos": ignore_eos,
                "temperature": temperature,
                "endpoint": endpoint.value,
                "timeout_s": timeout,
                "seed": seed,
            },
            tokenizer=tokenizer,
            accounting=accounting.value,
        )
        spec = claim_folder(out or Path("results") / spec.run_id, spec, resume=resume)
        options = Options(
            folder=out or Path("results") / spec.run_id,
            upload=upload,
            publish=publish,
            duration_s=duration,
            arrivals=arrivals.value,
            ramp_s=ramp,
            slo=Slo(ttft_s=_ms(slo_ttft_ms), tpot_s=_ms(slo_tpot_ms), e2e_s=slo_e2e_s),
        )
    except (BadRequest, BadResults, ValueError) as error:
        complain(f"specdecode bench: {error}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    code, outcome = launch(spec, endpoints, options, max_error_rate=max_error_rate)
    if outcome is not None:
        if as_json:
            say_json(outcome.summary)
        else:
            say(summary_table(outcome.summary))
        complain(f"results: {options.folder}")
    raise typer.Exit(code)


def _ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


def _counts(given: list[str], arms: Container[str]) -> dict[str, int]:
    counts = {}
    for entry in given:
        name, _, count = entry.partition("=")
        if name not in arms or not count.isdecimal():
            raise ValueError(f"--speculative-tokens {entry}: write the name of an arm, = and a number")
        counts[name] = int(count)
    return counts
