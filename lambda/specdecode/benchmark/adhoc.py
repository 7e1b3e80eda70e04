"""Makes a specification for servers at hand, without an experiment, from the command line of `specdecode bench`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from specdecode import names
from specdecode.assets import CASE_GROUPS
from specdecode.benchmark.endpoint import Endpoint
from specdecode.experiment import credentials
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.files import case_library
from specdecode.experiment.workload import MOST_CASES, SAMPLE, PromptKind, TestCase, Workload
from specdecode.prompts import BadPromptSet, PromptsOf, read_set, set_name
from specdecode.untrusted import Unreadable, in_words, read_file

_PLACEHOLDER = "bench"


class BadRequest(ValueError):
    """The request cannot be benchmarked. The message names every problem."""


def endpoints_of(targets: Sequence[str], *, environ: Mapping[str, str]) -> dict[str, Endpoint]:
    """`NAME=URL` or URL (then called base, arm-2, arm-3 …) -> endpoints by arm. Raises BadRequest.

    Their API keys are in `environ`, under `names.api_key_variable` of the arm or `names.API_KEY_VARIABLE`.
    """
    endpoints: dict[str, Endpoint] = {}
    problems = []
    for number, target in enumerate(targets, 1):
        name, equals, url = target.partition("=")
        if not equals or "/" in name:
            name, url = "base" if number == 1 else f"arm-{number}", target
        if name in endpoints:
            problems.append(f"two arms are called {name!r}")
        try:
            endpoints[name] = Endpoint.of(url, api_key=names.api_key(name, environ))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise BadRequest("; ".join(problems))
    return endpoints


def cases_of(*, named: Sequence[str], prompts: Sequence[str], files: Sequence[Path]) -> tuple[TestCase, ...]:
    """Cases by name or group, prompts given as text, files of prompts. Raises BadRequest."""
    known = {name: TestCase.model_validate({"name": name, **case}) for name, case in case_library().items()}
    unknown = [name for name in named if name not in known and name not in CASE_GROUPS]
    if unknown:
        there_are = f"{', '.join(known)} and the groups {', '.join(CASE_GROUPS)}"
        raise BadRequest(f"no test case is called {', '.join(unknown)}; there are {there_are}")
    chosen = {case.name: case for name in named for case in _members(name, known)}
    for number, text in enumerate(prompts, 1):
        chosen[f"prompt-{number}"] = _own(f"prompt-{number}", PromptKind.TEXT, text)
    for path in files:
        chosen |= {case.name: case for case in _of_file(path, taken=chosen)}
    if not chosen:
        chosen = {name: known[name] for name in ("repeat-line", "meaning-of-life")}
    return tuple(chosen.values())


def _members(name: str, known: Mapping[str, TestCase]) -> list[TestCase]:
    if name in known:
        return [known[name]]
    return [
        case
        for case in known.values()
        if name == "all"
        or (name == "sample" and case.group == SAMPLE)
        or (name in ("structured", "open") and case.structured == (name == "structured"))
    ]


def _of_file(path: Path, *, taken: Collection[str]) -> list[TestCase]:
    """A case for each category of a file of prompts, all of whose prompts are sent once if --requests allows it."""
    try:
        found = read_set(read_file(path), name=set_name(path.stem))
    except (BadPromptSet, Unreadable) as error:
        raise BadRequest(f"--prompts {path}: {error}") from None
    if (many := len(found.categories)) > MOST_CASES:
        raise BadRequest(f"--prompts {path}: {many:,} categories; {MOST_CASES:,} can be measured: merge some")
    cases: dict[str, TestCase] = {}
    for category in found.categories:
        name = category if category not in taken else f"{found.name}-{category}"[:40].rstrip("-.")
        if name in taken or name in cases:
            raise BadRequest(f"--prompts {path}: another file has a case {name} already; give one of them another name")
        given = PromptsOf(set=found.name, sha256=found.sha256, version=found.version, category=category)
        cases[name] = TestCase(
            name=name,
            label=name,
            kind=PromptKind.SET,
            text=str(path),
            prompts=given,
            structured=category in found.structured,
            source=f"set {found.name}",
        )
    return list(cases.values())


def _own(name: str, kind: PromptKind, text: str) -> TestCase:
    return TestCase(name=name, label=name, kind=kind, text=text, structured=None, source="command line")


def adhoc_spec(
    *,
    run_id: str,
    arms: Mapping[str, Mapping[str, Any]],
    model: str | None,
    workload: Mapping[str, Any],
    **fields: Any,
) -> BenchmarkSpec:
    """The specification; `arms`: name -> what is known of it (fields of BenchmarkArm). Raises BadRequest with every
    value that is out of range.
    """
    try:
        load = Workload.model_validate(workload)
        places = [f"{place}: holds what looks like {kind}" for place, kind in credentials.found(load.model_dump())]
        if places:
            raise BadRequest("; ".join([*places, credentials.ADVICE]))
        return BenchmarkSpec(
            run_id=run_id,
            experiment=_PLACEHOLDER,
            wave=0,
            round=0,
            model=model or "",
            arms=tuple(BenchmarkArm(variant=name, label=name, **known) for name, known in arms.items()),
            workload=load,
            **fields,
        )
    except ValidationError as error:
        raise BadRequest(problems_of(error)) from None


def problems_of(error: ValidationError) -> str:
    """Every problem of a document, each with its place."""
    return "; ".join(
        f"{'.'.join(str(part) for part in problem['loc']) or 'document'}: {in_words(problem)}"
        for problem in error.errors()
    )
