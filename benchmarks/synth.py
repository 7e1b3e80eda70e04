"""What a synth costs, phase by phase, beside an empty app: `python benchmarks/synth.py [--repeat 3] [--write]`.

CPU seconds of Python and of the node process behind it, read from /proc (Linux), because wall time on a shared machine
says more about its neighbours. Each measurement is a process of its own, as a synth is; the minimum of the repeats
counts, and the kinds take turns. `--write` puts the table into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.publishing import ROOT, publish

PHASES = ("import", "bundle", "construct", "synth")
KINDS = {
    "empty": "empty app (one stack, no resource)",
    "ours": "this project, validator off",
    "validated": "this project, validator on",
}


def cpu_seconds() -> float:
    """CPU time of this process and of all its descendants, living or waited for."""
    tick = os.sysconf("SC_CLK_TCK")
    parents: dict[int, list[int]] = {}
    times: dict[int, float] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
            times[int(entry.name)] = sum(map(int, fields[11:15])) / tick
    total, waiting = 0.0, [os.getpid()]
    while waiting:
        pid = waiting.pop()
        total += times.get(pid, 0.0)
        waiting += parents.get(pid, [])
    return total


def measure(kind: str) -> dict[str, float]:
    """CPU seconds of each phase of one synth, and resources; run in a fresh process."""
    marks = [cpu_seconds()]
    wall = time.perf_counter()
    import aws_cdk as cdk

    if kind != "empty":
        from app import compose
        from constructs_lib.settings.fields import Settings
        from constructs_lib.storage.bundle import build_bundle
    marks.append(cpu_seconds())
    bundle = build_bundle() if kind != "empty" else None
    marks.append(cpu_seconds())
    with tempfile.TemporaryDirectory() as out:
        context = json.loads((ROOT / "cdk.json").read_text())["context"]
        app = cdk.App(outdir=out, context=context, builtin_cloud_formation_validation=kind == "validated")
        if bundle is None:
            cdk.Stack(app, "Empty")
        else:
            compose(app, settings=Settings(), bundle=bundle)
        marks.append(cpu_seconds())
        app.synth()
        marks.append(cpu_seconds())
        templates = [json.loads(path.read_text()) for path in Path(out).glob("*.template.json")]
    result = dict(zip(PHASES, (after - before for before, after in itertools.pairwise(marks)), strict=True))
    return {
        **result,
        "total": marks[-1],
        "wall": time.perf_counter() - wall,
        "resources": float(sum(len(template.get("Resources", {})) for template in templates)),
    }


def best(kind: str, runs: list[dict[str, Any]]) -> dict[str, float]:
    """The run of `kind` that took the least CPU time."""
    return min((run["figures"] for run in runs if run["kind"] == kind), key=lambda figures: figures["total"])


def table(runs: list[dict[str, Any]]) -> str:
    """The figures as Markdown."""
    lines = [
        "| | " + " | ".join(PHASES) + " | start and rest | total CPU s | wall s | resources |",
        "|---|" + "---|" * (len(PHASES) + 4),
    ]
    for kind, title in KINDS.items():
        figures = best(kind, runs)
        rest = figures["total"] - sum(figures[phase] for phase in PHASES)
        cells = [f"{figures[phase]:.2f}" for phase in PHASES]
        cells += [f"{rest:.2f}", f"{figures['total']:.2f}", f"{figures['wall']:.1f}", f"{figures['resources']:.0f}"]
        lines.append(f"| {title} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Measure, print, and write if asked."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeat", type=int, default=3, help="runs of each kind (default 3)")
    parser.add_argument("--write", action="store_true", help="put the table into docs/benchmarks.md")
    parser.add_argument("--measure", choices=KINDS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.measure)))
        return 0
    environment = dict(os.environ)
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment.pop("CDK_VALIDATION", None)
    runs = []
    for _ in range(options.repeat):
        for kind in KINDS:
            result = subprocess.run(
                [sys.executable, __file__, "--measure", kind],
                cwd=ROOT,
                env=environment,
                check=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            runs.append({"kind": kind, "figures": json.loads(result.stdout.splitlines()[-1])})
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True).stdout.strip()
    machine = f"{os.cpu_count()} CPUs, Python {platform.python_version()}, Node {node}; minimum of {options.repeat}."
    text = f"{table(runs)}\n\n{machine}"
    print(text)
    if options.write:
        publish("synth", text, page="benchmarks.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
