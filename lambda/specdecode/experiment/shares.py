"""Which node measures which arms, if several nodes share an experiment."""

from __future__ import annotations

from collections.abc import Collection

from specdecode.experiment.model import AnyExperiment, Experiment

Share = tuple[str, ...]
"""Arms that are compared with others, without the baselines."""


def shares(experiment: Experiment, nodes: int, *, arms: Collection[str] | None = None) -> tuple[Share, ...]:
    """The compared arms (those in `arms`, if given) in at most `nodes` shares of about the same size.

    Arms that are compared with each other stay together, and so do those of one baseline as far as they can: only
    baselines are measured by more than one node.
    """
    place = {variant.name: at for at, variant in enumerate(experiment.variants)}
    blocks: dict[tuple[str, str], list[str]] = {}
    for variant in experiment.variants:
        if variant.compare_to is not None and (arms is None or variant.name in arms):
            path = _path(experiment, variant.name)
            blocks.setdefault((path[-1], path[-2] if len(path) > 1 else path[-1]), []).append(variant.name)
    found = [blocks[key] for key in sorted(blocks, key=lambda key: [place.get(name, -1) for name in key])]
    count = min(nodes, len(found))
    return tuple(
        tuple(name for block in found[len(found) * at // count : len(found) * (at + 1) // count] for name in block)
        for at in range(count)
    )


def share_of(experiment: AnyExperiment, arms: Collection[str] | None = None) -> AnyExperiment:
    """The experiment of one node: `arms`, and every baseline that they are compared with. Without `arms` all: a node of
    an adaptive sweep may take any.
    """
    if arms is None:
        return experiment.model_copy(update={"nodes": 1})
    needed = {name for arm in arms for name in _path(experiment, arm)}
    variants = tuple(variant for variant in experiment.variants if variant.name in needed)
    return experiment.model_copy(update={"variants": variants, "nodes": 1})


def baselines_of(experiment: Experiment, arms: Collection[str]) -> set[str]:
    """The baselines of `arms`: arms that are compared with no other."""
    return {_path(experiment, arm)[-1] for arm in arms}


def _path(experiment: Experiment, name: str) -> list[str]:
    """The arm, the arm that it is compared with, and so on to a baseline."""
    compared, path = {variant.name: variant.compare_to for variant in experiment.variants}, [name]
    while (before := compared.get(path[-1])) is not None and before not in path:
        path.append(before)
    return path
