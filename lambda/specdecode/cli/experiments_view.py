"""How experiments, engines, plans and what a run costs look in a terminal of 80 columns."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from rich.table import Table

from specdecode.cli.forecast_view import expected_lines
from specdecode.escape import counted
from specdecode.experiment import Engine, Experiment
from specdecode.experiment.capacity import TERMS, CapacityType
from specdecode.experiment.model import CompileOn
from specdecode.experiment.prices import HOURS_A_MONTH
from specdecode.planning import Bill, Plan, Range
from specdecode.planning.offers import Offer
from specdecode.planning.ranges import money, span
from specdecode.planning.several_nodes import NodePart


class BlockDumper(yaml.CSafeDumper):
    """YAML with texts of several lines as blocks, so that a container's script can be read. It has no aliases."""

    def ignore_aliases(self, data: Any) -> bool:
        return True

    def represent_str(self, text: str) -> yaml.ScalarNode:
        return self.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


class FileDumper(BlockDumper):
    """YAML with each list in a line, as in the files that ship."""

    def represent_list(self, items: Any) -> yaml.SequenceNode:
        return self.represent_sequence("tag:yaml.org,2002:seq", items, flow_style=True)


BlockDumper.add_representer(str, BlockDumper.represent_str)
FileDumper.add_representer(list, FileDumper.represent_list)


def objects_text(objects: Iterable[Mapping[str, Any]]) -> str:
    """Objects of Kubernetes as YAML for `kubectl apply`. No line is folded."""
    return yaml.dump_all(objects, Dumper=BlockDumper, sort_keys=False, width=10_000)


def summary(experiment: Experiment, offer: Offer | None = None) -> dict[str, Any]:
    """An experiment in a few fields. Of a preset for AWS: its engine's support and its price too."""
    load = experiment.workload
    cases = counted(len(load.cases), "case")
    asked = sorted({load.requests_of(case) for case in load.cases})
    requests = counted(asked[0], "request") if len(asked) == 1 else f"{asked[0]} to {asked[-1]} requests a case"
    parallel, batch, window = map(experiment.served_in_words, ("tensor_parallel_size", "max_num_seqs", "max_model_len"))
    serving = f"TP {parallel} on {experiment.devices} devices, batch {batch}, {window} tokens long at most"
    return {
        "name": experiment.name,
        **({"support": offer.support, "node": experiment.node, "first_run": offer.price} if offer else {}),
        "title": experiment.title,
        "engine": experiment.served_by,
        "target": experiment.target.id,
        "variants": [variant.name for variant in experiment.variants],
        "serving": serving if experiment.holds_node else "servers that already run",
        "workload": f"{cases}, {load.input_tokens} in / {load.output_tokens} out, {requests}, {load.load_in_words}",
    }


def presets_table(shown: Iterable[dict[str, Any]]) -> Table:
    """`shown`: a `summary` of each preset."""
    table = Table(title="Presets", show_lines=True)
    table.add_column("preset", no_wrap=True)
    table.add_column("support of its engine, price, question and shape")
    for each in shown:
        names = each["variants"]
        variants = ", ".join(names) if len(names) <= 4 else f"{', '.join(names[:2])}, … ({len(names)} variants)"
        where = f"{each['node']}: {each['first_run']}\n" if "node" in each else ""
        table.add_row(
            each["name"],
            f"{each.get('support', 'on your machine')} (engine {each['engine']})\n{where}{each['title']}\n{variants}; "
            f"{each['serving']}\n{each['workload']}",
        )
    return table


def plan_tables(plan: Plan, bill: Bill, runs: Path) -> list[Table | str]:
    """The plan: what to expect, what is missing, the waves, the price. `runs`: the folder of the user's own runs."""
    missing = Table(title=f"{plan.experiment.name}: what must be in the bucket")
    for column in ("what", "where", "state"):
        missing.add_column(column, overflow="fold")
    for model in plan.models:
        state = _state(model.staged, "stage", model.content)
        missing.add_row(f"{model.model.id} ({model.model.size_gib:g} GiB)", model.prefix, state)
    for artifact in plan.artifacts:
        state = _state(artifact.compiled, "compile", artifact.content)
        missing.add_row(f"artifact of {artifact.arm.variant}", artifact.prefix, state)
    waves = Table(title="Waves (arms that are measured together)")
    for column in ("wave", "round", "arms", "devices"):
        waves.add_column(column)
    claimed, there = plan.experiment.devices, plan.experiment.shape.devices
    for wave in plan.waves:
        used = f"{len(wave.arms) * claimed} of {there}" if claimed else "none"
        waves.add_row(str(wave.index), str(wave.round), ", ".join(arm.variant for arm in wave.arms), used)
    elsewhere = [variant for variant in plan.experiment.variants if variant.address]
    lines = [
        *_sweep_lines(plan),
        *_apart_lines(plan),
        *(f"endpoint  {v.name}: {v.address}" for v in elsewhere),
        *cost_lines(bill),
        *_part_lines(plan),
        *_level_lines(plan),
        f"history   at most {plan.worst_case_events} events, one look every {plan.attentive_seconds} s"
        + (f" ({plan.poll_seconds} s where no end is expected)" if plan.poll_seconds > plan.attentive_seconds else ""),
        *(f"assumed   {line}" for line in bill.assumptions),
        *(f"warning   {line}" for line in plan.warnings),
    ]
    if bill.to_accept is not None:
        limit, wanted = f"${bill.accept_above:,.0f}", math.ceil(bill.to_accept)
        accept = f"start it with `specdecode run … --accept-cost {wanted}`"
        lines.append(f"accept    it could cost more than {limit}: {accept}")
    expected = "\n".join(expected_lines(plan.experiment, runs))
    return [*([expected] if expected else []), *([] if elsewhere else [missing]), waves, "\n".join(lines)]


