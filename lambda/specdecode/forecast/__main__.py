"""`python -m specdecode.forecast`: the benchmark in a pod, and then drafts that read what its arms have answered; or
without it, what the arms of an earlier run have answered.
"""

import argparse
import asyncio
import os
import sys
from collections.abc import Iterable, Mapping, Sequence

from specdecode.benchmark.__main__ import fetch_sets, parser
from specdecode.benchmark.__main__ import main as load
from specdecode.benchmark.adhoc import BadRequest, endpoints_of
from specdecode.benchmark.endpoint import Endpoint
from specdecode.benchmark.place import PlaceError, S3Folder
from specdecode.benchmark.results import Results
from specdecode.benchmark.runner import EXIT_BAD_INPUT, EXIT_FAILED
from specdecode.benchmark.tokens import token_counter
from specdecode.escape import line
from specdecode.experiment.benchmark_spec import BenchmarkSpec, read_specification
from specdecode.experiment.told import Forecasted
from specdecode.experiment.workload import TestCase
from specdecode.forecast.answers import BadAnswers, of_run
from specdecode.forecast.making import forecast
from specdecode.forecast.result import forecasted
from specdecode.forecast.server import BadServer, reader
from specdecode.records import SERVERS, RequestRecord, Servers, read_record

KS = range(1, 16)
"""Every k that a preset sweeps."""
TOLD_EVERY = 20
"""Answers after which a line says how many were read."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: that of the load; 1 if a draft could not read; 2 for bad input."""
    own = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    own.add_argument("--reader", action="append", default=[], metavar="NAME=URL")
    own.add_argument("--answers", metavar="S3_URI", help="s3://bucket/runs/<run id>/raw/ of the earlier run")
    given, rest = own.parse_known_args(arguments)
    args = parser().parse_args(rest)
    try:
        spec, readers = read_specification(args.spec), endpoints_of(given.reader, environ=os.environ)
        if {one.variant for one in spec.readers} != readers.keys():
            raise BadRequest(f"--reader: one for each of {', '.join(one.variant for one in spec.readers)}")
    except ValueError as error:
        print(f"error: {line(str(error))}", file=sys.stderr)
        return EXIT_BAD_INPUT
    if not given.answers and (code := load(rest)):
        return code
    try:
        if given.answers:
            fetch_sets(spec, args.upload)
        results = Results(args.out, run_id=spec.run_id)
        told, notes = asyncio.run(_read(spec, readers, S3Folder(given.answers) if given.answers else results))
        _keep(results, told, notes if given.answers else (), spec.run_id, args.upload)
    except (BadAnswers, BadServer, ExceptionGroup, PlaceError) as error:
        while isinstance(error, ExceptionGroup):
            error = error.exceptions[0]
        print(f"error: {line(str(error))}", file=sys.stderr)
        return EXIT_FAILED
    return 0


def _records(place: Results | S3Folder, arm: str, cases: Iterable[TestCase]) -> list[RequestRecord]:
    """The records of an arm: of this run's folder, or of an earlier run. Raises PlaceError, BadAnswers."""
    if isinstance(place, Results):
        return [record for case in cases for record in place.load(arm, case.name)]
    found = []
    for where, data in place.lines_below(f"{arm}/"):
        try:
            found.append(read_record(data))
        except ValueError:  # its words would show what the line holds
            raise BadAnswers(f"{where} is no record") from None
    return found


async def _read(
    spec: BenchmarkSpec, readers: Mapping[str, Endpoint], place: Results | S3Folder
) -> tuple[list[Forecasted], list[str]]:
    """What every draft would yield, and what makes it less sure. Raises BadAnswers, BadServer, PlaceError."""
    found: dict[tuple[str, str], Forecasted] = {}
    notes: list[str] = []
    for arm in spec.arms:
        own = [one for one in spec.readers if one.reads == arm.variant]
        if not own:
            continue
        records = _records(place, arm.variant, spec.workload.cases)
        answers = of_run(spec.workload, arm.variant, records, counter=token_counter(spec.tokenizer)[0])
        drafts = [await reader(one.variant, readers[one.variant], spec.model) for one in own]
        made = await forecast(answers, drafts, ks=KS, most=own[0].most_tokens_per_step, progress=_progress)
        for note in made.notes:
            print(f"note: {line(note)}", flush=True)
        ids = {one.variant: one.draft for one in own}
        for draft in made.drafts:
            told = forecasted(draft, ids.get(draft.draft, draft.draft))
            found.update({(one.draft, one.case): one for one in told})
        notes += made.notes
    return list(found.values()), notes


def _keep(results: Results, told: Sequence[Forecasted], notes: Sequence[str], run_id: str, upload: str | None) -> None:
    """Put the forecast beside what the load, if there was one, has found of the servers. Raises PlaceError."""
    data = results.read(SERVERS)
    servers = Servers.model_validate_json(data) if data else Servers(run_id=run_id)
    more = {"forecast": tuple(told), "notes": (*servers.notes, *notes)}
    path = results.write(SERVERS, servers.model_copy(update=more).model_dump_json(indent=1))
    if upload:
        S3Folder(upload).put(SERVERS, path)


def _progress(what: str, done: int, of: int) -> None:
    if done == of or done % TOLD_EVERY == 0:
        print(f"{what}: {done} of {of} answers", flush=True)


if __name__ == "__main__":
    sys.exit(main())
