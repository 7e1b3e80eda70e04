"""A checker that reads every output of a comparison and finds what contradicts what.

It knows the truth that a comparison was made from (generated.py), and text: it calls nothing of `analysis.texts`.
"""

from __future__ import annotations

import csv
import html
import json
import math
import re
import xml.etree.ElementTree as Xml
from pathlib import Path

from specdecode.analysis import Comparison
from specdecode.analysis.datums import metric_data
from specdecode.analysis.report import documents, render_terminal
from specdecode.analysis.several_runs.gate import gate
from specdecode.analysis.several_runs.gate_questions import Thresholds
from specdecode.cli import app
from typer.testing import CliRunner

from tests.specdecode.analysis.generated import Truth

VERDICTS = "pays|costs|no relevant difference|cannot tell|do not trust"


def contradictions(comparison: Comparison, truth: Truth, folder: Path) -> list[str]:
    """Every contradiction between the outputs of a comparison, and between them and the truth."""
    forms = documents(comparison)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(forms["report.json"])
    report = json.loads(forms["report.json"])
    screens = {
        "terminal": _flat(render_terminal(comparison, width=4000)),
        "markdown": _flat(re.sub(r"\\([^a-zA-Z0-9\s])", r"\1", forms["report.md"])),
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
    decision, imported = report["decision"], "import" in truth.reached
    action, arm, served = decision["action"], decision["variant"], decision["serve"]
    said = {name: _actions(text) for name, text in screens.items()}
    if not report["pairs"]:
        for name, text in screens.items():
            hold(("IMPOSSIBLE" in text) == bool(truth.wrong), f"{name} of one server: {text[:200]}")
            hold(
                "a request gets 5" in text and not re.search(r"\d\.\d+×", text),
                f"{name} has no figure of its own, or a speed-up",
            )
        hold(action == ("do not trust" if truth.wrong else "measure more"), f"one server: {action}")
    for name, actions in said.items():
        hold(actions == ({action} if report["pairs"] else set()), f"{name} says {actions}, not {action}")
    verdicts = {(p["variant"], c["case"]): c["verdict"] for p in report["pairs"] for c in p["cases"]}
    for (variant, case), verdict in verdicts.items():
        row = rf"\*\*({VERDICTS}|mixed)\*\*"
        tables = re.findall(rf"## {variant} against \w+(?:-\w+)* (.*?)(?=## |$)", screens["markdown"])
        hold(any(re.search(rf"\| {case} \| \*\*{verdict}\*\*", t) for t in tables), f"{variant}/{case} in Markdown")
        hold(any(m.group(1) for m in re.finditer(row, screens["markdown"])), "no verdicts in Markdown")
        hold(cells.get((variant, case), (verdict,))[0] == verdict, f"{variant}/{case} in CSV")
    lines = {
        "terminal": _flat(render_terminal(comparison, width=4000).split("\n")[0]),
        "markdown": _flat(next(each for each in screens["markdown"].split("**") if each.strip() and each[0] != "#")),
        "page": _flat(html.unescape(re.search(r'<h1 id="answer-h">(.*?)</h1>', forms["report.html"], re.S).group(1))),
    }
    hold(len(set(lines.values())) == 1, f"three headlines: {lines}")
    if report["pairs"] and not report["curve"]:
        types = {sum(c["comparable"] for c in p["cases"]) for p in report["pairs"]}
        for told in re.finditer(r"[\d.]+×(.{0,120})", lines["page"]):
            over = re.search(r"over the (\d+|one) prompt types? measured", told.group(1))
            of_rows = "import" in truth.reached and "over the requests imported" in told.group(1)
            named = of_rows or (over is not None and (1 if over.group(1) == "one" else int(over.group(1))) in types)
            hold(
                named or action == "do not trust" or bool(report["chains"]),
                f"a figure without its population: {lines['page']}",
            )
    # of several loads: what is advised is what the decision has at each
    root = {each["variant"]: each["root"] for each in report["chains"]}.get(arm, decision["baseline"])
    over = {f["load"]: f["action"] for f in decision["findings"]
            if (f["variant"], f["baseline"], f["group"]) == (arm, root, "all")}  # fmt: skip
    if re.search(r"(?<!not )[Ss]peculate at every load", lines["page"]):
        hold(set(over.values()) == {"use"}, f"speculate at every load, and {over}")
    for told in re.findall(r"Speculation is faster at ([\d, ]+) at a time", lines["page"]):
        hold({over[f"c{each}"] for each in told.split(", ")} == {"use"}, f"faster at {told}, and {over}")
    for what in _of_other_prompts_or_arms(report):
        hold(False, what)
    named = {
        each["name"] for each in report["experiment"]["variants"] if _names(report["recommendation"], each["name"])
    }
    known = {arm, decision["baseline"], *(each["compare_to"] for each in report["experiment"]["variants"])}
    hold(named <= known, f"the recommendation speaks of {named}, and is about {arm}")
    for found_there in decision["findings"] if action != "do not trust" else ():
        name, load = found_there["variant"], found_there["load"]
        if (found_there["baseline"], found_there["group"], found_there["action"]) == (root, "all", "use"):
            hold(
                over.get(load) == "use" or _names(lines["page"], name),
                f"no word of {name}, which is to be used at {load}",
            )
    if sum(each["compare_to"] is not None for each in report["experiment"]["variants"]) > 1:
        hold(
            not re.search(r"peculat\w+ (at|below|above|is|makes) |to speculate", lines["page"]),
            f"it speaks of speculation, and there are several arms: {lines['page']}",
        )
    # an arm that answers worse is told at once, and not used
    lost = {each["variant"] for each in report["accuracy"] if each["change"] < 0 and each["shown"]}
    hold(not (action == "use" and arm in lost), f"{arm} answers worse and is used")
    for name in ("terminal", "markdown", "page") if lost else ():
        hold("Shown to answer worse: " in screens[name], f"{name} does not say that {lost} answer worse")
    # the truth of plausibility and of late clients
    for pair in report["pairs"]:
        name, arms = pair["variant"], {pair["variant"], pair["baseline"]}
        own = {verdicts[name, case["case"]] for case in pair["cases"]}
        same_weights = "quantization" not in pair["changes"]
        parted = sum(c["equality"]["from_start"] for c in pair["cases"] if same_weights)
        spread = any(abs(math.log(c["headline"]["ratio"])) > math.log(100) for c in pair["cases"] if c["headline"])
        if arms & truth.wrong or parted:
            hold(own == {"do not trust"}, f"{name} is impossible, its verdicts are {own}")
            hold(
                not any(row["variant"] == name for row in rows if row["kind"] == "speedup"),
                f"{name} has a speed-up in CSV",
            )
            hold(not (action == "use" and arm == name), f"{name} is impossible and used")
            hold("IMPOSSIBLE" in screens["page"][: screens["page"].index("Model")], f"{name} is not first on the page")
        elif arms & truth.unsure:
            hold(not own & {"pays", "costs", "no relevant difference"}, f"{name} was late, its verdicts are {own}")
            hold(not (action == "use" and arm == name), f"{name} was late and is used")
        hold(not spread, f"{name} has an absurd figure")
    kept = re.search(r"\bKeep ([\w-]+)[.:]", screens["json"])
    serve = {"use": arm, "do not use": kept and kept.group(1)}.get(action)
    hold(served == serve, f"it says to serve {serve}, and has {served}")
    # "Use" and what stands beside it
    if action == "use":
        pays = {case for (v, case), verdict in verdicts.items() if v == arm and verdict == "pays"}
        hold(bool(pays), "it uses an arm that pays on nothing")
        listed = re.search(rf"Use {arm}.*?It pays on (.*?)\. ", screens["json"] + " ")
        named = set(re.findall(r"([\w-]+) \(\d", listed.group(1))) if listed else {c for v, c in verdicts if v == arm}
        hold(named <= pays, f"it says that it pays on {named - pays}")
        ratio = re.search(rf"Use {arm}(?: \([^)]*\))?: ([\d.]+)×", screens["json"])
        whole = next(r for r in rows if r["kind"] == "decision" and (r["variant"], r["case"]) == (arm, "all"))
        hold(ratio is not None and abs(float(whole["value"]) - float(ratio.group(1))) < 0.006, "another figure in CSV")
        hold(float(whole["low"] or 0) > 1, "used, and not shown to be faster")
        hold(
            len([case for v, case in verdicts if v == arm]) == 1
            or re.search(rf"all prompts \| \*\*pays\*\* \| {ratio.group(1) if ratio else ''}×", screens["markdown"])
            is not None,
            "another figure in Markdown",
        )
        hold(
            "is not shown to be faster or slower" not in report["answer"], "used, and not shown to be faster or slower"
        )
    hold(("Next (" in screens["terminal"]) <= (action in ("use", "do not use")), f"a next step beside {action}")
    told = CliRunner().invoke(app, ["advise", str(folder), "--json"])
    bad = {p["variant"] for p in report["pairs"] if "do not trust" in {c["verdict"] for c in p["cases"]}}
    ends = 2 if not report["pairs"] else 5 if action == "do not trust" else 0
    hold(told.exit_code == ends, f"advise ends with {told.exit_code} on {action}")
    advised = json.loads(told.stdout)
    proposed = advised.get("compile_next") or {}
    hold(not {proposed.get("variant"), (advised.get("best") or {}).get("variant")} & bad, f"advise proposes {proposed}")
    hold(not (action == "use" and "Do not speculate" in f"{report['advice']} {advised.get('reason')}"), "advised: none")
    reached = re.search(r"k=(\d+)", report["advice"] or "")
    hold(not reached or f"sd-k{reached.group(1)}" not in bad, f"the next step is {report['advice']}")
    # tiles: green only where the kind pays, and never on what is not trusted
    tiles = re.findall(r'<div class="tile (\w+)"[^>]*><dt>Speed-up, ([\w-]+)</dt>.*?detail">(.*?)</dd>',
                       forms["report.html"], re.S)  # fmt: skip
    for tone, kind, detail in tiles:
        hold(tone != "pays" or ("pays on" in detail and action != "do not trust"), f"a green tile of {kind}: {detail}")
        told = re.search(rf"cannot be judged on (?:all \d+ |the )?{kind}", report["answer"])
        hold(report["chains"] or not (tone == "pays" and told), f"a green tile of {kind} beside: cannot be judged")
    # winner, gate, JUnit, data
    won = CliRunner().invoke(app, ["winner", str(folder), "--json"])
    ends = {"use": 2 if imported else 0, "do not use": 1, "measure more": 4, "do not trust": 5}
    hold(won.exit_code == ends[action], f"winner ends with {won.exit_code} on {action}")
    printed = action == "use" and not imported
    hold(('"kind": "Deployment"' in won.output) == printed, f"winner prints a Deployment on {action}")
    hold(not printed or f'"name": "simulated-{served}"' in won.output, f"winner prints another arm than {served}")
    junit = folder / "gate.xml"
    ended = CliRunner().invoke(
        app, ["gate", str(folder), "--min-speedup", "0.01", "--each-case", "--junit", str(junit)]
    )
    kinds = [case[0].tag for case in Xml.parse(junit).iter("testcase")] if junit.exists() else []
    if not report["pairs"]:
        hold(ended.exit_code == 2, f"the gate judges one server: {ended.exit_code}")
        return found
    hold((ended.exit_code == 5) == bool(bad), f"gate ends with {ended.exit_code}; not to be trusted: {bad}")
    hold(
        ("failure" in kinds) == (ended.exit_code in (1, 5)),
        f"JUnit has {set(kinds)}, gate ended with {ended.exit_code}",
    )
    compared = {n for p in report["pairs"] for n in (p["variant"], p["baseline"])}
    hold(not (ended.exit_code == 0 and truth.unsure & compared), "a late run passes the gate")
    first = comparison.experiment.workload.levels[0].name
    alone = gate([comparison], Thresholds(min_speedup=1.0, each_case=True))
    passes = {(check.arm, check.about.partition(",")[0]) for check in alone.checks
              if check.outcome.value == "passed" and check.load == first}  # fmt: skip
    arms = {(p["variant"], p["baseline"]) for p in report["pairs"]}
    unsure = {(f["variant"], f["case"] or "all prompts") for f in decision["findings"]
              if f["load"] == first and f["action"] == "measure more" and f["group"] in (None, "all")
              and (f["variant"], f["baseline"]) in arms}  # fmt: skip
    hold(not passes & unsure, f"{passes & unsure} pass the gate, and the run cannot tell of them")
    hold(not {each for each in passes if each[0] in bad}, f"{passes} pass the gate, and are not to be trusted")
    labels = {each.name: each.label for each in comparison.experiment.variants}
    late = {p["variant"] for p in report["pairs"] if {p["variant"], p["baseline"]} & truth.unsure}
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
        "use": r"\bUse [\w-]+(?: \([^)]*\))?: [\d.]+×",
        "do not use": r"\bKeep [\w-]+[.:]",
        "measure more": r"\bKeep [\w-]+ for now, and measure more",
        "do not trust": r"\bDo not trust this run",
    }
    return {action for action, pattern in patterns.items() if re.search(pattern, text)}


