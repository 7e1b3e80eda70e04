"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
import time
from pathlib import Path

import typer

from specdecode.cli import bench_options as options
from specdecode.cli.bench_arms import KnownOfArms, of_arms
from specdecode.cli.options import Profile, Region
from specdecode.cli.output import complain
from specdecode.experiment.model import Load
from specdecode.experiment.most_tokens import MostTokens


def register(app: typer.Typer) -> None:
    """Add this part's commands to `app`."""
    app.command(no_args_is_help=True)(bench)


def bench(
    targets: options.Targets,
    model: options.Models = None,
    case: options.Cases = None,
    prompt: options.OwnPrompts = None,
    prompts: options.PromptFiles = None,
    endpoint: options.Api = options.EndpointOption.CHAT,
    input_tokens: options.InputTokens = 64,
    output_tokens: options.OutputTokens = 600,
    ignore_eos: options.IgnoreEos = False,
    temperature: options.Temperature = 0.0,
    seed: options.Seed = 11111,
    requests: options.Requests = 16,
    concurrency: options.Concurrency = "1",
    rate: options.Rate = None,
    arrivals: options.Spacing = options.Arrivals.POISSON,
    duration: options.Duration = None,
    ramp: options.Ramp = 0,
    warmup: options.Warmup = 1,
    load: options.LoadOrder = Load.INTERLEAVED,
    timeout: options.Timeout = 1200,
    price_per_hour: options.PricePerHour = None,
    speculative_tokens: options.SpeculativeTokens = None,
    most_tokens_per_step: options.MostTokensPerStep = None,
    tokenizer: options.Tokenizer = None,
    accounting: options.Accounting = options.AccountingOption.USAGE,
    slo_ttft_ms: options.SloTtftMs = None,
    slo_tpot_ms: options.SloTpotMs = None,
    slo_e2e_s: options.SloE2eS = None,
    slo_share: options.SloShare = 0.95,
    max_error_rate: options.MaxErrorRate = 0.1,
    out: options.Out = None,
    resume: options.Resume = False,
    upload: options.Upload = None,
    publish: options.Publish = False,
    region: Region = None,
    profile: Profile = None,
    as_json: options.AsJson = False,
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
        known = KnownOfArms(
            models=of_arms("--model", model or [], endpoints, str, what="a model's name"),
            prices=of_arms("--price-per-hour", price_per_hour or [], endpoints, float, what="a number of dollars"),
            drafted=of_arms(
                "--speculative-tokens", speculative_tokens or [], endpoints, int, what="a number of tokens"
            ),
            most=of_arms("--most-tokens-per-step", most_tokens_per_step or [], endpoints, MostTokens, what="k or k+1"),
        )
        if upload is not None:
            S3Folder(upload)
        if upload is not None or publish:
            aws.choose(region=region, profile=profile)
        spec = adhoc_spec(
            run_id=time.strftime("bench-%Y%m%d-%H%M%S", time.gmtime()),
            arms=known.arms(endpoints),
            model=known.models.get(None),
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
        places = Options(
            folder=out or Path("results") / spec.run_id,
            upload=upload,
            duration_s=duration,
            arrivals=arrivals.value,
            ramp_s=ramp,
        )
    except (BadRequest, BadResults, ValueError) as error:
        complain(f"specdecode bench: {error}")
        raise typer.Exit(EXIT_BAD_INPUT) from None
    code, outcome = launch(spec, endpoints, places, max_error_rate=max_error_rate)
    if outcome is None:
        if not release_folder(places.folder):
            complain(f"`specdecode report {places.folder}` compares it; the same command with --resume goes on")
        raise typer.Exit(code)
    deliver(spec, places.folder, WantedResults(upload=upload, publish=publish, as_json=as_json))
    complain(f"results: {places.folder}")
    raise typer.Exit(code)


def _ms(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
