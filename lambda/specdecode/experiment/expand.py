"""From the document that a person writes to the plain one that is validated: inheritance, overrides, cases, sweeps."""

import itertools
import re
from collections.abc import Callable, Mapping
from typing import Any

from specdecode.experiment.problems import ExperimentError, Problem, refused
from specdecode.experiment.prompt_sets import expand_sets
from specdecode.experiment.variants import TUNED

Document = dict[str, Any]
OF_ONE_MODEL = ("revision", "size_gib", "import_prefix", "family")
"""Fields that belong to one model: a model with another `id` does not inherit them."""


def merge(base: Any, change: Any) -> Any:
    """`change` over `base`: mappings merge key by key, everything else (lists too) is replaced. A model with another id
    does not inherit the fields in OF_ONE_MODEL.
    """
    if isinstance(base, dict) and isinstance(change, dict):
        if "id" in base and "id" in change and base["id"] != change["id"]:
            base = {key: value for key, value in base.items() if key not in OF_ONE_MODEL}
        return {**base, **{key: merge(base.get(key), value) for key, value in change.items()}}
    return change


def override(document: Document, changes: Mapping[str, Any]) -> tuple[Document, dict[str, str]]:
    """`document` with each dotted path of `changes` set, and why the others could not be. An item of a list is named by
    its `name` or its number.
    """
    failed: dict[str, str] = {}
    for path, value in sorted(changes.items(), key=lambda change: not change[0].endswith(".id")):
        try:
            document = _set(document, path.split("."), value)
        except LookupError as error:
            failed[path] = str(error.args[0])
    return document, failed


def fix_of(path: str, value: Any) -> str:
    """What to write in place of a path that leads nowhere."""
    field, _, key = path.rpartition(".")
    if field != "workload.requests":
        return "give a path that the document has"
    given = {"max": 50, "precision": 0.03} | {key: value}
    return f"write it whole: --set '{field}={{{', '.join(f'{name}: {each}' for name, each in given.items())}}}'"


def _set(node: Any, path: list[str], value: Any) -> Any:
    key, rest = path[0], path[1:]
    if isinstance(node, list):
        at, used = _item(node, path)
        rest = path[used:]
        return [*node[:at], _set(node[at], rest, value) if rest else value, *node[at + 1 :]]
    if node is None:
        node = {}
    if not isinstance(node, dict):
        raise LookupError(f"here stands {node!r}, which has no `{key}`")
    if not rest:
        return merge(node, {key: value}) if key == "id" else {**node, key: value}
    return {**node, key: _set(node.get(key), rest, value)}


def _item(items: list[Any], path: list[str]) -> tuple[int, int]:
    """Index of the item that the head of `path` names, and how many parts its name takes (names may hold dots)."""
    for used in range(len(path), 0, -1):
        name = ".".join(path[:used])
        for at, item in enumerate(items):
            if isinstance(item, dict) and item.get("name") == name:
                return at, used
    if path[0].isdecimal() and int(path[0]) < len(items):
        return int(path[0]), 1
    known = ", ".join(str(item["name"]) for item in items if isinstance(item, dict) and "name" in item)
    raise LookupError(f"no item is called `{path[0]}`" + (f"; there are {known}" if known else ""))


MAX_VARIANTS = 64
MAX_RANGE = 1000
MAX_SPELLED_OUT = 2**20
"""Most characters that all ranges of a document together may make."""
RANGE = re.compile(r"\{(\d{1,4})\.\.(\d{1,4})\}")


def expand_variants(document: Document) -> Document:
    """Each variant that `extends` an earlier one laid over it, sweeps unfolded, ranges spelled out."""
    variants = document.get("variants")
    if not isinstance(variants, list):
        return document
    _check_number(len(variants), "variants", "split the experiment")
    out: list[Any] = []
    for at, variant in enumerate(variants):
        if isinstance(variant, dict) and "extends" in variant:
            before = variant["extends"]
            parent = next((v for v in out if isinstance(v, dict) and v.get("name") == before), None)
            if parent is None:
                message = f"no earlier variant is called {before!r}"
                raise refused(f"variants.{at}.extends", message, "name one that is above it")
            variant = merge(parent, {key: value for key, value in variant.items() if key != "extends"})
        out.append(variant)
    if sum(map(_spelled_out, out)) > MAX_SPELLED_OUT:
        raise refused("variants", "ranges ({0..9}) that make too many entries", "shorten them, or name fewer variants")
    return expand_sweeps({**document, "variants": [_ranges(variant) for variant in out]})


def _check_number(variants: int, field: str, fix: str) -> None:
    if variants > MAX_VARIANTS:
        raise refused(field, f"more than {MAX_VARIANTS} variants", fix)


