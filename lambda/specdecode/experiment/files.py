"""Experiments and engines from files, by name or from a document: validated whole, or refused with every reason."""

import json
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from specdecode.assets import assets_dir, engine_names, preset_names
from specdecode.experiment import credentials, documents, endpoints, expand, rules
from specdecode.experiment.capacity import Capacity
from specdecode.experiment.engine import Dialect, Engine
from specdecode.experiment.model import AnyExperiment, EndpointExperiment, Experiment, ServedExperiment
from specdecode.experiment.problems import ExperimentError, Problem, refused
from specdecode.experiment.told import without_absent_figures
from specdecode.experiment.validated import Model, did_you_mean, errors_of, path_of, validate
from specdecode.untrusted import Unreadable, read_text

_FIRST = ("schema_version", "name", "title", "description", "engine", "node", "target", "serving")
STAND_IN, MOST_MENDINGS = "qwen3-32b", 6
"""Preset whose values stand where a document lacks one, while the rest of it is judged; and how often it is tried."""
OF_A_VALUE = frozenset({"schema", "case-known", "engine-known", "override", "document"})
"""Rules about a value by itself, whatever stands beside it."""
FILE_SUFFIXES = (".yaml", ".yml", ".json")


def load_engine(name: str) -> Engine:
    """The engine called `name`; ExperimentError if there is none or its file is wrong."""
    if name not in (known := engine_names()):
        message = f"no engine is called {name!r}{did_you_mean(name, known)}"
        fix = f"choose one of {', '.join(known)} (`specdecode engines`)"
        raise refused("engine", message, fix, rule="engine-known", source="assets/engines")
    return _engine(assets_dir() / "engines" / f"{name}.yaml")


def engine_of(experiment: Experiment) -> Engine:
    """The engine whose images the run's pods use, with their sizes on the experiment's node."""
    return load_engine(experiment.images_of).on_node(experiment.node, experiment.devices)


@cache
def _engine(path: Path) -> Engine:
    """An engine's file, laid over the one that it `extends`. A key that it sets to null is left out."""

    def parent(name: str) -> dict[str, Any]:
        beside = path.with_name(f"{name}.yaml")
        if not beside.is_file():
            raise refused(f"{path.name}: extends", f"no engine is called {name!r}", "name one beside it")
        return _with_own_digests(_document(beside))

    document = expand.inherit(_with_own_digests(_document(path)), preset=parent)
    if "extends" in _document(path):
        document = {
            key: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
            for key, value in document.items()
        }
    return validate(Engine, document)


def _with_own_digests(document: dict[str, Any]) -> dict[str, Any]:
    """If the document names an image, the digest of the image that it replaces does not apply."""
    pinned = {"image": "digest", "tools_image": "tools_digest"}
    return {**{digest: None for image, digest in pinned.items() if image in document}, **document}


def load(reference: str, *, settings: Sequence[str] = (), capacity: Capacity | None = None) -> AnyExperiment:
    """The preset, or else the experiment in any file, of that name, with `settings` as `--set` takes them."""
    overrides, wrong = _overrides(settings)
    of_file = Path(reference).suffix in FILE_SUFFIXES or Path(reference).is_file()
    with problems_of_the_rest(wrong) if wrong else nullcontext():
        if reference not in preset_names() and of_file:
            return load_file(Path(reference), overrides=overrides, capacity=capacity)
        return load_preset(reference, overrides=overrides, capacity=capacity)


def load_preset(
    name: str, *, overrides: Mapping[str, Any] | None = None, capacity: Capacity | None = None
) -> AnyExperiment:
    """The preset called `name` with `overrides` (dotted path -> value) applied."""
    return from_document({"extends": name}, overrides=overrides, capacity=capacity)


def load_file(
    path: Path, *, overrides: Mapping[str, Any] | None = None, capacity: Capacity | None = None, measured: bool = False
) -> AnyExperiment:
    """The experiment that a YAML (or JSON) file describes; `measured`: of a run, maybe of an earlier version."""
    try:
        text = read_text(path, limit=documents.MAX_BYTES)
    except Unreadable as error:
        raise refused(str(path), str(error), "give a preset's name or a YAML file") from None
    document = documents.parse_yaml(text, origin=str(path))
    document = without_absent_figures(document) if measured else document
    return from_document(document, overrides=overrides, capacity=capacity)


