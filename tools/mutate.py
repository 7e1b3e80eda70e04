"""Break the package in small ways and see which breaks no test notices.

    python -m tools.mutate [--seed 1] [--mutants 400] [--minutes 60] [--only lambda/specdecode/analysis ...]

A mutant is one changed comparison, operator, constant or condition of a file below lambda/specdecode, drawn at random
with the seed. It lives in a copy of the checkout and meets the tests that name its module, then its package's, and
those directly in the folder above (of `compare`, for what lies below analysis). One in `measures` meets those of
analysis too, without its report: they judge what is made of a measure. A mutant is caught if one test fails that passes
without it, or if they take longer than PATIENCE_S and do not without it. Prints each mutant as it ends, and the score;
exits 1 if less than half are caught, or if none was tried or all are unclear. A survivor is a question, not always a
fault: some change nothing that anybody can see. docs/benchmarks.md has a score.
"""

import argparse
import ast
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = Path("lambda/specdecode")
PATIENCE_S = 240.0
MOST_FILES = 6
"""Most test files of the first group: those that name a mutant's module most often."""
JUDGES = Path("tests/specdecode/analysis")
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.Is: "is not",
    ast.IsNot: "is",
}
OPERATORS: dict[type[ast.operator], str] = {ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.FloorDiv: "*"}


WORDS = {True: "caught  ", False: "SURVIVED", None: "unclear "}
"""Unclear: its tests fail without the mutant too, so they say nothing about it."""


class Mutant(NamedTuple):
    """Characters `start` to `end` of a file, replaced."""

    path: Path
    line: int
    start: int
    end: int
    text: str
    was: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.was} -> {self.text}"

    def apply(self, source: str) -> str:
        return source[: self.start] + self.text + source[self.end :]


def mutants(path: Path, source: str) -> Iterator[Mutant]:
    """Every mutant of a file."""
    starts = [0]
    for line in source.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    raw = source.encode()

    def at(line: int, column: int) -> int:
        return len(raw[: starts[line - 1] + column].decode())

    def between(left: ast.expr, right: ast.expr, new: str) -> Iterator[Mutant]:
        """The operator between two operands."""
        start, end = at(left.end_lineno or 0, left.end_col_offset or 0), at(right.lineno, right.col_offset)
        gap = source[start:end]
        was = gap.strip(" ()\n")
        if gap.count("#") == 0 and was:
            first = start + gap.index(was)
            yield Mutant(path, left.end_lineno or 0, first, first + len(was), new, was)

    def whole(node: ast.expr, new: str) -> Mutant:
        start, end = at(node.lineno, node.col_offset), at(node.end_lineno or 0, node.end_col_offset or 0)
        return Mutant(path, node.lineno, start, end, new, source[start:end])

    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in COMPARISONS:
            yield from between(node.left, node.comparators[0], COMPARISONS[type(node.ops[0])])
        elif isinstance(node, ast.BinOp) and type(node.op) in OPERATORS and not _is_text(node):
            yield from between(node.left, node.right, OPERATORS[type(node.op)])
        elif isinstance(node, ast.BoolOp):
            new = "or" if isinstance(node.op, ast.And) else "and"
            yield from between(node.values[0], node.values[1], new)
        elif isinstance(node, ast.Constant) and type(node.value) in (int, float):
            yield whole(node, repr(node.value + 1))
        elif isinstance(node, ast.Constant) and isinstance(node.value, bool):
            yield whole(node, repr(not node.value))
        elif isinstance(node, ast.If | ast.IfExp | ast.While):
            old = whole(node.test, "")
            yield old._replace(text=f"not ({old.was})")


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, ast.JoinedStr | ast.List | ast.Tuple) for side in (node.left, node.right)) or any(
        isinstance(side, ast.Constant) and isinstance(side.value, str) for side in (node.left, node.right)
    )


