"""Generated comparisons, and a checker that reads every output of one and finds what contradicts what.

The checker knows the truth that a comparison was made from, and text: it calls nothing of `analysis.texts`.
"""

from __future__ import annotations

import csv
import html
import json
import math
import random
import re
import xml.etree.ElementTree as Xml
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from specdecode.analysis import Comparison, compare
from specdecode.analysis.advice.sweep import advice_sentence
from specdecode.analysis.compare import trusted_everywhere
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import documents, render_terminal
from specdecode.analysis.results.over_load import ArmAtLoad, Curve, LoadPoint
from specdecode.analysis.results.pairs import HEADLINE, Chain, Equality, LoadResult, Pair, Verdict
from specdecode.analysis.several_runs.gate import gate
from specdecode.analysis.several_runs.gate_questions import Thresholds
from specdecode.analysis.statistics.pairs import assemble, case_result
from specdecode.analysis.statistics.verdict import estimate
from specdecode.analysis.texts.recommend import voiced
from specdecode.cli import app
from specdecode.experiment.model import Experiment
from specdecode.experiment.variants import Variant
from specdecode.experiment.workload import PromptKind, TestCase
from specdecode.measures.arm_case import ArmCase
from specdecode.measures.distribution import Summary
from specdecode.measures.student import LogMean, combine
from typer.testing import CliRunner

from tests.specdecode.analysis.simulate import context, experiment, run

VERDICTS = "pays|costs|no relevant difference|cannot tell|do not trust"
TOGETHER = 8
"""Of so many comparisons one has seven noisy types that gain alike: faster together, and on no type by itself."""
NOTHING = ArmAtLoad(output_throughput=None, user_speed=None)


@dataclass
class Truth:
    """What a comparison was made from."""

    wrong: set[str] = field(default_factory=set)
    """Arms with an impossible figure of their own, at some load."""
    late: set[str] = field(default_factory=set)
    """Arms whose load generator fell behind at the first load."""
    together: bool = False
    """Some arm is faster over all prompts together, and pays on no prompt type by itself."""


@cache
def template(arms: int, types: int, kinds: int, loads: int, chain: bool) -> tuple[Experiment, Comparison]:
    cases = tuple(
        TestCase(name=f"t{n}", label=f"t{n}", kind=PromptKind.SONNET, structured=bool(kinds >> n & 1))
        for n in range(types)
    )
    tested = experiment(ks=tuple(range(3, 3 + arms)), cases=cases, requests=4)
    variants = list(tested.variants)
    if chain:
        variants[2] = variants[2].model_copy(update={"compare_to": variants[1].name})
    small = tested.workload.model_copy(update={"output_tokens": 20})
    once = tested.model_copy(update={"workload": small, "variants": tuple(variants)})
    found = compare(experiment=once, records=list(run(once)), context=context())
    workload = small.model_copy(update={"concurrency": (1, 4) if loads > 1 else (4,)})
    return once.model_copy(update={"workload": workload}), found


