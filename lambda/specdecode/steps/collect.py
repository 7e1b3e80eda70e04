"""The records of a run on several nodes: the records of its units together, each with its unit's number."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from specdecode import names, s3_keys
from specdecode.analysis import RunContext
from specdecode.analysis.results.context import Compiled, Failure, RunPart
from specdecode.experiment.shares import baselines_of
from specdecode.planning import SweepStep
from specdecode.records import SERVERS, Servers
from specdecode.runs.ledger import Ledger, readable_ledger
from specdecode.runs.state import RunUnit
from specdecode.steps.artifacts import compiled, served
from specdecode.steps.errors import ReportFailed, UnitFailed
from specdecode.steps.run import Run, read_servers
from specdecode.steps.runtime import Runtime
from specdecode.steps.units import measured_blocks, run_of
from specdecode.store import Store
from specdecode.untrusted import Unreadable, parse_json


@dataclass(frozen=True)
class MeasuredUnit:
    """A unit with records that count."""

    unit: RunUnit
    run: Run
    """Its own."""
    blocks: frozenset[tuple[str, int]]
    """Variant and round of the records that count: arms that the unit measured whole, and their baselines."""
    first_round: int = 0
    """What its rounds are counted from in the run: steps of an adaptive sweep are in no round together."""

    def round_of(self, own: int) -> int:
        """A round of the unit, as the run counts it."""
        return self.first_round + own


def collect(run: Run, store: Store) -> tuple[MeasuredUnit, ...]:
    """Write records, counters and scores of all units into the folder of their run. For a run on one node it writes
    nothing.

    An arm that a unit did not finish is left out: another unit measures it again, or nobody has. Raises ReportFailed if
    records cannot be read.
    """
    units = tuple(_measured(run, store))
    if not run.plan.is_shared:
        return units
    sources: dict[str, list[tuple[MeasuredUnit, str]]] = defaultdict(list)
    target, scored = s3_keys.run_prefix(run.state.run_id), set[str]()
    for each in units:
        base = s3_keys.run_prefix(each.unit.run_id)
        for key in store.keys(base + "raw/"):
            if key.endswith(".jsonl"):  # and not the notes of clients
                sources[target + key[len(base) :]].append((each, key))
        for key in store.keys(base + "accuracy/"):
            name = key[len(base) :]
            if name not in scored and name.removeprefix("accuracy/").removesuffix(".json") in _variants(each):
                store.copy(key, target + name)
                scored.add(name)
    for to, parts in sources.items():
        if data := b"".join(_records(store, key, each, run_id=run.state.run_id) for each, key in parts):
            store.write(to, data, content_type="application/x-ndjson")
    store.write(target + SERVERS, _servers(run, units, store).model_dump_json())
    return units


def of_units(context: RunContext, run: Run, units: Sequence[MeasuredUnit], rt: Runtime) -> RunContext:
    """The context of a run on several nodes, from the contexts of its units."""
    if not run.plan.is_shared:
        return context
    served_by, made = {item.variant: item for item in context.served}, dict[str, Compiled]()
    for each in reversed(units):
        own = {item.variant: item for item in served(each.run, bucket=rt.store.url(""))}
        served_by.update({name: item for name, item in own.items() if name in _variants(each)})
        made.update({item.variant: item for item in compiled(each.run)})
    return context.model_copy(
        update={
            "node_seconds": _node_seconds(run, rt),
            "parts": tuple(RunPart(unit=each.unit.number, node=each.run.state.node or "") for each in units),
            "device_groups": tuple(
                group.model_copy(update={"unit": each.unit.number, "round": each.round_of(group.round)})
                for each in units
                for group in each.run.state.device_groups
                if (group.variant, group.round) in each.blocks
            ),
            "failures": (*context.failures, *_failures(run, rt)),
            "served": tuple(served_by.values()),
            "compiled": tuple(made.values()),
            "sweep": _told(run, rt.store),
        }
    )


def _own(run: Run, rt: Runtime) -> Iterator[tuple[RunUnit, Run]]:
    """The units that this run itself started, as far as they got, without units that it took over."""
    for unit in run.state.units:
        found = run_of(rt.store, unit)
        if found is not None and names.parent_of(unit.run_id) == run.state.run_id:
            yield unit, found


def _node_seconds(run: Run, rt: Runtime) -> float:
    """Seconds for which nodes were held for this run. A node that the watchdog gave back counts until now."""
    states = [found.state for _, found in _own(run, rt)]
    return sum(((s.released_at or rt.now()) - s.held_since).total_seconds() for s in states if s.held_since)


def _failures(run: Run, rt: Runtime) -> Iterator[Failure]:
    for unit, found in _own(run, rt):
        for failure in found.state.failures:
            where = rt.store.url(s3_keys.run_key(unit.run_id, failure.diagnostics)) if failure.diagnostics else ""
            yield failure.model_copy(update={"message": f"{unit.run_id}: {failure.message}", "diagnostics": where})


def _told(run: Run, store: Store) -> tuple[SweepStep, ...]:
    """What the advisor decided, in order, with the number of the unit that it told."""
    numbers = {unit.run_id: unit.number for unit in run.state.units}
    return tuple(
        SweepStep(arm=each.arm, reason=f"Unit {number}: {each.reason}" if number else each.reason)
        for each in (readable_ledger(store, run.state.run_id) or Ledger()).entries
        for number in [numbers.get(each.unit)]
    )


def refuse_unmeasured(run: Run, rt: Runtime) -> None:
    """Raises UnitFailed if arms of a run on several nodes are not measured, with the cause of the first failed unit. An
    adaptive sweep is whole if it came to its own end.
    """
    ledger = readable_ledger(rt.store, run.state.run_id) if run.plan.is_shared_sweep else None
    failed = [unit for unit in run.state.units if _is_cut_short(unit, run, ledger) and not _is_retried(unit, run)]
    left = _sweep_left(run, ledger) if run.plan.is_shared_sweep else _unmeasured(run)
    if not left or not failed:
        return
    first, url = failed[0], rt.store.url(s3_keys.run_key(run.state.run_id, "report.html"))
    why = "; ".join(f"{unit.run_id} ended with {unit.error or unit.status}" for unit in failed)
    raise UnitFailed(
        f"{left}. {why}. The first: {first.cause or 'no cause was given'} What was measured is in {url}; "
        f"`specdecode run --resume {run.state.run_id}` measures the rest"
    )


def _unmeasured(run: Run) -> str:
    """What is missing, in words; empty where nothing is."""
    finished, variants = {arm for unit in run.state.units for arm in unit.finished}, run.plan.experiment.variants
    left = [v.name for v in variants if v.compare_to is not None and v.name not in finished]
    return f"{len(left)} of {len(variants)} arms are not measured: {', '.join(left)}" if left else ""


def _sweep_left(run: Run, ledger: Ledger | None) -> str:
    """The same of an adaptive sweep, which leaves out what it chose."""
    if ledger is not None and ledger.is_over:
        return ""
    finished = {arm for unit in run.state.units for arm in unit.finished}
    at = sorted({arm for unit in run.state.units for arm in unit.arms} - finished)
    return "the sweep did not come to its end" + (f"; not measured: {', '.join(at)}" if at else "")


def _is_cut_short(unit: RunUnit, run: Run, ledger: Ledger | None) -> bool:
    """Whether the unit ended before it had done its part; of an adaptive sweep: before it was told that it is over."""
    left = bool(set(unit.arms) - set(unit.finished))
    if not run.plan.is_shared_sweep:
        return left
    own = ledger.of(unit.run_id) if ledger else ()
    return (left or bool(unit.error)) and not (own and own[-1].arm is None)


def _is_retried(unit: RunUnit, run: Run) -> bool:
    return any(other.after == unit.number for other in run.state.units)


def _measured(run: Run, store: Store) -> Iterator[MeasuredUnit]:
    rounds = 0
    for unit in run.state.units:
        own = run_of(store, unit) if unit.finished else None
        if own is not None:
            counts = {*unit.finished, *baselines_of(run.plan.experiment, unit.finished)}
            blocks = frozenset(block for block in measured_blocks(own) if block[0] in counts)
            yield MeasuredUnit(unit=unit, run=own, blocks=blocks, first_round=rounds)
            if own.plan.sweep is not None:
                rounds += 1 + max(wave.round for wave in own.plan.waves)


def _variants(each: MeasuredUnit) -> set[str]:
    return {variant for variant, _ in each.blocks}


def _records(store: Store, key: str, each: MeasuredUnit, *, run_id: str) -> bytes:
    """The lines that count, as records of the whole run.

    A last line that was cut is dropped. Any other line that is no record means that the file is damaged: ReportFailed
    names it.
    """
    kept = []
    for number, line in enumerate((store.read(key) or b"").split(b"\n")[:-1], start=1):
        if not line.strip():
            continue
        try:
            record = parse_json(line)
            own = record.get("round", 0)
            counts = (record["variant"], own) in each.blocks
        except (Unreadable, TypeError, KeyError, AttributeError):
            raise ReportFailed(f"{store.url(key)} line {number} is no record") from None
        if counts:
            place = {"run_id": run_id, "unit": each.unit.number, "round": each.round_of(own)}
            kept.append(json.dumps({**record, **place}).encode() + b"\n")
    return b"".join(kept)


def _servers(run: Run, units: Sequence[MeasuredUnit], store: Store) -> Servers:
    """What the benchmarks of all units learned about their servers."""
    whole = Servers(run_id=run.state.run_id)
    for each in units:
        found = read_servers(store, each.unit.run_id)
        counters = tuple(
            item.model_copy(update={"unit": each.unit.number, "round": each.round_of(item.round)})
            for item in found.counters
            if (item.variant, item.round) in each.blocks
        )
        arms = {name: facts for name, facts in found.arms.items() if name in _variants(each)}
        whole = whole.model_copy(
            update={
                "prompt_tokens": whole.prompt_tokens or found.prompt_tokens,
                "arms": {**arms, **whole.arms},
                "counters": whole.counters + counters,
                "sets": tuple({item.sha256: item for item in (*whole.sets, *found.sets)}.values()),
                "notes": tuple(dict.fromkeys((*whole.notes, *found.notes))),
            }
        )
    return whole
