"""The answers of a real API server to each mutant, and the differences of the double.

`answers.yaml` and `differences.yaml` are written by `python -m tests.conformance.record`, from a run on both servers.
"""

import functools
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from tests.conformance.mutants import Mutant, classes, seeds
from tests.conformance.server import CLUSTER_WIDE, Json, Server, path_of

HOWS = ("created", "applied", "updated", "reapplied")
ANSWERS = Path(__file__).with_name("answers.yaml")
DIFFERENCES = Path(__file__).with_name("differences.yaml")
_CANNOT = re.compile(r"the rehearsal cannot run this: (.*?)(?:, [a-z]+[.\[]|\]?$)")
_CHANGED = re.compile("immutable|may not change")
_SAME = (": {}", ": [{}]", 'distinctAttribute: "seed"')
_NOTHING = "a part that is empty, or behind a feature gate that is off: the API server compares without it"
_CUT = "a number that does not fit: the API server cuts it in an apply, which no user wants"
_OWN_PLACE = ("LimitRange", "ResourceQuota")
"""Kinds whose stored seed would change the answers about others in its namespace."""
_STRICT = "?dryRun=All&fieldValidation=Strict"
_APPLY = "?dryRun=All&fieldManager=specdecode&force=true"
Statuses = dict[str, int]


@dataclass(frozen=True)
class Places:
    """Where mutants are sent: namespaces by name, and what a server made of each seed that it stored: (namespace, kind)
    -> object.
    """

    namespaces: Mapping[str, str]
    stored: dict[tuple[str, str], Json]


def places(server: Server) -> Places:
    """Five namespaces: `open`, `restricted`, and three with stored seeds."""
    restricted = {"pod-security.kubernetes.io/enforce": "restricted"}
    made = {
        "open": server.namespace(),
        "restricted": server.namespace(**restricted),
        "stored open": server.namespace(),
        "stored restricted": server.namespace(**restricted),
        "stored limits": server.namespace(),
    }
    stored = {}
    for kind, seed in seeds().items():
        if kind == "ResourceClaimTemplate" and server.lacks(seed["apiVersion"]):
            continue
        if kind in CLUSTER_WIDE:
            body = {**seed, "metadata": {**seed["metadata"], "name": f"stored-{made['open']}"}}
            stored["stored open", kind] = stored["stored restricted", kind] = server.make(path_of(seed, ""), body)
        else:
            for place in ("stored limits",) if kind in _OWN_PLACE else ("stored open", "stored restricted"):
                stored[place, kind] = server.ok("POST", path_of(seed, made[place]), seed)
    return Places(made, {key: _sendable(body, key[1]) for key, body in stored.items()})


def _sendable(body: Json, kind: str) -> Json:
    metadata = {
        key: value for key, value in body["metadata"].items() if key not in ("resourceVersion", "managedFields")
    }
    return {**seeds()[kind], **body, "metadata": metadata}  # a Secret's stringData is not in the answer


def renew(server: Server, places: Places) -> None:
    """Store the Job anew that its controller has ended since (after 600 s) or removed (60 s later)."""
    seed = seeds()["Job"]
    for place in ("stored open", "stored restricted"):
        folder = path_of(seed, places.namespaces[place])
        path = f"{folder}/{seed['metadata']['name']}"
        status, found = server.request("GET", path)
        if status == 200 and not found.get("status", {}).get("conditions"):
            continue
        server.request("DELETE", f"{path}?propagationPolicy=Background")
        server.wait(lambda path=path: server.request("GET", path)[0] == 404)
        places.stored[place, "Job"] = _sendable(server.ok("POST", folder, seed), "Job")


def send(server: Server, mutant: Mutant, places: Places, how: str) -> tuple[int, str]:
    """The status and the message for a mutant. All are dry runs.

    It is `created`, or `applied` as a new object, or sent by PUT over its stored seed (`updated`: what the server
    answered is changed), or applied over that (`reapplied`).
    """
    seed = seeds()[mutant.seed]
    where, name, body = mutant.namespace, seed["metadata"]["name"], mutant.body
    if how in ("updated", "reapplied"):
        where = "stored limits" if mutant.seed in _OWN_PLACE else f"stored {where}"
        stored = places.stored[where, mutant.seed]
        name = stored["metadata"]["name"]
        body = mutant.of(stored if how == "updated" else {**seed, "metadata": {**seed["metadata"], "name": name}})
    path = path_of(seed, places.namespaces[where])
    match how:
        case "created":
            status, answer = server.request("POST", path + _STRICT, body)
        case "updated":
            status, answer = server.request("PUT", f"{path}/{name}{_STRICT}", body)
        case _:
            headers = {"Content_Type": "application/apply-patch+yaml"}
            status, answer = server.request("PATCH", f"{path}/{name}{_APPLY}", body, **headers)
    return status, answer.get("message", "")


def is_sent(kind: str, how: str) -> bool:
    """Mutants of every class are created. Those of classes with `everywhere` are also sent in the other ways."""
    return how == "created" or "everywhere" in classes()[kind]


def reason(how: str, name: str, message: str) -> str:
    """Why the double refuses what Kubernetes accepts, or refuses it with another status; "" if there is no reason."""
    if how in ("updated", "reapplied") and _CHANGED.search(message) and name.endswith(_SAME):
        return _NOTHING
    if found := _CANNOT.search(message):
        return f"the rehearsal cannot run this: {found[1]}"
    return _CUT if how in ("applied", "reapplied") and "cannot unmarshal number" in message else ""


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
