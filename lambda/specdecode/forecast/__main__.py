"""`python -m specdecode.forecast`: the benchmark in a pod, and then drafts that read what its arms have answered."""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from specdecode.benchmark.__main__ import main as load
from specdecode.benchmark.__main__ import parser, specification
from specdecode.benchmark.adhoc import BadRequest, endpoints_of
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.launch import EXIT_BAD_INPUT, EXIT_FAILED
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.results import Results
from specdecode.benchmark.tokens import token_counter
from specdecode.escape import line
from specdecode.experiment.benchmark_spec import BenchmarkSpec
from specdecode.experiment.told import Forecasted
from specdecode.forecast.answers import BadAnswers, of_run
from specdecode.forecast.making import forecast
from specdecode.forecast.result import forecasted
from specdecode.forecast.server import BadServer, reader
from specdecode.records import SERVERS, Servers

KS = range(1, 16)
"""Every k that a preset sweeps."""
TOLD_EVERY = 20
"""Answers after which a line says how many were read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: that of the load; 1 if a draft could not read; 2 for bad input."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--reader", action="append", default=[], metavar="NAME=URL")
    given, rest = own.parse_known_args(arguments)
    args = parser().parse_args(rest)
    try:
        spec, readers = specification(args.spec), endpoints_of(given.reader, environ=os.environ)
        if {one.variant for one in spec.readers} != readers.keys():
            raise BadRequest(f"--reader: one for each of {', '.join(one.variant for one in spec.readers)}")
    except ValueError as error:
        print(f"error: {line(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    if code := load(rest):
        return code
    try:
        told = asyncio.run(_read(spec, readers, args.out))
        _keep(spec, told, args.out, args.upload)
    except (BadAnswers, BadServer, ExceptionGroup, PlaceError) as error:
        print(f"error: {line(str(_first(error)))}", file=sys.stderr)
        return EXIT_FAILED
    return 0


async def _read(spec: BenchmarkSpec, readers: Mapping[str, Endpoint], folder: Path) -> list[Forecasted]:
    """What every draft would yield, and what needs no model. Raises BadAnswers, BadServer."""
    found = {
        (one.draft, one.case): one for arm in spec.arms for one in await _of_arm(spec, arm.variant, readers, folder)
    }
    return list(found.values())


async def _of_arm(spec: BenchmarkSpec, arm: str, readers: Mapping[str, Endpoint], folder: Path) -> Iterator[Forecasted]:
    own = [one for one in spec.readers if one.reads == arm]
    if not own:
        return iter(())
    results = Results(folder, run_id=spec.run_id)
    records = [record for case in spec.workload.cases for record in results.load(arm, case.name)]
    answers = of_run(spec.workload, arm, records, counter=token_counter(spec.tokenizer)[0])
    drafts = [await reader(one.variant, readers[one.variant], spec.model) for one in own]
    made = await forecast(answers, drafts, ks=KS, most=own[0].most_tokens_per_step, progress=_progress)
    for note in made.notes:
        print(f"note: {line(note)}", flush=True)
    ids = {one.variant: one.draft for one in own}
    return (one for draft in made.drafts for one in forecasted(draft, ids.get(draft.draft, draft.draft)))


def _keep(spec: BenchmarkSpec, told: Sequence[Forecasted], folder: Path, upload: str | None) -> None:
    """Put the forecast beside what the load has found of the servers. Raises PlaceError."""
    results = Results(folder, run_id=spec.run_id)
    servers = Servers.model_validate_json(results.read(SERVERS) or b"")
    path = results.write(SERVERS, servers.model_copy(update={"forecast": tuple(told)}).model_dump_json(indent=1))
    if upload:
        S3Folder(upload).put(SERVERS, path)


def _progress(what: str, done: int, of: int) -> None:
    if done == of or done % TOLD_EVERY == 0:
        print(f"{what}: {done} of {of} answers", flush=True)


def _first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


if __name__ == "__main__":
    sys.exit(main())
