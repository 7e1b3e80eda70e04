"""Sets of prompts in the bucket: they exist, are as named, and are not too long. Checked before anything is created."""

from collections.abc import Iterator

from specdecode import s3_keys
from specdecode.experiment import Experiment
from specdecode.experiment.prompt_sets import bucket_sets, shipped
from specdecode.experiment.rules.prompts import FIX, too_long, unsendable
from specdecode.experiment.workload import TestCase
from specdecode.prompts import BadPromptSet, PromptSet, PromptsOf, read_set
from specdecode.store import Store


def keep_sets(
    store: Store, experiment: Experiment, *, run_id: str, fetched: bool = False
) -> tuple[dict[str, PromptSet], list[str]]:
    """Copy the sets that do not ship into the run's folder. So the folder holds all that was sent, and its pods read
    the sets there.

    Returns the sets by key, and everything that is wrong with them; if anything is wrong, nothing is copied. A set of
    the Hugging Face hub may be missing until it is `fetched`.
    """
    found: dict[str, PromptSet | str | None] = {}
    problems = []
    for case in experiment.workload.cases:
        given = case.prompts
        if given is None or shipped(given.set) is not None:
            continue
        if given.key not in found:
            found[given.key] = _read(store, given, fetched=fetched)
        problems += [f"workload.cases.{case.name}: {said}" for said in _problems(found[given.key], case, experiment)]
    sets = {key: each for key, each in found.items() if isinstance(each, PromptSet)}
    if not problems:
        for key in sets:
            kept = s3_keys.run_key(run_id, key)
            if store.read(kept, at_most=1) is None:
                store.write(kept, store.read(key) or b"", content_type="application/x-ndjson")
    return sets, list(dict.fromkeys(problems))


def kept_sets(store: Store, experiment: Experiment, *, run_id: str) -> dict[str, PromptSet]:
    found = {each: store.read(s3_keys.run_key(run_id, key)) for key, each in bucket_sets(experiment.workload).items()}
    return {each.key: read_set(data, name=each.set) for each, data in found.items() if data is not None}


def said(problems: list[str]) -> str:
    return "The prompts cannot be measured:\n" + "\n".join(f"  {problem}" for problem in problems)


def _read(store: Store, given: PromptsOf, *, fetched: bool) -> PromptSet | str | None:
    data = store.read(given.key)
    if data is None and given.hub and not fetched:
        return None
    if data is None:
        return f"{store.url(given.key)} is not there: `specdecode prompts add FILE` puts it there and prints its name"
    try:
        found = read_set(data, name=given.set)
    except BadPromptSet as error:
        return str(error)
    if found.sha256 != given.sha256:
        return f"{store.url(given.key)} has the SHA-256 {found.sha256}: add the file again"
    return found


def _problems(found: PromptSet | str | None, case: TestCase, experiment: Experiment) -> Iterator[str]:
    given = case.prompts
    if isinstance(found, str):
        yield found
    elif given is not None and found is not None and not found.of(given.category, given.length):
        yield f"{given.set} has no such prompt of {given.category}; its categories: {', '.join(found.categories)}"
    elif found is not None and (why := unsendable(found, case, experiment)):
        yield "; ".join(why)
    elif found and (beyond := too_long(found, case, experiment)):
        yield f"{beyond}; {FIX}"