def parts_tables(name: str, parts: Sequence[NodePart], whole: Bill) -> Iterator[Table | str]:
    """A row for each part, one for all and one for `whole`, the bill on one node; and what the plans warn of."""
    table = Table(title=f"{name}: {len(parts)} runs, each on a node of its own, with the baselines of its arms")
    for column in ("run", "arms", "node hours", "cost", "at most"):
        table.add_column(column)
    for number, part in enumerate(parts, start=1):
        own = part.bill
        table.add_row(str(number), ", ".join(part.arms), span(own.node_hours), money(own.node), f"${own.most:,.0f}")
    hours, cost = (sum((getattr(part.bill, of) for part in parts), Range()) for of in ("node_hours", "node"))
    table.add_section()
    most = sum(part.bill.most for part in parts)
    table.add_row(
        "all", counted(sum(len(part.arms) for part in parts), "arm"), span(hours), money(cost), f"${most:,.0f}"
    )
    table.add_row("or one", "all on one node", span(whole.node_hours), money(whole.node), f"${whole.most:,.0f}")
    yield table
    last = Range(low=max(p.bill.node_hours.low for p in parts), high=max(p.bill.node_hours.high for p in parts))
    yield f"last      ends {span(last)} h after all nodes are there"
    yield from (f"warning   {text}" for text in dict.fromkeys(text for part in parts for text in part.plan.warnings))


def _apart_lines(plan: Plan) -> list[str]:
    """Arms that are in no wave together with the arm that they are compared with, although arms share the node."""
    together = [{arm.variant for arm in wave.arms} for wave in plan.waves]
    if plan.sweep or max(map(len, together), default=1) == 1:
        return []
    pairs = {v.name: {v.name, v.compare_to} for v in plan.experiment.variants if v.compare_to}
    found = ", ".join(name for name, pair in pairs.items() if not any(pair <= wave for wave in together))
    said = (
        f"waves     {found}: never on the node together with the arm that they are compared with; what drifts between "
        "waves is in their speed-up (more workload.rounds bring more of them together)"
    )
    return [said] if found else []


def _part_lines(plan: Plan) -> list[str]:
    """How much time on the node each group of cases takes. Empty if there is one group only."""
    if len(plan.parts) < 2:
        return []
    rounds = max((wave.round + 1 for wave in plan.waves), default=plan.experiment.rounds)
    return [
        f"part      {part.group}: {part.cases} cases, {part.requests} requests an arm"
        + (f" and round ({rounds} rounds)" if rounds > 1 else "")
        + f": {span(part.node_hours)} h, {money(part.node_hours.scaled(plan.price_per_node_hour))}"
        for part in plan.parts
    ]


def _level_lines(plan: Plan) -> list[str]:
    """How much time on the node each load takes. Empty if there is one load only."""
    batch = plan.experiment.batch
    return [
        f"load      {each.level}: {each.requests} requests an arm and round: {span(each.node_hours.scaled(60))} min, "
        f"{money(each.node_hours.scaled(plan.price_per_node_hour))}"
        + (" (requests queue)" if batch is not None and (each.level.concurrency or 0) > batch else "")
        for each in (plan.levels if plan.levels[1:] else ())
    ]


def _sweep_lines(plan: Plan) -> list[str]:
    """What an adaptive sweep adds to the plan: its first arms, and the most that it may do."""
    if plan.sweep is None:
        return []
    candidates = sum(variant.compare_to is not None for variant in plan.experiment.variants)
    return [
        f"sweep     {plan.sweep.steps[0].reason}",
        f"          Then the advisor chooses, step by step, among {candidates} arms: at most {plan.sweep.most_steps} "
        f"steps, {plan.sweep.waves_to_come} more waves and {plan.sweep.compiles_to_come} more compiles.",
    ]


def engines_tables(engines: Sequence[Engine]) -> list[Table | str]:
    """The engines. Below them: which of them have an end date, and the engine to move to."""
    table = Table(title="Engines")
    for column in ("engine", "what it is", "methods", "models", "AMI"):
        table.add_column(column, no_wrap=column == "engine", overflow="fold")
    for engine in engines:
        methods = ", ".join(engine.methods) or "none"
        table.add_row(engine.name, engine.title, methods, ", ".join(engine.model_families), engine.runtime.amis)
    return [table, *(engine.support.sentence(engine.name) for engine in engines if engine.support)]


def engine_text(engine: Engine) -> str:
    """What the engine's file says, with what it extends. Below it: when its support ends, and the engine to move to."""
    document = engine.model_dump(mode="json", exclude_defaults=True)
    text = yaml.dump(document, Dumper=FileDumper, sort_keys=False, width=100)
    return text + (f"\n{engine.support.sentence(engine.name)}" if engine.support else "")


def _state(there: bool, verb: str, content: str | None) -> str:
    known = f" ({content[:8]})" if content else ""
    return f"there{known}" if there else f"to {verb}"


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
    else:
        lines.append(f"at most   ${bill.most:,.2f} for CPU nodes, if every step lasts until its deadline")
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
