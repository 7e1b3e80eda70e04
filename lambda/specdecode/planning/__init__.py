"""From an experiment and what lies in the bucket to the plan of a run."""

from specdecode.planning.artifacts import Inventory, fingerprint, needed_prefixes, read_inventory
from specdecode.planning.bill import Bill, make_bill, paid_compiles
from specdecode.planning.plan import Plan, PlannedArtifact, PlannedModel, SweepPlan, make_plan
from specdecode.planning.ranges import Range
from specdecode.planning.waves import Arm, SweepStep, Wave, first_served, last_served

__all__ = [
    "Arm", "Bill", "Inventory", "Plan", "PlannedArtifact", "PlannedModel", "Range", "SweepPlan", "SweepStep",
    "Wave", "fingerprint", "first_served", "last_served", "make_bill", "make_plan", "needed_prefixes",
    "paid_compiles", "read_inventory",
]  # fmt: skip
