"""`python -m specdecode.benchmark`: the benchmark in a pod, from a specification file."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from pydantic import ValidationError

from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.probe import ArmNotReady
from specdecode.benchmark.progress import PlainProgress
from specdecode.benchmark.prompts import BadPrompts
from specdecode.benchmark.results import BadResults
from specdecode.benchmark.runner import Benchmark, Options, Outcome, failed_beyond
from specdecode.benchmark.s3 import S3Folder
from specdecode.experiment.benchmark_spec import BenchmarkSpec

EXIT_OK, EXIT_FAILED, EXIT_BAD_INPUT = 0, 1, 2


class BadInput(ValueError):
    """The command line or the specification is wrong; the message names every problem."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 all measured, 1 an arm or too many requests failed, 2 bad input."""
    args = _parser().parse_args(arguments)
    try:
        spec = _spec(args.spec)
        endpoints = _endpoints(args.arm, spec)
        if args.upload:
            S3Folder(args.upload)
    except ValueError as error:
        print(f"specdecode.benchmark: {error}", file=sys.stderr)
        return EXIT_BAD_INPUT
    options = Options(
        folder=args.out,
        upload=args.upload,
        publish=args.upload is not None and not args.no_publish,
    )
    return run(spec, endpoints, options, max_error_rate=args.max_error_rate)


def run(spec: BenchmarkSpec, endpoints: dict[str, Endpoint], options: Options, *, max_error_rate: float) -> int:
    """Run to the end, or to the first SIGINT or SIGTERM; what was measured is kept either way."""
    progress = PlainProgress()
    try:
        outcome = asyncio.run(_until_signal(Benchmark(spec, endpoints, options, progress)))
    except (BadPrompts, BadResults) as error:
        progress.message(f"specdecode.benchmark: {error}")
        return EXIT_BAD_INPUT
    except ArmNotReady as error:
        progress.message(f"specdecode.benchmark: {error}")
        return EXIT_FAILED
    except asyncio.CancelledError:
        progress.message("specdecode.benchmark: stopped; what was measured is kept, and the same command goes on")
        return EXIT_FAILED
    failures = [*failed_beyond(outcome, max_error_rate), *outcome.problems]
    for failure in failures:
        progress.message(f"specdecode.benchmark: {failure}")
    return EXIT_FAILED if failures else EXIT_OK


async def _until_signal(benchmark: Benchmark) -> Outcome:
    running = asyncio.ensure_future(benchmark.run())
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, running.cancel)
    return await running


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m specdecode.benchmark", description=__doc__)
    parser.add_argument("--spec", type=Path, required=True, help="the specification, JSON")
    parser.add_argument(
        "--arm", action="append", default=[], metavar="NAME=URL", help="where an arm of the specification answers"
    )
    parser.add_argument("--out", type=Path, default=Path("results"), help="folder for the results (default: results)")
    parser.add_argument("--upload", metavar="S3_URI", help="s3://bucket/runs/<run id>/; also publishes the metrics")
    parser.add_argument("--no-publish", action="store_true", help="upload only, no CloudWatch metrics")
    parser.add_argument(
        "--max-error-rate", type=float, default=0.1, help="share of failed requests that is still success (0.1)"
    )
    return parser


def _spec(path: Path) -> BenchmarkSpec:
    try:
        return BenchmarkSpec.model_validate_json(path.read_bytes())
    except OSError as error:
        raise BadInput(f"cannot read the specification: {error}") from None
    except ValidationError as error:
        problems = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'document'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise BadInput(f"{path}: {problems}") from None


def _endpoints(arms: Sequence[str], spec: BenchmarkSpec) -> dict[str, Endpoint]:
    endpoints: dict[str, Endpoint] = {}
    problems = []
    key = os.environ.get("OPENAI_API_KEY")
    for arm in arms:
        name, _, url = arm.partition("=")
        try:
            endpoints[name] = Endpoint.of(url, api_key=key)
        except ValueError as error:
            problems.append(f"--arm {arm}: {error}")
    wanted = {arm.variant for arm in spec.arms}
    problems += [f"no --arm {name}=URL for an arm of the specification" for name in sorted(wanted - endpoints.keys())]
    problems += [f"--arm {name}: the specification has no such arm" for name in sorted(endpoints.keys() - wanted)]
    if problems:
        raise BadInput("; ".join(problems))
    return endpoints


if __name__ == "__main__":
    sys.exit(main())
