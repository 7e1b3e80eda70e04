"""The suites that `make test` does not run: which passed where, and which are older than the code that they judge.

    python -m tools.suites               the table
    python -m tools.suites run NAME      run one, and note in tools/suites.json how it ended
    python -m tools.suites all MINUTES   run each that did not pass on the code that is here

Only the standard library and git, so that the table needs no installation. `all` goes on where the last one stopped,
since what passed on this code is not run again. It starts a suite only if its bound fits into the minutes (0: any).
"""

import ast
import hashlib
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as xml
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
NOTED = Path("tools/suites.json")
WRITTEN = (
    str(NOTED),
    "docs/reference/faults.md",
    *(f"docs/reference/{table}.csv" for table in ("faults", "endurance", "hardships", "chaos")),
    "docs/reference/controls.csv",
    "docs/security.md",
    "docs/security-access.csv",
    "benchmarks/results/overhead.json",
)
"""What suites themselves write. It makes no tree dirty."""
LOCKS = ("requirements", "requirements.txt", "package.json", "package-lock.json", "pyproject.toml")
MADE_BY = ("Makefile", "tools/make", "LICENSE", "NOTICE", *LOCKS)
CODE = ("lambda", "constructs_lib", "stacks", "assets", "app.py", "cdk.json", "rehearsal/engine/weights", *MADE_BY)
RUN = (*CODE, "rehearsal")
TRIED = ("README.md", "docs/operations.md")
"""Pages whose lines tests run."""
SOURCES = ("", "lambda", "lambda/backstop")
"""Where Python finds the project's modules."""
LOOK_S = 20.0
CASE_S = 7200
"""A case that takes longer, or half of its suite's bound, hangs. 300 draws of chaos took over 1,800 s, the bound of
pyproject.toml, on a slow, busy machine.
"""
BUSY_LOAD = 20.0
"""Mean load of the machine from which on a pass is one beside a load. It is noted by itself."""
OF_SOMEBODY = ("PYTHONPATH", "PYTEST_")
"""How the names begin of variables that would choose other code or cases."""
BUSY = 4
"""A suite is stopped after so many times its `minutes`: on a machine that others use it takes longer, and is right."""


class Suite(NamedTuple):
    """`words`: of pytest. `judges`: the paths whose change makes a pass old, as that of a module that its tests import
    does (`judged`). `minutes`: the most that it takes on two cores of its own. `needs`: a file without which `all`
    leaves it out.
    """

    words: str
    judges: tuple[str, ...]
    minutes: int
    environment: tuple[tuple[str, str], ...] = ()
    needs: str = ""


def _cloud(minutes: int, *names: str, reads: tuple[str, ...] = (), needs: str = "") -> Suite:
    """Runs of the deployed stacks in the embedded cloud."""
    words = " ".join(f"tests/end_to_end/{name}.py" for name in names)
    return Suite(words, (*RUN, *reads), minutes, needs=needs)


def _faults(files: str, cluster: str) -> Suite:
    """The cases of faults in these files, on a deployment of so many nodes."""
    return Suite(f"-k {cluster} tests/end_to_end/faults/{files}.py", RUN, 60)