def _spelled_out(value: Any) -> int:
    """Characters that the ranges in `value` make."""
    if isinstance(value, dict):
        return sum(map(_spelled_out, value.values()))
    if isinstance(value, list):
        return sum(map(_spelled_out, value)) + sum(
            len(item) * len(_numbers(match))
            for item in value
            if isinstance(item, str) and (match := RANGE.search(item))
        )
    return 0


def _numbers(match: re.Match[str]) -> range:
    return range(int(match[1]), min(int(match[2]), int(match[1]) + MAX_RANGE) + 1)


def _ranges(value: Any) -> Any:
    """`layers.{0..2}.mlp` in a list of texts -> `layers.0.mlp`, `layers.1.mlp`, `layers.2.mlp`."""
    if isinstance(value, dict):
        return {key: _ranges(item) for key, item in value.items()}
    if not isinstance(value, list):
        return value
    out: list[Any] = []
    for item in value:
        if isinstance(item, str) and (match := RANGE.search(item)):
            out += [item[: match.start()] + str(number) + item[match.end() :] for number in _numbers(match)]
        else:
            out.append(_ranges(item))
    return out


def expand_sweeps(document: Document) -> Document:
    """Every arm at each of the `serving`'s settings, and each variant with a `sweep` replaced by the product of its
    lists, laid over the variant's `speculation`. `{draft}` (the draft's short name) and `{k}` (num_speculative_tokens)
    are filled in `name` and `label`.
    """
    document = _at_each_setting(document)
    variants = document.get("variants")
    if not isinstance(variants, list):
        return document
    plain: list[Any] = []
    for at, variant in enumerate(variants):
        if isinstance(variant, dict) and "sweep" in variant:
            plain += _swept(variant, field=f"variants.{at}.sweep")
        else:
            plain.append(variant)
        _check_number(len(plain), "variants", "split the experiment")
    return {**document, "variants": plain}


NAMING = ("name", "label", "compare_to", "reads")
"""Fields with the name or the label of an arm, or of a case."""


def _at_each_setting(document: Document) -> Document:
    """With a list in `serving`, as `max_num_seqs: [1, 2, 4]`, every arm at each value, beside its own baseline."""
    given, variants = _part(document, "serving"), compare_with_the_baseline(document).get("variants")
    lists = {key: each for key in TUNED if isinstance(each := given.get(key), list) and each}
    if not lists or not isinstance(variants, list):
        return document
    points = list(itertools.islice(itertools.product(*lists.values()), MAX_VARIANTS + 1))
    _check_number(len(points) * len(variants), "serving", "shorten a list, or split the experiment")
    settings = [dict(zip(lists, point, strict=True)) for point in points]
    ends = ["".join(f"-{TUNED[key]}{value}" for key, value in own.items()) for own in settings]
    arms = [_named(arm, end, own) for end, own in zip(ends, settings, strict=True) for arm in variants]
    return {**document, "serving": {**given, **settings[0]}, "variants": arms}


def _named(item: Any, end: str, own: Document) -> Any:
    """An arm or a case with `end` in its names, and with `own` fields."""
    if not isinstance(item, dict):
        return item
    return {**item, **{key: f"{item[key]}{end}" for key in NAMING if isinstance(item.get(key), str)}, **own}


def _swept(variant: Document, *, field: str) -> list[Document]:
    sweep = variant["sweep"]
    if not isinstance(sweep, dict) or not sweep or not all(isinstance(v, list) and v for v in sweep.values()):
        raise refused(field, "must map fields of `speculation` to lists", "write e.g. {num_speculative_tokens: [5, 7]}")
    points = list(itertools.islice(itertools.product(*sweep.values()), MAX_VARIANTS + 1))
    _check_number(len(points), field, "shorten a list, or split the experiment")
    rest: Document = {key: value for key, value in variant.items() if key != "sweep"}
    out: list[Document] = []
    for values in points:
        point: Document = merge(rest.get("speculation"), dict(zip(map(str, sweep), values, strict=True)))
        fields = {"{draft}": _short(point.get("draft")), "{k}": str(point.get("num_speculative_tokens", ""))}
        names: Document = {key: _fill(rest[key], fields) for key in ("name", "label") if key in rest}
        out.append(rest | names | {"speculation": point})
    return out


def _fill(text: Any, fields: Mapping[str, str]) -> Any:
    if not isinstance(text, str):
        return text
    for mark, value in fields.items():
        text = text.replace(mark, value)
    return text


def _short(draft: Any) -> str:
    """The part of a draft's name in that of an arm: `Qwen/Qwen3-0.6B` -> `qwen3-0.6b`."""
    identifier = draft.get("id") if isinstance(draft, dict) else None
    return re.sub(r"[^a-z0-9.-]", "-", str(identifier or "draft").rsplit("/", 1)[-1].lower())