def from_document(
    document: Any, *, overrides: Mapping[str, Any] | None = None, capacity: Capacity | None = None
) -> AnyExperiment:
    """The experiment that a plain mapping describes (an execution's input, a parsed file). Raises ExperimentError with
    every problem: of the document's shape, or, once the shape is right, of what the engine, the node and the load
    cannot do together (`specdecode.experiment.rules`).
    """
    documents.check_depth(document, origin="experiment")
    overrides = overrides or {}
    if hidden := documents.credentials_in(document, overrides=overrides):
        wrong = {path for path, each in overrides.items() if documents.credentials_in({}, overrides={path: each})}
        clean = {path: each for path, each in overrides.items() if path not in wrong}
        with problems_of_the_rest(hidden):
            from_document(credentials.without(document), overrides=clean, capacity=capacity)
    if not isinstance(document, dict):
        raise refused("", "an experiment is a mapping of keys to values", "start with `name:` or `extends:`")
    try:
        plain = expand.inherit(document, preset=_preset)
    except ExperimentError as error:
        if document.get("extends") == STAND_IN:
            raise
        with problems_of_the_rest(error.problems, OF_A_VALUE):
            from_document({**document, "extends": STAND_IN}, overrides=overrides, capacity=capacity)
    try:
        plain = expand.expand(plain, overrides=overrides, library=case_library())
    except ExperimentError as error:
        wrong = {problem.field for problem in error.problems}
        rest = {path: each for path, each in overrides.items() if path not in wrong}
        if len(rest) == len(overrides):
            raise
        with problems_of_the_rest(error.problems):
            from_document(document, overrides=rest, capacity=capacity)
    if not any(path.partition(".")[0] == "published" for path in (*document, *overrides)):
        plain = without_absent_figures(plain)
    unknown = expand.unknown_cases(plain, library=case_library())
    problems = unknown + rules.check_document(plain)
    of_one_kind = endpoints.of_one_kind(plain)
    model: type[AnyExperiment] = EndpointExperiment if endpoints.has_endpoints(plain) else ServedExperiment
    mended: list[str] = []
    experiment: AnyExperiment | None
    try:
        experiment = validate(model, of_one_kind)
    except ExperimentError as error:
        named = {"workload.cases", *(problem.field for problem in unknown)} if unknown else set()
        problems += [problem for problem in error.problems if problem.field not in named]
        experiment = _mended(model, of_one_kind, mended)
    beyond: list[Problem] = []
    if experiment:
        terms = capacity or Capacity()
        try:
            beyond = rules.check(experiment, engine_of(experiment), terms)
        except ExperimentError as error:
            beyond = [*error.problems, *_with_any_engine(experiment, terms)]
    problems += [problem for problem in beyond if not any(_touch(problem.field, path) for path in mended)]
    if problems or experiment is None:
        raise ExperimentError(problems)
    return experiment


@contextmanager
def problems_of_the_rest(problems: Sequence[Problem], of: Container[str] = ()) -> Iterator[None]:
    """Raise ExperimentError with `problems`, and with those that the block finds in the rest; `of`: of these rules."""
    rest: tuple[Problem, ...] = ()
    try:
        yield
    except ExperimentError as error:
        rest = error.problems
    raise ExperimentError(
        [*problems, *(each for each in rest if (not of or each.rule in of) and not _told(each, problems))]
    )


def _told(problem: Problem, by: Sequence[Problem]) -> bool:
    """Whether a problem is about a value of which another was told: leaving it out mends both."""
    last = problem.field.rpartition(".")[2]
    return any(_touch(problem.field, each.field) or last == each.field.rpartition(".")[2] for each in by)


def _with_any_engine(experiment: AnyExperiment, capacity: Capacity) -> list[Problem]:
    """Problems that the experiment has with every engine for its kind of node, since its own is not known."""
    found: list[list[Problem]] = []
    for name in engine_names():
        with suppress(ExperimentError):
            on_node = load_engine(name).on_node(experiment.node, experiment.devices)
            if (on_node.dialect is Dialect.UPSTREAM) == (not experiment.devices):
                found.append(rules.check(experiment, on_node, capacity))
    known = [{(each.field, each.rule) for each in of_one} for of_one in found]
    return [each for each in (found[0] if found else ()) if all((each.field, each.rule) in of_one for of_one in known)]


