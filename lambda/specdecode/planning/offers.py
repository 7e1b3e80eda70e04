"""What can be started on AWS: each preset with its engine's support, its node and its price. The supported ones first.

Whoever names no experiment gets this list, and nothing is started: ADR 113.
"""

from dataclasses import dataclass

from specdecode.experiment import Capacity, Engine, Experiment, ExperimentError, engine_of, load_preset, preset_names
from specdecode.planning.artifacts import Inventory
from specdecode.planning.bill import Bill, make_bill
from specdecode.planning.plan import make_plan
from specdecode.planning.ranges import money, span

NOWHERE = ".invalid/"
"""In the name of an image that nothing pulls: it is for one machine (RFC 2606 reserves the domain)."""


@dataclass(frozen=True)
class Offer:
    """A preset, and the bill of a first run on an empty bucket."""

    experiment: Experiment
    engine: Engine
    bill: Bill
    priced: bool
    """Whether the price of its node is known. If not, the bill counts the node as 0."""

    @property
    def name(self) -> str:
        return self.experiment.name

    @property
    def support(self) -> str:
        """Until when the engine has support, in a few words."""
        if (support := self.engine.support) is None:
            return "supported"
        return f"ended {support.ended}" if support.ended else f"ends with {support.ends}"

    @property
    def price(self) -> str:
        """What it costs, and the most that it can cost."""
        if self.priced:
            return f"{money(self.bill.node)}, at most ${self.bill.most:,.0f}"
        return f"{span(self.bill.node_hours)} h at your price, at most {self.bill.longest_node_hours:.1f} h"


def offers(capacity: Capacity | None = None) -> list[Offer]:
    """Every preset for AWS that a deployment takes: supported engines first, then by price."""
    found = [offer for name in preset_names() for offer in _of(name, capacity)]
    return sorted(found, key=lambda each: (each.engine.support is not None, each.bill.most))


def offer_lines(capacity: Capacity | None = None) -> str:
    """The offers as lines of text."""
    rows = [(each.name, each.support, each.experiment.node, each.price) for each in offers(capacity)]
    rows.insert(0, ("preset", "engine's support", "node", "a first run"))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows
    )


def _of(name: str, capacity: Capacity | None) -> list[Offer]:
    """The offer of a preset; empty if a deployment refuses it, or if no registry has its image."""
    terms = capacity or Capacity()
    try:
        experiment = load_preset(name, capacity=terms)
    except ExperimentError:
        return []
    engine = engine_of(experiment)
    if NOWHERE in engine.image:
        return []
    priced = terms.of(experiment.node).price_per_node_hour is not None
    terms = terms if priced else Capacity(price_per_node_hour=0)
    bill = make_bill(make_plan(experiment, engine, inventory=Inventory(), capacity=terms), terms)
    return [Offer(experiment, engine, bill, priced)]
