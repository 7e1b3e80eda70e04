"""The rules of the layout: who may import whom, how long a file may be, and what may not be named anywhere."""

import ast
import re
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "lambda" / "specdecode"

LAYER = {
    "assets": 0,
    "names": 0,
    "aws": 0,
    "s3_keys": 0,
    "exit_codes": 0,
    "giving_back": 0,
    "escape": 0,
    "untrusted": 0,
    "store": 1,
    "finished": 2,
    "prompts": 1,
    "experiment": 2,
    "planning": 3,
    "speculation": 3,
    "records": 3,
    "manifests": 4,
    "measures": 4,
    "kubernetes": 5,
    "benchmark": 5,
    "pod": 6,
    "analysis": 6,
    "forecast": 7,
    "instance": 7,
    "runs": 7,
    "custom_resources": 8,
    "steps": 8,
    "cli": 8,
}
"""Package of `specdecode` -> layer; an import goes to a lower layer or stays in its own package."""

ROOM = {
    "results": 0,
    "statistics": 1,
    "loads": 2,
    "texts": 3,
    "several_runs": 4,
    "advice": 4,
    "other_tools": 4,
    "report": 6,
}
"""Room of `specdecode.analysis` -> layer. The modules beside the rooms bring them together: layer 5."""
CONSTRUCTS = ("settings", "cluster", "storage", "observability", "capacity", "pipeline")
"""Rooms of `constructs_lib`, the lowest first."""


def modules(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*.py") if "__pycache__" not in path.parts)


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> set[str]:
    """Dotted names that a file imports, relative imports resolved against its package."""
    found: set[str] = set()
    package = path.relative_to(PACKAGE.parent).parent.parts if path.is_relative_to(PACKAGE) else ()
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            prefix = ".".join(package[: len(package) - node.level + 1]) if node.level else ""
            base = ".".join(part for part in (prefix, node.module or "") if part)
            found.add(base)
            found.update(f"{base}.{alias.name}" for alias in node.names)
    return found


def runs_up(path: Path, name: str) -> bool:
    """Whether a file of the package may not import that name."""
    own, parts = path.relative_to(PACKAGE).parts[0].removesuffix(".py"), name.split(".")
    if parts[0] in ("aws_cdk", "constructs", "constructs_lib", "stacks", "rehearsal"):
        return True
    layered = parts[0] == "specdecode" and len(parts) > 1 and parts[1] in LAYER and own in LAYER
    return layered and parts[1] != own and LAYER[parts[1]] >= LAYER[own]


def test_specdecode_imports_run_downward() -> None:
    wrong = [f"{path.relative_to(PACKAGE)} imports {name}" for path in modules(PACKAGE) for name in imports(path)
             if runs_up(path, name)]  # fmt: skip
    assert wrong == []


def test_rooms_of_analysis_import_downward() -> None:
    analysis = PACKAGE / "analysis"
    for path in modules(analysis):
        own = path.relative_to(analysis).parts[0]
        for name in imports(path):
            room = name.removeprefix("specdecode.analysis.").split(".")[0]
            if room != own and room in ROOM:
                assert ROOM[room] < ROOM.get(own, 5), f"{path.relative_to(analysis)} imports {name}"


def test_rooms_of_constructs_import_downward() -> None:
    root = ROOT / "constructs_lib"
    for order, room in enumerate(CONSTRUCTS):
        above = tuple(f"constructs_lib.{name}." for name in (*CONSTRUCTS[order + 1 :], "administrator_objects"))
        for path in modules(root / room):
            found = [name for name in imports(path) if f"{name}.".startswith(above)]
            assert not found, f"{path.relative_to(root)} imports {found}"


@pytest.mark.parametrize("root", [PACKAGE, ROOT / "constructs_lib"], ids=lambda path: path.name)
def test_no_file_imports_one_that_imports_it(root: Path) -> None:
    """Imports within functions and under TYPE_CHECKING count: a reader must know both files to understand one."""
    files = {".".join(path.relative_to(root.parent).with_suffix("").parts): path for path in modules(root)}
    files = {name.removesuffix(".__init__"): path for name, path in files.items()}
    needs: dict[str, set[str]] = {}
    for name, path in files.items():
        needs[name] = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                needs[name] |= {alias.name for alias in node.names} & files.keys()
            elif isinstance(node, ast.ImportFrom) and node.module:
                within = {f"{node.module}.{alias.name}" for alias in node.names}
                needs[name] |= within & files.keys()
                needs[name] |= {node.module} & files.keys() if within - files.keys() else set()
    while ready := {name for name, needed in needs.items() if not needed & needs.keys()}:
        needs = {name: needed for name, needed in needs.items() if name not in ready}
    assert not needs, f"circles are among these: {sorted(needs)}"


@pytest.mark.parametrize("folder", ["constructs_lib", "stacks"])
def test_constructs_use_only_shared_names_of_specdecode(folder: str) -> None:
    shared = ("assets", "names", "s3_keys", "giving_back", "__version__")
    planning = ("specdecode.planning",) if folder == "stacks" else ()  # the run of a schedule is priced at synth
    allowed = ("specdecode.experiment", *planning, *(f"specdecode.{name}" for name in shared))
    for path in modules(ROOT / folder):
        for name in imports(path):
            assert not name.startswith("rehearsal"), f"{path}: {name}"
            if name.startswith("specdecode."):
                assert name.startswith(allowed), f"{path}: {name}"


def test_specdecode_has_no_switch_that_knows_of_rehearsal() -> None:
    for path in modules(PACKAGE):
        assert "rehears" not in path.read_text().lower(), f"{path} knows of rehearsal"


def test_every_package_of_specdecode_has_a_layer() -> None:
    parts = {path.stem for path in PACKAGE.iterdir() if path.stem not in ("__init__", "__pycache__", "py", "assets")}
    assert parts <= set(LAYER), parts - set(LAYER)


@pytest.mark.parametrize("folder", ["stacks", "constructs_lib", "lambda", "rehearsal"])
def test_no_module_outgrows_one_subject(folder: str) -> None:
    long = {str(p.relative_to(ROOT)): n for p in modules(ROOT / folder) if (n := len(p.read_text().splitlines())) > 350}
    assert not long, f"cut these: {long}"


def test_nothing_names_the_checkout_or_the_home_folder() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    places = "|".join(re.escape(str(place)) for place in (ROOT, Path.home()))
    forbidden = re.compile(rf"(?<![\w.])(?:{places})/")
    for name in listed:
        path = ROOT / name
        if not path.is_file():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        hit = forbidden.search(text)
        assert hit is None, f"{name}: {hit.group()!r}"


@pytest.mark.parametrize(("folders", "fewest"), [(("lambda", "constructs_lib", "stacks"), 200), (("rehearsal",), 80)])
def test_no_two_public_classes_have_one_name(folders: tuple[str, ...], fewest: int) -> None:
    """In what is deployed, and in the rehearsal. An import hides the module, so the name must say which class it is."""
    found: dict[str, list[str]] = {}
    for path in (path for folder in folders for path in modules(ROOT / folder)):
        for node in parsed(path).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(str(path.relative_to(ROOT)))
    assert len(found) > fewest
    assert not {name: paths for name, paths in found.items() if len(paths) > 1}
