"""The answers of a real API server to each mutant, and the differences of the double.

`answers.yaml` and `differences.yaml` are written by `python -m tests.conformance.record`, from a run on both servers.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.mutants import Mutant, classes, seeds
from tests.conformance.server import Server, path_of

HOWS = ("created", "applied")
ANSWERS = Path(__file__).with_name("answers.yaml")
DIFFERENCES = Path(__file__).with_name("differences.yaml")
_CANNOT = re.compile(r"the rehearsal cannot run this: (.*?)(?:, [a-z]+[.\[]|\]?$)")
_CUT = "a number that does not fit: the API server cuts it in an apply, which no user wants"
_STRICT = "?dryRun=All&fieldValidation=Strict"
_APPLY = "?dryRun=All&fieldManager=specdecode&force=true"
Statuses = dict[str, int]


def send(server: Server, mutant: Mutant, namespaces: Mapping[str, str], how: str) -> tuple[int, str]:
    """The status and the message for a mutant that is created or applied (both as a dry run)."""
    path = path_of(mutant.body, namespaces[mutant.namespace])
    if how == "created":
        status, answer = server.request("POST", path + _STRICT, mutant.body)
    else:
        name = seeds()[mutant.body["kind"]]["metadata"]["name"]
        headers = {"Content_Type": "application/apply-patch+yaml"}
        status, answer = server.request("PATCH", f"{path}/{name}{_APPLY}", mutant.body, **headers)
    return status, answer.get("message", "")


def is_sent(kind: str, how: str) -> bool:
    """Mutants of every class are created. Those of classes with `everywhere` are also applied."""
    return how == "created" or "everywhere" in classes()[kind]


def reason(how: str, message: str) -> str:
    """Why the double refuses what Kubernetes accepts, or refuses it with another status; "" if there is no reason."""
    if found := _CANNOT.search(message):
        return f"the rehearsal cannot run this: {found[1]}"
    return _CUT if how == "applied" and "cannot unmarshal number" in message else ""


@functools.cache
def recorded() -> Any:
    return yaml.safe_load(ANSWERS.read_text())


def answers(how: str, kind: str) -> Mapping[str, int]:
    """Name of a mutant -> its recorded status. `rest` is the status of all others."""
    by_status = recorded()[how][kind]
    return {name: int(status) for status, names in by_status.items() if status != "rest" for name in names}


def rest(how: str, kind: str) -> int:
    return int(recorded()[how][kind]["rest"])


@functools.cache
def differences() -> dict[tuple[str, str, str], int]:
    """(how, class, name) -> the double's status, if it is not the recorded one."""
    return {(how, kind, name): status for how, kind, name, status, _ in listed()}


def listed() -> Iterator[tuple[str, str, str, int, str]]:
    for entry in yaml.safe_load(DIFFERENCES.read_text()):
        for how, kinds in entry["mutants"].items():
            for kind, names in kinds.items():
                for name in names:
                    yield how, kind, name, entry["double"], entry["because"]


def packed(statuses: Mapping[str, int]) -> dict[str | int, Any]:
    """Statuses by name, in the form of `answers.yaml`."""
    most = Counter(statuses.values()).most_common(1)[0][0]
    found: dict[str | int, Any] = {"rest": most}
    for name, status in statuses.items():
        if status != most:
            found.setdefault(status, []).append(name)
    return found
