"""What tests make plans and objects with: the experiment's own engine, and an empty bucket if nothing else is said."""

from typing import Any

from specdecode.experiment import Capacity, engine_of, prices
from specdecode.experiment.model import AnyExperiment
from specdecode.manifests import RenderContext
from specdecode.planning import Inventory, Plan, make_plan

PRICED = Capacity(price_per_node_hour=prices.TRN2_48XLARGE.usd)
"""The default node's price for every node: AWS publishes none for some, and every preset can be planned."""
CTX = RenderContext(run_id="r", bucket="b", bundle_uri="s3://b/k", bundle_sha256="0" * 64, region="us-east-2")


def plan_for(experiment: AnyExperiment, **given: Any) -> Plan:
    engine = given.pop("engine", None)
    engine = engine.on_node(experiment.node, experiment.devices) if engine else engine_of(experiment)
    return make_plan(experiment, engine, **{"inventory": Inventory(), **given})
