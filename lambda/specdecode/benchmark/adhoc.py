"""Makes a specification for servers at hand, without an experiment, from the command line of `specdecode bench`."""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from specdecode import names
from specdecode.assets import CASE_GROUPS
from specdecode.benchmark.endpoint import Endpoint
from specdecode.experiment import credentials
from specdecode.experiment.benchmark_spec import BenchmarkArm, BenchmarkSpec
from specdecode.experiment.files import case_library
from specdecode.experiment.workload import MOST_CASES, SAMPLE, PromptKind, TestCase, Workload
from specdecode.prompts import BadPromptSet, PromptsOf, read_set, set_name
from specdecode.untrusted import Unreadable, in_words, quoted, read_file

_PLACEHOLDER = "bench"
OPTIONS = {
    "timeout_s": "timeout",
    "warmup_requests": "warmup",
    "slo.ttft_s": "slo-ttft-ms",
    "slo.tpot_s": "slo-tpot-ms",
    "slo.e2e_s": "slo-e2e-s",
    "num_speculative_tokens": "speculative-tokens",
    "variant": "arm NAME",
}
"""Field -> its option of `specdecode bench`, where they are called differently."""
Part = TypeVar("Part", Workload, BenchmarkArm)


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
            problems.append(f"two arms are called {name!r}: write base=URL sd=URL")
        try:
            endpoints[name] = Endpoint.of(url, api_key=names.api_key(name, environ))
        except ValueError as error:
            problems.append(str(error))
    if problems:
        raise BadRequest("\n".join(problems))
    return endpoints


def cases_of(*, named: Sequence[str], prompts: Sequence[str], files: Sequence[Path]) -> tuple[TestCase, ...]:
    """Cases by name or group, prompts given as text, files of prompts. Raises BadRequest."""
    known = {name: TestCase.model_validate({"name": name, **case}) for name, case in case_library().items()}
    unknown = [name for name in named if name not in known and name not in CASE_GROUPS]
    if unknown:
        there_are = f"{', '.join(known)} and the groups {', '.join(CASE_GROUPS)}"
        raise BadRequest(f"no test case is called {', '.join(map(quoted, unknown))}; there are {there_are}")
    chosen = {case.name: case for name in named for case in _members(name, known)}
    for number, text in enumerate(prompts, 1):
        own = {"name": f"prompt-{number}", "label": f"prompt-{number}", "kind": PromptKind.TEXT, "text": text}
        chosen[own["name"]] = TestCase.model_validate({**own, "structured": None, "source": "command line"})
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
        told = error.told if isinstance(error, BadPromptSet) else error
        raise BadRequest(f"--prompts {path}: {told}") from None
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


def adhoc_spec(
    *, run_id: str, arms: Mapping[str, Mapping[str, Any]], model: str | None, workload: Mapping[str, Any], **fields: Any
) -> BenchmarkSpec:
    """The specification; `arms`: name -> fields of BenchmarkArm. Raises BadRequest with every value out of range."""
    problems: list[str] = []
    load = _made(Workload, workload, problems)
    known = [_made(BenchmarkArm, {"variant": name, "label": name, **own}, problems) for name, own in arms.items()]
    places = credentials.found(load.model_dump()) if load else ()
    problems += [f"{place}: holds what looks like {kind}; {credentials.ADVICE}" for place, kind in places]
    if load is None or problems:
        raise BadRequest("\n".join(problems))
    return BenchmarkSpec(
        run_id=run_id,
        experiment=_PLACEHOLDER,
        wave=0,
        round=0,
        model=model or "",
        arms=tuple(arm for arm in known if arm),
        workload=load,
        **fields,
    )


def _made(model: type[Part], values: Mapping[str, Any], problems: list[str]) -> Part | None:
    """A part of the specification; what is wrong goes to `problems`, under the options' names."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            place = ".".join(part for part in problem["loc"] if isinstance(part, str))
            option = OPTIONS.get(place, place.replace(".", "-").replace("_", "-"))
            given = problem["input"]
            shown = "" if isinstance(given, dict | list | tuple) else f", not {quoted(given)}"
            problems.append(f"--{option}: {in_words(problem)}{shown}" if place else in_words(problem))
    return None
