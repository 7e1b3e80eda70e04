"""Generated comparisons: runs, benches of one server and imports, with the truth that each was made from."""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache

from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import advice_sentence
from specdecode.analysis.compare import trusted_everywhere
from specdecode.analysis.other_tools.imported import AIPERF, GUIDELLM, VLLM, completed_request, own_statistics, tool_arm
from specdecode.analysis.other_tools.imported_report import compare_imported
from specdecode.analysis.results.comparison import AccuracyChange
from specdecode.analysis.results.over_load import ArmAtLoad, Curve, LoadPoint
from specdecode.analysis.results.pairs import HEADLINE, Action, Chain, Equality, LoadResult, Pair, Verdict
from specdecode.analysis.statistics.pairs import assemble, case_result
from specdecode.analysis.statistics.verdict import MAX_FAILED, distrust, estimate
from specdecode.analysis.texts.recommend import voiced
from specdecode.experiment.model import Experiment
from specdecode.experiment.variants import ModelRef, Speculation, Variant
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.distribution import Summary, summarize
from specdecode.measures.student import LogMean, combine

from tests.specdecode.analysis.simulate import context, experiment, run

TOGETHER, ALONE, IMPORTED = 5, 6, 2
"""Of eight comparisons: one has seven noisy types that gain alike (faster together, and on no type by itself), one is
of one server, one is imported.
"""
CHAIN, ROOTS = 0, 3
"""Of seven comparisons of several arms: in one an arm is compared with a quantized base, which is compared with `base`;
in one the quantized base is a first baseline of its own.
"""
TOOLS = (VLLM, AIPERF, GUIDELLM)
NOTHING = ArmAtLoad(output_throughput=None, user_speed=None)


@dataclass
class Truth:
    """What a comparison was made from."""

    wrong: set[str] = field(default_factory=set)
    """Arms with an impossible figure of their own, at some load."""
    unsure: set[str] = field(default_factory=set)
    """Arms whose figures are no evidence: their load generator fell behind at the first load, or they were measured
    under other conditions than the baseline."""
    reached: set[str] = field(default_factory=set)
    """States of this comparison, in words."""


REACHED = (
    *("use", "do not use", "measure more", "do not trust", "faster together, and on no type by itself"),
    *("one load", "several loads", "one arm", "several arms", "a chain", "nothing to compare", "failed requests"),
    *("late at the first load", "late at a later load alone", "late at a later load, and used"),
    *("impossible at the first load", "impossible at a later load alone", "another arm is impossible, and one is used"),
    *("another text", "pays", "costs", "no relevant difference", "cannot tell", "mixed"),
    *("used, and some types cost", "used, and some types are not known", "against the chain's root it is not used"),
    *("one server", "one server, impossible", "one server, late", "one server, several loads"),
    *(
        "import",
        "import, used",
        "import in another unit",
        "import that contradicts itself",
        "import measured otherwise",
    ),
    *("import without requests", "it answers worse", "an arm lacks a type", "an arm fails, and another is used"),
    *("two first baselines", "the first baseline is missing", "another arm is to be used at a later load alone"),
)
"""Every state that is to be reached."""


@cache
def template(arms: int, types: int, kinds: int, loads: int, shape: int | None) -> tuple[Experiment, Comparison]:
    cases = tuple(
        TestCase(name=f"t{n}", label=f"t{n}", kind=PromptKind.SONNET, structured=bool(kinds >> n & 1))
        for n in range(types)
    )
    tested = experiment(ks=tuple(range(3, 3 + arms)), cases=cases, requests=4)
    variants = list(tested.variants)
    if shape is not None:
        root = "base" if shape == CHAIN else None
        quantized = {"name": "base8", "speculation": None, "quantization": "fp8"}
        variants[1] = variants[1].model_copy(update={**quantized, "compare_to": root})
        variants[2] = variants[2].model_copy(update={"compare_to": "base8", "quantization": "fp8"})
    small = tested.workload.model_copy(update={"output_tokens": 20})
    once = tested.model_copy(update={"workload": small, "variants": tuple(variants)})
    found = compare(experiment=once, records=list(run(once)), context=context())
    workload = small.model_copy(update={"concurrency": (1, 4) if loads > 1 else (4,)})
    return once.model_copy(update={"workload": workload}), found


def generated(seed: int) -> tuple[Comparison, Truth]:
    """A comparison of one server, of two to four arms on one to seven prompt types, or of imported results; at one load
    or two; now and then impossible, late, another text, without a prompt type or without its first baseline.
    """
    rng, truth = random.Random(seed), Truth()
    made = _imported(rng, truth) if seed % 8 == IMPORTED else _measured(rng, truth, seed)
    truth.reached |= set(_states(made, truth))
    return made, truth


