"""What a press of the tab key costs, and a start of the command: `python benchmarks/command_start.py [--write]`.

CPU seconds (user and system) of a process of its own; the minimum of the repeats counts, since what else a machine does
makes a process dearer and never cheaper. It exits with 1 if one costs more than LIMIT_S. `--write` puts the table into
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.publishing import machine, publish

LIMIT_S = 0.35
COMMAND = Path(sys.executable).with_name("specdecode")
TABS = {
    "a command": "specdecode ",
    "an option": "specdecode plan --",
    "a preset": "specdecode run q",
    "a case": "specdecode bench --case c",
    "a run": "specdecode report ",
}


def cpu_seconds(*arguments: str, line: str | None = None) -> float:
    """CPU time of the command. `line`: what stands before the cursor when the tab key is pressed in bash."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    asked = {} if line is None else {"COMP_WORDS": line, "COMP_CWORD": str(len(f"{line}.".split()) - 1)}
    environment = {**os.environ, **asked, **({"_SPECDECODE_COMPLETE": "complete_bash"} if asked else {})}
    subprocess.run([COMMAND, *arguments], env=environment, stdout=subprocess.DEVNULL, check=True, timeout=60)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(repeat: int) -> dict[str, float]:
    """What is asked -> the least CPU seconds of `repeat` processes."""
    found = {"`specdecode --version`": min(cpu_seconds("--version") for _ in range(repeat))}
    return found | {f"tab: {what}": min(cpu_seconds(line=line) for _ in range(repeat)) for what, line in TABS.items()}


def table(found: dict[str, float], repeat: int) -> str:
    """The table of the page."""
    rows = "\n".join(f"| {what} | {seconds:.2f} |" for what, seconds in found.items())
    made_on = machine()
    where = f"{made_on['cores']} CPUs, Python {made_on['python']}; minimum of {repeat}. The limit is {LIMIT_S}."
    return f"| | CPU s |\n|---|---:|\n{rows}\n\n{where}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    found = measure(given.repeat)
    print(table(found, given.repeat))
    if given.write:
        publish("command_start", table(found, given.repeat), page="benchmarks.md")
    sys.exit(max(found.values()) > LIMIT_S)


if __name__ == "__main__":
    main()
