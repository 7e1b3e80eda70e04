"""Whether two experiments can be compared or learned from together, and what differs if they cannot."""

from collections.abc import Iterator

from specdecode.experiment.model import Experiment, ImportedExperiment, ServedExperiment
from specdecode.experiment.variants import TUNED, ModelRef, Speculation, Variant
from specdecode.measures.plausibility import differ

MODEL = {"id", "revision", "import_prefix", "rescale_fp8"}
"""Fields of a model that identify its weights."""
SERVED = {"quantization", "neuron_config", "extra_args", "env", "most_tokens_per_step", *TUNED}
"""Fields of a variant that say how it is served."""
LOAD = {
    *("cases", "input_tokens", "output_tokens", "concurrency", "rate", "load"),
    *("temperature", "thinking", "endpoint", "ignore_eos"),
}
"""Fields of the workload that decide what a speed-up is about. The number of requests only decides how sure it is."""


def incomparable(before: Experiment, after: Experiment) -> list[str]:
    """Differences in model, load, lengths and sampling. With any of them two speed-ups are not comparable."""
    first, second = (
        {"target": _weights(each.target), "workload": each.workload.model_dump(mode="json", include=LOAD)}
        for each in (before, after)
    )
    return [*paths(first, second), *_otherwise_recorded(before, after)]


def _otherwise_recorded(before: Experiment, after: Experiment) -> Iterator[str]:
    """How the arms of two imports that have the same names were measured differently."""
    if isinstance(before, ImportedExperiment) and isinstance(after, ImportedExperiment):
        for arm in sorted(before.recorded.keys() & after.recorded.keys()):
            yield from paths(before.recorded[arm], after.recorded[arm], f"recorded.{arm}")


def other_objective(before: Experiment, after: Experiment) -> list[str]:
    """Differences in the objective. With any of them the carried loads are not comparable; speed-ups still are."""
    first, second = (each.workload.slo.model_dump(mode="json") for each in (before, after))
    return list(paths(first, second, "workload.slo"))


def not_learnable(wanted: Experiment, measured: Experiment) -> list[str]:
    """Why an experiment cannot learn from another's runs: as `incomparable`, and how the arms were served."""
    differ = paths(_how_served(wanted), _how_served(measured))
    return [*incomparable(wanted, measured), *differ, *_arms(wanted, measured)]


def _how_served(experiment: Experiment) -> dict[str, object]:
    if not isinstance(experiment, ServedExperiment):
        return {"servers": sorted(variant.address or "" for variant in experiment.variants)}
    return {"engine": experiment.served_by, "serving": experiment.serving.model_dump(mode="json")}


def _arms(wanted: Experiment, measured: Experiment) -> Iterator[str]:
    """Differences, except k, between a measured arm and the wanted arms with the same draft."""
    for variant in measured.variants:
        if spec := variant.speculation:
            own = _arm(measured, variant, spec)
            alike = [
                _arm(wanted, other, like)
                for other in wanted.variants
                if (like := other.speculation) and like.draft.id == spec.draft.id
            ]
            if alike and own not in alike:
                yield from paths(alike[0], own, f"variants.{variant.name}")


def _arm(experiment: Experiment, variant: Variant, spec: Speculation) -> dict[str, object]:
    """How an arm speculates, except k; and how it and its base are served."""
    found: dict[str, object] = {
        "method": spec.method.value,
        "draft": _weights(spec.draft),
        "draft_max_model_len": spec.draft_max_model_len,
    }
    base = experiment.variant(variant.compare_to) if variant.compare_to else None
    for name, item in (("arm", variant), ("base", base)):
        if item:
            served = item.model_dump(mode="json", include=SERVED)
            found[name] = {"weights": _weights(experiment.target_of(item)), **served}
    return found


def _weights(model: ModelRef) -> dict[str, object]:
    return model.model_dump(mode="json", include=MODEL)


def paths(old: object, new: object, path: str = "") -> Iterator[str]:
    """Leaves that differ, as `workload.requests: 8 -> 50`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from paths(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from paths(left, right, f"{path}.{number}")
    elif differ(path, old, new):
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
