"""Whether two experiments can be compared or learned from together, and what differs where they cannot."""

from __future__ import annotations

from collections.abc import Iterator

from specdecode.experiment.model import Experiment

MODEL = {"id", "revision", "import_prefix", "rescale_fp8"}
"""Fields of a model that say which weights it is."""
LOAD = (
    "cases",
    "input_tokens",
    "output_tokens",
    "concurrency",
    "rate",
    "temperature",
    "thinking",
    "endpoint",
    "ignore_eos",
)
"""Fields of the workload that decide what a speed-up is of; how often it is asked only decides how sure it is."""


def incomparable(before: Experiment, after: Experiment) -> list[str]:
    """Differences in model, load, lengths and sampling: with one of them two speed-ups are of different things."""
    return [
        *paths(
            before.target.model_dump(mode="json", include=MODEL),
            after.target.model_dump(mode="json", include=MODEL),
            "target",
        ),
        *paths(
            before.workload.model_dump(mode="json", include=set(LOAD)),
            after.workload.model_dump(mode="json", include=set(LOAD)),
            "workload",
        ),
    ]


def not_learnable(wanted: Experiment, measured: Experiment) -> list[str]:
    """Why an experiment's advice cannot be drawn from another's measurements: these, and how they were served."""
    served = {
        name: (
            {"engine": experiment.engine, "serving": experiment.serving.model_dump(mode="json")}
            if not experiment.has_endpoints
            else {"servers": sorted(variant.endpoint or "" for variant in experiment.variants)}
        )
        for name, experiment in (("wanted", wanted), ("measured", measured))
    }
    return [*incomparable(wanted, measured), *paths(served["wanted"], served["measured"])]


def paths(old: object, new: object, path: str = "") -> Iterator[str]:
    """Leaves that differ, as `workload.requests: 8 -> 50`."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            yield from paths(old.get(key), new.get(key), f"{path}.{key}" if path else key)
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (left, right) in enumerate(zip(old, new, strict=True)):
            yield from paths(left, right, f"{path}.{number}")
    elif old != new:
        yield f"{path}: {_short(old)} -> {_short(new)}"


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
