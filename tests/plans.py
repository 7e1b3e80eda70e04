"""Plans for tests: on the experiment's own engine, and on an empty bucket if nothing else is said."""

from typing import Any

from specdecode.experiment import engine_of
from specdecode.experiment.model import AnyExperiment
from specdecode.planning import Inventory, Plan, make_plan


def plan_for(experiment: AnyExperiment, **given: Any) -> Plan:
    engine = given.pop("engine", None)
    engine = engine.on_node(experiment.node, experiment.devices) if engine else engine_of(experiment)
    return make_plan(experiment, engine, **{"inventory": Inventory(), **given})