def _mended(model: type[Model], plain: Any, paths: list[str]) -> Model | None:
    """The document with every value of a wrong shape left out, or taken from a preset where one is needed, so that the
    rules can judge the rest. None if that is not enough. `paths`: where it is not the user's document.
    """
    plain, stand_in = deepcopy(plain), expand.expand(_preset(STAND_IN), overrides={}, library=case_library())
    with suppress(LookupError, TypeError, ValueError):  # ValidationError, which is one, is handled here
        for _ in range(MOST_MENDINGS):
            try:
                return model.model_validate_json(json.dumps(plain), strict=True)
            except ValidationError as error:
                places = [item["loc"] for item in errors_of(error)]
            for place in sorted(places, key=str, reverse=True):
                paths.append(path_of(place, plain))
                _mend(plain, stand_in, place)
                if place[-1] == "name":  # a whole item of the preset's, by whose name the rules call it
                    paths.append(path_of(place[:-1], plain))
    return None


def _mend(node: Any, known: Any, place: tuple[Any, ...]) -> None:
    """Leave out what is at `place` of `node`, or the value that holds it; what is missing there comes from `known`."""
    part, *rest = place
    if rest and isinstance(node[part], dict | list):
        there = part in known if isinstance(known, dict) else isinstance(known, list) and part < len(known)
        _mend(node[part], known[part] if there else None, tuple(rest))
    elif isinstance(node, list) or part in node:
        del node[part]
    else:
        node[part] = deepcopy(known[part])


def _touch(one: str, other: str) -> bool:
    """Whether one dotted path is the other's, or lies in it."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def parse_overrides(settings: Sequence[str]) -> dict[str, Any]:
    """`["workload.requests=20"]` -> `{"workload.requests": 20}`; values are YAML."""
    found, problems = _overrides(settings)
    if problems:
        raise ExperimentError(problems)
    return found


def _overrides(settings: Sequence[str]) -> tuple[dict[str, Any], list[Problem]]:
    """The settings that can be read, and what is wrong with the others."""
    found: dict[str, Any] = {}
    problems: list[Problem] = []
    for setting in settings:
        path, equals, value = setting.partition("=")
        try:
            if not equals or not path.strip("."):
                fix = "write --set workload.requests=20"
                raise refused(f"--set {setting}", "not of the form path=value", fix)
            found[path] = documents.parse_yaml(value, origin=f"--set {path}")
        except ExperimentError as error:
            problems += error.problems
    return found, problems


def to_yaml(experiment: Experiment) -> str:
    """The whole experiment as YAML that `load_file` reads back to an equal object."""
    document = endpoints.written(experiment.model_dump(mode="json"))
    plain = {key: document[key] for key in in_order(document)}
    return yaml.dump(plain, Dumper=yaml.CSafeDumper, sort_keys=False, allow_unicode=True, width=120)


def in_order(keys: Iterable[str]) -> list[str]:
    """The `keys` of an experiment as a person writes them: first what runs on what, then the arms and the load."""
    return sorted(keys, key=lambda key: _FIRST.index(key) if key in _FIRST else len(_FIRST))


def case_library() -> dict[str, Any]:
    """The test cases that presets name: name -> fields."""
    return _document(assets_dir() / "prompts" / "cases.yaml")


def _preset(name: str) -> dict[str, Any]:
    if name not in (known := preset_names()):
        message = f"no preset is called {name!r}{did_you_mean(name, known)}"
        fix = f"choose one of {', '.join(known)} (`specdecode presets`), or give a YAML file"
        raise refused("experiment", message, fix, rule="preset-known", source="assets/experiments")
    found, told = _document(assets_dir() / "experiments" / f"{name}.yaml"), assets_dir() / "published" / f"{name}.yaml"
    return {**_document(told), **found} if told.exists() else found


@cache
def _document(path: Path) -> dict[str, Any]:
    """A file that ships with the package. Nobody may change what is returned."""
    return dict(documents.parse_yaml(path.read_text("utf-8"), origin=path.name))