def _names(text: str | None, arm: str) -> bool:
    return re.search(rf"(?<![\w-]){arm}(?![\w-])", text or "") is not None


def _of_other_prompts_or_arms(report: dict) -> list[str]:
    """Arms that are to be used, and lack prompts that were measured; and a decision about another arm than the fastest
    of those that are to be used, over the first baseline that has the fastest arm.
    """
    decision, wrong = report["decision"], []
    before = {each["name"]: each["compare_to"] for each in report["experiment"]["variants"]}

    def root(name: str) -> str:
        return root(before[name]) if before[name] else name

    later = {f"c{each['level']['concurrency']}": each["arms"] for each in report["loads"]}
    usable: dict[str, set[str]] = {}
    for found in decision["findings"]:
        if (found["group"], found["action"]) != ("all", "use"):
            continue
        arms = {(each["variant"], each["case"]): each for each in later.get(found["load"], report["arms"])}
        for name in (found["variant"], found["baseline"]):
            own = [each for (v, _), each in arms.items() if v == name]
            lost = sum(each["failed"] for each in own) > 0.05 * sum(each["requests"] for each in own)
            if lost or {each["case"] for each in own} < {case for _, case in arms}:
                wrong.append(
                    f"{found['variant']} is to be used at {found['load']}, where {name} failed or lacks a type"
                )
        if found["load"] not in later:
            usable.setdefault(found["variant"], set()).add(found["baseline"])
    if not report["pairs"]:
        return wrong
    trusted = {n for p in report["pairs"] for n in (p["variant"], p["baseline"])
               if "do not trust" not in {c["verdict"] for c in p["cases"]}}  # fmt: skip
    known = [each for each in report["arms"] if each["variant"] in trusted and each["load_seconds"]]
    best = max(known, key=lambda each: each["output_tokens"] / each["load_seconds"], default=None)
    if best and root(best["variant"]) != root(decision["variant"]):
        wrong.append(f"{best['variant']} writes most tokens a second, and the decision is about {decision['variant']}")
    if decision["action"] == "use":
        ways = [*report["pairs"], *(each["total"] for each in report["chains"])]
        beside = {
            p["variant"]: {c["case"]: c["headline"]["ratio"] for c in p["cases"] if c["comparable"]}
            for p in ways
            if p["baseline"] == root(decision["variant"])
            and {before[p["variant"]], p["baseline"]} <= usable.get(p["variant"], set())
        }
        common = set.intersection(*map(set, beside.values())) if beside else set()
        gains = {name: math.prod(own[case] for case in common) for name, own in beside.items()}
        if gains.get(decision["variant"], 0.0) < max(gains.values(), default=1.0):
            wrong.append(f"{decision['variant']} is used, of {gains} over the first baseline")
    return wrong
