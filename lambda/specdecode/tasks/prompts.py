"""Sets of prompts that the bucket holds: there, as they were named, and none too long, before anything is created."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode import layout
from specdecode.experiment import Experiment
from specdecode.experiment.model import TestCase
from specdecode.experiment.prompt_sets import shipped
from specdecode.experiment.rules.prompts import FIX, too_long
from specdecode.prompts import BadPromptSet, PromptSet, PromptsOf, read_set
from specdecode.runs.store import Store
from specdecode.tasks.errors import InvalidExperiment


def keep_sets(store: Store, experiment: Experiment, *, run_id: str) -> None:
    """Copy the sets that do not ship into the run's folder, which then holds all that was sent, and from which its pods
    have them. Raises InvalidExperiment with everything that is wrong with them.
    """
    found: dict[str, PromptSet | str] = {}
    problems = []
    for case in experiment.workload.cases:
        given = case.prompts
        if given is None or shipped(given.set) is not None:
            continue
        if given.key not in found:
            found[given.key] = _read(store, given)
        problems += [f"  workload.cases.{case.name}: {said}" for said in _problems(found[given.key], case, experiment)]
    if problems:
        raise InvalidExperiment("The prompts cannot be measured:\n" + "\n".join(dict.fromkeys(problems)))
    for key in found:
        store.write(layout.run_key(run_id, key), store.read(key) or b"", content_type="application/x-ndjson")


def _read(store: Store, given: PromptsOf) -> PromptSet | str:
    data = store.read(given.key)
    if data is None:
        return f"{store.url(given.key)} is not there: `specdecode prompts add FILE` puts it there and prints its name"
    try:
        found = read_set(data, name=given.set)
    except BadPromptSet as error:
        return str(error)
    if found.sha256 != given.sha256:
        return f"{store.url(given.key)} has the SHA-256 {found.sha256}: add the file again"
    return found


def _problems(found: PromptSet | str, case: TestCase, experiment: Experiment) -> Iterator[str]:
    given = case.prompts
    if isinstance(found, str):
        yield found
    elif given is not None and not found.of(given.category, given.length):
        yield f"{given.set} has no such prompt of {given.category}; its categories: {', '.join(found.categories)}"
    elif (said := too_long(found, case, experiment)) and not experiment.has_endpoints:
        yield f"{said}; {FIX}"