def _measured(rng: random.Random, truth: Truth, seed: int) -> Comparison:
    arms = 0 if seed % 8 == ALONE else rng.choice([1, 1, 2, 3])
    types = 7 if seed % 8 == TOGETHER else rng.choice([1, 2, 3, 5, 7])
    shape = seed % 7 if seed % 7 in (CHAIN, ROOTS) and arms else None
    arms = {None: arms, CHAIN: max(arms, 2), ROOTS: 3}[shape]
    kinds, loads = rng.choice([0, 2**types - 1, 5 % 2**types]), rng.choice([1, 1, 2])
    tested, found = template(arms, types, kinds, loads, shape)
    levels, named = tested.workload.levels, {each.name: each for each in tested.variants}
    speed, apart = {v: rng.gauss(0.1, 0.3) if v != "base" else 0.0 for v in named}, rng.choice([0.02, 0.2, 0.6])
    noise = [0.001, 0.03, 0.2]
    if together := seed % 8 == TOGETHER and arms > 0:
        speed, apart, noise = {v: 0.25 if v != "base" else 0.0 for v in named}, 0.02, [0.2]
    if not_there := {"base"} if shape == CHAIN and arms == 2 and rng.random() < 0.2 else set[str]():
        truth.reached.add("the first baseline is missing")
    if shape == ROOTS:
        truth.reached.add("two first baselines")
    truth.wrong = {v for v in named if rng.random() < (0.06 if arms else 0.2)} - not_there
    wrong_at = rng.randrange(len(levels))
    whole = sorted(named.keys() - truth.wrong - not_there)
    part = rng.choice(whole) if whole and types > 1 and arms and rng.random() < 0.1 else ""
    lacks = {case.name for case in rng.sample(tested.workload.cases, rng.randrange(1, types))} if part else set()
    lacks_at = rng.choice([{0}, {1}, {0, 1}])
    if part and min(lacks_at) < len(levels):
        truth.reached.add("an arm lacks a type")
    at_load = []
    for number, level in enumerate(levels):
        behind = {v for v in named if rng.random() < 0.05} - not_there
        here = {v: own + (rng.gauss(0, 0.4) if number and v != "base" else 0.0) for v, own in speed.items()}
        own = {
            (v, case.name): _arm(rng, v, case.name, v in truth.wrong and number == wrong_at, v in behind, here[v])
            for v in named
            for case in tested.workload.cases
            if v not in not_there and not (v == part and case.name in lacks and number in lacks_at)
        }
        if not number:
            truth.unsure = behind
        elif behind - truth.unsure:
            truth.reached.add("late at a later load alone")

        def pair(base: Variant, other: Variant, own: dict = own, here: dict = here) -> Pair | None:
            results = [
                _result(rng, case, own[base.name, case.name], own[other.name, case.name],
                        LogMean(here[other.name] - here[base.name] + rng.gauss(0, apart), rng.choice(noise) ** 2,
                                rng.choice([0.0, 3.0, 19.0]) if rng.random() < 0.2 and not together else 19.0, 20))
                for case in tested.workload.cases
                if {(base.name, case.name), (other.name, case.name)} <= own.keys()
            ]  # fmt: skip
            return assemble(experiment=tested, base=base, other=other, results=results) if results else None

        made = [each for v in tested.variants if v.compare_to and (each := pair(named[v.compare_to], v))]
        at_load.append((level, tuple(own.values()), made, pair))
    if truth.wrong:
        truth.reached.add("impossible at a later load alone" if wrong_at else "impossible at the first load")
    loads = tuple(LoadResult(level=level, arms=own, pairs=tuple(made)) for level, own, made, _ in at_load[1:])
    pairs, loads = trusted_everywhere(at_load[0][2], loads)
    chains = []
    if shape == CHAIN and {p.variant for p in pairs} >= {"base8", "sd-k4"}:
        links = tuple(p for p in pairs if p.variant in ("base8", "sd-k4"))
        if total := at_load[0][3](named["base"], named["sd-k4"]):
            distrusted = next((p.distrusted for p in links if p.distrusted), "")
            total = distrust(total, {total.variant: distrusted}) if distrusted and not total.distrusted else total
            chains = [Chain(variant="sd-k4", root="base", links=links, total=total)]
    curves = [_curve(rng, at_load, p) for p in pairs if len(levels) > 1 and not p.distrusted]
    for chain in chains if len(levels) > 1 else ():
        totals = [at[3](named[chain.root], named[chain.variant]) for at in at_load]
        found_at = [(*at[:2], [each] if each else [], at[3]) for at, each in zip(at_load, totals, strict=True)]
        curves += [_curve(rng, found_at, chain.total)] if not chain.total.distrusted else []
    lost = [p for p in pairs if not p.distrusted and random.Random(f"{seed}{p.variant}").random() < 0.1]
    if any(p.among and p.among.faster for p in lost):
        truth.reached.add("it answers worse")
    accuracy = tuple(
        AccuracyChange(variant=p.variant, baseline=p.baseline, task="gsm8k", metric="exact_match", before=0.9,
                       after=0.6, change=-0.3, low=-0.35, high=-0.25, shown=True) for p in lost
    )  # fmt: skip
    made = found.model_copy(
        update={
            "experiment": tested, "arms": at_load[0][1], "pairs": tuple(pairs), "loads": loads,
            "chains": tuple(chains), "curve": tuple(each for each in curves if each), "theory": (), "notes": (),
            "timeline": (), "decision": None, "accuracy": accuracy,
        }
    )  # fmt: skip
    told = voiced(made)
    return told.model_copy(update={"advice": advice_sentence(told)})