def generated(seed: int) -> tuple[Comparison, Truth]:
    """One to three arms, one to seven prompt types, one or two loads; now and then impossible or late."""
    rng, truth = random.Random(seed), Truth()
    arms, types = rng.choice([1, 1, 2, 3]), 7 if seed % TOGETHER == 5 else rng.choice([1, 2, 3, 5, 7])
    tested, found = template(arms, types, rng.choice([0, 2**types - 1, 5 % 2**types]), rng.choice([1, 1, 2]),
                             arms > 1 and seed % 7 == 0)  # fmt: skip
    levels, named = tested.workload.levels, {each.name: each for each in tested.variants}
    centre, apart = {v: rng.gauss(0.1, 0.3) for v in named}, rng.choice([0.02, 0.2, 0.6])
    noise = [0.001, 0.03, 0.2]
    if together := seed % TOGETHER == 5 and len(tested.workload.cases) > 5:
        centre, apart, noise = dict.fromkeys(named, 0.25), 0.02, [0.2]
    wrong = {v for v in named if rng.random() < 0.06}
    at_load = []
    for number, level in enumerate(levels):
        behind = {v for v in named if rng.random() < 0.05}
        own = {
            (v, case.name): _arm(rng, v, case.name, v in wrong and number == len(levels) - 1, v in behind)
            for v in named
            for case in tested.workload.cases
        }
        truth.late |= behind if not number else set()

        def pair(base: Variant, other: Variant, own: dict[tuple[str, str], ArmCase] = own) -> Pair:
            results = [
                _result(rng, case, own[base.name, case.name], own[other.name, case.name],
                        LogMean(centre[other.name] + rng.gauss(0, apart), rng.choice(noise) ** 2,
                                rng.choice([0.0, 3.0, 19.0]) if rng.random() < 0.2 and not together else 19.0, 20))
                for case in tested.workload.cases
            ]  # fmt: skip
            return assemble(experiment=tested, base=base, other=other, results=results)

        made = [pair(named[v.compare_to], v) for v in tested.variants if v.compare_to]
        at_load.append((level, tuple(own.values()), made, pair))
    truth.wrong = wrong
    loads = tuple(LoadResult(level=level, arms=own, pairs=tuple(made)) for level, own, made, _ in at_load[1:])
    pairs, loads = trusted_everywhere(at_load[0][2], loads)
    chains = []
    if (last := tested.variants[-1]).compare_to not in (None, "base") and arms == 2:
        links, total = tuple(pairs), at_load[0][3](named["base"], last)
        chains = [Chain(variant=last.name, root="base", links=links, total=total)]
    curves = [_curve(rng, at_load, p) for p in pairs if len(levels) > 1 and not p.distrusted]
    made = found.model_copy(
        update={
            "experiment": tested, "arms": at_load[0][1], "pairs": tuple(pairs), "loads": loads,
            "chains": tuple(chains), "curve": tuple(each for each in curves if each), "theory": (), "notes": (),
            "timeline": (), "decision": None,
        }
    )  # fmt: skip
    told = voiced(made)
    found = told.model_copy(update={"advice": advice_sentence(told)})
    truth.together = any(
        pair.among
        and pair.among.faster
        and not pair.distrusted
        and all(c.verdict is not Verdict.PAYS for c in pair.cases)
        for pair in found.pairs
    )
    return found, truth


def _arm(rng: random.Random, variant: str, case: str, wrong: bool, late: bool) -> ArmCase:
    failed = rng.choice([0] * 30 + [1, 8])
    values = tuple(50 * rng.lognormvariate(0, 0.05) for _ in range(20))
    return ArmCase(
        variant=variant, case=case, requests=20, completed=20 - failed, failed=failed,
        errors={"reset": failed} if failed else {}, output_tokens=400, load_seconds=20.0,
        cost_per_million=rng.uniform(3, 9), totals={},
        metrics={HEADLINE: Summary(n=20, mean=50.0, stddev=2.5, p50=50.0)}, no_value={},
        samples={HEADLINE: values}, late=late,
        impossible=("100.00 tokens a chunk came",) if wrong else (),
    )  # fmt: skip


def _result(rng: random.Random, case: TestCase, base: ArmCase, other: ArmCase, stat: LogMean) -> tuple:
    compared = rng.choice([0, 16, 16])
    parted = 16 if compared and rng.random() < 0.01 else 0
    same = Equality(compared=compared, identical=min(compared - parted, rng.choice([2, 16, 16])), from_start=parted,
                    expected=True, first=None, shortest_common=None)  # fmt: skip
    steps = LogMean(math.log(3), 0.01**2, 19.0, 20)
    stats = {} if rng.random() < 0.03 else {HEADLINE: stat, "time_per_output_token": stat, "tokens_per_step": steps}
    found = case_result(
        case=case, base=base, other=other, stats=stats, method="m", same=same, distinct_prompts=20, notes=()
    )
    return found, stats


def _curve(rng: random.Random, at_load: list, pair: Pair) -> Curve | None:
    points = []
    for level, own, made, _ in at_load:
        at = next(each for each in made if (each.variant, each.baseline) == (pair.variant, pair.baseline))
        known = [case.headline for case in at.cases if case.headline and case.comparable]
        if not known:
            return None
        gain = combine(
            [LogMean(math.log(each.ratio), 0.01**2, 9.0, 20) for each in known], [1 / len(known)] * len(known)
        )
        gain = gain._replace(variance=gain.variance + rng.choice([0.01, 0.3]) ** 2)
        late = any(arm.late for arm in own if arm.variant in (pair.variant, pair.baseline))
        points.append(LoadPoint(level=level, under_way=level.value, speedup=estimate(HEADLINE, gain, method="m"),
                                base=NOTHING, other=NOTHING, doubtful=late))  # fmt: skip
    return Curve(
        variant=pair.variant, baseline=pair.baseline, group="all", cases=pair.group("all").cases, points=tuple(points)
    )


