"""What a run costs, in lines for a terminal of 80 columns."""

from specdecode.experiment.capacity import TERMS, CapacityType
from specdecode.experiment.model import CompileOn
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.planning import Bill
from specdecode.planning.ranges import money, span

CENT = 0.01
UNUSED: dict[CapacityType, str] = {
    "odcr": "billed whether the run uses it or not",
    "capacity-block": "paid for already",
}
"""What a node costs that is not on demand: it is billed with and without the run."""


def cost_lines(bill: Bill) -> list[str]:
    """The expected cost, the most it can cost, and what is billed beside the node."""
    lines = []
    if bill.node_hours.high:
        hours, node = bill.node_hours, bill.node
        lines.append(f"node      {span(hours)} h, {money(node)} at ${bill.price_per_node_hour:.2f} an hour")
        if bill.rounds > 1:
            more = bill.more_rounds
            low, high, dollars = more.low * 60, more.high * 60, money(more.scaled(bill.price_per_node_hour))
            lines.append(f"rounds    {bill.rounds}; after the first: {low:.0f} to {high:.0f} min, {dollars} of it")
            lines.append("          arms swap device groups between rounds; --set workload.rounds=1 does without")
        if unused := UNUSED.get(bill.capacity):
            lines.append(f"          {TERMS[bill.capacity]}, {unused}")
        if bill.checking_at_most:
            most = f"at most ${bill.checking_at_most:,.0f}"
            lines.append(f"check     {money(bill.checking)} of it, {most}: engines start with tiny models")
            lines.append("          before the compile (--set start_check=false does without)")
        if bill.hold_minutes:
            costs = bill.hold_minutes / 60 * bill.price_per_node_hour
            lines.append(f"hold      {bill.hold_minutes:.0f} min, ${costs:,.2f} of it: arms stay for `specdecode ask`")
        lines += _compile_lines(bill)
        longest = f"{bill.longest_node_hours:.1f} h of the node"
        lines.append(f"at most   ${bill.most:,.0f}, if every step lasts until its deadline ({longest})")
    if bill.staging_gb:
        lines.append(
            f"staging   {bill.staging_gb:,.0f} GB through the NAT gateway, and a CPU node: {money(bill.staging)}"
        )
        if bill.node_hours.high:
            parts, whole = "node and staging", bill.node + bill.staging
            if bill.on_cpu_at_most and bill.compiling:
                parts, whole = "node, compile and staging", whole + bill.compiling.on_cpu
            lines.append(f"total     {money(whole)}: {parts}")
    if bill.storage_per_month >= CENT:
        lines.append(
            f"storage   ${bill.storage_per_month:,.2f} a month in S3, until deleted "
            f"({bill.storage_gb:,.0f} GB of models and artifacts)"
        )
    resting = bill.resting_per_hour
    lines.append(f"cluster   ${resting:.2f} an hour (${resting * HOURS_A_MONTH:,.0f} a month), also while nothing runs")
    return lines


def _compile_lines(bill: Bill) -> list[str]:
    """Cost of compiling on the node and on CPU nodes. Only if the engine can do both and something is missing."""
    found = bill.compiling
    if found is None:
        return []
    here, there = money(found.here), money(found.on_cpu)
    price = f"${found.price_per_cpu_hour:.2f} an hour ({found.priced_in})"
    if found.chosen is CompileOn.CPU:
        return [
            f"compile   {there} on CPU nodes at {price}, beside the node; at most ${found.on_cpu_at_most:,.0f}",
            f"          on the node it would be {here}, which the upper bound has in it: what does not load",
            "          is compiled there",
        ]
    return [
        f"compile   {here} of it; on CPU nodes at {price} {there}",
        "          (--set compile.on=cpu; unproven on hardware)",
    ]
