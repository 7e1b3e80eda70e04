"""Everything that is installed is locked, by version and hash, and the locks are those of the lists."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from packaging.utils import canonicalize_name

from tools.supply.locks import ENVIRONMENT, OPTIONAL, ROOT, draws_in, installed, locked, wanted

LOCKS = sorted(ENVIRONMENT)
INSTALLED = sorted(ENVIRONMENT.keys() - OPTIONAL)
NOT_LOCKED = {"requirements/vllm-excludes.txt"}
"""Nothing here installs it (see its first lines)."""
PART = "requirements/cli.in"
"""Locked with the list that includes it: by itself it is only installed with the package, for which pip chooses."""
OPT_IN = "requirements/vllm"
"""A lock that `make test` does not install; it may have other versions than the rest of the repository has."""


def urls(text: str) -> list[str]:
    """Addresses of any kind in a lock."""
    return re.findall(r"\S+://\S+|--(?:index-url|extra-index-url|find-links)\S*", text)


def tracked(pattern: str) -> set[str]:
    listed = subprocess.run(["git", "ls-files", pattern], cwd=ROOT, capture_output=True, text=True, check=True)
    return set(listed.stdout.split())


def closure(lock: str) -> set[str]:
    """All packages that the list of `lock` needs here, by the metadata of the installed packages."""
    packages = installed(lock)
    seen: set[tuple[str, frozenset[str]]] = set()
    open_ends = [(r.name, frozenset(r.extras)) for r in wanted(ROOT / f"{lock}.in")]
    while open_ends:
        name, extras = open_ends.pop()
        node = (canonicalize_name(name), extras)
        if node not in seen:
            seen.add(node)
            open_ends += [(need.name, frozenset(need.extras)) for need in draws_in(packages[node[0]], extras)]
    return {name for name, _ in seen}


def dry_run(*targets: str) -> str:
    command = ["make", "--dry-run", "--always-make", *targets]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("lock", [*LOCKS, OPT_IN])
def test_every_line_of_a_list_is_an_exact_pin_that_its_lock_has(lock: str) -> None:
    entries = locked(lock)
    for requirement in wanted(ROOT / f"{lock}.in"):
        (pin,) = requirement.specifier
        assert pin.operator == "==", requirement
        assert entries[canonicalize_name(requirement.name)][0] == pin.version, f"{requirement}: make lock"


@pytest.mark.parametrize("lock", INSTALLED)
def test_a_lock_is_all_that_its_list_draws_in_and_nothing_else(lock: str) -> None:
    assert set(locked(lock)) == closure(lock), "make lock"


@pytest.mark.parametrize("lock", [*LOCKS, OPT_IN])
def test_every_entry_has_hashes_and_no_lock_an_address(lock: str) -> None:
    for name, (_, hashes) in locked(lock).items():
        assert hashes, name
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", one) for one in hashes), name
    assert urls((ROOT / f"{lock}.txt").read_text()) == []


@pytest.mark.parametrize("lock", INSTALLED)
def test_what_is_installed_is_what_is_locked(lock: str) -> None:
    here = {name: found.version for name, found in installed(lock).items()}
    for name, (version, _) in locked(lock).items():
        assert here[name] == version, f"{name} in {ENVIRONMENT[lock]}: make install install-rehearsal"


def test_a_package_has_one_version_everywhere() -> None:
    versions: dict[str, dict[str, str]] = {}
    for lock in LOCKS:
        for name, (version, _) in locked(lock).items():
            versions.setdefault(name, {})[lock] = version
    assert {name: found for name, found in versions.items() if len(set(found.values())) > 1} == {}


def test_make_lock_writes_every_lock() -> None:
    lines = dry_run("lock").splitlines()
    (script,) = (line for line in lines if line.startswith("for lock in "))
    made = script.removeprefix("for lock in ").split(";")[0].split()
    assert set(made) == set(LOCKS)
    assert [line for line in lines if f"--output-file {OPT_IN}.txt {OPT_IN}.in" in line]
    made.append(OPT_IN)
    lists = tracked("*requirements*.in")
    assert {f"{lock}.in" for lock in made} == lists - {PART}
    assert f"-r {PART}" in (ROOT / "requirements.in").read_text().splitlines()
    assert tracked("*requirements*.txt") - NOT_LOCKED == {f"{lock}.txt" for lock in made}


def test_make_installs_only_with_hashes() -> None:
    lines = [line for line in dry_run("install", "install-rehearsal").splitlines() if "pip install" in line]
    (own,) = {line for line in lines if "--editable ." in line}
    assert "--no-deps --no-build-isolation" in own
    assert [line for line in lines if line != own and "--require-hashes" not in line] == []
    assert {line.split("--requirement ")[1] for line in lines if line != own} == {
        f"{lock}.txt" for lock in INSTALLED if lock != "requirements/lambda"
    }


def test_vllm_is_installed_from_its_lock_alone_with_the_build_of_torch_for_cpus() -> None:
    (line,) = (line for line in dry_run("install-vllm").splitlines() if f"{OPT_IN}.txt" in line and "pip" in line)
    assert "--require-hashes --no-deps" in line
    assert "--torch-backend cpu" in line or "--find-links" in line
    assert locked(OPT_IN)["torch"][0].endswith("+cpu")
    excluded = {canonicalize_name(one.name) for one in wanted(ROOT / "requirements" / "vllm-excludes.txt")}
    assert excluded and not excluded & locked(OPT_IN).keys()


def test_every_package_of_npm_has_its_hash_and_no_address() -> None:
    text = (ROOT / "package-lock.json").read_text()
    packages = json.loads(text)["packages"]
    own = packages.pop("")
    assert packages
    assert [name for name, entry in packages.items() if not entry["integrity"].startswith("sha512-")] == []
    assert urls(text) == []
    wanted_here = json.loads((ROOT / "package.json").read_text())["devDependencies"]
    assert own["devDependencies"] == wanted_here
    assert {name: packages[f"node_modules/{name}"]["version"] for name in wanted_here} == wanted_here
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in wanted_here.values())
    assert "npm ci" in dry_run(str(Path("node_modules") / ".installed"))
