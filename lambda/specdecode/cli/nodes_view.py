"""Hours and cost of a run on one node and on several, in lines for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.table import Table

from specdecode.cli.cost_view import money, span
from specdecode.experiment import Capacity
from specdecode.planning import ByNodes, Plan, best_nodes


def units_table(plan: Plan) -> Table:
    """Which node measures which arms."""
    table = Table(title="Units (each on a node of its own, with the baselines of its arms)")
    of_sweep = plan.sweep is not None
    for column in ("unit", "first arm" if of_sweep else "arms", "waves at most" if of_sweep else "waves", "hours"):
        table.add_column(column, overflow="fold")
    for number, unit in enumerate(plan.units, start=1):
        table.add_row(str(number), ", ".join(unit.arms), str(unit.waves), span(unit.node_hours))
    return table


def nodes_lines(rows: Sequence[ByNodes], capacity: Capacity, *, nodes: int) -> Iterator[Table | str]:
    """A row for each number of nodes, and which number to choose. Empty if only one is possible."""
    if len(rows) < 2:
        return
    table = Table(title="Nodes (each measures its share of the arms, and the baselines again)")
    for column in ("nodes", "hours until the last is given back", "all of them"):
        table.add_column(column)
    for row in rows:
        table.add_row(f"{row.nodes}{' (this plan)' if row.nodes == nodes else ''}", span(row.hours), money(row.cost))
    yield table
    best = best_nodes(rows, capacity)
    why = "cheapest on demand" if capacity.type == "on-demand" else "fastest, on nodes that are paid for"
    yield f"nodes     {best.nodes}: {why} (--set nodes={best.nodes}); hours are from when all nodes are there"
