"""`specdecode bench`: the load generator on any OpenAI-compatible endpoints."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from specdecode.cli.bench_options import ResultOptions, SendingOptions, SentOptions, ServerOptions, Targets
from specdecode.cli.options import Profile, Region, flat
from specdecode.cli.output import complain, say_json, stop_with

if TYPE_CHECKING:
    from specdecode.experiment.benchmark_spec import BenchmarkSpec
    from specdecode.experiment.most_tokens import MostTokens


def register(app: typer.Typer) -> None:
    """Add this part's commands to `app`."""
    app.command(no_args_is_help=True)(flat(bench))


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
    from specdecode.benchmark.adhoc import BadRequest, endpoints_of
    from specdecode.benchmark.launch import EXIT_BAD_INPUT, launch
    from specdecode.benchmark.outcome import Options
    from specdecode.benchmark.place import S3Folder
    from specdecode.benchmark.results import BadResults, claim_folder, release_folder
    from specdecode.cli.bench_results import deliver

    try:
        endpoints = endpoints_of(targets, environ=os.environ)
        spec = _spec(endpoints, sent, sending, known, results)
        if results.resume and results.out is None:
            raise BadRequest("--resume goes on with the benchmark in --out: give that folder, results/bench-…")
        if results.upload is not None:
            S3Folder(results.upload)
        if results.upload is not None or results.publish:
            aws.choose(region=region, profile=profile)
        folder = results.out or Path("results") / spec.run_id
        spec = claim_folder(folder, spec, resume=results.resume)
        places = Options(
            folder=folder,
            upload=results.upload,
            duration_s=sending.duration,
            arrivals=sending.arrivals.value,
            ramp_s=sending.ramp,
        )
    except (BadRequest, BadResults, ValueError) as error:
        raise stop_with(str(error), EXIT_BAD_INPUT) from None
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


def _spec(
    endpoints: Mapping[str, Any],
    sent: SentOptions,
    sending: SendingOptions,
    known: ServerOptions,
    results: ResultOptions,
) -> BenchmarkSpec:
    """What is measured. Raises BadRequest or ValueError, which name the option and what is wrong with it."""
    from specdecode.benchmark.adhoc import adhoc_spec
    from specdecode.cli.runs_view import new_run_id

    arms = _known(endpoints, sent, known)
    return adhoc_spec(
        run_id=new_run_id("bench", now=datetime.now(UTC), token=secrets.token_hex(2)),
        arms=arms.arms(endpoints),
        model=arms.models.get(None),
        workload=_workload(sent, sending, results),
        tokenizer=known.tokenizer,
        accounting=known.accounting.value,
    )


def _known(endpoints: Mapping[str, Any], sent: SentOptions, known: ServerOptions) -> KnownOfArms:
    from specdecode.experiment.most_tokens import MostTokens

    dollars, tokens = "a number of dollars", "a number of tokens"
    return KnownOfArms(
        models=of_arms("--model", sent.model or [], endpoints, str, what="a model's name"),
        prices=of_arms("--price-per-hour", known.price_per_hour or [], endpoints, float, what=dollars),
        drafted=of_arms("--speculative-tokens", known.speculative_tokens or [], endpoints, int, what=tokens),
        most=of_arms(
            "--most-tokens-per-step", known.most_tokens_per_step or [], endpoints, MostTokens, what="k or k+1"
        ),
    )


def _workload(sent: SentOptions, sending: SendingOptions, results: ResultOptions) -> dict[str, Any]:
    """The fields of the experiment's `workload`."""
    from specdecode.benchmark.adhoc import cases_of

    return {
        "cases": cases_of(named=sent.case or [], prompts=sent.prompt or [], files=sent.prompts or []),
        "requests": sending.requests,
        "concurrency": sending.concurrency.split(","),
        "rate": sending.rate.split(",") if sending.rate is not None else None,
        "warmup_requests": sending.warmup,
        "load": sending.load.value,
        "input_tokens": sent.input_tokens,
        "output_tokens": sent.output_tokens,
        "ignore_eos": sent.ignore_eos,
        "temperature": sent.temperature,
        "endpoint": sent.endpoint.value,
        "timeout_s": sending.timeout,
        "seed": sent.seed,
        "slo": {
            "ttft_s": _seconds(results.slo_ttft_ms),
            "tpot_s": _seconds(results.slo_tpot_ms),
            "e2e_s": results.slo_e2e_s,
            "share": results.slo_share,
        },
    }


def _seconds(milliseconds: float | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000


Value = TypeVar("Value")


@dataclass(frozen=True, kw_only=True)
class KnownOfArms:
    """What the user said about the servers, by arm. The key None stands for all arms."""

    models: Mapping[str | None, str]
    """The model's name at the server."""
    prices: Mapping[str | None, float]
    """US dollars an hour."""
    drafted: Mapping[str | None, int]
    """Tokens that the server drafts in a step (k)."""
    most: Mapping[str | None, MostTokens]
    """Most tokens that a step yields."""

    def arms(self, names: Iterable[str]) -> dict[str, dict[str, Any]]:
        """The fields of each arm of the benchmark's specification."""
        return {
            name: {
                "model": self.models.get(name),
                "price_per_hour": self.prices.get(name, self.prices.get(None)),
                "num_speculative_tokens": self.drafted.get(name),
                "most_tokens_per_step": self.most.get(name, self.most.get(None)),
            }
            for name in names
        }


def of_arms(
    option: str, given: list[str], arms: Container[str], read: Callable[[str], Value], *, what: str
) -> Mapping[str | None, Value]:
    """Reads the values of an option: `VALUE` (key None: for all arms) or `NAME=VALUE`. ValueError names each value that
    is neither.
    """
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