def inherit(document: Document, *, preset: Callable[[str], Document], seen: tuple[str, ...] = ()) -> Document:
    """`document` over the preset that it `extends`, if it does."""
    if "extends" not in document:
        return document
    parent = document["extends"]
    if not isinstance(parent, str):
        raise refused("extends", "must be the name of a preset", "write `extends: qwen3-32b`")
    if parent in seen:
        raise refused("extends", f"{' -> '.join((*seen, parent))} goes round in a circle", "remove one `extends`")
    own = {key: value for key, value in document.items() if key != "extends"}
    before = with_answers(inherit(preset(parent), preset=preset, seen=(*seen, parent)), own.get("answers"))
    if "cases" in _part(own, "workload") and "prompts" not in own["workload"]:
        before = without_sets(before)
    return dict(merge(before, own))


def with_answers(document: Document, answers: Any) -> Document:
    """With what the document says under `with_answers`, if it is given `answers`: no target is served then."""
    smaller = document.get("with_answers")
    if not answers or not isinstance(smaller, dict):
        return document
    return dict(merge(document, smaller))


def without_sets(document: Document) -> Document:
    """Without `workload.prompts`: a user who names cases of a preset wants only these, and pays for no others."""
    if "prompts" not in (workload := _part(document, "workload")):
        return document
    return {**document, "workload": {key: value for key, value in workload.items() if key != "prompts"}}


def _part(document: Document, name: str) -> Document:
    """A part of the document; empty if it is none."""
    part = document.get(name)
    return part if isinstance(part, dict) else {}


def expand(document: Document, *, overrides: Mapping[str, Any], library: Mapping[str, Any]) -> Document:
    """Sweeps, variants, cases and sets of prompts written out, with `overrides` applied. A path is looked up in the
    document as it is written, and else in the document written out: so both a sweep's lists and a swept variant can be
    overridden.
    """
    if "workload.cases" in overrides and not any(path.startswith("workload.prompts") for path in overrides):
        document = without_sets(document)
    document = with_answers(document, overrides.get("answers"))
    document = {key: value for key, value in document.items() if key != "with_answers"}
    document, failed = override(document, overrides)
    document = expand_sets(expand_cases(expand_variants(document), library=library))
    document, failed = override(document, {path: overrides[path] for path in failed})
    if failed:
        raise ExperimentError(
            [Problem(field=p, rule="override", message=why, fix=fix_of(p, overrides[p])) for p, why in failed.items()]
        )
    return compare_with_the_baseline(expand_lengths(expand_cases(expand_variants(document), library=library)))


def expand_lengths(document: Document) -> Document:
    """A list of `workload.output_tokens`: each case without a length of its own at each of them."""
    workload = _part(document, "workload")
    lengths, given = workload.get("output_tokens"), workload.get("cases")
    if not isinstance(lengths, list) or not lengths or not isinstance(given, list):
        return document
    cases: list[Any] = []
    for case in given:
        alone = not isinstance(case, dict) or case.get("output_tokens") is not None
        cases += [case] if alone else [_named(case, f"-out{each}", {"output_tokens": each}) for each in lengths]
    longest = max((length for length in lengths if isinstance(length, int)), default=lengths[0])
    return {**document, "workload": {**workload, "cases": cases, "output_tokens": longest}}


def compare_with_the_baseline(document: Document) -> Document:
    """Arms that speculate and name no `compare_to` get the baseline's name, if there is exactly one."""
    variants = document.get("variants")
    if not isinstance(variants, list) or not all(isinstance(variant, dict) for variant in variants):
        return document
    alone = [variant for variant in variants if variant.get("compare_to") is None]
    plain = [variant for variant in alone if variant.get("speculation") is None]
    if len(plain) != 1 or "name" not in plain[0]:
        return document
    filled = [
        {**variant, "compare_to": plain[0]["name"]} if variant in alone and variant is not plain[0] else variant
        for variant in variants
    ]
    return {**document, "variants": filled}


def expand_cases(document: Document, *, library: Mapping[str, Any]) -> Document:
    """Names in `workload.cases` replaced by the cases of the library. Unknown names stay (`unknown_cases`)."""
    workload = _part(document, "workload")
    if not isinstance(workload.get("cases"), list):
        return document
    known = {name: {"name": name, **case} for name, case in library.items()}
    cases = [known.get(case, case) if isinstance(case, str) else case for case in workload["cases"]]
    return {**document, "workload": {**workload, "cases": cases}}


def unknown_cases(document: Document, *, library: Mapping[str, Any]) -> list[Problem]:
    """Names in `workload.cases` of a document written out: those that the library does not have."""
    cases = _part(document, "workload").get("cases")
    return [
        Problem(
            field=f"workload.cases.{at}",
            rule="case-known",
            message=f"no test case is called {case!r}",
            fix=f"name one of {', '.join(library)}, or write the case out (name, label, kind, text, structured)",
        )
        for at, case in enumerate(cases if isinstance(cases, list) else ())
        if isinstance(case, str)
    ]