def tests_of(path: Path, texts: dict[Path, str]) -> tuple[list[Path], list[Path]]:
    """Test files for a module: MOST_FILES of those that name it, its mirror first; and the others that it meets."""
    module = ".".join(path.with_suffix("").relative_to("lambda").parts)
    package, _, name = module.rpartition(".")
    mirror = Path("tests") / path.relative_to("lambda").parent / f"test_{name}.py"
    words = (module, f"from {package} import {name}", f"import {name}\n")
    named = {file: sum(text.count(word) for word in words) for file, text in texts.items()}
    found = sorted((file for file in named if named[file] or file == mirror), key=lambda f: (f != mirror, -named[f], f))
    folder = mirror.parent
    while not any(folder in file.parents for file in texts):
        folder = folder.parent
    rest = [file for file in texts if folder in file.parents or file.parent == mirror.parent.parent]
    if PACKAGE / "measures" in path.parents:
        rest += [file for file in texts if JUDGES in file.parents and JUDGES / "report" not in file.parents]
    near = found[:MOST_FILES]
    return near, [file for file in dict.fromkeys([*found, *sorted(rest)]) if file not in near]


def is_caught(mutant: Mutant, checkout: Path, files: list[Path]) -> bool | None:
    """Whether the tests in `files` fail with the mutant, in a copy of the checkout. None if they always fail."""
    if not files:
        return False
    target = checkout / mutant.path
    source = target.read_text()
    try:
        target.write_text(mutant.apply(source))
        done = _pytest(checkout, *map(str, files))
    except subprocess.TimeoutExpired:
        done = None
    finally:
        target.write_text(source)
    if done is None:
        return _pass(checkout, *map(str, files))
    if done.returncode == 0:
        return False
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", done.stdout, re.MULTILINE)
    return _pass(checkout, failed[1]) if failed else None


def _pass(checkout: Path, *tests: str) -> bool | None:
    """True if the tests pass in time without the mutant, else None: then they say nothing about it."""
    try:
        return _pytest(checkout, *tests).returncode == 0 or None
    except subprocess.TimeoutExpired:
        return None


def _pytest(checkout: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-rfE", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command,
        cwd=checkout,
        env=os.environ | {"PYTHONPATH": str(checkout / PACKAGE.parent)},
        capture_output=True,
        text=True,
        errors="replace",
        timeout=PATIENCE_S,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def copy(to: Path) -> None:
    """The files of the checkout that git knows, and links to its tools."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file() or (ROOT / name).is_symlink():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name, follow_symlinks=False)
    for name in (".venv", "node_modules", ".rehearsal"):
        if (ROOT / name).exists():
            (to / name).symlink_to(ROOT / name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutants", type=int, default=400)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--only", type=Path, nargs="+", default=[PACKAGE], help="folders or files")
    given = parser.parse_args()
    os.nice(10)
    named = [ROOT / path for path in given.only]
    paths = sorted(
        {file.relative_to(ROOT) for path in named for file in ([path] if path.is_file() else path.rglob("*.py"))}
    )
    every = [mutant for path in paths for mutant in mutants(path, (ROOT / path).read_text())]
    drawn = random.Random(given.seed).sample(every, min(given.mutants, len(every)))
    tests = (path.relative_to(ROOT) for path in (ROOT / "tests" / "specdecode").rglob("test_*.py"))
    texts = {path: (ROOT / path).read_text() for path in tests}
    counts, until = Counter[str](), time.monotonic() + given.minutes * 60
    with tempfile.TemporaryDirectory(prefix="mutate-") as folder:
        copy(Path(folder))
        for mutant in drawn:
            if time.monotonic() > until:
                break
            near, rest = tests_of(mutant.path, texts)
            caught = is_caught(mutant, Path(folder), near)
            found = WORDS[is_caught(mutant, Path(folder), rest) if caught is False else caught]
            counts[found] += 1
            print(found, mutant, flush=True)
    told = counts.total() - counts[WORDS[None]]
    print(f"{counts[WORDS[True]]} of {told} caught; drawn from {len(every)} with seed {given.seed}")
    sys.exit(not told or 2 * counts[WORDS[True]] < told)


if __name__ == "__main__":
    main()