OF_OTHERS = ("chaos", "conformance", "end_to_end", "rehearsal")
SLOW = " ".join(
    f"tests/{each.name}"
    for each in sorted((ROOT / "tests").iterdir())
    if ((each.is_dir() and each.name[0] not in "_.") or each.name.startswith("test_")) and each.name not in OF_OTHERS
)
DOUBLE = "tests/conformance tests/rehearsal/cloud tests/rehearsal/engine tests/rehearsal/kubernetes"
PARSERS = "tests/upstream/against_engines.py"
SUITES = {  # in this order: the short ones first, so that `slow` begins within the hour of CI
    "double": Suite(f"-m= {DOUBLE}", (*RUN, *TRIED, *DOUBLE.split()), 20, (("CONFORMANCE_KUBECONFIG", ""),)),
    "rehearsal": Suite("-m slow tests/rehearsal", (*RUN, *TRIED, "tests/rehearsal"), 20),
    "attack": _cloud(20, "attack", "trust"),
    "slow": Suite(f"-m slow {SLOW}", (*CODE, *SLOW.split()), 45),
    "runs": _cloud(35, "clients", "compile", "kinds", "waves", "live"),
    "nodes": _cloud(40, "two_nodes", "several_nodes"),
    "own": _cloud(30, "own_cluster", "own_karpenter", "own_node_group", "namespace"),
    "redeploy": _cloud(30, "redeploy", "settings", reads=(*TRIED, "docs/how-to", "docs/tutorials")),
    "faults": _faults("[a-p]*", "one-node"),
    "stops": _faults("[q-z]*", "one-node"),
    "faults2": _faults("*", "two-nodes"),
    "chaos": Suite("-m slow tests/chaos", (*CODE, "tests/chaos"), 60),
    "hardship": _cloud(60, "hardship"),
    "endurance": _cloud(60, "endurance/*", reads=("tests/end_to_end/endurance_server.py",)),
    "vllm": _cloud(60, "vllm", needs=".rehearsal/vllm/.models"),
    "parsers": Suite(PARSERS, (*CODE, "tests/upstream"), 40, needs=".rehearsal/vllm/.installed"),
    "fuzz": Suite("tests/fuzz", (*CODE, "tests/fuzz"), 150, (("FUZZ_MINUTES", "2"),)),
    "mutation": Suite("", (*CODE, "tests/specdecode", "tools/mutate.py"), 90),
}


class Noted(NamedTuple):
    """How a suite ended last, and where it passed last (`code`: of the paths that it judges); `busy`: beside a load."""

    commit: str
    date: str
    dirty: bool
    passed: int
    failed: int
    seconds: int
    good_commit: str = ""
    good_date: str = ""
    good_code: str = ""
    skipped: int = 0
    load: float | None = None
    busy_commit: str = ""
    busy_date: str = ""
    busy_code: str = ""


def git(*words: str) -> str:
    return subprocess.run(("git", *words), cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def noted() -> dict[str, Noted]:
    """What tools/suites.json says."""
    text = (ROOT / NOTED).read_text() if (ROOT / NOTED).exists() else "{}"
    return {name: Noted(**found) for name, found in json.loads(text).items()}


def write(results: dict[str, Noted]) -> None:
    """One line a suite, so that results of two places merge."""
    lines = [f'"{name}": {json.dumps(results[name]._asdict())}' for name in SUITES if name in results]
    (ROOT / NOTED).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def code(suite: Suite) -> str:
    """The committed content of the paths that it judges, as a short hash; with a mark where the tree differs, or holds
    Python that git was told to pass over.
    """
    paths = judged(suite)
    unseen = [line for line in git("ls-files", "-v", "--", *paths).splitlines() if line[0].islower() or line[0] == "S"]
    unseen += [file for file in git("ls-files", "--others", "--", *paths).splitlines() if file.endswith(".py")]
    differs = dirty(*paths) or bool(unseen)
    return hashlib.sha256(git("ls-tree", "HEAD", *paths).encode()).hexdigest()[:12] + "+" * differs


def judged(suite: Suite) -> list[str]:
    """Its `judges`, and each module elsewhere in the project that its tests import, or that one of these imports."""
    words = [path for word in suite.words.split() for path in _expanded(word)]
    named = [ROOT / path for path in words or suite.judges if path.startswith("tests")]
    todo = {path for folder in named for path in (folder, *folder.rglob("*.py")) if path.suffix == ".py"}
    todo |= {path for folder in named for up in folder.parents if (path := up / "conftest.py").exists()}
    whole, found = [ROOT / path for path in suite.judges], set[Path]()
    while todo:
        path = todo.pop()
        found.add(path)
        reached = {file for level, name in _imports(path.read_text()) for file in _files(path, level, name)} - found
        todo |= {file for file in reached if _of_tests(file) or not any(map(file.is_relative_to, whole))}
    return [
        *suite.judges,
        *sorted(str(each.relative_to(ROOT)) for each in found if not any(map(each.is_relative_to, whole))),
    ]


def _of_tests(path: Path) -> bool:
    return path.is_relative_to(ROOT / "tests")


def _files(path: Path, level: int, name: str) -> list[Path]:
    """The files of the project that one import of a file runs: a module, and the packages around it."""
    within = [path.parents[level - 1]] if level else [ROOT / source for source in SOURCES]
    return [file for folder in within for file in _modules(folder, name)]


@cache
def _modules(folder: Path, name: str) -> list[Path]:
    """As they are when first asked: a process of this tool is short."""
    parts = name.split(".")
    bases = [folder.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)]
    return [file for base in bases for file in (base.with_suffix(".py"), base / "__init__.py") if file.exists()]


