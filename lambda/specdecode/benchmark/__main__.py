"""`python -m specdecode.benchmark`: the benchmark in a pod, from a specification file."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from specdecode.benchmark.adhoc import BadRequest, endpoints_of
from specdecode.benchmark.clients import Meeting
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.loading import Options
from specdecode.benchmark.place import PlaceError, S3Folder, place_of
from specdecode.benchmark.prompts import FETCHED
from specdecode.benchmark.runner import EXIT_BAD_INPUT, EXIT_FAILED, launch
from specdecode.escape import line
from specdecode.experiment.benchmark_spec import BenchmarkSpec, read_specification
from specdecode.experiment.prompt_sets import bucket_sets


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 all measured, 1 an arm or too many requests failed, 2 bad input."""
    args = parser().parse_args(arguments)
    try:
        spec = read_specification(args.spec)
        endpoints = _endpoints(args.arm, spec)
        if args.upload:
            S3Folder(args.upload)
        meeting = _meeting(args.client, args.meet, spec)
    except ValueError as error:
        print(f"error: {line(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    try:
        fetch_sets(spec, args.upload)
    except (OSError, PlaceError) as error:
        print(f"error: {line(str(error))}", file=sys.stderr)
        return EXIT_FAILED
    options = Options(folder=args.out, upload=args.upload, meeting=meeting)
    return launch(spec, endpoints, options, max_error_rate=args.max_error_rate)[0]


def parser() -> argparse.ArgumentParser:
    """The command line of a benchmark's pod."""
    made = argparse.ArgumentParser(prog="python -m specdecode.benchmark", description=__doc__)
    made.add_argument("--spec", type=Path, required=True, help="the specification, JSON")
    made.add_argument(
        "--arm", action="append", default=[], metavar="NAME=URL", help="where an arm of the specification answers"
    )
    made.add_argument("--out", type=Path, default=Path("results"), help="folder for the results (default: results)")
    made.add_argument("--upload", metavar="S3_URI", help="s3://bucket/runs/<run id>/")
    made.add_argument("--client", type=int, default=0, help="which of the clients this is, from 0 on (default: 0)")
    made.add_argument(
        "--meet", metavar="PLACE", help="folder or s3://… prefix, new for each Job, that all clients see; none: alone"
    )
    made.add_argument(
        "--max-error-rate", type=float, default=0.1, help="share of failed requests that is still success (0.1)"
    )
    return made


def fetch_sets(spec: BenchmarkSpec, uri: str | None) -> None:
    """Copy the sets that do not ship from the run's own folder to FETCHED. Plan copied them there. Their hashes are
    checked when they are read. Raises PlaceError, OSError.
    """
    keys = bucket_sets(spec.workload) if uri else {}
    if keys:
        FETCHED.mkdir(exist_ok=True)
    for key in keys:
        folder = S3Folder(str(uri))
        data = folder.get(key)
        if data is None:
            raise PlaceError(f"{folder.uri}{key} is not there any more")
        (FETCHED / Path(key).name).write_bytes(data)


def _meeting(client: int, place: str | None, spec: BenchmarkSpec) -> Meeting | None:
    if not 0 <= client < spec.most_clients:
        raise BadRequest(f"--client {client}: the load of the specification takes {spec.most_clients}, from 0 on")
    if client and place is None:
        raise BadRequest(f"--client {client}: give --meet, the place where the clients leave notes for each other")
    return Meeting(place=place_of(place), client=client) if place else None


def _endpoints(arms: Sequence[str], spec: BenchmarkSpec) -> dict[str, Endpoint]:
    endpoints = endpoints_of(arms, environ=os.environ)
    wanted = {arm.variant for arm in spec.arms}
    problems = [f"no --arm {name}=URL for an arm of the specification" for name in sorted(wanted - endpoints.keys())]
    problems += [f"--arm {name}: the specification has no such arm" for name in sorted(endpoints.keys() - wanted)]
    if problems:
        raise BadRequest("; ".join(problems))
    return endpoints


if __name__ == "__main__":
    sys.exit(main())
