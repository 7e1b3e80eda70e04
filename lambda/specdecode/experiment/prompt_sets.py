"""Sets of prompts in experiments: the sets that ship, and `workload.prompts` written out as cases."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

from pydantic import ValidationError

from specdecode.assets import assets_dir
from specdecode.experiment.model import Experiment
from specdecode.experiment.problems import ExperimentError, Problem, refused
from specdecode.experiment.validated import did_you_mean
from specdecode.experiment.workload import TestCase, Workload
from specdecode.prompts import HubFile, PromptSet, PromptsOf, SetOf, about_tokens, read_set
from specdecode.untrusted import in_words

Document = dict[str, Any]


_FORMS = {
    "set": "write NAME, or NAME@SHA256 with all 64 digits",
    "revision": "write the commit, 40 hexadecimal digits: a branch or a tag moves",
    "repo": "write owner/name of the data set",
    "file": "write the path of a .json or .jsonl file in the data set",
}
"""How to write a field of an entry, in words, if its pattern is hard to read."""


def set_names() -> list[str]:
    """Names of the sets that ship."""
    return sorted(path.stem for path in (assets_dir() / "prompts" / "sets").glob("*.jsonl"))


@cache
def shipped(name: str) -> PromptSet | None:
    """The set of that name that ships. None if there is none. Raises BadPromptSet: the installation is damaged."""
    if name not in set_names():
        return None
    return read_set((assets_dir() / "prompts" / "sets" / f"{name}.jsonl").read_bytes(), name=name)


def bucket_sets(workload: Workload) -> dict[str, PromptsOf]:
    """The sets that a workload needs from the bucket, by key: those that neither ship nor were named as a file."""
    given = (case.prompts for case in workload.cases if case.prompts is not None and not case.text)
    return {each.key: each for each in given if shipped(each.set) is None}


def hub_sets(experiment: Experiment) -> list[tuple[PromptsOf, HubFile]]:
    """The sets that are on the Hugging Face hub, each once."""
    found: dict[str, tuple[PromptsOf, HubFile]] = {}
    for case in experiment.workload.cases:
        if case.prompts is not None and case.prompts.hub is not None:
            found.setdefault(case.prompts.key, (case.prompts, case.prompts.hub))
    return list(found.values())


def mean_input_tokens(case: TestCase, answer: int) -> float | None:
    """Estimated length of a case's requests, by their characters. None if the prompts are not here. A later turn of a
    conversation holds the turns before it, with answers of `answer` tokens at most.
    """
    return _mean_tokens(case.prompts, answer, case.requests) if case.prompts else None


@cache  # a plan asks for it hundreds of times
def _mean_tokens(given: PromptsOf, answer: int, requests: int | None) -> float | None:
    found = shipped(given.set)
    if found is None:
        return None
    sizes = [
        about_tokens(row.text) + sum(map(about_tokens, row.turns[1 : turn + 1])) + turn * (row.output_tokens or answer)
        for row in found.of(given.category, given.length)
        for turn in range(len(row.turns))
    ][:requests]
    return sum(sizes) / max(len(sizes), 1)


def expand_sets(document: Document) -> Document:
    """`workload.prompts` taken out, and one case for each category of its sets added. Raises ExperimentError."""
    workload = document.get("workload")
    if not isinstance(workload, dict) or "prompts" not in workload:
        return document
    entries = workload["prompts"]
    if not isinstance(entries, list):
        fix = "write `prompts: [NAME]` or `prompts: [{set: NAME}]`"
        raise refused("workload.prompts", "is no list", fix, rule="prompt-set")
    cases = workload.get("cases", [])
    if not isinstance(cases, list):
        return document
    problems: list[Problem] = []
    added: list[Document] = []
    for at, entry in enumerate(entries):
        try:
            taken = {case.get("name") for case in (*cases, *added) if isinstance(case, dict)}
            added += _cases(entry, field=f"workload.prompts.{at}", taken=taken)
        except ExperimentError as error:
            problems += error.problems
    if problems:
        raise ExperimentError(problems)
    rest = {key: value for key, value in workload.items() if key != "prompts"}
    return {**document, "workload": {**rest, "cases": [*cases, *added]}}


def _cases(entry: Any, *, field: str, taken: Iterable[Any]) -> list[Document]:
    given = _entry(entry, field)
    name, _, digest = given.set.partition("@")
    found = shipped(name)
    if problems := [*_wrong(given, name, digest, found, field), *_unknown(given.categories, name, found, field)]:
        raise ExperimentError(problems)
    categories = given.categories
    if found and not categories:
        categories = tuple(each for each in found.categories if found.of(each, given.length))
    cases = []
    for category in categories:
        case = category if category not in taken else f"{name}-{category}"[:40].rstrip("-.")
        version, sha256 = (found.version, digest or found.sha256) if found else ("", digest)
        requests = given.per_category
        if found:  # each prompt once at most, with all its turns
            requests = sum(len(row.turns) for row in found.of(category, given.length)[:requests]) or None
        prompts: Document = {"set": name, "sha256": sha256, "version": version}
        prompts |= {"category": category, "length": given.length}
        prompts |= {"hub": given.hub.model_dump()} if given.hub else {}
        cases.append(
            {
                "name": case,
                "label": case,
                "kind": "set",
                "structured": category in (found.structured if found else given.structured),
                "source": f"set {name} {version}".rstrip(),
                "prompts": prompts,
                "requests": requests,
                "output_tokens": given.output_tokens,
            }
        )
    return cases


def _wrong(given: SetOf, name: str, digest: str, found: PromptSet | None, field: str) -> Iterator[Problem]:
    """Contradictions in an entry whose single fields are right."""
    if found is None and not digest:
        fix = f"choose of {', '.join(set_names())}, or write NAME@SHA256 as `specdecode prompts add FILE` prints it"
        yield _problem(f"{field}.set", f"no set that ships is called {name!r}{did_you_mean(name, set_names())}", fix)
    elif found is None and not given.categories:
        fix = "name them, as `specdecode prompts add` and `specdecode prompts check` print them"
        yield _problem(f"{field}.categories", "a set that does not ship needs its categories here", fix)
    if given.hub is not None and found is not None:
        fix = "leave `hub` out, or call your file otherwise"
        yield _problem(f"{field}.hub", f"{name!r} is a set that ships", fix)
    if given.structured and found is not None:
        yield _problem(f"{field}.structured", f"{name!r} ships, and says it itself", "leave `structured` out")
    elif unknown := [category for category in given.structured if category not in given.categories]:
        fix = "name only those that stand in `categories`"
        yield _problem(f"{field}.structured", f"no category of this entry: {', '.join(unknown)}", fix)


def _unknown(categories: Iterable[Any], name: str, found: PromptSet | None, field: str) -> Iterator[Problem]:
    """Categories of an entry that its set, which ships, does not have."""
    unknown = [str(category) for category in categories if found and category not in found.categories]
    if found and unknown:
        fix = f"choose of {', '.join(found.categories)} (`specdecode prompts show {name}`)"
        yield _problem(f"{field}.categories", f"{name} has no {', '.join(unknown)}", fix)


def _entry(entry: Any, field: str) -> SetOf:
    try:
        return SetOf.model_validate({"set": entry} if isinstance(entry, str) else entry)
    except ValidationError as error:
        problems = []
        for item in error.errors(include_url=False):
            path = [field, *map(str, item["loc"])]
            fix = _FORMS.get(path[-1], "write `- set: NAME`, with categories, length and the like as needed")
            problems.append(Problem(field=".".join(path), rule="schema", message=in_words(item), fix=fix))
    wrong = {problem.field for problem in problems}
    name, listed = (entry.get("set"), entry.get("categories")) if isinstance(entry, dict) else (None, None)
    if isinstance(name, str) and isinstance(listed, list) and f"{field}.set" not in wrong:
        problems += _unknown(listed, name, shipped(name), field)
    raise ExperimentError(problems)


def _problem(field: str, message: str, fix: str) -> Problem:
    return Problem(field=field, rule="prompt-set", message=message, fix=fix)