def _imported(rng: random.Random, truth: Truth) -> Comparison:
    """Two or three arms as tools measured them. One may be in another unit, contradict itself, or have another load."""
    names, tool, count = ["base", "sd-k3", "sd-k5"][: rng.choice([2, 2, 3])], rng.choice(TOOLS), rng.choice([2, 8, 40])
    listed, odd = rng.random() < 0.8, rng.choice(names)
    what = rng.choice(
        [""] * 5 + ["import in another unit", "import that contradicts itself", "import measured otherwise"]
    )
    noise, arms = rng.choice([0.01, 0.1]), []
    for number, name in enumerate(names):
        speed = math.exp(rng.gauss(0.2, 0.3)) if number else 1.0
        scale = 1e-3 if name == odd and what == "import in another unit" else 1.0
        rows = []
        for _ in range(count):
            took = rng.lognormvariate(0, noise) * scale / speed
            rows.append(completed_request(0.1 * took, 2.0 * took, 60, 64))
        own = summarize([row["ttft_s"] for row in rows]).model_dump(include={"mean", "p25", "p50", "p75", "p99"})
        if name == odd and what == "import that contradicts itself":
            own["mean" if listed else "p99"] = (3.0 if listed else 0.3) * own["p75"]
        spoken = (
            Speculation(draft=ModelRef(id="d", size_gib=1.0), num_speculative_tokens=int(name[-1])) if number else None
        )
        load = 8 if name == odd and what == "import measured otherwise" else 4
        arm = tool_arm(
            name, tool, rows if listed else [], model="m", concurrency=load, completed=count, failed=0,
            took_s=sum(row["end_to_end_latency_s"] for row in rows), tokens=60 * count, timestamp=1_790_000_000.0,
            conditions={"concurrency": load}, stated=own_statistics(count, {"ttft": own}),
        )  # fmt: skip
        about = Variant(name=name, label=name, compare_to="base" if number else None, speculation=spoken)
        arms.append((arm, about))
    if what in ("import in another unit", "import that contradicts itself"):
        truth.wrong = {odd} if listed or "itself" in what else set()
    elif what:
        truth.unsure = set(names) if odd == "base" else {odd}
    truth.reached |= {"import", what or "import", *([] if listed else ["import without requests"])}
    return compare_imported(arms=arms, title="Imported")


