"""From an experiment and what lies in the bucket to the plan of a run."""

from specdecode.planning.bill import Bill, make_bill
from specdecode.planning.cost import Range
from specdecode.planning.fingerprint import fingerprint
from specdecode.planning.inventory import Inventory, needed_prefixes, read_inventory
from specdecode.planning.making import make_plan
from specdecode.planning.plan import Plan, PlannedArtifact, PlannedModel
from specdecode.planning.sweep import SweepPlan, SweepStep
from specdecode.planning.waves import Arm, Wave, first_served

__all__ = [
    "Arm",
    "Bill",
    "Inventory",
    "Plan",
    "PlannedArtifact",
    "PlannedModel",
    "Range",
    "SweepPlan",
    "SweepStep",
    "Wave",
    "fingerprint",
    "first_served",
    "make_bill",
    "make_plan",
    "needed_prefixes",
    "read_inventory",
]