@cache
def _imports(text: str) -> frozenset[tuple[int, str]]:
    """How many folders up, and what: each import of a file's text. The last word may be no module."""
    found = set[tuple[int, str]]()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {(0, alias.name) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {(node.level, ".".join(filter(None, (node.module, alias.name)))) for alias in node.names}
    return frozenset(found)


def dirty(*paths: str) -> bool:
    """Whether the tree differs from its commit there, but for what suites write."""
    return bool(
        git(
            "status",
            "--porcelain",
            "--untracked-files=all",
            "--",
            *(paths or "."),
            *(f":(exclude){each}" for each in WRITTEN),
        )
    )


def run(name: str, *, most_s: float = math.inf) -> bool:
    """Run a suite and note how it ended: failed too if it had to be stopped. Returns whether it passed."""
    suite, before, commit, was_dirty = SUITES[name], code(SUITES[name]), git("rev-parse", "--short", "HEAD"), dirty()
    began, bound_s = time.monotonic(), min(BUSY * 60 * suite.minutes, most_s)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [path for word in suite.words.split() for path in _expanded(word)]
        command = (
            ["pytest", *words, f"--override-ini=timeout={min(CASE_S, bound_s / 2)}", f"--junitxml={report}"]
            if words
            else ["tools.mutate"]
        )
        ended, load = _within(bound_s, [sys.executable, "-m", *command], dict(suite.environment))
        told = xml.parse(report).getroot()[0].attrib if report.exists() else {}  # noqa: S314 - of pytest
    tests, failures, errors, skipped = (int(told.get(key, 0)) for key in ("tests", "failures", "errors", "skipped"))
    failed = max(failures + errors, int(ended != 0))
    passed = tests - failures - errors - skipped if told else int(ended == 0)
    was_dirty = was_dirty or before.endswith("+") or _changed(suite, before)
    good, date = not failed and passed > 0 and not was_dirty, datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    results = noted()
    old = results.get(name, Noted("", "", False, 0, 0, 0))
    calm, busy = (old.good_commit, old.good_date, old.good_code), (old.busy_commit, old.busy_date, old.busy_code)
    if good and load < BUSY_LOAD:
        calm = commit, date, before
    elif good:
        busy = commit, date, before
    else:  # the code that failed has not passed
        calm, busy = (("", "", "") if each[2] == before else each for each in (calm, busy))
    seconds = round(time.monotonic() - began)
    note = Noted(commit, date, was_dirty, passed, failed, seconds, *calm, skipped, round(load, 1), *busy)
    write(results | {name: note})
    return good


def _changed(suite: Suite, before: str) -> bool:
    """Whether what it judges is other than before it ran."""
    _modules.cache_clear()
    try:
        return code(suite) != before
    except (OSError, SyntaxError):
        return True


def _expanded(word: str) -> list[str]:
    return sorted(str(path.relative_to(ROOT)) for path in ROOT.glob(word)) if "*" in word else [word]


def _within(seconds: float, command: list[str], environment: dict[str, str]) -> tuple[int, float]:
    """Its exit status, and the mean load of the machine. What it started is interrupted after this time, so that it
    clears up and tells what it found, and killed five minutes later. Options of somebody's own tests do not count.
    """
    around = {name: value for name, value in os.environ.items() if not name.startswith(OF_SOMEBODY)} | environment
    loads, until, sends = [os.getloadavg()[0]], time.monotonic() + seconds, [signal.SIGINT, signal.SIGKILL]
    with subprocess.Popen(command, cwd=ROOT, env=around, start_new_session=True) as process:
        while True:
            try:
                return process.wait(max(0.0, min(LOOK_S, until - time.monotonic()))), statistics.fmean(loads)
            except subprocess.TimeoutExpired:
                loads.append(os.getloadavg()[0])
            except KeyboardInterrupt:
                os.killpg(process.pid, signal.SIGINT)
                raise
            if time.monotonic() >= until:
                os.killpg(process.pid, sends.pop(0))
                until = time.monotonic() + 300 if sends else math.inf


def table() -> str:
    """A line for each suite: those that passed on this code first, then those that someone has to run."""
    results, lines, both = noted(), [], 0
    for name, suite in SUITES.items():
        last, held = results.get(name), fresh(name, results)
        dates = [(last.good_date, last.good_commit), (last.busy_date, last.busy_commit)] if last else []
        at, good = max(dates, default=("", ""))
        failed = last is not None and (last.failed or not last.passed)
        state = "passed" if held else "FAILED" if failed else "older than its code" if good else "never passed"
        line = f"{name:<10} {state:<20} within {suite.minutes} min"
        if last:
            tree = ", with changes" if last.dirty else ""
            left_out = f", {last.skipped} skipped" if last.skipped else ""
            line += f"; last: {last.passed} passed, {last.failed} failed{left_out}, {last.seconds} s"
            line += "" if last.load is None else f" beside a load of {last.load:g}"
            line += f" ({last.date}, {last.commit}{tree})"
            line += f"; passed {at} at {good}" if good and at != last.date else ""
            both += held and code(suite) == last.good_code == last.busy_code
        lines.append((not held, line))
    old = sum(key for key, _ in lines)
    told = [line for _, line in sorted(lines, key=lambda each: each[0])]
    return "\n".join(
        [
            *told,
            f"{len(lines) - old} of {len(lines)} suites passed on this code (make test-all runs the others), {both} of "
            f"them both calm and beside a load of {BUSY_LOAD:g} or more",
        ]
    )


def fresh(name: str, results: dict[str, Noted]) -> bool:
    """Whether its last pass was on the code that is here."""
    return name in results and code(SUITES[name]) in (results[name].good_code, results[name].busy_code)


def run_all(minutes: float) -> bool:
    """Run what did not pass on this code. Returns whether everything that ran passed."""
    until, failed = time.monotonic() + 60 * minutes, []
    for name, suite in SUITES.items():
        if fresh(name, noted()):
            continue
        left_s = until - time.monotonic() if minutes else math.inf
        if (ROOT / suite.needs).exists() and 60 * suite.minutes <= left_s:
            print(f"--- {name}: at most {suite.minutes} minutes on a machine of its own", flush=True)
            failed += [] if run(name, most_s=left_s) else [name]
    print(table())
    return not failed


def main() -> None:
    match sys.argv[1:]:
        case []:
            print(table())
        case ["run", name] if name in SUITES:
            sys.exit(not run(name))
        case ["all", minutes]:
            sys.exit(not run_all(float(minutes)))
        case _:
            sys.exit(f"{__doc__}\nThe suites: {', '.join(SUITES)}")


if __name__ == "__main__":
    main()
