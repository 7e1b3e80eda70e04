"""Diagnose: keep the evidence in the run's folder, and put the cause in plain words on top of it."""

import json
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from specdecode import names, s3_keys
from specdecode.analysis.results.run_context import Failure
from specdecode.escape import clip, line, plain
from specdecode.experiment import assets_dir
from specdecode.kubernetes.client import KubernetesError
from specdecode.kubernetes.diagnosis import explain, load_table
from specdecode.kubernetes.failure_files import Evidence, collect_logs, collect_status
from specdecode.kubernetes.teardown import run_selector
from specdecode.runs.state import load_state, save_state
from specdecode.steps.damage import set_aside_later
from specdecode.steps.errors import LONGEST, DamagedFolder
from specdecode.steps.runtime import Runtime, StepInput, run_step
from specdecode.store import Store
from specdecode.untrusted import Unreadable, parse_json

TABLE = "diagnosis.yaml"
DAMAGED = "damaged"
"""Name of the row about a folder that is not what was stored."""
LONGEST_DETAIL = 16_000
"""Characters of a cause. With more than 32,768 in a Fail state the execution ends without any cause."""
LONGEST_NAME = 200


class Diagnosis(BaseModel):
    """The error and the cause of the execution, named as Step Functions names them."""

    model_config = ConfigDict(frozen=True)

    Error: str
    Cause: str


def diagnose(given: StepInput, rt: Runtime) -> Diagnosis:
    error = clip(line(str((given.error or {}).get("Error") or "Unknown")), LONGEST_NAME)
    detail = clip(plain(error_message((given.error or {}).get("Cause"))), LONGEST)
    where = "diagnostics"
    if _is_an_earlier_run_s(given, rt):
        _, paragraph = explain(load_table(assets_dir() / TABLE), {"error": f"{error}: {detail}"})
        return Diagnosis(Error=error, Cause=f"{paragraph} ({short(detail)})")
    row, paragraph, lost = examine(rt, given.run_id, error=error, detail=detail, where=where)
    done = set_aside_later(given.run_id, rt) if row == DAMAGED and error != DamagedFolder.__name__ else ""
    kept = lost or f"Diagnostics: {rt.store.url(s3_keys.run_key(given.run_id, where))}/"
    with suppress(Exception):  # the bucket may be what failed; the words of the cause reach the user without it
        state = load_state(rt.store, given.run_id)
        failure = Failure(stage=error, message=paragraph, diagnostics=f"{where}/")
        if state is not None and failure not in state.failures:
            save_state(rt.store, state.model_copy(update={"failures": (*state.failures, failure)}))
    return Diagnosis(Error=error, Cause=f"{paragraph} ({short(detail)}{done}) {kept}")


def _is_an_earlier_run_s(given: StepInput, rt: Runtime) -> bool:
    """Whether the folder has the results of an earlier run of this name. Nothing is added to those."""
    with suppress(Exception):  # a record that cannot be had hides no evidence
        state = load_state(rt.store, given.run_id)
        return state is not None and not state.is_of(given.execution_started)
    return False


class Examined(NamedTuple):
    """The name of the cause, the paragraph about it, and why the evidence is not kept ("" if it is)."""

    row: str
    paragraph: str
    lost: str


def examine(rt: Runtime, run_id: str, *, error: str, detail: str, where: str) -> Examined:
    """Keep the evidence in the run's folder `where`. A bucket that does not take it hides no cause.

    What the API server knows is stored before any log is read: logs come from nodes, which may not answer.
    """
    detail += _of_namespace(rt) if "is forbidden: User" in detail else ""
    keep = partial(_keep, rt.store, s3_keys.run_key(run_id, where, ""), error, detail)
    try:
        found = collect_status(rt.kube, selector=run_selector(run_id))
    except Exception as broke:  # a cluster that cannot be reached must not hide the error
        found = Evidence(missing=[f"{type(broke).__name__}: {broke}"])
    keep(found)
    try:
        collect_logs(rt.kube, found)
    except Exception as broke:
        found.missing.append(f"logs: {type(broke).__name__}: {broke}")
    return keep(found)


def _keep(store: Store, folder: str, error: str, detail: str, found: Evidence) -> Examined:
    """Store the files of `found`, each once, and the cause as far as it is known."""
    row, paragraph = explain(load_table(assets_dir() / TABLE), {"error": f"{error}: {detail}", **found.kinds})
    summary = {"cause": paragraph, "row": row, "error": error, "detail": detail, "missing": found.missing}
    try:
        for path, text in found.files.items():
            store.write(folder + path, text, content_type="text/plain; charset=utf-8")
        store.write(folder + "diagnosis.json", json.dumps(summary, indent=1), content_type="application/json")
        store.write(folder + "README.txt", f"{paragraph}\n\n{error}: {detail}\n", content_type="text/plain")
    except Exception as broke:
        return Examined(row, paragraph, f"No diagnostics are kept: {type(broke).__name__}: {line(str(broke))}")
    found.files.clear()
    return Examined(row, paragraph, "")


def _of_namespace(rt: Runtime) -> str:
    """What is wrong with the namespace, in the API server's words: the rights in it go first, so only their lack was
    told.
    """
    with suppress(KubernetesError):
        found = rt.kube.get("Namespace", names.NAMESPACE, namespace=names.NAMESPACE)
        if found is None:
            return f'; namespaces "{names.NAMESPACE}" not found'
        if found.get("status", {}).get("phase") == "Terminating":
            return f"; not in namespace {names.NAMESPACE} because it is being terminated"
    return ""


def short(detail: str) -> str:
    """At most LONGEST_DETAIL characters of an error's message. The whole message is in diagnosis.json."""
    return detail if len(detail) <= LONGEST_DETAIL else f"{detail[:LONGEST_DETAIL]} … (the rest is in the diagnostics)"


def error_message(cause: Any) -> str:
    """The message in a Cause. The Cause of a failed function is JSON with errorMessage; other Causes are plain text."""
    try:
        body = parse_json(cause) if isinstance(cause, str) else cause
    except Unreadable:
        return str(cause or "no cause was given")
    return str(body.get("errorMessage") or cause) if isinstance(body, dict) else str(cause or "no cause was given")


handler = partial(run_step, diagnose)
