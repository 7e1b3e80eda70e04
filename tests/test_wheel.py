"""The command alone, as `make wheel` builds it and pip installs it: without CDK, Node.js and this checkout."""

import json
import os
import re
import shutil
import subprocess
import zipfile
from collections.abc import Iterator
from email.parser import BytesParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from benchmarks.reference.processes import reference_server
from tools.supply.locks import ROOT, locked, wanted

SOURCES = ("pyproject.toml", "README.md", "LICENSE", "NOTICE")


def interpreter(version: str) -> str | None:
    """A Python of this version that starts: of the PATH, or of pyenv, whose shims do not all start."""
    own = sorted(Path("~/.pyenv/versions").expanduser().glob(f"{version}.*/bin/python"))
    for candidate in (shutil.which(f"python{version}"), *map(str, own)):
        if candidate and subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def uv(*words: str | Path) -> None:
    ended = subprocess.run([ROOT / ".venv/bin/uv", *words], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built as `make wheel` does, from a copy: a build leaves files in the folder that it builds."""
    folder = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        shutil.copy(ROOT / name, folder)
    for name in ("lambda", "assets", "requirements"):
        shutil.copytree(
            ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
        )
    uv("build", "--quiet", "--no-build-isolation", "--python", ROOT / ".venv/bin/python", folder)
    (found,) = (folder / "dist").glob("*.whl")
    return found


@pytest.fixture(
    scope="module", params=["3.11", *(pytest.param(each, marks=pytest.mark.slow) for each in ("3.12", "3.13"))]
)
def command(request: pytest.FixtureRequest, wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The command, in an environment that has the wheel and what it draws in."""
    python = interpreter(request.param)
    if python is None:
        pytest.skip(f"no Python {request.param} here")
    place = tmp_path_factory.mktemp("clean") / "venv"
    uv("venv", "--quiet", "--python", python, place)
    uv("pip", "install", "--quiet", "--only-binary", ":all:", "--python", place, wheel)
    return place / "bin" / "specdecode"


def run(command: Path, *words: str, cwd: Path, code: int = 0) -> str:
    """What it prints, in an environment without anything of this checkout."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(cwd), "LC_ALL": "C.UTF-8"}
    ended = subprocess.run([command, *words], cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == code, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout


def test_its_dependencies_are_the_two_lists(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [name for name in archive.namelist() if name.endswith("METADATA")]
        metadata = BytesParser().parsebytes(archive.read(name))
    lists = [ROOT / "requirements" / "lambda.in", ROOT / "requirements" / "cli.in"]
    found = {Requirement(text) for text in metadata.get_all("Requires-Dist")}
    draft = {each for each in found if "extra" in str(each.marker)}
    assert found - draft == {requirement for file in lists for requirement in wanted(file)}
    lock = (ROOT / "requirements" / "vllm.txt").read_text()
    assert draft and all(f"{each.name}{each.specifier}" in lock for each in draft), "read here as vLLM reads them"


def test_it_has_every_asset_and_nothing_of_the_checkouts_other_parts(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    assert {name.split("/")[0] for name in names} == {"specdecode"}
    data = {f"specdecode/{path.relative_to(ROOT)}" for path in (ROOT / "assets").rglob("*") if path.is_file()}
    assert data <= names
    code = {
        f"specdecode/{path.relative_to(ROOT / 'lambda/specdecode')}" for path in ROOT.glob("lambda/specdecode/**/*.py")
    }
    assert {name for name in names if name.endswith(".py")} == code
    assert wheel.name.endswith("-py3-none-any.whl")


def test_it_draws_in_neither_cdk_nor_any_aws_library_but_boto3s(command: Path) -> None:
    listed = subprocess.run(
        [ROOT / ".venv/bin/uv", "pip", "list", "--format", "json", "--python", command.parent.parent],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    here = {item["name"] for item in json.loads(listed)}
    assert not here & {"aws-cdk-lib", "jsii", "constructs", "cdk-nag", "moto", "numpy"}
    assert here - {"specdecode"} <= locked("requirements").keys()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with reference_server("--first-ms", "5", "--gap-ms", "2") as url:
        yield url


@pytest.mark.slow
def test_a_server_is_measured_reported_and_compared_without_the_checkout(
    command: Path, server: str, tmp_path: Path
) -> None:
    for folder in ("before", "after"):
        run(
            command, "bench", f"base={server}", f"sd={server}", "--case", "count", "--requests", "2",
            "--output-tokens", "16", "--out", folder, cwd=tmp_path,
        )  # fmt: skip
    report = json.loads(run(command, "report", "before", "--json", cwd=tmp_path))
    assert {arm["variant"] for arm in report["arms"]} == {"base", "sd"}
    assert re.fullmatch(r"bench-\d{8}-\d{6}-[0-9a-f]{4}", report["run_id"]), "two of one second have two ids"
    assert "count" in run(command, "compare", "before", "after", cwd=tmp_path)
    run(command, "report", "after", "--out", "page", cwd=tmp_path)
    assert "Plot" in (tmp_path / "page" / "report.html").read_text()  # the vendored charts are in the wheel too


def test_what_needs_no_server_works_without_the_checkout(command: Path, tmp_path: Path) -> None:
    assert "Qwen3-32B" in run(command, "presets", cwd=tmp_path)
    assert "for each output token" in run(command, "plan", "qwen3-32b", cwd=tmp_path)


def test_what_needs_a_checkout_says_so(command: Path, tmp_path: Path) -> None:
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "AWS_REGION": "us-east-2"}
    ended = subprocess.run(
        [command, "preflight", "-c", "alert_email=you@example.com"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 3
    assert "Traceback" not in ended.stderr
