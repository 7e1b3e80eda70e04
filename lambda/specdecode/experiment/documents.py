"""YAML text to a plain mapping, safely: bounded, no tags, no aliases, no duplicate keys, no surprises of YAML 1.1."""

import re
from collections.abc import Hashable, Mapping
from typing import Any

import yaml

from specdecode.experiment import credentials
from specdecode.experiment.problems import Problem, refused

MAX_BYTES = 512 * 1024
"""Largest document, as a person writes it or a run keeps it."""
MAX_JSON_BYTES = 256 * 1024
"""Largest experiment with its ranges and sweeps written out, as JSON: Step Functions takes no larger input."""
MAX_DEPTH = 32


class _Loader(yaml.SafeLoader):
    """SafeLoader for the types that JSON has: dates and 010 stay text, and only true and false are booleans."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            event = self.get_event()  # type: ignore[no-untyped-call]
            raise yaml.composer.ComposerError(None, None, "aliases (*name) are not allowed", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.tag != "tag:yaml.org,2002:str":
                raise yaml.constructor.ConstructorError(
                    None, None, f"key {key.value!r} is not text: put it in quotes", key.start_mark
                )
            if key.value in seen:
                raise yaml.constructor.ConstructorError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag.endswith((":float", ":null"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^[-+]?(?:0|[1-9][0-9]*)$"), list("-+0123456789"))


def parse_yaml(text: str, *, origin: str) -> Any:
    """The value that `text` holds; ExperimentError with the line if it is not YAML of the allowed kind."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise refused(origin, f"larger than {MAX_BYTES // 1024} KiB", "an experiment is a page of text: split it")
    try:
        value = yaml.load(text, _Loader)  # noqa: S506 (a SafeLoader with less)
    except RecursionError:
        raise refused(origin, "nested too deeply", "flatten the document") from None
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1}, column {mark.column + 1})" if mark else ""
        why = f"{getattr(error, 'problem', None) or ' '.join(str(error).split())}{where}"
        raise refused(origin, f"not valid YAML: {why}", "correct the text at that place") from None
    check_depth(value, origin=origin)
    return value


def check_depth(value: Any, *, origin: str, depth: int = 0) -> None:
    """Raise ExperimentError if `value` is nested deeper than any experiment."""
    if depth > MAX_DEPTH:
        raise refused(origin, f"nested deeper than {MAX_DEPTH} levels", "flatten the document")
    children = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()
    for child in children:
        check_depth(child, origin=origin, depth=depth + 1)


def credentials_in(document: Any, *, overrides: Mapping[str, Any]) -> list[Problem]:
    """Each token or key in the document or an override."""
    places = list(credentials.found(document))
    for path, value in overrides.items():
        parts = ("…",) if credentials.kind_of(path) else tuple(path.split("."))
        places += credentials.found({path: None})
        places += credentials.found(value, at=parts)
    return [
        Problem(field=field, rule="no-secret", message=f"holds what looks like {kind}", fix=credentials.ADVICE)
        for field, kind in places
    ]