def _states(made: Comparison, truth: Truth) -> Iterator[str]:
    """What this comparison is an example of."""
    decision = made.decision
    assert decision
    verdicts = {case.verdict.value for pair in made.pairs for case in pair.cases}
    yield from verdicts & set(REACHED)
    yield "several loads" if len(made.experiment.workload.levels) > 1 else "one load"
    if any(arm.failed for arm in made.arms):
        yield "failed requests"
    if any(group.verdict is Verdict.MIXED for pair in made.pairs for group in pair.groups):
        yield "mixed"
    if any(case.equality.from_start for pair in made.pairs for case in pair.cases):
        yield "another text"
    if any(pair.among and pair.among.faster and not pair.distrusted and
           all(case.verdict is not Verdict.PAYS for case in pair.cases) for pair in made.pairs):  # fmt: skip
        yield "faster together, and on no type by itself"
    if not made.pairs:
        yield "one server"
        yield from ["one server, impossible"] if truth.wrong else ["one server, late"] if truth.unsure else []
        yield from ["one server, several loads"] if made.loads else []
        return
    yield decision.action.value
    using = {each.variant for each in decision.findings if (each.group, each.action) == ("all", Action.USE)}
    if decision.action in (Action.KEEP, Action.MEASURE) and using - {decision.variant} and made.loads:
        yield "another arm is to be used at a later load alone"
    yield "several arms" if len(made.pairs) > 1 else "one arm"
    if made.chains:
        yield "a chain"
        if decision.why.startswith("against "):
            yield "against the chain's root it is not used"
    if not any(case.headline for pair in made.pairs for case in pair.cases):
        yield "nothing to compare"
    if truth.unsure and "import" not in truth.reached:
        yield "late at the first load"
    if decision.action is Action.USE:
        own = {case.verdict for pair in made.pairs if pair.variant == decision.variant for case in pair.cases}
        yield from ["used, and some types cost"] if Verdict.COSTS in own else []
        yield from ["used, and some types are not known"] if Verdict.CANNOT_TELL in own else []
        yield from ["another arm is impossible, and one is used"] if truth.wrong else []
        if any(arm.failed > MAX_FAILED * arm.requests for arm in made.arms if arm.variant != decision.variant):
            yield "an arm fails, and another is used"
        yield from ["import, used"] if "import" in truth.reached else []
        yield from ["late at a later load, and used"] if "late at a later load alone" in truth.reached else []


def _arm(rng: random.Random, variant: str, case: str, wrong: bool, late: bool, speed: float) -> ArmCase:
    failed = rng.choice([0] * 60 + [1, 8])
    values = tuple(50 * rng.lognormvariate(0, 0.05) for _ in range(20))
    return ArmCase(
        variant=variant, case=case, requests=20, completed=20 - failed, failed=failed,
        errors={"reset": failed} if failed else {}, output_tokens=400, load_seconds=20.0 / math.exp(speed),
        cost_per_million=rng.uniform(3, 9), totals={},
        metrics={HEADLINE: Summary(n=20, mean=50.0, stddev=2.5, p50=50.0)}, no_value={},
        samples={HEADLINE: values}, late=late,
        impossible=("100.00 tokens a chunk came",) if wrong else (),
    )  # fmt: skip


def _result(rng: random.Random, case: TestCase, base: ArmCase, other: ArmCase, stat: LogMean) -> tuple:
    compared = rng.choice([0, 16, 16])
    parted = 16 if compared and rng.random() < 0.01 else 0
    same = Equality(compared=compared, identical=min(compared - parted, rng.choice([2, 16, 16])), from_start=parted,
                    expected=True, first=None)  # fmt: skip
    steps = LogMean(math.log(3), 0.01**2, 19.0, 20)
    stats = {} if rng.random() < 0.03 else {HEADLINE: stat, "time_per_output_token": stat, "tokens_per_step": steps}
    found = case_result(
        case=case, base=base, other=other, stats=stats, method="m", same=same, distinct_prompts=20, notes=()
    )
    return found, stats


def _curve(rng: random.Random, at_load: list, pair: Pair) -> Curve | None:
    """Over the cases that all loads have which have one."""
    known = {}
    for level, own, made, _ in at_load:
        at = next((each for each in made if (each.variant, each.baseline) == (pair.variant, pair.baseline)), None)
        gains = {
            case.case: case.headline.ratio for case in (at.cases if at else ()) if case.headline and case.comparable
        }
        if gains:
            known[level] = own, gains
    cases = [case for case in pair.group("all").cases if all(case in gains for _, gains in known.values())]
    if len(known) < 2 or not cases:
        return None
    points = []
    for level, (own, gains) in known.items():
        found = [LogMean(math.log(gains[case]), 0.01**2, 9.0, 20) for case in cases]
        gain = combine(found, [1 / len(found)] * len(found))
        gain = gain._replace(variance=gain.variance + rng.choice([0.01, 0.3]) ** 2)
        late = any(arm.late for arm in own if arm.variant in (pair.variant, pair.baseline))
        points.append(LoadPoint(level=level, under_way=level.value, speedup=estimate(HEADLINE, gain, method="m"),
                                base=NOTHING, other=NOTHING, doubtful=late))  # fmt: skip
    return Curve(variant=pair.variant, baseline=pair.baseline, group="all", cases=tuple(cases), points=tuple(points))
