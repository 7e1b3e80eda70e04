"""A large sweep on several nodes: its arms in as many experiments, each planned as an ordinary run (ADR 188)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from functools import cache
from typing import NamedTuple

from specdecode.experiment import Capacity, ExperimentError, engine_of, rules
from specdecode.experiment.model import AnyExperiment, ServedExperiment, Sweep
from specdecode.experiment.problems import refused
from specdecode.planning.artifacts import Inventory
from specdecode.planning.bill import Bill, make_bill
from specdecode.planning.plan import Plan, make_plan


class NodePart(NamedTuple):
    """What one node measures."""

    arms: tuple[str, ...]
    """Without the baselines that it measures beside them."""
    plan: Plan
    """Of its experiment: these arms, and every baseline that they are compared with."""
    bill: Bill


def plan_parts(
    experiment: AnyExperiment, nodes: int, *, inventory: Inventory, capacity: Capacity, now: datetime | None = None
) -> tuple[NodePart, ...]:
    """`experiment` on `nodes` nodes (2 or more): a part for each, in the order of the arms. Arms that are compared with
    each other stay together. The parts take about the same node hours. Raises ExperimentError if it cannot be split, or
    if a part cannot run.
    """
    _check_can_be_split(experiment)
    engine = engine_of(experiment)

    def planned(arms: Collection[str]) -> Plan:
        return make_plan(_with(experiment, arms), engine, inventory=inventory, capacity=capacity, now=now)

    groups = _groups(experiment)
    if nodes > len(groups):
        count = "one group of arms" if len(groups) == 1 else f"{len(groups)} groups of arms"
        message = f"there is {count} for {nodes} nodes; arms that are compared with each other stay on one node"
        raise _refused(message, f"--nodes {len(groups)} or less" if len(groups) > 1 else "leave --nodes out")
    alone = {root: planned([root]).node_hours.high for root in {_path(experiment, group[0])[-1] for group in groups}}
    hours = [planned(group).node_hours.high - alone[_path(experiment, group[0])[-1]] for group in groups]
    found, begin = [], 0
    for end in _ends(hours, nodes):
        arms = tuple(name for group in groups[begin:end] for name in group)
        plan, begin = planned(arms), end
        if problems := rules.check(plan.experiment, engine, capacity):
            raise ExperimentError(problems)
        found.append(NodePart(arms, plan, make_bill(plan, capacity)))
    return tuple(found)


def _check_can_be_split(experiment: AnyExperiment) -> None:
    if not isinstance(experiment, ServedExperiment) or not experiment.shape.has_devices:
        what = "a check of the account" if experiment.holds_node else "a run of servers that already run"
        raise _refused(f"{what} takes no node with devices", "leave --nodes out")
    if experiment.sweep is Sweep.ADAPTIVE:
        message = "an adaptive sweep chooses each arm by the results of those before it, so one node measures it"
        raise _refused(message, "leave --nodes out, or measure every arm: --set sweep=grid")


def _refused(message: str, fix: str) -> ExperimentError:
    return refused("--nodes", message, fix, rule="several-nodes")


def _groups(experiment: AnyExperiment) -> list[list[str]]:
    """Compared arms that one node must measure, in order; those of one baseline are neighbours."""
    place = {variant.name: at for at, variant in enumerate(experiment.variants)}
    found: dict[tuple[int, int], list[str]] = {}
    for variant in experiment.variants:
        if variant.compare_to is not None:
            path = _path(experiment, variant.name)
            found.setdefault((place[path[-1]], place[path[-2]]), []).append(variant.name)
    return [found[key] for key in sorted(found)]


def _with(experiment: AnyExperiment, arms: Collection[str]) -> AnyExperiment:
    """The experiment with these arms, and every arm that they are compared with."""
    kept = {name for arm in arms for name in _path(experiment, arm)}
    return experiment.model_copy(
        update={
            "variants": tuple(variant for variant in experiment.variants if variant.name in kept),
            "published": tuple(item for item in experiment.published if {item.base, item.variant} <= kept),
        }
    )


def _path(experiment: AnyExperiment, name: str) -> list[str]:
    """The arm, the arm that it is compared with, and so on to a baseline."""
    path = [name]
    while (before := experiment.variant(path[-1]).compare_to) is not None:
        path.append(before)
    return path


def _ends(hours: Sequence[float], count: int) -> tuple[int, ...]:
    """Where each of `count` runs of neighbours ends, so that the longest takes as little as possible."""

    @cache
    def best(begin: int, parts: int) -> tuple[float, float, tuple[int, ...]]:
        """The most hours of a part, the sum of the squares (the more alike the less), and the ends."""
        if parts == 1:
            whole = sum(hours[begin:])
            return whole, whole**2, (len(hours),)
        found = []
        for end in range(begin + 1, len(hours) - parts + 2):
            own, (most, squares, ends) = sum(hours[begin:end]), best(end, parts - 1)
            found.append((max(own, most), own**2 + squares, (end, *ends)))
        return min(found)

    return best(0, count)[2]