def contradictions(comparison: Comparison, truth: Truth, folder: Path) -> list[str]:
    """Every contradiction between the outputs of a comparison, and between them and the truth."""
    forms = documents(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(forms["report.json"])
    report = json.loads(forms["report.json"])
    screens = {
        "terminal": _flat(render_terminal(comparison, width=4000)),
        "markdown": _flat(re.sub(r"\\([^\w\s])", r"\1", forms["report.md"])),
        "page": _flat(html.unescape(re.sub(r"<(style|script).*?</\1>|<[^>]+>", " ", forms["report.html"], flags=re.S))),
        "json": _flat(f"{report['answer']} {report['recommendation'] or ''}"),
    }
    found = []

    def hold(true: bool, what: str) -> None:
        if not true:
            found.append(what)

    rows = list(csv.DictReader(forms["report.csv"].splitlines()))
    cells = {
        (r["variant"], r["case"]): (r["verdict"], r["value"]) for r in rows if r["kind"] == "speedup" and r["verdict"]
    }
    decision = report["decision"]
    action, arm, served = decision["action"], decision["variant"], decision["serve"]
    said = {name: _actions(text) for name, text in screens.items()}
    for name, actions in said.items():
        hold(actions == ({action} if report["pairs"] else set()), f"{name} says {actions}, not {action}")
    verdicts = {(p["variant"], c["case"]): c["verdict"] for p in report["pairs"] for c in p["cases"]}
    for (variant, case), verdict in verdicts.items():
        row = rf"\*\*({VERDICTS}|mixed)\*\*"
        tables = re.findall(rf"## {variant} against \w+(?:-\w+)* (.*?)(?=## |$)", screens["markdown"])
        hold(
            any(re.search(rf"\| {case} \| [\w-]+ \| \*\*{verdict}\*\*", t) for t in tables),
            f"{variant}/{case} in Markdown",
        )
        hold(any(m.group(1) for m in re.finditer(row, screens["markdown"])), "no verdicts in Markdown")
        hold(cells.get((variant, case), (verdict,))[0] == verdict, f"{variant}/{case} in CSV")
    # the truth of plausibility and of late clients
    for pair in report["pairs"]:
        name, arms = pair["variant"], {pair["variant"], pair["baseline"]}
        own = {verdicts[name, case["case"]] for case in pair["cases"]}
        parted = sum(c["equality"]["from_start"] for c in pair["cases"])
        spread = any(abs(math.log(c["headline"]["ratio"])) > math.log(100) for c in pair["cases"] if c["headline"])
        if arms & truth.wrong or parted:
            hold(own == {"do not trust"}, f"{name} is impossible, its verdicts are {own}")
            hold(
                not any(row["variant"] == name for row in rows if row["kind"] == "speedup"),
                f"{name} has a speed-up in CSV",
            )
            hold(not (action == "use" and arm == name), f"{name} is impossible and used")
            hold("IMPOSSIBLE" in screens["page"][: screens["page"].index("Model")], f"{name} is not first on the page")
        elif arms & truth.late:
            hold(not own & {"pays", "costs", "no relevant difference"}, f"{name} was late, its verdicts are {own}")
            hold(not (action == "use" and arm == name), f"{name} was late and is used")
        hold(not spread, f"{name} has an absurd figure")
    # "Use" and what stands beside it
    if action == "use":
        pays = {case for (v, case), verdict in verdicts.items() if v == arm and verdict == "pays"}
        hold(bool(pays), "it uses an arm that pays on nothing")
        listed = re.search(rf"Use {arm}.*?It pays on (.*?)\. ", screens["json"] + " ")
        named = set(re.findall(r"(t\d) \(", listed.group(1))) if listed else {c for v, c in verdicts if v == arm}
        hold(named <= pays, f"it says that it pays on {named - pays}")
        ratio = re.search(rf"Use {arm} \([^)]*\): ([\d.]+)×", screens["json"])
        whole = next(r for r in rows if r["kind"] == "decision" and (r["variant"], r["case"]) == (arm, "all"))
        hold(ratio is not None and abs(float(whole["value"]) - float(ratio.group(1))) < 0.006, "another figure in CSV")
        hold(float(whole["low"] or 0) > 1, "used, and not shown to be faster")
        hold(
            len([case for v, case in verdicts if v == arm]) == 1
            or re.search(
                rf"all prompts \| together \| \*\*pays\*\* \| {ratio.group(1) if ratio else ''}×", screens["markdown"]
            )
            is not None,
            "another figure in Markdown",
        )
        hold(
            "is not shown to be faster or slower" not in report["answer"], "used, and not shown to be faster or slower"
        )
    hold(("Next (" in screens["terminal"]) <= (action in ("use", "do not use")), f"a next step beside {action}")
    told = CliRunner().invoke(app, ["advise", str(folder), "--json"])
    bad = {p["variant"] for p in report["pairs"] if "do not trust" in {c["verdict"] for c in p["cases"]}}
    hold(told.exit_code == (5 if action == "do not trust" else 0), f"advise ends with {told.exit_code} on {action}")
    advised = json.loads(told.stdout)
    proposed = advised.get("compile_next") or {}
    hold(not {proposed.get("variant"), (advised.get("best") or {}).get("variant")} & bad, f"advise proposes {proposed}")
    hold(not (action == "use" and "Do not speculate" in f"{report['advice']} {advised.get('reason')}"), "advised: none")
    reached = re.search(r"k=(\d+)", report["advice"] or "")
    hold(not reached or f"sd-k{reached.group(1)}" not in bad, f"the next step is {report['advice']}")
    # tiles: green only where the kind pays, and never on what is not trusted
    tiles = re.findall(r'<div class="tile (\w+)"[^>]*><dt>Speed-up, ([\w-]+) prompts</dt>.*?detail">(.*?)</dd>',
                       forms["report.html"], re.S)  # fmt: skip
    for tone, kind, detail in tiles:
        hold(tone != "pays" or ("pays on" in detail and action != "do not trust"), f"a green tile of {kind}: {detail}")
        told = re.search(rf"cannot be judged on (?:all \d+ |the )?{kind}", report["answer"])
        hold(report["chains"] or not (tone == "pays" and told), f"a green tile of {kind} beside: cannot be judged")
    # winner, gate, JUnit, data
    won = CliRunner().invoke(app, ["winner", str(folder), "--json"])
    ends = {"use": 0, "do not use": 1, "measure more": 4, "do not trust": 5}
    hold(won.exit_code == ends[action], f"winner ends with {won.exit_code} on {action}")
    hold(('"kind": "Deployment"' in won.output) == (action == "use"), f"winner prints a Deployment on {action}")
    hold(action != "use" or f'"name": "simulated-{served}"' in won.output, f"winner prints another arm than {served}")
    junit = folder / "gate.xml"
    ended = CliRunner().invoke(
        app, ["gate", str(folder), "--min-speedup", "0.01", "--each-case", "--junit", str(junit)]
    )
    kinds = [case[0].tag for case in Xml.parse(junit).iter("testcase")] if junit.exists() else []
    hold((ended.exit_code == 5) == bool(bad), f"gate ends with {ended.exit_code}; not to be trusted: {bad}")
    hold(
        ("failure" in kinds) == (ended.exit_code in (1, 5)),
        f"JUnit has {set(kinds)}, gate ended with {ended.exit_code}",
    )
    compared = {n for p in report["pairs"] for n in (p["variant"], p["baseline"])}
    hold(not (ended.exit_code == 0 and truth.late & compared), "a late run passes the gate")
    alone = gate([comparison], Thresholds(min_speedup=1.0))
    unsure = {f["variant"] for f in decision["findings"] if f["group"] == "all" and f["action"] == "measure more"}
    passes = {check.arm for check in alone.checks} - {c.arm for c in alone.checks if c.outcome.value != "passed"}
    hold(not passes & (bad | unsure), f"{passes & (bad | unsure)} pass the gate, and the run cannot tell of them")
    labels = {each.name: each.label for each in comparison.experiment.variants}
    late = {p["variant"] for p in report["pairs"] if {p["variant"], p["baseline"]} & truth.late}
    for datum in metric_data(comparison):
        of = {each["Name"]: each["Value"] for each in datum["Dimensions"]}
        if datum["MetricName"] == "Speedup":
            at_first = "TestCase" in of or of["Load"] == comparison.experiment.workload.levels[0].sorted_name
            hold(of["Variant"] not in {labels[v] for v in bad | (late if at_first else set())}, f"a datum: {of}")
    return found


def _flat(text: str) -> str:
    return " ".join(text.split())


def _actions(text: str) -> set[str]:
    """What a screen says to do, from its words alone."""
    patterns = {
        "use": r"\bUse [\w-]+ \(draft",
        "do not use": r"\bKeep [\w-]+[.:]",
        "measure more": r"\bKeep [\w-]+ for now, and measure more",
        "do not trust": r"\bDo not trust this run",
    }
    return {action for action, pattern in patterns.items() if re.search(pattern, text)}
